"""A folder of arrays: vectors and ground truth side by side.

``query.npy`` and ``gallery.npy``, and either ``gnd.json`` (or an official pkl file), or
``query_ids.npy`` and ``gallery_ids.npy``, perhaps with ``query_cams.npy`` and ``gallery_cams.npy``.
With ``qrels.txt`` beside them the ids are the names of queries and documents in it.
``set.json`` may give a ``name`` and a ``protocol`` other than the one that follows.

Revisited Oxford and Paris: the official ground truth, and the same as JSON. Radenovic et al.,
Revisiting Oxford and Paris: Large-Scale Image Retrieval Benchmarking, CVPR 2018. The official files
are ``gnd_roxford5k.pkl`` and ``gnd_rparis6k.pkl``, with the images in ``jpg``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.datasets.base import HEADLINES, Dataset, Part
from kinrank.datasets.pickles import load_plain_pickle
from kinrank.errors import FileFormatError, InvalidInputError
from kinrank.io import load_array, make_folder
from kinrank.metrics.ground_truth import as_gnd
from kinrank.reading import read_json, read_text, reading
from kinrank.trec import qrels_text, read_qrels
from kinrank.validation import as_matrix, check_choice

SETTINGS = "set.json"
FILES = ("gnd_roxford5k.pkl", "gnd_rparis6k.pkl", "gnd.pkl", "gnd.json")
_KINDS = ("easy", "hard", "junk")


def feature_folder(root: str | Path, images: str | Path | None = None) -> Dataset:
    """A data set from a folder of arrays."""
    folder = Path(root)
    vectors = (".npy", ".npz", ".safetensors")
    columns = (".npy", ".txt")
    files = {side: _first(folder, side, vectors) for side in ("query", "gallery")}
    for name in ("query_ids", "gallery_ids", "query_cams", "gallery_cams"):
        files[name] = _first(folder, name, columns)
    gnd = next((folder / name for name in FILES if (folder / name).is_file()), None)
    qrels = _first(folder, "qrels", (".txt", ".tsv"))
    data = from_files(**files, gnd=gnd, qrels=qrels, images=images, name=folder.resolve().name)
    file = folder / SETTINGS
    if not file.is_file():
        return data
    with reading(file, "JSON with `name` and `protocol`"):
        settings = json.loads(file.read_text(encoding="utf-8"))
        name = str(settings["name"])
        protocol = settings["protocol"]
        check_choice("protocol", protocol, tuple(HEADLINES))
    query_rows = _column(_first(folder, "query_rows", (".npy",)))
    return replace(data, name=name, protocol=protocol, query_rows=query_rows)


def from_files(
    *,
    query: str | Path | None,
    gallery: str | Path | None,
    gnd: str | Path | None = None,
    qrels: str | Path | None = None,
    query_ids: str | Path | None = None,
    gallery_ids: str | Path | None = None,
    query_cams: str | Path | None = None,
    gallery_cams: str | Path | None = None,
    images: str | Path | None = None,
    name: str = "features",
) -> Dataset:
    """A data set from single files; ``gnd``, ``qrels`` or the identities must be there.

    query_ids, gallery_ids : with ``qrels`` the names in it; numbers from 0 where they are left out
    """
    if query is None or gallery is None:
        side = "query" if query is None else "gallery"
        raise InvalidInputError(f"No file of vectors was given for the {side}.")
    if gnd is not None and qrels is not None:
        raise InvalidInputError("`gnd` and `qrels` are two ground truths: give one of them.")
    if gnd is None and qrels is None and (query_ids is None or gallery_ids is None):
        raise InvalidInputError(
            "Ground truth is missing: give `gnd`, or `qrels`, or `query_ids` and `gallery_ids`."
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
        protocol="revisited" if gnd is not None else "judged" if qrels is not None else "reid",
        **sides,
        gnd=content.get("gnd"),
        qrels=None if qrels is None else read_qrels(qrels),
        images=None if images is None else Path(images),
    )


def read_gnd(path: str | Path) -> dict[str, Any]:
    """Read a ground-truth file (pkl or json): ``gnd``, and ``imlist``, ``qimlist`` if it has them.

    A pkl file is read as plain data only; nothing in it is run.
    """
    file = Path(path)
    what = "a Revisited ground truth"
    content = read_json(file, what) if file.suffix == ".json" else load_plain_pickle(file)
    whole = content if isinstance(content, dict) else {"gnd": content}
    with reading(file, what):
        as_gnd(whole)
    return {
        "gnd": whole["gnd"],
        "imlist": _names(file, whole.get("imlist")),
        "qimlist": _names(file, whole.get("qimlist")),
    }


def revisited(path: str | Path, images: str | Path | None = None) -> Dataset:
    """Revisited Oxford or Paris from its folder or its ground-truth file."""
    places = (Path(path), *(Path(path, name) for name in FILES))
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise FileFormatError(f"{places[0]} holds none of {', '.join(FILES)}.")
    content = read_gnd(file)
    folder = Path(images) if images is not None else file.parent / "jpg"
    size = len(content["imlist"] or ())
    named = max(int(max(entry[kind], default=-1)) for entry in as_gnd(content) for kind in _KINDS)
    if size and named >= size:
        raise FileFormatError(f"{file} must name gallery rows from 0 to {size - 1}, got {named}.")
    return Dataset(
        name=file.stem.removeprefix("gnd_") if file.stem != "gnd" else file.parent.name,
        protocol="revisited",
        query=Part(paths=content["qimlist"]),
        gallery=Part(paths=content["imlist"]),
        gnd=content["gnd"],
        images=folder if folder.is_dir() else None,
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
    if data.qrels is not None:
        (folder / "qrels.txt").write_text(qrels_text(data.qrels), encoding="utf-8")
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


def _names(file: Path, names: Any) -> Sequence[str] | None:
    """Image names with the ending that the official files leave out."""
    if names is None:
        return None
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise FileFormatError(f"{file}: `imlist` and `qimlist` must be lists of names.")
    return [name if Path(name).suffix else f"{name}.jpg" for name in names]
