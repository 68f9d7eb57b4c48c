"""A state as the words and arrays of a file, and back.

Kernels check nothing themselves, so everything that a file says is checked here: types and shapes
when it is opened, every number before the first answer.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt

from kinrank._version import __version__
from kinrank.errors import InvalidInputError
from kinrank.index import file
from kinrank.index.attributes import Attributes, as_column
from kinrank.index.chosen import Chosen
from kinrank.index.file import Arrays, StoredIndex
from kinrank.index.ids import refuse_duplicates
from kinrank.index.state import Scaling, State, resolved
from kinrank.io import PathLike
from kinrank.methods.cas import CASMethod
from kinrank.projection.projection import Projection
from kinrank.reading import reading
from kinrank.registry import make_method
from kinrank.types import Neighbors, SparseRows
from kinrank.validation import LARGEST

_NOTES = "notes"
BESIDE = ("attribute.", "calibration.")  # arrays that are not of the state
_WORDS = ("asked", "method", "scaling", "recall")  # what of a state is no array
_CHUNK = 1 << 20  # entries that are compared at a time
_TYPES = {"indptr": "i8", "indices": "i4", "names": "i4", "cell": "i4", "norms": "f8"}
_MATRICES = (
    "vectors", "centres", "neighbors.indices", "neighbors.distances", "projection.matrix",
    "whitening.projection",
)  # fmt: skip
_FITTED = "fitted"  # in place of a projection, which is in arrays
# Names that the file has for fields of a state, and the errors with it.
_FILE_NAMES = {"order": "names", "smoothed": "hat", "enhanced": "tilde", "transition": "p"}
_UNORDERED = ("tilde", "p", "paths")  # rows whose entries do not ascend by their number
_OF_ANY_SIZE = ("neighbors", "w", "degree", "walk_norm", "f")  # squares, and multiples of kappa
_LARGEST = 4 * LARGEST  # rows at its ends that were moved
_LARGEST_EXPONENT = 1100  # of float64, with room


def save_state(
    path: PathLike, state: State, recipe: str | None, chosen: Chosen | None,
    notes: dict[str, Any], beside: Arrays,
) -> None:  # fmt: skip
    """Write a state to a file, whole or not at all; to be called by who holds the lock.

    beside : further arrays, by names that begin with one of ``BESIDE``
    """
    scaling, shift = state.scaling, state.scaling.shift
    # As it was given: options that were left out still follow from the others.
    given: dict[str, Any] = getattr(state.asked, "_given")  # noqa: B009
    fitted = {"whiten": _FITTED} if isinstance(given["whiten"], Projection) else {}
    about = {
        "kinrank": __version__,
        "method": given | fitted,
        "frame": {
            "width": scaling.width,
            "cosine": scaling.cosine,
            "exponent": scaling.exponent,
            "shift": None if shift is None else shift.tolist(),
            "projection": None if scaling.projection is None else scaling.projection.words,
        },
        "rows": len(state),
        "gallery": state.n_gallery,
        "recall": state.recall,
        "recipe": recipe,
        "chosen": None if chosen is None else asdict(chosen),
    }
    try:
        text = json.dumps(notes).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"`notes` must be what can be written as JSON, got: {error}"
        ) from error
    # Notes are an array: they may be as large as the rows.
    arrays = {_file_name(name): array for name, array in state.arrays().items()}
    file.write(path, about, {**arrays, **beside, _NOTES: np.frombuffer(text, np.uint8)})


def load_state(stored: StoredIndex) -> State:
    """The state that a file holds; types and shapes are checked, see ``check_contents``."""
    with reading(stored.path, "a whole index of kinrank"):
        about = stored.about
        arrays = {
            name: array
            for name, array in stored.arrays.items()
            if name != _NOTES and not name.startswith(BESIDE)
        }
        _check_types(arrays)
        scaling = _scaling(about["frame"], arrays)
        asked, n = _method(about["method"], scaling), int(about["rows"])
        recall = float(about["recall"])
        if not 0 <= recall <= 1:
            raise ValueError(f"a recall of {recall!r}")
        parts = {
            name: _part(hint, _file_name(name), arrays, n)
            for name, hint in get_type_hints(State).items()
            if name not in _WORDS
        }
        method = resolved(asked, n, parts["neighbors"].k)
        state = State(asked=asked, method=method, scaling=scaling, recall=recall, **parts)
        _check_shapes(state, n)
    return state


def load_beside(stored: StoredIndex, n: int) -> tuple[Attributes, dict[str, Any]]:
    """The attributes of ``n`` gallery rows, and the arrays of a calibration; both may be empty."""
    attribute, calibration = BESIDE
    with reading(stored.path, "an index whose attributes fit its rows"):
        arrays = stored.arrays.items()
        columns = {
            name.removeprefix(attribute): as_column(name, array)
            for name, array in arrays
            if name.startswith(attribute)
        }
        rates = {
            name.removeprefix(calibration): array
            for name, array in arrays
            if name.startswith(calibration)
        }
        return Attributes.of(columns, n), rates


def load_notes(stored: StoredIndex) -> dict[str, Any]:
    """The notes of a file."""
    with reading(stored.path, "an index with notes in JSON"):
        array = stored.arrays.get(_NOTES)
        notes = stored.about.get(_NOTES) if array is None else json.loads(array.tobytes())
    return notes if isinstance(notes, dict) else {}


def _method(given: dict[str, Any], scaling: Scaling) -> CASMethod:
    if given.get("whiten") == _FITTED:
        given = given | {"whiten": scaling.projection}
    method: CASMethod = make_method("cas", **given)
    if (method.whiten is None) != (scaling.projection is None):
        raise ValueError("a projection that the method does not have, or none")
    return method


def _scaling(words: dict[str, Any], arrays: Arrays) -> Scaling:
    shift = None if words["shift"] is None else np.array(words["shift"], np.float32)
    projection = None
    if "whitening.mean" in arrays:  # of a version that had whitenings alone
        projection = Projection(arrays["whitening.mean"], arrays["whitening.projection"])
    elif words.get("projection") is not None:
        projection = Projection.of_words(
            arrays["projection.mean"], arrays["projection.matrix"], words["projection"]
        )
    if projection is not None and (projection.width != words["width"] or projection.dims < 1):
        raise ValueError(f"{projection} for {words['width']!r} columns")
    out = Scaling(**{**words, "shift": shift, "projection": projection})
    whole = (type(out.width), type(out.exponent), type(out.cosine)) == (int, int, bool)
    if not whole or out.width < 1 or abs(out.exponent) > _LARGEST_EXPONENT:
        raise ValueError(f"a frame of {out.width!r}, {out.cosine!r}, {out.exponent!r}")
    if shift is not None:
        if shift.shape != (out.width,):
            raise ValueError("a shift that does not fit the columns")
        _check_finite("shift", shift)
    return out


def _check_types(arrays: Arrays) -> None:
    """Raise unless every array has the type and dimensions of its name."""
    for name, array in arrays.items():
        right = array.dtype == np.dtype(_TYPES.get(name.rpartition(".")[2], "f4"))
        if name == "ids":
            right = array.dtype == np.int64 or array.dtype.kind == "U"
        if not right or array.ndim != (2 if name in _MATRICES else 1):
            raise ValueError(f"`{name}` of {array.dtype} with {array.ndim} dimensions")


def _part(hint: Any, name: str, arrays: Arrays, n: int) -> Any:
    if hint is Neighbors:
        return Neighbors(*(arrays[f"{name}.{field.name}"] for field in fields(Neighbors)))
    if name in arrays:
        return arrays[name]
    if f"{name}.indptr" not in arrays:
        if name in ("f", "p", "paths"):
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
    lists, width = state.neighbors, state.scaling.dims
    per_row: list[Any] = [lists.indices, lists.distances, lists.farthest, state.order]
    per_row += [state.degree, state.walk_norm, state.norms]
    per_row += [part for part in _parts(state).values() if isinstance(part, SparseRows)]
    fits = (
        (state.f is not None or not state.method.stage_parameters.reads_similarity_again)
        and (state.transition is None) == (state.method.propagation == "transpose")
        and (state.paths is not None) == state.method.geodesic
        and all(len(part) == n for part in per_row)
        and lists.indices.shape == lists.distances.shape
        and lists.k >= state.method.list_length()
        and 1 <= state.n_gallery <= n >= 2
        and state.vectors.shape in ((n, width), (0, width))
        and len(state.cell) in (0, n)
        and (len(state.cell) == 0 or state.centres.shape[1:] == (width,))
        and state.entropies.shape == state.columns.indices.shape
    )
    if not fits:
        raise ValueError("arrays that do not fit each other")


def check_contents(path: Path, state: State) -> None:
    """Raise unless all numbers lie where they must; reads every array once."""
    n, smoothing = len(state), state.method.smoothing
    with reading(path, "an index whose parts fit each other"):
        for name, value in _parts(state).items():
            if isinstance(value, SparseRows):
                _check_rows(name, value, n)
                if name not in _UNORDERED and (name, smoothing) != ("hat", "aqe"):
                    _check_order(name, value)
            elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
                _check_finite(name, value)
        _check_neighbors(state.neighbors, n)
        if state.ids.dtype.kind == "U":
            _check_range("ids", np.ascontiguousarray(state.ids).view(np.uint32), 0, 0x110000)
        refuse_duplicates(state.ids)
        _check_range("names", state.order, 0, n)
        if (np.bincount(state.order, minlength=n) != 1).any():
            raise ValueError("`names` that are not different from each other")
        _check_range("cell", state.cell, 0, len(state.centres))


def _parts(state: State) -> dict[str, Any]:
    return {_file_name(field.name): getattr(state, field.name) for field in fields(state)}


def _file_name(name: str) -> str:
    """``field`` or ``field.array`` as the file calls it."""
    field, dot, array = name.partition(".")
    return _FILE_NAMES.get(field, field) + dot + array


def _check_rows(name: str, rows: SparseRows, n: int) -> None:
    lengths = rows.lengths
    if lengths.min() < 0 or lengths.max() > n:
        raise ValueError(f"`{name}` with a row of {lengths.min()} or {lengths.max()} entries")
    _check_range(name, rows.indices, 0, n)
    if rows.data is not None:
        _check_finite(name, rows.data)
        if name in ("w", "paths") and rows.nnz and rows.data.min() < 0:
            raise ValueError(f"`{name}` with weights below 0")


def _check_order(name: str, rows: SparseRows) -> None:
    ptr, ids = rows.indptr, rows.indices
    for low in range(0, len(ids) - 1, _CHUNK):
        chunk = ids[low : low + _CHUNK + 1]
        falls = np.flatnonzero(chunk[1:] <= chunk[:-1]) + (low + 1)
        if (ptr[np.searchsorted(ptr, falls)] != falls).any():  # elsewhere than between two rows
            raise ValueError(f"`{name}` with entries that are not ascending")


def _check_neighbors(lists: Neighbors, n: int) -> None:
    """Lists begin with the row itself and ascend; -1 and infinity only where a list has ended."""
    _check_range("neighbors", lists.indices, -1, n)
    _check_finite("neighbors", lists.farthest)
    step = max(1, _CHUNK // lists.k)
    for low in range(0, n, step):
        ids, d = lists.indices[low : low + step], lists.distances[low : low + step]
        ended = ids < 0
        if (
            (ids[:, 0] != np.arange(low, low + len(ids))).any()
            or not np.isfinite(d[:, 0]).all()
            or not (d[:, 1:] >= d[:, :-1]).all()
            or (ended[:, :-1] & ~ended[:, 1:]).any()
            or (np.isinf(d) & ~ended).any()
        ):
            raise ValueError("`neighbors` that are not lists of nearest rows, nearest first")


def _check_range(name: str, values: npt.NDArray[Any], low: int, high: int) -> None:
    if values.size and not low <= int(values.min()) <= int(values.max()) < high:
        raise ValueError(
            f"`{name}` with numbers from {values.min()} to {values.max()}, outside {low} to {high}"
        )


def _check_finite(name: str, values: npt.NDArray[Any]) -> None:
    # Both are NaN if one of the values is. Squares and sums of most have to fit.
    limit = float(np.finfo(np.float64).max) if name in _OF_ANY_SIZE else _LARGEST
    if values.size and not -limit <= float(values.min()) <= float(values.max()) <= limit:
        raise ValueError(f"`{name}` with values that are not finite, or too large")
