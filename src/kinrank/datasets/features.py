"""A folder of arrays: vectors and ground truth side by side.

``query.npy`` and ``gallery.npy``, and either ``gnd.json`` (or an official pkl file), or
``query_ids.npy`` and ``gallery_ids.npy``, perhaps with ``query_cams.npy`` and ``gallery_cams.npy``.
``set.json`` may give a ``name`` and a ``protocol`` other than the one that follows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.datasets.base import HEADLINES, Dataset, Part
from kinrank.datasets.revisited import FILES, read_gnd
from kinrank.errors import FileFormatError, InvalidInputError
from kinrank.io import load_array, make_folder
from kinrank.reading import read_text, reading
from kinrank.validation import as_matrix, check_choice

SETTINGS = "set.json"


def feature_folder(root: str | Path, images: str | Path | None = None) -> Dataset:
    """A data set from a folder of arrays."""
    folder = Path(root)
    vectors, columns = (".npy", ".npz", ".safetensors"), (".npy", ".txt")
    files = {side: _first(folder, side, vectors) for side in ("query", "gallery")}
    for name in ("query_ids", "gallery_ids", "query_cams", "gallery_cams"):
        files[name] = _first(folder, name, columns)
    gnd = next((folder / name for name in FILES if (folder / name).is_file()), None)
    data = from_files(**files, gnd=gnd, images=images, name=folder.resolve().name)
    file = folder / SETTINGS
    if not file.is_file():
        return data
    with reading(file, "JSON with `name` and `protocol`"):
        settings = json.loads(file.read_text(encoding="utf-8"))
        name, protocol = str(settings["name"]), settings["protocol"]
        check_choice("protocol", protocol, tuple(HEADLINES))
    query_rows = _column(_first(folder, "query_rows", (".npy",)))
    return replace(data, name=name, protocol=protocol, query_rows=query_rows)


def from_files(
    *,
    query: str | Path | None,
    gallery: str | Path | None,
    gnd: str | Path | None = None,
    query_ids: str | Path | None = None,
    gallery_ids: str | Path | None = None,
    query_cams: str | Path | None = None,
    gallery_cams: str | Path | None = None,
    images: str | Path | None = None,
    name: str = "features",
) -> Dataset:
    """A data set from single files; either ``gnd`` or the identities must be there."""
    if query is None or gallery is None:
        side = "query" if query is None else "gallery"
        raise InvalidInputError(f"No file of vectors was given for the {side}.")
    if gnd is None and (query_ids is None or gallery_ids is None):
        raise InvalidInputError(
            "Ground truth is missing: give `gnd`, or `query_ids` and `gallery_ids`."
        )
    content: Mapping[str, Any] = {} if gnd is None else read_gnd(gnd)
    sides: dict[str, Any] = {}
    for side, vectors, ids, cams, paths in (
        ("query", query, query_ids, query_cams, "qimlist"),
        ("gallery", gallery, gallery_ids, gallery_cams, "imlist"),
    ):
        sides[side] = Part(
            labels=_column(ids),
            cams=_column(cams),
            paths=content.get(paths),
            features=as_matrix(side, load_array(vectors)),
        )
        _check_lengths(side, sides[side])
    return Dataset(
        name=name,
        protocol="reid" if gnd is None else "revisited",
        **sides,
        gnd=content.get("gnd"),
        images=None if images is None else Path(images),
    )


def save_features(data: Dataset, folder: Path) -> None:
    """Write the vectors and the ground truth of ``data`` so that ``feature_folder`` reads them."""
    make_folder(folder)
    for side, part in (("query", data.query), ("gallery", data.gallery)):
        if part.features is None:
            raise InvalidInputError(f"The {side} of this data set has no features.")
        np.save(folder / f"{side}.npy", np.asarray(part.features))
        for kind, column in (("ids", part.labels), ("cams", part.cams)):
            if column is not None:
                np.save(folder / f"{side}_{kind}.npy", column)
    if data.query_rows is not None:
        np.save(folder / "query_rows.npy", data.query_rows)
    settings = {"name": data.name, "protocol": data.protocol}
    (folder / SETTINGS).write_text(json.dumps(settings))
    if data.gnd is not None:
        lists = [{k: np.asarray(v).tolist() for k, v in entry.items()} for entry in data.gnd]
        (folder / "gnd.json").write_text(json.dumps(lists))


def _check_lengths(side: str, part: Part) -> None:
    assert part.features is not None
    rows = len(part.features)
    for kind, column in vars(part).items():
        if column is not None and len(column) != rows:
            raise InvalidInputError(
                f"`{side}` must have one of its {kind} for each of its {rows} vectors, "
                f"got {len(column)}."
            )


def _first(folder: Path, stem: str, endings: tuple[str, ...]) -> Path | None:
    return next((folder / f"{stem}{e}" for e in endings if (folder / f"{stem}{e}").is_file()), None)


def _column(file: str | Path | None) -> npt.NDArray[Any] | None:
    """Labels or cameras: an array file, or a text file with one per line."""
    if file is None:
        return None
    if Path(file).suffix != ".txt":
        column = np.asarray(load_array(file))
        if column.ndim != 1:
            raise FileFormatError(f"{file} must be one-dimensional, got shape {column.shape}.")
        return column
    words = read_text(file).split()
    if not words:
        raise FileFormatError(f"{file} is empty; it must have one label per line.")
    if all(word.lstrip("-").isdigit() for word in words):
        with reading(file, "labels of text or of 64-bit integers"):
            return np.array([int(word) for word in words], np.int64)
    return np.array(words)
