"""Revisited Oxford and Paris: the official ground truth, and the same as JSON.

Radenovic et al., Revisiting Oxford and Paris: Large-Scale Image Retrieval Benchmarking, CVPR 2018.
The official files are ``gnd_roxford5k.pkl`` and ``gnd_rparis6k.pkl``, with the images in ``jpg``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinrank.datasets.base import Dataset, Part
from kinrank.datasets.pickles import load_plain_pickle
from kinrank.errors import FileFormatError
from kinrank.metrics.ground_truth import as_gnd
from kinrank.reading import read_json, reading

FILES = ("gnd_roxford5k.pkl", "gnd_rparis6k.pkl", "gnd.pkl", "gnd.json")
_KINDS = ("easy", "hard", "junk")


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
    file = _find(Path(path))
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


def _find(path: Path) -> Path:
    if path.is_file():
        return path
    for name in FILES:
        if (path / name).is_file():
            return path / name
    raise FileFormatError(f"{path} holds none of {', '.join(FILES)}.")


def _names(file: Path, names: Any) -> Sequence[str] | None:
    """Image names with the ending that the official files leave out."""
    if names is None:
        return None
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise FileFormatError(f"{file}: `imlist` and `qimlist` must be lists of names.")
    return [name if Path(name).suffix else f"{name}.jpg" for name in names]
