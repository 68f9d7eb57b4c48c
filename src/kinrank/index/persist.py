"""A state as words and arrays, and back."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any, get_type_hints

import numpy as np

from kinrank._version import __version__
from kinrank.errors import InvalidInputError
from kinrank.index.contents import check_frame, check_types
from kinrank.index.frame import Frame
from kinrank.index.settings import needs_f
from kinrank.index.state import State, arrays_of, fitted_method
from kinrank.index.storage import Arrays, StoredIndex
from kinrank.methods.cas import CAS
from kinrank.reading import reading
from kinrank.types import Neighbors, SparseRows

_WORDS = ("asked", "method", "frame", "recall")
_NOTES = "notes"


def to_parts(state: State) -> tuple[dict[str, Any], Arrays]:
    """What a file holds of a state."""
    shift = state.frame.shift
    about = {
        "kinrank": __version__,
        "method": _given(state.asked),
        "frame": {**asdict(state.frame), "shift": None if shift is None else shift.tolist()},
        "rows": len(state),
        "gallery": state.n_gallery,
        "recall": state.recall,
    }
    arrays: Arrays = {}
    for field in fields(state):
        for name, array in arrays_of(getattr(state, field.name)).items():
            arrays[f"{field.name}.{name}".rstrip(".")] = array
    return about, arrays


def from_parts(stored: StoredIndex) -> State:
    """The state that a file holds; types and shapes are checked, see ``check_contents``."""
    with reading(stored.path, "a whole index of kinrank"):
        words = dict(stored.about["frame"])
        shift = words.pop("shift")
        frame = Frame(**words, shift=None if shift is None else np.array(shift, np.float32))
        check_frame(frame)
        arrays = {name: array for name, array in stored.arrays.items() if name != _NOTES}
        check_types(arrays)
        asked, n = CAS(**stored.about["method"]), int(stored.about["rows"])
        parts = {
            name: _part(hint, name, arrays, n)
            for name, hint in get_type_hints(State).items()
            if name not in _WORDS
        }
        method = fitted_method(asked, n, parts["neighbors"].k)
        state = State(asked, method, frame, **parts, recall=_recall(stored.about["recall"]))
        _check_shapes(state, n)
    return state


def packed(notes: dict[str, Any]) -> Arrays:
    """Notes as an array: they may be as large as the rows."""
    try:
        text = json.dumps(notes).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"`notes` must be what can be written as JSON, got: {error}"
        ) from error
    return {_NOTES: np.frombuffer(text, np.uint8)}


def unpacked(stored: StoredIndex) -> dict[str, Any]:
    """The notes of a file."""
    with reading(stored.path, "an index with notes in JSON"):
        array = stored.arrays.get(_NOTES)
        notes = stored.about.get(_NOTES) if array is None else json.loads(array.tobytes())
    return notes if isinstance(notes, dict) else {}


def _recall(value: Any) -> float:
    recall = float(value)
    if not 0 <= recall <= 1:
        raise ValueError(f"a recall of {value!r}")
    return recall


def _given(method: CAS) -> dict[str, Any]:
    """The options as they were given: those left out still follow from the others."""
    given: dict[str, Any] = getattr(method, "_given")  # noqa: B009
    return given


def _part(hint: Any, name: str, arrays: Arrays, n: int) -> Any:
    if hint is Neighbors:
        return Neighbors(*(arrays[f"{name}.{field.name}"] for field in fields(Neighbors)))
    if name in arrays:
        return arrays[name]
    if f"{name}.indptr" not in arrays:
        if name in ("f", "p"):
            return None  # ``_check_shapes`` knows whether the method needs them
        raise ValueError(f"no array `{name}`")
    ptr, ids = arrays[f"{name}.indptr"], arrays[f"{name}.indices"]
    data = arrays.get(f"{name}.data")
    if len(ptr) < 1 or ptr[0] != 0 or ptr[-1] != len(ids):
        raise ValueError(f"rows of `{name}` that do not fit each other")
    if data is not None and len(data) != len(ids):
        raise ValueError(f"values of `{name}` that do not fit their rows")
    return SparseRows(ptr, ids, data, n)


def _check_shapes(state: State, n: int) -> None:
    known, width, columns = state.neighbors, state.frame.width, state.columns
    per_row: list[Any] = [known.indices, known.distances, known.farthest, state.names]
    per_row += [state.degree, state.walk_norm, state.norms, state.xi, state.half, state.w]
    per_row += [state.hat, state.tilde, columns]
    per_row += [rows for rows in (state.f, state.p) if rows is not None]
    fits = (
        (state.f is not None or not needs_f(state.method))
        and (state.p is None) == (state.method.propagation == "transpose")
        and all(len(part) == n for part in per_row)
        and known.indices.shape == known.distances.shape
        and known.k >= state.method.list_length()
        and 1 <= state.n_gallery <= n >= 2
        and state.vectors.shape in ((n, width), (0, width))
        and len(state.cell) in (0, n)
        and (len(state.cell) == 0 or state.centres.shape[1:] == (width,))
        and state.entropies.shape == columns.indices.shape
    )
    if not fits:
        raise ValueError("arrays that do not fit each other")
