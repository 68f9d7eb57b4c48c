"""Data sets by name or by what lies in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kinrank.datasets.base import Dataset
from kinrank.datasets.digits import digits
from kinrank.datasets.features import feature_folder, revisited
from kinrank.datasets.images import class_folder, cuhk03, dukemtmc, market1501, msmt17, veri776
from kinrank.datasets.toy import toy
from kinrank.errors import FileFormatError, InvalidInputError, shown
from kinrank.io import load_array
from kinrank.validation import check_bool, check_choice, check_path

BUILT_IN: dict[str, Callable[..., Dataset]] = {"digits": digits, "toy": toy}
READERS: dict[str, Callable[..., Dataset]] = {
    "features": feature_folder,
    "revisited": revisited,
    "market1501": market1501,
    "dukemtmc": dukemtmc,
    "msmt17": msmt17,
    "veri776": veri776,
    "cuhk03": cuhk03,
    "folder": class_folder,
}


def load(
    path: str | Path,
    format: str = "auto",  # noqa: A002 - the word that users have for it
    *,
    query: str | Path | None = None,
    gallery: str | Path | None = None,
    distractors: str | Path | None = None,
    images: str | Path | None = None,
    name: str | None = None,
    unit: bool = False,
    **options: Any,
) -> Dataset:
    """A data set by its name (digits, toy) or from a folder or a ground-truth file.

    Parameters
    ----------
    path : the folder, the file, or the name
    format : a name of ``formats()``; auto looks at what is there
    query, gallery : files of vectors, in the order of the images, for sets that are read from
        images or ground truth alone
    distractors : a file of more gallery vectors that are right for no query
    images : the folder of the images, where it is not the usual one
    name : for tables
    unit : divide every vector by its norm
    **options : of the reader, such as ``boxes`` and ``protocol`` of cuhk03

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy", unit=True)
    >>> len(data.query), len(data.gallery), data.protocol
    (30, 330, 'reid')
    """
    for file, given in (
        ("query", query),
        ("gallery", gallery),
        ("distractors", distractors),
        ("images", images),
    ):
        if given is not None:
            check_path(file, given)
    path = check_path("path", path)
    check_choice("format", format, ("auto", *READERS))
    check_bool("unit", unit)
    if name is not None and not isinstance(name, str):
        raise InvalidInputError(f"`name` must be text, got {shown(name)}.")
    data = _read(path, format, options)
    if (query is None) != (gallery is None):
        raise InvalidInputError("`query` and `gallery` go together: give both or neither.")
    if query is not None and gallery is not None:
        data = data.with_features(load_array(query), load_array(gallery))
    if distractors is not None:
        data = data.with_distractors(load_array(distractors))
    if unit:
        data = data.with_unit_rows()
    if images is not None:
        data = replace(data, images=Path(images))
    place = str(path) if path in BUILT_IN else str(Path(path).resolve())
    name = data.name if name is None else name
    source = {"path": place, "format": format, "name": name, "unit": unit}
    files = {"query": query, "gallery": gallery, "distractors": distractors, "images": images}
    source |= {k: str(Path(v).resolve()) for k, v in files.items() if v is not None}
    return replace(data, name=name, source={**source, **options})


def load_spec(text: str) -> Dataset:
    """A data set as it is typed: ``PATH`` or ``PATH,format=market1501,query=q.npy,...``.

    The words after the path are the arguments of ``load``; ``unit`` alone means ``unit=true``.
    """
    path, *words = (word.strip() for word in text.split(","))
    if not path:
        raise InvalidInputError(f"A data set must be PATH,key=value,..., got {text!r}.")
    arguments: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or (not equals and key != "unit"):
            raise InvalidInputError(f"A data set must be PATH,key=value,..., got {word!r}.")
        arguments[key] = int(value) if value.lstrip("-").isdigit() else value
        if key == "unit":
            if value.lower() not in ("", "true", "false"):
                raise InvalidInputError(f"`unit` must be true or false, got {value!r}.")
            arguments[key] = value.lower() != "false"
    return load(path, **arguments)


def formats() -> list[str]:
    """The names of all readers."""
    return sorted(READERS)


def detect(path: Path) -> str:
    """The format of what lies at ``path``."""
    if path.is_file():
        if path.suffix in (".pkl", ".json"):
            return "revisited"
        raise FileFormatError(
            f"{path} is a file; a data set is a folder or a ground truth (pkl, json)."
        )
    if not path.is_dir():
        raise FileNotFoundError(2, "No such data set, folder or file", str(path))
    for name, holds in _MARKS.items():
        if holds(path):
            return name
    raise FileFormatError(
        f"{path} is a folder like none of the formats ({', '.join(formats())}). "
        "If it is one of them, say which with `format`."
    )


def _read(path: str, format_: str, options: Mapping[str, Any]) -> Dataset:
    named = format_ == "auto" and path in BUILT_IN
    name = path if named else detect(Path(path)) if format_ == "auto" else format_
    try:
        return BUILT_IN[name](**options) if named else READERS[name](path, **options)
    except TypeError as error:
        raise InvalidInputError(f"Options of the format {name} do not fit: {error}.") from error


def _is_market(path: Path) -> bool:
    return (path / "bounding_box_test").is_dir() and (path / "query").is_dir()


def _has(path: Path, *patterns: str) -> bool:
    return all(next(path.glob(pattern), None) is not None for pattern in patterns)


_MARKS: dict[str, Callable[[Path], bool]] = {
    "features": lambda p: _has(p, "query.*", "gallery.*"),
    "revisited": lambda p: _has(p, "gnd*.pkl") or _has(p, "gnd.json"),
    "msmt17": lambda p: _has(p, "list_query.txt", "list_gallery.txt"),
    "veri776": lambda p: _has(p, "image_query", "image_test"),
    "cuhk03": lambda p: (
        _has(p, "images_labeled") or _has(p, "images_detected") or _has(p, "labeled")
    ),
    "dukemtmc": lambda p: _is_market(p) and _has(p, "query/*_f[0-9]*"),
    "market1501": _is_market,
    "folder": lambda p: any(child.is_dir() for child in p.iterdir()),
}
