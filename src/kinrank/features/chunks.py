"""An extraction by chunks of pictures: finished ones are kept in files, and put together.

A chunk is known by a key over all that its rows depend on: the network, the preprocessing, the
descriptor, and for each picture its name, size, time of change and box. So a run finds what an
earlier one finished, and never takes something for finished that would come out differently.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, KinrankError, UnwritableError
from kinrank.features.extractor import FeatureExtractor, ImageFeatures
from kinrank.features.sources import ImageList
from kinrank.io import make_folder, save_npz
from kinrank.projection.projection import Projection
from kinrank.reading import open_npz

_FORMAT = 1  # of chunks; a change in what is computed needs another


@dataclass(frozen=True)
class Chunk:
    """Some pictures of a list, and the key of their features."""

    key: str
    images: ImageList
    rows: range


def cut(images: ImageList, extractor: FeatureExtractor, batch: int, size: int) -> list[Chunk]:
    """A list of pictures in chunks of ``size``, which are computed ``batch`` at a time."""
    network = extractor.network
    descriptor = extractor.descriptor
    recipe = {item.name: _plain(getattr(descriptor, item.name)) for item in fields(descriptor)}
    settings = [_FORMAT, network.key, network.preprocessing.describe(), recipe, batch]
    chunks = []
    for low in range(0, len(images), size):
        rows = range(low, min(len(images), low + size))
        known = json.dumps([settings, [_identity(images, row) for row in rows]])
        chunks.append(Chunk(hashlib.sha256(known.encode()).hexdigest()[:32], images, rows))
    return chunks


@dataclass(frozen=True)
class ChunkStore:
    """Finished chunks, in a folder beside the file that will be made of them."""

    out: Path

    @property
    def folder(self) -> Path:
        return self.out.with_name(f"{self.out.name}.parts")

    def find(self, chunk: Chunk) -> ImageFeatures | None:
        """The features of a chunk; None if it is not there or not whole."""
        file = self._file(chunk)
        if not file.is_file():
            return None
        with suppress(KinrankError, OSError), open_npz(file, "a finished chunk") as arrays:
            failed = arrays["failed"].tolist()
            reasons = arrays["reasons"].tolist()
            failures = dict(zip(failed, reasons, strict=True))
            return ImageFeatures(arrays["features"], arrays["owners"], failures, len(chunk.rows))
        return None

    def read(self, chunks: Iterable[Chunk]) -> Iterator[ImageFeatures]:
        """Chunks that were finished, one at a time."""
        for chunk in chunks:
            features = self.find(chunk)
            if features is None:
                words = "A finished part has gone; another run may write the same file"
                raise OSError(errno.ENOENT, words, str(self.folder))
            yield features

    def save(self, chunk: Chunk, features: ImageFeatures) -> None:
        try:
            make_folder(self.folder)
            save_npz(
                self._file(chunk),
                features=features.features,
                owners=features.owners,
                failed=np.array(list(features.failures), np.int32),
                reasons=np.array(list(features.failures.values()), np.str_),
            )
        except UnwritableError:
            raise
        except OSError as error:
            words = f"{error.strerror}; finished parts are kept in {self.folder}, and the same "
            words += "command goes on from there"
            raise OSError(error.errno, words, str(self.out)) from error

    def remove(self) -> None:
        """Delete the folder and what was kept in it, and nothing else."""
        for file in (*self.folder.glob("*.part"), *self.folder.glob(".*.part.*.tmp")):
            file.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _file(self, chunk: Chunk) -> Path:
        return self.folder / f"{chunk.key}.part"


class ListFeatures:
    """The chunks of a list of pictures put together: rows, names, labels, failures.

    chunks : gives them from the first on; called once more for the rows themselves, so that they
        need never be in memory all at once
    """

    def __init__(self, images: ImageList, chunks: Callable[[], Iterable[ImageFeatures]]) -> None:
        self._images = images
        self._chunks = chunks
        counts: list[int] = []  # rows of each picture
        failures = [*images.skipped]
        width = 0
        for chunk in chunks():
            for item, why in chunk.failures.items():
                failures.append((images.names[len(counts) + item], why))
            counts += np.bincount(chunk.owners, minlength=chunk.n_images).tolist()
            width = max(width, chunk.features.shape[1])
        if not any(counts):
            first = ": ".join(failures[0]) if failures else "no pictures"
            raise InvalidInputError(
                f"None of the {len(images)} pictures in {images.root} can be used; the first: "
                f"{first}."
            )
        self._counts = np.array(counts, np.int64)
        if images.fixed and max(counts) == 1:
            self._counts[:] = 1
        self._kept = np.flatnonzero((self._counts > 0) | images.fixed)
        self.failures = tuple(failures)
        self.shape = (int(self._counts.sum()), width)

    def blocks(self) -> Iterator[npt.NDArray[np.float32]]:
        start = 0
        for chunk in self._chunks():
            n_rows = int(self._counts[start : start + chunk.n_images].sum())
            rows = described = chunk.features.reshape(-1, self.shape[1])
            if len(rows) != n_rows:  # rows are fixed, and some are missing
                rows = np.zeros((n_rows, self.shape[1]), np.float32)
                rows[chunk.owners] = described
            yield rows
            start += chunk.n_images

    def owners(self) -> npt.NDArray[np.int32]:
        """For each row the place of its picture among the names."""
        return np.repeat(np.arange(len(self._kept)), self._counts[self._kept]).astype(np.int32)

    def columns(self) -> dict[str, Any]:
        """Names, labels and cameras of the pictures that are kept; None where there are none."""
        values = {name: getattr(self._images, name) for name in ("names", "labels", "cams")}
        return {n: None if v is None else np.asarray(v)[self._kept] for n, v in values.items()}


def _identity(images: ImageList, row: int) -> list[Any]:
    """What tells a picture, and a changed one, from others."""
    file, box = images.item(row)
    facts: list[int] = []
    with suppress(OSError):  # a missing file becomes another one when it comes
        facts = [file.stat().st_size, file.stat().st_mtime_ns]
    return [images.names[row], facts, None if box is None else [float(side) for side in box]]


def _plain(value: Any) -> Any:
    if not isinstance(value, Projection):
        return value
    content = (value.mean, value.matrix)
    return [hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for a in content]
