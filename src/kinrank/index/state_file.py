"""A state in the file of an index: written, read, and checked.

The file (``kinrank.index.file``) holds arrays, by the names that ``State.arrays`` has, and a
description in JSON: the method's options, the scaling, counts, and what ``Index`` keeps beside the
state. Attributes, calibration and notes are further arrays.

Kernels check nothing themselves, so everything that a file says is checked here: types and shapes
when it is opened (``load_state``), every number before the first search (``check_contents``). What
is wrong raises ``ValueError``, which ``reading`` turns into an error that names the file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt

from kinrank._version import __version__
from kinrank.errors import InvalidInputError, shown
from kinrank.index import file
from kinrank.index.attributes import Attributes, as_column
from kinrank.index.auto_parameters import AutoParameters
from kinrank.index.file import Arrays, StoredIndex
from kinrank.index.ids import refuse_duplicates
from kinrank.index.state import Scaling, State, resolved
from kinrank.io import PathLike
from kinrank.methods.cas import CASMethod
from kinrank.projection.projection import Projection
from kinrank.reading import reading
from kinrank.registry import make_method
from kinrank.types import Longs, Neighbors, SparseRows
from kinrank.validation import LARGEST

_NOTES = "notes"
ATTRIBUTE = "attribute."  # begins the name of the array of an attribute,
CALIBRATION = "calibration."  # and of an array of the calibration
FINGERPRINTS = "fingerprints"  # one for each vector in a store, which tells when it is another
_CHUNK = 1 << 20  # entries that are compared at a time
# Fields of a state that the description holds, or that follow from it.
_DESCRIBED = ("unresolved", "method", "scaling", "recall")
_FITTED = "fitted"  # stands in the description for a projection, which is in arrays
# The dtype of an array by the last part of its name; all others are float32.
_DTYPES = {"indptr": "i8", "indices": "i4", "order": "i4", "cell": "i4", "norms": "f8"}
_TWO_DIMENSIONAL = (
    "vectors",
    "centres",
    "neighbors.indices",
    "neighbors.distances",
    "projection.matrix",
)
_OPTIONAL = ("similarity", "transition", "paths")  # fields that are None under some parameters
# Matrices whose entries do not ascend by their column: the largest or the shortest come first.
_OTHER_ORDER = ("enhanced", "transition", "paths")
# Fields with squares, or with multiples of kappa, which may be larger than any vector.
_OF_ANY_SIZE = ("neighbors", "affinity", "degree", "walk_norm", "similarity")
_LARGEST = 4 * LARGEST  # of all other numbers: vectors were moved
_LARGEST_EXPONENT = 1100  # of float64, with room


def save_state(
    path: PathLike,
    state: State,
    *,
    recipe: str | None,
    auto_parameters: AutoParameters | None,
    notes: Any,
    further_arrays: Arrays,
) -> None:
    """Write a state to a file, whole or not at all; for a caller who holds the file's lock.

    recipe : how the vectors were made (``kinrank.features.Recipe`` as text)
    auto_parameters : what ``fit(params="auto")`` chose; None where parameters were given
    notes : what users keep with an index, of any size; written as JSON
    further_arrays : of attributes and calibration, whose names begin with ``ATTRIBUTE`` and
        ``CALIBRATION``, and perhaps ``FINGERPRINTS``
    """
    scaling = state.scaling
    shift = scaling.shift
    # As they were given: options that were left out still follow from the others.
    options = dict(state.unresolved.given_options)
    if isinstance(options["whiten"], Projection):
        options["whiten"] = _FITTED
    description = {
        "kinrank": __version__,
        "method": options,
        "scaling": {
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
        "chosen": None if auto_parameters is None else asdict(auto_parameters),
    }
    if not isinstance(notes, dict):  # users set them as they like
        raise InvalidInputError(f"`notes` must be a dict, got {shown(notes)}.")
    try:
        text = json.dumps(notes).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"`notes` must be what can be written as JSON, got: {error}"
        ) from error
    # Notes are an array: they may be as large as the rows.
    notes_array = np.frombuffer(text, np.uint8)
    file.write(path, description, {**state.arrays(), **further_arrays, _NOTES: notes_array})


def load_state(stored: StoredIndex) -> State:
    """The state that a file holds; types and shapes are checked, numbers by ``check_contents``."""
    with reading(stored.path, "a whole index of kinrank"):
        description = stored.description
        arrays = {
            name: array
            for name, array in stored.arrays.items()
            if name not in (_NOTES, FINGERPRINTS) and not name.startswith((ATTRIBUTE, CALIBRATION))
        }
        _check_dtypes(arrays)
        scaling = _scaling(description["scaling"], arrays)
        unresolved = _method(description["method"], scaling)
        n = int(description["rows"])
        recall = float(description["recall"])
        if not 0 <= recall <= 1:
            raise ValueError(f"a recall of {recall!r}")
        field_types = get_type_hints(State)
        values = {
            name: _field_value(name, field_type, arrays, n)
            for name, field_type in field_types.items()
            if name not in _DESCRIBED
        }
        state = State(
            unresolved=unresolved,
            method=resolved(unresolved, n, values["neighbors"].k),
            scaling=scaling,
            recall=recall,
            **values,
        )
        _check_shapes(state, n)
    return state


def load_attributes(stored: StoredIndex, n_gallery: int) -> Attributes:
    """The attributes of the gallery rows in a file; there may be none."""
    with reading(stored.path, "an index whose attributes fit its rows"):
        columns = {
            name.removeprefix(ATTRIBUTE): as_column(name, array)
            for name, array in stored.arrays.items()
            if name.startswith(ATTRIBUTE)
        }
        return Attributes.of(columns, n_gallery)


def calibration_arrays(stored: StoredIndex) -> Arrays:
    """The arrays of the calibration in a file, as ``Calibration.arrays`` names them; or none."""
    return {
        name.removeprefix(CALIBRATION): array
        for name, array in stored.arrays.items()
        if name.startswith(CALIBRATION)
    }


def load_fingerprints(stored: StoredIndex, n_gallery: int) -> Longs | None:
    """The fingerprints of the rows of an index over a store, if they were kept."""
    with reading(stored.path, "an index with a fingerprint for each row"):
        fingerprints = stored.arrays.get(FINGERPRINTS)
        if fingerprints is None:
            return None
        if fingerprints.dtype != np.int64 or fingerprints.shape != (n_gallery,):
            raise ValueError(f"{len(fingerprints)} fingerprints of {fingerprints.dtype}")
        return fingerprints


def load_notes(stored: StoredIndex) -> dict[str, Any]:
    """The notes in a file, which are a JSON object."""
    with reading(stored.path, "an index with notes in JSON"):
        notes = json.loads(stored.arrays[_NOTES].tobytes())
        if not isinstance(notes, dict):
            raise ValueError(f"notes that are {type(notes).__name__}")  # noqa: TRY004  see ``reading``
    return notes


def _method(options: dict[str, Any], scaling: Scaling) -> CASMethod:
    """The method that a description has; a fitted projection is taken from the scaling."""
    if options.get("whiten") == _FITTED:
        options = options | {"whiten": scaling.projection}
    method: CASMethod = make_method("cas", **options)
    if (method.whiten is None) != (scaling.projection is None):
        raise ValueError("a projection that the method does not have, or none")
    return method


def _scaling(description: dict[str, Any], arrays: Arrays) -> Scaling:
    """The scaling that a description has; its projection is in ``arrays``."""
    shift = None if description["shift"] is None else np.array(description["shift"], np.float32)
    projection = None
    if description["projection"] is not None:
        projection = Projection.of_words(
            arrays["projection.mean"], arrays["projection.matrix"], description["projection"]
        )
        if projection.width != description["width"] or projection.dims < 1:
            raise ValueError(f"{projection} for {description['width']!r} columns")
    scaling = Scaling(**{**description, "shift": shift, "projection": projection})
    types = (type(scaling.width), type(scaling.exponent), type(scaling.cosine))
    is_sound = types == (int, int, bool) and scaling.width >= 1
    if not is_sound or abs(scaling.exponent) > _LARGEST_EXPONENT:
        raise ValueError(
            f"a scaling of {scaling.width!r}, {scaling.cosine!r}, {scaling.exponent!r}"
        )
    if shift is not None:
        if shift.shape != (scaling.width,):
            raise ValueError("a shift that does not fit the columns")
        _check_finite("shift", shift)
    return scaling


def _check_dtypes(arrays: Arrays) -> None:
    """Raise unless every array has the dtype and the number of dimensions that its name says."""
    for name, array in arrays.items():
        is_right = array.dtype == np.dtype(_DTYPES.get(name.rpartition(".")[2], "f4"))
        if name == "ids":
            is_right = array.dtype == np.int64 or array.dtype.kind == "U"
        n_dimensions = 2 if name in _TWO_DIMENSIONAL else 1
        if not is_right or array.ndim != n_dimensions:
            raise ValueError(f"`{name}` of {array.dtype} with {array.ndim} dimensions")


def _field_value(name: str, field_type: Any, arrays: Arrays, n: int) -> Any:
    """The value of a field of ``State``: lists, an array, a sparse matrix, or None.

    field_type : of the field; arrays : of the file; n : how many rows the state has
    """
    if field_type is Neighbors:
        return Neighbors(*(arrays[f"{name}.{part.name}"] for part in fields(Neighbors)))
    if name in arrays:
        return arrays[name]
    if f"{name}.indptr" not in arrays:
        if name in _OPTIONAL:
            return None  # ``_check_shapes`` knows whether the method needs it
        raise ValueError(f"no array `{name}`")
    indptr = arrays[f"{name}.indptr"]
    indices = arrays[f"{name}.indices"]
    data = arrays.get(f"{name}.data")
    if len(indptr) < 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        raise ValueError(f"rows of `{name}` that do not fit each other")
    if data is not None and len(data) != len(indices):
        raise ValueError(f"values of `{name}` that do not fit their rows")
    return SparseRows(indptr, indices, data, n)


def _check_shapes(state: State, n: int) -> None:
    """Raise unless all arrays of a state are for ``n`` rows, and those that it needs are there."""
    lists = state.neighbors
    width = state.scaling.dims
    method = state.method
    values = [getattr(state, state_field.name) for state_field in fields(state)]
    one_per_row: list[Any] = [lists.indices, lists.distances, lists.farthest, state.order]
    one_per_row += [state.degree, state.walk_norm, state.norms]
    one_per_row += [value for value in values if isinstance(value, SparseRows)]
    fits = (
        (state.similarity is not None or not method.stage_parameters.reads_similarity_again)
        and (state.transition is None) == (method.propagation == "transpose")
        and (state.paths is not None) == method.geodesic
        and all(len(value) == n for value in one_per_row)
        and lists.indices.shape == lists.distances.shape
        and lists.k >= method.list_length()
        and 1 <= state.n_gallery <= n >= 2
        and state.vectors.shape in ((n, width), (0, width))
        and len(state.cell) in (0, n)
        and (len(state.cell) == 0 or state.centres.shape[1:] == (width,))
        and state.entropies.shape == state.columns.indices.shape
    )
    if not fits:
        raise ValueError("arrays that do not fit each other")


def check_contents(path: Path, state: State) -> None:
    """Raise unless all numbers of a state lie where they must; reads every array once.

    path : the file that it was loaded from, for messages
    """
    n = len(state)
    averaged = ("smoothed", "aqe")  # whose rows are sums of others, in no order
    with reading(path, "an index whose parts fit each other"):
        for state_field in fields(state):
            name = state_field.name
            value = getattr(state, name)
            if isinstance(value, SparseRows):
                _check_matrix(name, value, n)
                if name not in _OTHER_ORDER and (name, state.method.smoothing) != averaged:
                    _check_ascending(name, value)
            elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
                _check_finite(name, value)
        _check_neighbors(state.neighbors, n)
        if state.ids.dtype.kind == "U":
            characters = np.ascontiguousarray(state.ids).view(np.uint32)
            _check_range("ids", characters, 0, 0x110000)
        refuse_duplicates(state.ids)
        _check_range("order", state.order, 0, n)
        if (np.bincount(state.order, minlength=n) != 1).any():
            raise ValueError("`order` with numbers that are not different from each other")
        _check_range("cell", state.cell, 0, len(state.centres))


def _check_matrix(name: str, matrix: SparseRows, n: int) -> None:
    """Raise unless a sparse matrix has ``n`` columns and finite values, weights of graphs >= 0."""
    lengths = matrix.lengths
    if lengths.min() < 0 or lengths.max() > n:
        raise ValueError(f"`{name}` with a row of {lengths.min()} or {lengths.max()} entries")
    _check_range(name, matrix.indices, 0, n)
    if matrix.data is not None:
        _check_finite(name, matrix.data)
        if name in ("affinity", "paths") and matrix.nnz and matrix.data.min() < 0:
            raise ValueError(f"`{name}` with weights below 0")


def _check_ascending(name: str, matrix: SparseRows) -> None:
    """Raise unless the entries of each row ascend by their column."""
    indptr = matrix.indptr
    columns = matrix.indices
    for low in range(0, len(columns) - 1, _CHUNK):
        chunk = columns[low : low + _CHUNK + 1]
        descents = np.flatnonzero(chunk[1:] <= chunk[:-1]) + (low + 1)
        begins_a_row = indptr[np.searchsorted(indptr, descents)] == descents
        if not begins_a_row.all():
            raise ValueError(f"`{name}` with entries that are not ascending")


def _check_neighbors(lists: Neighbors, n: int) -> None:
    """Raise ValueError unless lists are as a state has them.

    Each of the n begins with the row itself, and its distances ascend; behind its end are -1 and
    infinity.
    """
    _check_range("neighbors", lists.indices, -1, n)
    _check_finite("neighbors", lists.farthest)
    step = max(1, _CHUNK // lists.k)
    for low in range(0, n, step):
        indices = lists.indices[low : low + step]
        distances = lists.distances[low : low + step]
        is_behind_end = indices < 0
        if (
            (indices[:, 0] != np.arange(low, low + len(indices))).any()
            or not np.isfinite(distances[:, 0]).all()
            or not (distances[:, 1:] >= distances[:, :-1]).all()
            or (is_behind_end[:, :-1] & ~is_behind_end[:, 1:]).any()
            or (np.isinf(distances) & ~is_behind_end).any()
        ):
            raise ValueError("`neighbors` that are not lists of nearest rows, nearest first")


def _check_range(name: str, values: npt.NDArray[Any], low: int, high: int) -> None:
    """Raise unless all numbers are at least ``low`` and below ``high``."""
    if values.size and not low <= int(values.min()) <= int(values.max()) < high:
        raise ValueError(
            f"`{name}` with numbers from {values.min()} to {values.max()}, outside {low} to {high}"
        )


def _check_finite(name: str, values: npt.NDArray[Any]) -> None:
    """Raise unless all numbers are finite, and no larger than those of an index can be."""
    # Both ends are NaN if one of the values is. Squares and sums of most have to fit.
    limit = float(np.finfo(np.float64).max) if name in _OF_ANY_SIZE else _LARGEST
    if values.size and not -limit <= float(values.min()) <= float(values.max()) <= limit:
        raise ValueError(f"`{name}` with values that are not finite, or too large")
