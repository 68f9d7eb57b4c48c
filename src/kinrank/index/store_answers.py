"""What a store answers, checked: anybody may write one, and kernels check nothing."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.index.ids import Ids, IdTable, as_ids
from kinrank.types import Floats, Ints
from kinrank.validation import as_array, as_matrix


class SearchStore(Protocol):
    """A collection of vectors that somebody else keeps, such as a vector database."""

    def __len__(self) -> int:
        """The number of rows."""

    def search(self, queries: Floats, k: int) -> tuple[Any, Any]:
        """Ids (n_queries, k) and squared Euclidean distances, nearest first.

        Infinite where fewer were found, with the id -1 or "".
        """

    def fetch(self, ids: Any) -> Floats:
        """The vectors of some rows, (len(ids), width), in the order asked for.

        Raises ``UnknownIdError``.
        """


def store_search(
    store: SearchStore, queries: Floats, k: int, table: IdTable
) -> tuple[Ints, Floats]:
    """Places in ``table`` of the nearest rows, and their squared distances, (n_queries, <= k).

    Ascending, each row once for a query; -1 and infinity behind the last. Rows that the table does
    not have, as they came into the store later, are left out.
    """
    ids, values = _arrays(store.search(queries, k), len(queries))
    known = np.isfinite(values)
    places = np.full(values.shape, -1, np.int32)
    places[known] = _places(ids[known], table)
    values = np.where(places >= 0, values, np.float32(np.inf))
    places, values = _in_order(places, values)
    again = _repeated(places)
    if again.any():
        places, values = np.where(again, np.int32(-1), places), np.where(again, np.inf, values)
        places, values = _in_order(places, values.astype(np.float32))
    return places[:, :k], values[:, :k]


def store_fetch(store: SearchStore, ids: Ids, width: int) -> Any:
    """The vectors of some rows, (len(ids), width), as the store has them."""
    vectors = as_matrix("store.fetch", store.fetch(ids))
    if len(vectors) != len(ids):
        raise InvalidInputError(
            f"The store must fetch a vector for each of {len(ids)} ids, got {len(vectors)}."
        )
    if vectors.shape[1] != width:
        raise InvalidInputError(
            f"The store must fetch vectors with {width} columns, got {vectors.shape[1]}."
        )
    return vectors


def _arrays(answer: Any, n_queries: int) -> tuple[Any, Floats]:
    if not (isinstance(answer, (tuple, list)) and len(answer) == 2):
        raise InvalidInputError(
            f"`store.search` must return ids and squared distances, got {type(answer).__name__}."
        )
    ids, values = (as_array("store.search", part) for part in answer)
    if values.ndim != 2 or len(values) != n_queries or ids.shape != values.shape:
        raise InvalidInputError(
            f"The store must answer ids and distances for {n_queries} queries, got shapes "
            f"{ids.shape} and {values.shape}."
        )
    if values.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"The store must answer distances that are numbers, got dtype {values.dtype}."
        )
    wrong = np.isnan(values) | (values < 0)
    if wrong.any():
        raise InvalidInputError(
            "The store must answer squared distances of 0 or more, infinite for none, "
            f"got {values[wrong][0]}."
        )
    with np.errstate(over="ignore"):
        return ids, values.astype(np.float32, copy=False)


def _places(ids: Any, table: IdTable) -> Ints:
    try:
        wanted = as_ids(ids.tolist())
    except InvalidInputError as error:
        raise InvalidInputError(f"The store must answer ids of its rows: {error}") from error
    if len(wanted) and (wanted.dtype.kind == "U") != (table.ids.dtype.kind == "U"):
        kinds = ("text", "integers") if table.ids.dtype.kind == "U" else ("integers", "text")
        raise InvalidInputError(
            f"The store must answer ids that are {kinds[0]}, as those of the index, got {kinds[1]}."
        )
    return table.find(wanted)


def _in_order(places: Ints, values: Floats) -> tuple[Ints, Floats]:
    order = np.argsort(values, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(values, order, axis=1)


def _repeated(places: Ints) -> Any:
    """Which entries are rows that the same query has further in front."""
    order = np.argsort(places, axis=1, kind="stable")
    ordered = np.take_along_axis(places, order, axis=1)
    again = np.zeros(places.shape, np.bool_)
    same = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    np.put_along_axis(again, order[:, 1:], same, axis=1)
    return again
