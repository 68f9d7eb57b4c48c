"""The demonstration with picture files: extract, search, re-rank, report."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank import datasets
from kinrank.datasets.digits import digits
from kinrank.demo.experiment import DIGITS, PARAMS, Demo, DemoRows, Subject, rank_twice
from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.features import Descriptor, Extracted, ImageList, collect, extract, load_model
from kinrank.features.images import read_image
from kinrank.optional import require
from kinrank.report.thumbnails import jpeg_uri

MODEL = "efficientnet-lite0"
QUERIES = 100  # at most; a page is to be looked at
THUMBNAIL = 96
DIGIT_SIDE = 64  # pixels of the files that are made of the digits
# Digits have no detail that a larger input would show.
DIGIT_INPUT = 96


@dataclass(frozen=True, eq=False)
class FilePart(DemoRows):
    """Queries or gallery whose pictures are files."""

    files: tuple[Path, ...] = ()

    def picture(self, row: int) -> str:
        """A small JPEG of the file."""
        image = read_image(self.files[row])
        image.thumbnail((THUMBNAIL, THUMBNAIL))
        return jpeg_uri(image)


@contextmanager
def run_images(folder: str | None, threads: int | None = None) -> Iterator[Demo]:
    """The demonstration on a folder or data set of pictures; on files of the digits if None.

    A context, since the page reads the files when it is drawn. A folder with classes is judged;
    without them the page shows what changed.
    """
    if folder is not None:
        yield _run(folder, {}, {}, _subject(folder), threads)
        return
    with TemporaryDirectory(prefix="kinrank-demo-") as made:
        write_digits(Path(made))
        subject = replace(
            DIGITS,
            vectors=f"the features of {MODEL}",
            command="kinrank demo --images",
            kind="photos",
            side=DIGIT_SIDE,
        )
        yield _run(made, {"size": DIGIT_INPUT}, PARAMS, subject, threads)


def write_digits(folder: Path) -> None:
    """The digits as PNG files: queries and gallery, one folder for each of the ten."""
    pil: Any = require("PIL.Image", extra="images", purpose="The demonstration with pictures")
    data = digits()
    for part in (data.query, data.gallery):
        assert part.pixels is not None
        assert part.labels is not None
        side = folder / ("query" if part is data.query else "gallery")
        for row, (pixels, label) in enumerate(zip(part.pixels, part.labels, strict=True)):
            name = side / str(label) / f"{row:04d}.png"
            name.parent.mkdir(parents=True, exist_ok=True)
            image = pil.fromarray(np.asarray(pixels))
            image.resize((DIGIT_SIDE, DIGIT_SIDE), pil.Resampling.BICUBIC).save(name)


def _run(
    folder: str,
    fields: Mapping[str, Any],
    params: Mapping[str, Any],
    subject: Subject,
    threads: int | None,
) -> Demo:
    network = load_model(MODEL, **fields)
    begun = time.perf_counter()
    sides = {
        name: (listed, extract(listed, network, Descriptor(pool="gem"), threads=threads))
        for name, listed in collect(folder).items()
    }
    seconds = time.perf_counter() - begun
    for _, found in sides.values():
        if found.failures:
            name, why = found.failures[0]
            warnings.warn(
                f"Pictures that could not be used: {len(found.failures)}, such as {name} ({why}).",
                KinrankWarning,
                stacklevel=2,
            )
    query, gallery = _matched(*_split(sides))
    data = datasets.Dataset(
        name=Path(folder).name, protocol="reid", query=_labels(query), gallery=_labels(gallery)
    )
    demo = rank_twice(data, query, gallery, params, threads, subject)
    return replace(demo, preparation={"extract": seconds})


def _split(sides: Mapping[str, tuple[ImageList, Extracted]]) -> tuple[FilePart, FilePart]:
    """Queries and gallery: those of the set, or every so many of a folder."""
    if "query" in sides:
        query, gallery = (_part(*sides[name]) for name in ("query", "gallery"))
        return _some(query, np.arange(len(query)) % -(-len(query) // QUERIES) == 0), gallery
    whole = _part(*sides[""])
    if len(whole) < 4:
        raise InvalidInputError(f"There must be at least 4 pictures to rank, got {len(whole)}.")
    is_query = np.arange(len(whole)) % max(2, -(-len(whole) // QUERIES)) == 0
    return _some(whole, is_query), _some(whole, ~is_query)


def _matched(query: FilePart, gallery: FilePart) -> tuple[FilePart, FilePart]:
    """Queries with something to find; where no query has, classes mean nothing and are dropped."""
    if query.labels is None or gallery.labels is None:
        return replace(query, labels=None), replace(gallery, labels=None)
    with_match = np.isin(query.labels, gallery.labels)
    if with_match.any():
        return _some(query, with_match), gallery
    return replace(query, labels=None), replace(gallery, labels=None)


def _part(listed: ImageList, found: Extracted) -> FilePart:
    usable = np.flatnonzero(np.abs(found.features).sum(axis=1) > 0)  # zeros stand for unreadable
    files = tuple(listed.root / str(name) for name in found.names)
    whole = FilePart(vectors=found.features, labels=found.labels, files=files)
    return _some(whole, np.isin(np.arange(len(files)), usable))


def _some(part: FilePart, chosen: npt.NDArray[np.bool_]) -> FilePart:
    return FilePart(
        vectors=part.vectors[chosen],
        labels=None if part.labels is None else part.labels[chosen],
        files=tuple(file for file, taken in zip(part.files, chosen, strict=True) if taken),
    )


def _labels(part: FilePart) -> datasets.Part:
    return datasets.Part(labels=part.labels, features=part.vectors)


def _subject(folder: str) -> Subject:
    return Subject(
        title="pictures",
        many="pictures",
        vectors=f"the features of {MODEL}",
        one="picture, {}",
        word="class",
        origin=f"pictures of {Path(folder.partition(',')[0]).resolve().name}",
        command="kinrank demo --images FOLDER",
        kind="photos",
        side=THUMBNAIL,
    )
