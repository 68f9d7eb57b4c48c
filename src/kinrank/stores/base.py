"""What our stores share: checks of queries, errors in our words, distances, tables of rows.

Engines measure in their own ways. A store says which, and answers squared Euclidean distances:
between the vectors themselves ("euclidean"), or to rows brought to unit norm ("cosine", "inner"),
which for unit queries is 2 - 2 cos.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, KinrankError, StoreError, UnknownIdError
from kinrank.index.ids import Ids, IdTable, as_ids, refuse_duplicates
from kinrank.search.searcher import Metric
from kinrank.types import Floats, Longs, Neighbors
from kinrank.validation import as_vectors, check_int

_MOST = 1 << 24  # results of a query: engines ask for memory for all of them at once


@contextmanager
def engine_errors(engine: str, *kinds: type[Exception]) -> Iterator[None]:
    """Say in our words that an engine failed."""
    try:
        yield
    except KinrankError:
        raise
    except UnicodeEncodeError as error:  # half a character, which no engine can hold
        raise UnknownIdError(f"There is no row with such an id: {error}") from error
    except kinds as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise StoreError(f"{engine} failed: {lines[0]}") from error


def checked_queries(queries: Any, k: int, width: int, metric: Metric) -> tuple[Floats, int]:
    """Queries as finite float32 rows of the store's width, and k."""
    rows = as_vectors(("queries", queries), together=False)
    if rows.shape[1] != width:
        raise InvalidInputError(
            f"`queries` must have as many columns as the store ({width}), got {rows.shape[1]}."
        )
    if metric == "cosine" and not rows.any(axis=1).all():
        raise InvalidInputError("`queries` has a zero vector, which has no cosine.")
    return rows, check_int("k", k, 1, _MOST)


def squared_distances(metric: Metric, queries: Floats, values: Floats) -> Floats:
    """Squared Euclidean distances from an engine's, (n_queries, k); infinite ones stay so.

    values : squared distances; for "cosine" 1 - cos(q, x), for "inner" -qx, and then the answer is
        |q - x|^2 for x brought to unit norm, or of it already
    """
    if metric == "euclidean":
        return np.maximum(values, 0)
    squares = np.einsum("ij,ij->i", queries, queries, dtype=np.float64)[:, None]
    wide = 2 * values.astype(np.float64)
    if metric == "cosine":
        norms = np.sqrt(squares)
        squared = (norms - 1) ** 2 + norms * wide
    else:
        squared = squares + 1 + wide
    bounded = np.clip(squared, 0, np.finfo(np.float32).max)
    return np.where(np.isinf(values), np.inf, bounded).astype(np.float32)


class TableStore:
    """A store over a table with a column of ids and one of vectors."""

    metric: Metric
    width: int
    _text: bool  # whether ids are text
    _FETCH: ClassVar[int]  # ids in one statement

    def ids(self) -> Ids:
        """See Store."""
        ids = as_ids(self._all_ids())
        refuse_duplicates(ids)
        return ids

    def search(self, queries: Any, k: int) -> Neighbors:
        """See Store."""
        rows, k = checked_queries(queries, k, self.width, self.metric)
        owners, names, values = self._nearest(rows, k)
        measured = np.isfinite(values)  # engines answer rows without a vector too
        owners = owners[measured]
        names = as_ids(names)[measured]
        values = values[measured]
        counts = np.bincount(owners, minlength=len(rows))
        columns = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        ids = np.full((len(rows), k), "" if names.dtype.kind == "U" else -1, names.dtype)
        distances = np.full((len(rows), k), np.inf, np.float32)
        ids[owners, columns] = names
        distances[owners, columns] = values
        return Neighbors(ids, squared_distances(self.metric, rows, distances))

    def fetch(self, ids: Any) -> Floats:
        """See Store."""
        wanted = as_ids(ids)
        unique = np.unique(wanted)
        if self._text != (wanted.dtype.kind == "U"):
            unique = unique[:0]
        names: list[Any] = []
        vectors = [np.empty((0, self.width), np.float32)]
        for low in range(0, len(unique), self._FETCH):
            block_names, block = self._rows_of(unique[low : low + self._FETCH])
            names += block_names
            vectors.append(block)
        rows: Floats = np.concatenate(vectors)[IdTable(as_ids(names)).rows(wanted)]
        return rows

    def _all_ids(self) -> list[Any]:
        raise NotImplementedError

    def _nearest(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        """Whose each result is, ascending, its id, and its distance as the engine measures it."""
        raise NotImplementedError

    def _rows_of(self, ids: Ids) -> tuple[list[Any], Floats]:
        """Ids and vectors of rows in any order; those that are not there may be missing."""
        raise NotImplementedError
