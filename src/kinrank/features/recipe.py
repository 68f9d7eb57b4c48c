"""How features were made, in words that a file can keep: whoever has them can make more."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kinrank.errors import InvalidInputError
from kinrank.features.descriptors import Descriptor
from kinrank.features.networks import Network
from kinrank.features.preprocess import from_mapping
from kinrank.features.registry import MODELS, load_model
from kinrank.reading import reading

_FIELDS = ("pool", "p", "levels", "scales", "scale_power")


@dataclass(frozen=True)
class Recipe:
    """A network, what it sees, and how its maps become rows.

    Attributes
    ----------
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
            descriptor={name: getattr(descriptor, name) for name in _FIELDS},
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
                f"The network that made the vectors must be there, got no file {self.model}."
            )
        with reading("A recipe of features", "whole"):
            from_mapping(self.preprocessing)
            scales = tuple(self.descriptor["scales"])
            descriptor = Descriptor(**{**self.descriptor, "scales": scales})
        network = load_model(self.model, **self.preprocessing)
        if network.key != self.key:
            raise InvalidInputError(
                f"The network must be the one that made the vectors, got another in {self.model}."
            )
        return network, descriptor
