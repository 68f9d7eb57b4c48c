"""Networks that turn a batch into maps or vectors: ONNX files and torch modules."""

from __future__ import annotations

import glob
import hashlib
import threading
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kinrank._onnx_file import layer_names, with_output
from kinrank.errors import FileFormatError, InvalidInputError
from kinrank.features.preprocess import Preprocessing
from kinrank.optional import require

Array = npt.NDArray[Any]
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class Network(Protocol):
    """What extraction needs of a network.

    name : for messages
    key : equal keys mean equal results, so that finished work can be recognised
    preprocessing : what it wants to see
    batch_size : how many pictures it takes at once; None for any number
    """

    name: str
    key: str
    preprocessing: Preprocessing
    batch_size: int | None

    def __call__(self, batch: npt.NDArray[np.float32]) -> Array:
        """Maps (n, channels, height, width) or vectors (n, d); may be called by many threads."""


class OnnxNetwork:
    """A network in an ONNX file, run by onnxruntime on one thread per call.

    Calls from several threads at once use several cores, without waiting for each other and with
    the same bits for any number of them.
    """

    def __init__(
        self, file: str | Path, preprocessing: Preprocessing, *, adapt: bool = False
    ) -> None:
        """``adapt`` replaces the size by that of the network's input, if that is fixed."""
        self.file = path = Path(file)
        model = path.read_bytes()
        self.name = path.stem
        digest = hashlib.sha256(model)
        # Files such as net.onnx.data may hold its weights.
        for beside in sorted(path.parent.glob(f"{glob.escape(path.name)}?*")):
            state = beside.stat()
            digest.update(f"{beside.name} {state.st_size} {state.st_mtime_ns}".encode())
        self.key = digest.hexdigest()
        self._session = _session(path, model, preprocessing.layer)
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in _TYPES:
            got = ", ".join(f"{i.name}: {i.type} {i.shape}" for i in inputs)
            raise InvalidInputError(f"{path} must have one input, a batch of images, got {got}.")
        self._input = inputs[0].name
        self._dtype = _TYPES[inputs[0].type]
        self._output = preprocessing.layer or self._session.get_outputs()[0].name
        self.batch_size, *shape = (s if isinstance(s, int) else None for s in inputs[0].shape)
        if preprocessing.layout == "nhwc":
            shape = [shape[2], shape[0], shape[1]]
        _, height, width = shape
        if adapt and height is not None and width is not None:
            preprocessing = replace(preprocessing, size=(height, width), resize="stretch")
        _check_input(path, preprocessing, shape)
        self.preprocessing = preprocessing

    def __call__(self, batch: npt.NDArray[np.float32]) -> Array:
        n = len(batch)
        if self.batch_size is not None and n < self.batch_size:
            short = np.zeros((self.batch_size - n, *batch.shape[1:]), batch.dtype)
            batch = np.concatenate([batch, short])
        values = batch.astype(self._dtype, copy=False)
        try:
            output = self._session.run([self._output], {self._input: values})[0]
        except Exception as error:  # onnxruntime has a class of its own for each kind
            raise _did_not_run(self.name, batch, error) from error
        return _channels_first(np.asarray(output)[:n], self.preprocessing)


class TorchNetwork:
    """A torch module, in evaluation mode, on the device of its parameters.

    ``preprocessing.layer`` is the name of a module inside it (as ``named_modules`` has them) whose
    output is taken instead of that of the whole.
    """

    batch_size: int | None = None

    def __init__(self, module: Any, preprocessing: Preprocessing, name: str | None = None) -> None:
        self._torch: Any = require("torch", extra="torch", purpose="A torch module")
        if not isinstance(module, self._torch.nn.Module):
            raise InvalidInputError(
                f"`module` must be a torch.nn.Module, got {type(module).__name__}."
            )
        self.name = name or type(module).__name__
        self.preprocessing = preprocessing
        digest = hashlib.sha256(str(module).encode())
        for key, tensor in module.state_dict().items():
            digest.update(key.encode())
            with suppress(TypeError):  # dtypes that numpy does not know
                digest.update(tensor.detach().cpu().numpy().tobytes())
        self.key = digest.hexdigest()
        self._module = module.eval()
        self._device = next((p.device for p in module.parameters()), "cpu")
        self._lock = threading.Lock()  # torch has threads of its own, and hooks are the module's
        self._layer = None
        if preprocessing.layer is not None:
            layers = dict(module.named_modules())
            if preprocessing.layer not in layers:
                raise _unknown_layer(preprocessing.layer, [name for name in layers if name])
            self._layer = layers[preprocessing.layer]

    def __call__(self, batch: npt.NDArray[np.float32]) -> Array:
        inner: list[Any] = []  # what the layer gave
        hook = None
        with self._lock, self._torch.inference_mode():
            if self._layer is not None:  # scripted modules take no hooks, and need none
                hook = self._layer.register_forward_hook(lambda *call: inner.append(call[-1]))
            try:
                output = self._module(self._torch.from_numpy(batch).to(self._device))
            except Exception as error:  # modules raise what they like
                raise _did_not_run(self.name, batch, error) from error
            finally:
                if hook is not None:
                    hook.remove()
            if hook is not None and not inner:
                raise InvalidInputError(
                    f"{self.name} does not run this `layer`, so it gives nothing: choose another."
                )
            output = inner[0] if hook is not None else output
            if not isinstance(output, self._torch.Tensor):
                raise InvalidInputError(
                    f"{self.name} must give a tensor, got {type(output).__name__}; "
                    "`layer` can name a module inside it."
                )
            values = output.float().cpu().numpy()
        return _channels_first(values, self.preprocessing)


def _session(path: Path, model: bytes, layer: str | None) -> Any:
    """A session of one thread; ``layer`` becomes an output if it is not one yet."""
    runtime: Any = require("onnxruntime", extra="images", purpose="An ONNX network")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors are raised; the rest is no business of the user
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(path.resolve().parent)
    )
    providers = ["CPUExecutionProvider"]
    try:
        # By its path, so that files with weights beside it are found.
        session = runtime.InferenceSession(str(path), options, providers=providers)
        if layer is None or layer in [output.name for output in session.get_outputs()]:
            return session
        names = layer_names(model)
        if layer not in names:
            raise _unknown_layer(layer, names)
        return runtime.InferenceSession(with_output(model, layer), options, providers=providers)
    except InvalidInputError:
        raise
    except Exception as error:
        raise FileFormatError(f"{path} must be an ONNX network, got: {_first(error)}") from error


def _did_not_run(name: str, batch: Array, error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"{name} could not be run on a batch of shape {batch.shape}: {_first(error)}"
    )


def _unknown_layer(layer: str, names: list[str]) -> InvalidInputError:
    near = get_close_matches(layer, names, n=5, cutoff=0.3) or names[-5:]
    return InvalidInputError(
        f"`layer` must be one of the {len(names)} of the network, such as {', '.join(near)}, "
        f"got {layer!r}."
    )


def _check_input(path: Path, preprocessing: Preprocessing, shape: list[int | None]) -> None:
    """Refuse a preprocessing that gives other sizes than a network of fixed size takes."""
    channels, *fixed = shape
    if channels not in (None, 3):
        raise InvalidInputError(
            f"{path} must take 3 channels ({preprocessing.layout}), got {channels}."
        )
    size = preprocessing.input_size
    if any(side not in (None, got) for side, got in zip(fixed, size or (None, None), strict=True)):
        raise InvalidInputError(
            f"`size` must be {fixed[0]} x {fixed[1]} (height x width), the fixed input of {path}, "
            f"got {size or 'pictures of many sizes'}."
        )


def _channels_first(output: Array, preprocessing: Preprocessing) -> Array:
    if preprocessing.layout == "nhwc" and output.ndim == 4:
        output = output.transpose(0, 3, 1, 2)
    return output.astype(np.float32, copy=False)


def _first(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
