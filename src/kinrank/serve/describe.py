"""From an uploaded picture to the vector that is searched for."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.features import Descriptor, Recipe, extract, load_model
from kinrank.features.images import UnreadableError, read_image
from kinrank.features.networks import Network
from kinrank.optional import require
from kinrank.serve.problems import Problem
from kinrank.types import Floats


class Describer(Protocol):
    """Makes vectors like those of the index."""

    @property
    def name(self) -> str:
        """What it is, for people."""

    def describe(self, picture: bytes) -> Floats:
        """The vector of a picture file, (1, d)."""


class NetworkDescriber:
    """A network of ``kinrank.features``, as `kinrank extract` uses it.

    width : of the vectors that are wanted
    """

    def __init__(self, name: str, network: Network, descriptor: Descriptor, width: int) -> None:
        self.name = name
        self._network, self._descriptor = network, descriptor
        self._lock = threading.Lock()  # extraction has threads of its own
        blank = require("PIL.Image", extra="images", purpose="Describing pictures").new(
            "RGB", (64, 64), (128, 128, 128)
        )
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "blank.png"
            blank.save(file)
            got = self._extract(file).shape[1]
        if got != width:
            raise InvalidInputError(
                f"`model` must make vectors like those of the index ({width} columns), "
                f"got {name!r} with {got}."
            )

    @classmethod
    def named(cls, model: str, pool: str | None, width: int) -> NetworkDescriber:
        """By a model as for `kinrank extract`."""
        return cls(model, load_model(model), Descriptor(pool=cast(Any, pool)), width)

    @classmethod
    def of_recipe(cls, text: str, width: int) -> NetworkDescriber:
        """As the vectors of an index were made."""
        recipe = Recipe.parse(text)
        return cls(Path(recipe.model).name, *recipe.load(), width)

    def describe(self, picture: bytes) -> Floats:
        """See Describer."""
        with as_file(picture) as (file, _), self._lock:
            return self._extract(file)

    def _extract(self, file: Path) -> Floats:
        found = extract([file], self._network, self._descriptor, batch=1, threads=1)
        if found.failures:
            raise unreadable(found.failures[0][1])
        return found.features


class DigitDescriber:
    """The pixels of a handwritten digit, as the digits of the demonstration are described."""

    name = "8 x 8 pixels"
    side = 8

    def describe(self, picture: bytes) -> Floats:
        """See Describer."""
        filters = require("PIL.Image", extra="images", purpose="Reading pictures").Resampling
        with as_file(picture) as (_, image):
            small = image.convert("L").resize((self.side, self.side), filters.BOX)
        grey = np.asarray(small, np.float32)
        edge = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
        # Ink is what differs from the paper, which is at the edge: dark on light, or light on dark.
        ink = grey - grey.min() if np.median(edge) < 128 else grey.max() - grey
        if not ink.any():
            raise Problem(422, "unreadable-picture", "The picture must show a digit, got one grey.")
        unit: Floats = (ink / np.linalg.norm(ink)).reshape(1, -1)
        return unit


@contextmanager
def as_file(picture: bytes) -> Iterator[tuple[Path, Any]]:
    """The picture as a file, and as an image of Pillow; a problem if it is none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture"
        file.write_bytes(picture)
        try:
            image = read_image(file)
        except UnreadableError as error:
            raise unreadable(str(error)) from error
        yield file, image


def unreadable(reason: str) -> Problem:
    """A picture that cannot be used."""
    return Problem(422, "unreadable-picture", f"The picture could not be read: {reason}.")
