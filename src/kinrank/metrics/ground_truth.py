"""What is right, as users have it, turned into what the kernels take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.types import Ints
from kinrank.validation import as_array, check_size, text_of_objects

GND_LISTS = ("easy", "hard", "junk")
_MOST_ROWS = 1 << 26  # of a gallery: each thread has a mark for each


def encode(
    kind: str,
    queries: Any,
    gallery: Any,
    *,
    junk: int | str | None = None,
    sizes: tuple[int, int] | None = None,
) -> tuple[Ints, Ints]:
    """Labels of any kind as numbers from 0, -1 for ``junk``."""
    names = (f"query_{kind}", f"gallery_{kind}")
    first, second = map(_vector, names, (queries, gallery))
    if (first.dtype.kind == "U") != (second.dtype.kind == "U"):
        raise InvalidInputError(
            f"`{names[0]}` and `{names[1]}` must be both numbers or both names, "
            f"got {first.dtype} and {second.dtype}."
        )
    if sizes is not None:
        for name, values, size in zip(names, (first, second), sizes, strict=True):
            if len(values) != size:
                raise InvalidInputError(f"`{name}` must have {size} entries, got {len(values)}.")
    known, numbers = np.unique(np.concatenate([first, second]), return_inverse=True)
    codes: Ints = numbers.astype(np.int32)
    if junk is not None and (first.dtype.kind == "U") == isinstance(junk, str):
        codes[(known == junk)[codes]] = -1
    return codes[: len(first)], codes[len(first) :]


def rows_of_queries(rows: Any, n_queries: int, n_gallery: int) -> Ints:
    """``query_rows`` checked, or nothing."""
    if rows is None:
        return np.zeros(0, np.int32)
    array = as_array("query_rows", rows)
    if array.shape != (n_queries,) or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"`query_rows` must be {n_queries} whole numbers, "
            f"got dtype {array.dtype}, shape {array.shape}."
        )
    if array.min() < -1 or array.max() >= n_gallery:
        raise InvalidInputError(
            f"`query_rows` must be between -1 and {n_gallery - 1}, "
            f"got {array.min()} to {array.max()}."
        )
    return array.astype(np.int32)


def as_gnd(gnd: Any) -> list[dict[str, Ints]]:
    """The ground truth of the Revisited protocol, each list checked."""
    if isinstance(gnd, Mapping):
        if "gnd" not in gnd:
            raise InvalidInputError(f"`gnd` must have the key 'gnd', got {sorted(map(str, gnd))}.")
        gnd = gnd["gnd"]
    if not isinstance(gnd, Sequence) or isinstance(gnd, (str, bytes)) or not gnd:
        raise InvalidInputError(
            f"`gnd` must be a list with one mapping per query, got {type(gnd).__name__}."
        )
    return [_gnd_entry(number, entry) for number, entry in enumerate(gnd)]


def levels(
    entries: list[dict[str, Ints]],
) -> Iterator[tuple[str, list[npt.NDArray[Any]], list[npt.NDArray[Any]]]]:
    """Level letter, right rows and junk rows of each query."""
    recipes = {
        "E": (("easy",), ("junk", "hard")),
        "M": (("easy", "hard"), ("junk",)),
        "H": (("hard",), ("junk", "easy")),
    }
    for letter, kinds in recipes.items():
        right, junk = ([np.concatenate([e[n] for n in names]) for e in entries] for names in kinds)
        yield letter, right, junk


def gallery_size(indices: Ints, entries: list[dict[str, Ints]], given: int | None) -> int:
    """How many rows a gallery has: as told, or as a ranking and its ground truth tell."""
    named = max((int(rows.max(initial=-1)) for e in entries for rows in e.values()), default=-1)
    listed = int(indices.max(initial=-1)) + 1
    if given is not None:
        size = check_size("n_gallery", given)
    elif indices.size and listed == indices.shape[1] and indices.min() >= 0:
        size = listed  # A whole ranking: it tells how large its gallery is.
    else:
        size = max(named + 1, listed, 1)
    if size > _MOST_ROWS:
        raise InvalidInputError(
            f"`ranking`, `gnd` and `n_gallery` must be of at most {_MOST_ROWS:,} gallery rows, "
            f"got {size:,}."
        )
    if named >= size:
        raise InvalidInputError(
            f"`gnd` must name gallery rows from 0 to {size - 1}, got {named}: "
            "the ranking is over another gallery."
        )
    return size


def _gnd_entry(number: int, entry: Any) -> dict[str, Ints]:
    if not isinstance(entry, Mapping) or any(name not in entry for name in GND_LISTS):
        got = sorted(map(str, entry)) if isinstance(entry, Mapping) else type(entry).__name__
        raise InvalidInputError(
            f"`gnd[{number}]` must have the keys 'easy', 'hard' and 'junk', got {got}."
        )
    checked = {name: np.zeros(0, np.int32) for name in GND_LISTS}
    for name in GND_LISTS:
        array = as_array(f"gnd[{number}][{name!r}]", entry[name])
        if array.size == 0:
            continue
        if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < 0:
            raise InvalidInputError(
                f"`gnd[{number}][{name!r}]` must be a list of gallery rows from 0, "
                f"got dtype {array.dtype}, shape {array.shape}, {array.ravel()[:3]}."
            )
        checked[name] = array.astype(np.int32)
    joined = np.concatenate(list(checked.values()))
    if len(np.unique(joined)) != len(joined):
        values, counts = np.unique(joined, return_counts=True)
        raise InvalidInputError(
            f"`gnd[{number}]` must name a gallery row once, got {values[counts > 1][0]} twice."
        )
    return checked


def _vector(name: str, values: Any) -> npt.NDArray[Any]:
    array = text_of_objects(name, as_array(name, values))
    if array.dtype.kind == "O":
        array = np.asarray([str(value) for value in array.ravel()]).reshape(array.shape)
    if array.ndim != 1 or array.dtype.kind not in "iuU" or array.size == 0:
        raise InvalidInputError(
            f"`{name}` must be a one-dimensional array of whole numbers or names, "
            f"got dtype {array.dtype}, shape {array.shape}."
        )
    return array
