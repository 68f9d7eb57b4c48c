"""The demonstration with picture files: extract, search, re-rank, report."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from kinrank import datasets, tune
from kinrank.datasets.base import Part
from kinrank.datasets.digits import digits
from kinrank.demo.experiment import DIGITS, PARAMS, Demo, Subject, rank_and_group
from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.features import Descriptor, Extracted, ImageList, collect, extract, load_model
from kinrank.features.images import read_image
from kinrank.io import temporary_folder
from kinrank.optional import require
from kinrank.report.thumbnails import Side, jpeg_uri
from kinrank.types import Longs

MODEL = "efficientnet-lite0"
QUERIES = 100  # at most; a page is to be looked at
THUMBNAIL = 96
DIGIT_SIDE = 64  # pixels of the files that are made of the digits
# Digits have no detail that a larger input would show.
DIGIT_INPUT = 96


class PictureDemo(Demo):
    """A demonstration whose pictures are files."""

    def picture(self, side: Side, row: int) -> str:
        """A small JPEG of the file."""
        image = read_image(self._path(side, row))
        image.thumbnail((THUMBNAIL, THUMBNAIL))
        return jpeg_uri(image)

    def name(self, side: Side, row: int) -> str:
        """The file, as it is called below the folder that holds all of them."""
        return self._path(side, row).relative_to(self._folder).as_posix()

    @cached_property
    def _folder(self) -> Path:
        files = [*(self.queries.paths or ()), *(self.gallery.paths or ())]
        return Path(os.path.commonpath([Path(file).parent for file in files]))

    def _path(self, side: Side, row: int) -> Path:
        return Path(getattr(self.data, side).paths[row])


@contextmanager
def run_images(folder: str | None, threads: int | None = None) -> Iterator[Demo]:
    """The demonstration on a folder or data set of pictures; on files of the digits if None.

    A context, since the page reads the files when it is drawn. A folder with classes is judged;
    without them the page shows what changed.
    """
    if folder is not None:
        subject = Subject(
            title="pictures",
            many="pictures",
            vectors=f"the features of {MODEL}",
            caption="picture, {}",
            word="class",
            origin=f"pictures of {Path(folder.partition(',')[0]).resolve().name}",
            command="kinrank demo --images FOLDER",
            kind="photos",
            side=THUMBNAIL,
        )
        yield _run(folder, subject, threads)
        return
    with TemporaryDirectory(prefix="kinrank-demo-", dir=temporary_folder()) as made:
        write_digits(Path(made))
        command = "kinrank demo --images"
        vectors = f"the features of {MODEL}"
        subject = replace(DIGITS, vectors=vectors, command=command, kind="photos", side=DIGIT_SIDE)
        yield _run(made, subject, threads, PARAMS, size=DIGIT_INPUT)


def write_digits(folder: Path) -> None:
    """The digits as PNG files: queries and gallery, one folder for each of the ten."""
    pil: Any = require("PIL.Image", extra="images", purpose="The demonstration with pictures")
    data = digits()
    for side, rows in (("query", data.query), ("gallery", data.gallery)):
        assert rows.pixels is not None
        assert rows.labels is not None
        for row, (pixels, label) in enumerate(zip(rows.pixels, rows.labels, strict=True)):
            name = folder / side / str(label) / f"{row:04d}.png"
            name.parent.mkdir(parents=True, exist_ok=True)
            image = pil.fromarray(np.asarray(pixels))
            image.resize((DIGIT_SIDE, DIGIT_SIDE), pil.Resampling.BICUBIC).save(name)


def _run(
    folder: str, subject: Subject, threads: int | None, params: Any = None, **fields: Any
) -> Demo:
    """params : of CAS, or those that are chosen; fields : what the network sees."""
    network = load_model(MODEL, **fields)
    begun = time.perf_counter()
    sides = {
        name: (listed, extract(listed, network, Descriptor(pool="gem"), threads=threads))
        for name, listed in collect(folder).items()
    }
    seconds = time.perf_counter() - begun
    for _, extracted in sides.values():
        if extracted.failures:
            count = len(extracted.failures)
            (name, why) = extracted.failures[0]
            warnings.warn(
                f"Pictures that could not be used: {count}, such as {name} ({why}).",
                KinrankWarning,
                stacklevel=2,
            )
    parts = {name: _rows(*side) for name, side in sides.items()}
    query, gallery, own = _with_queries(parts) if "query" in parts else _among_themselves(parts[""])
    sides_of: dict[str, Any] = {"query": query, "gallery": gallery, "query_rows": own}
    data = datasets.Dataset(name=Path(folder).name, protocol="reid", **sides_of)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KinrankWarning)  # the table and the page say the verdict
        tuning = tune(query.features, gallery.features, threads=threads)
    ranked = rank_and_group(data, params or tuning.params, threads)
    return PictureDemo(*ranked, subject, {"extract": seconds, "choice": tuning.seconds}, tuning)


def _rows(listed: ImageList, extracted: Extracted) -> Part:
    files = [str(listed.root / str(name)) for name in extracted.names]
    rows = Part(labels=extracted.labels, paths=files, features=extracted.features)
    return _select(rows, np.flatnonzero(extracted.features.any(axis=1)))  # zeros: unreadable


def _select(rows: Part, chosen: Longs) -> Part:
    assert rows.features is not None
    assert rows.paths is not None
    labels = None if rows.labels is None else rows.labels[chosen]
    paths = [rows.paths[row] for row in chosen]
    return Part(labels=labels, paths=paths, features=rows.features[chosen])


def _with_queries(sides: Mapping[str, Part]) -> tuple[Part, Part, None]:
    """Queries of the set with something to find, its gallery, and no rows that are both.

    Where no query has anything to find, classes mean nothing and are dropped.
    """
    query = sides["query"]
    gallery = sides["gallery"]
    query = _select(query, _some(np.arange(len(query))))
    if query.labels is not None and gallery.labels is not None:
        with_match = np.flatnonzero(np.isin(query.labels, gallery.labels))
        if len(with_match):
            return _select(query, with_match), gallery, None
    return replace(query, labels=None), replace(gallery, labels=None), None


def _among_themselves(whole: Part) -> tuple[Part, Part, Longs]:
    """Pictures that ask all others; each has a camera of its own, which takes out itself alone."""
    if len(whole) < 4:
        raise InvalidInputError(f"There must be at least 4 pictures to rank, got {len(whole)}.")
    everybody = with_match = np.arange(len(whole))
    if whole.labels is not None:
        _, places, counts = np.unique(whole.labels, return_inverse=True, return_counts=True)
        with_match = np.flatnonzero(counts[places] > 1)
    if not len(with_match):
        whole = replace(whole, labels=None)
        with_match = everybody
    asked = _some(with_match)
    whole = replace(whole, cams=everybody)
    return replace(_select(whole, asked), cams=asked), whole, asked


def _some(rows: Longs) -> Longs:
    """Every so many of them, at most QUERIES."""
    return rows[:: max(1, -(-len(rows) // QUERIES))]
