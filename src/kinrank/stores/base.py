"""What our stores share: checks of queries, errors in our words, distances, tables of rows.

Engines measure in their own ways. A store says which, and answers squared Euclidean distances:
between the vectors themselves ("euclidean"), or to rows brought to unit norm ("cosine", "inner"),
which for unit queries is 2 - 2 cos.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kinrank.errors import (
    InvalidInputError,
    KinrankError,
    StoreError,
    UnknownIdError,
    UnknownNameError,
)
from kinrank.index.ids import Ids, IdTable, as_ids, refuse_duplicates
from kinrank.search.searcher import Metric
from kinrank.stores.where import Wanted, wanted_of
from kinrank.types import Floats, Longs, Neighbors
from kinrank.validation import as_vectors, check_int

_MOST = 1 << 24  # results of a query: engines ask for memory for all of them at once
_QUERIES = 64  # in one request


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


def squared_between_rows(metric: Metric, values: Any) -> npt.NDArray[np.float32]:
    """As ``squared_distances``, between rows of the engine, which for "inner" have unit norm."""
    wide = np.asarray(values, np.float64)
    if metric != "euclidean":
        wide = 2 * wide if metric == "cosine" else 2 + 2 * wide
    return np.maximum(wide, 0).astype(np.float32)


class TableStore:
    """A store over a table with a column of ids, one of vectors, and others: the attributes."""

    metric: Metric
    width: int
    _text: bool  # whether ids are text
    _FETCH: ClassVar[int]  # ids in one statement

    def __len__(self) -> int:
        raise NotImplementedError

    def ids(self) -> Ids:
        """See Store."""
        return refuse_duplicates(_joined_pages(page[0] for page in self._columns([], [])))

    def search(self, queries: Any, k: int) -> Neighbors:
        """See Store."""
        rows, k = checked_queries(queries, k, self.width, self.metric)
        owners, names, values = self._nearest(rows, k)
        listed = as_lists(len(rows), k, owners, as_ids(names), values)
        return Neighbors(listed.indices, squared_distances(self.metric, rows, listed.distances))

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

    def matching(self, where: Mapping[str, Any]) -> Ids:
        """See FilteringStore: what the engine cannot say exactly is checked here."""
        pushed: list[Any] = []
        checked: list[Wanted] = []
        for wanted in wanted_of(where):
            expression = self._expression(wanted)
            if expression is None:
                checked.append(wanted)
            else:
                pushed.append(expression)
        pages = []
        for ids, *columns in self._columns([wanted.name for wanted in checked], pushed):
            allowed = np.ones(len(ids), np.bool_)
            for wanted, column in zip(checked, columns, strict=True):
                allowed &= [wanted.allows(value) for value in column]
            pages.append(ids[allowed])
        return _joined_pages(pages)

    def attributes(self, names: Sequence[str]) -> tuple[Ids, dict[str, list[Any]]]:
        """See AttributeStore."""
        columns: dict[str, list[Any]] = {name: [] for name in names}
        pages = []
        for ids, *values in self._columns(list(names), []):
            pages.append(ids)
            for name, column in zip(names, values, strict=True):
                columns[name] += column
        return refuse_duplicates(_joined_pages(pages)), columns

    def _columns(self, names: list[str], conditions: list[Any]) -> Iterator[tuple[Any, ...]]:
        """Ids as an array and the values of some attributes, a page of rows at a time."""
        for page in self._pages(names, conditions):
            if page:
                ids, *columns = zip(*page, strict=True)
                yield as_ids(list(ids)), *columns

    def _pages(self, names: list[str], conditions: list[Any]) -> Iterator[list[tuple[Any, ...]]]:
        """Id and attributes of all rows that conditions allow, some at a time; None for no value.

        conditions : of ``_expression``, all of which must hold
        """
        raise NotImplementedError

    def _expression(self, wanted: Wanted) -> Any | None:  # noqa: ARG002
        """A condition as the engine says it; None where it cannot say exactly the same."""
        return None

    def _nearest(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        """Whose each result is, ascending, its id, and its distance as the engine measures it."""
        owners: list[int] = []
        names: list[Any] = []
        values: list[float] = []
        k = min(k, max(len(self), 1))
        for low in range(0, len(rows), _QUERIES):
            lists = self._lists(rows[low : low + _QUERIES], k)
            for query, (ids, distances) in enumerate(lists, low):
                owners += [query] * len(ids)
                names += ids
                values += distances
        return np.array(owners, np.int64), names, np.array(values, np.float64)

    def _lists(self, rows: Floats, k: int) -> Iterator[tuple[list[Any], list[float]]]:
        """Ids of the nearest rows of each query, and their distances; of an engine that is asked
        for some queries at a time.
        """
        raise NotImplementedError

    def _rows_of(self, ids: Ids) -> tuple[list[Any], Floats]:
        """Ids and vectors of rows in any order; those that are not there may be missing."""
        raise NotImplementedError


def chosen_vectors(option: str, name: str | None, names: Collection[str]) -> str:
    """Which vectors of a collection to take.

    option : by which users say so; name : what they said; None is the only one of ``names``
    """
    if not names:
        raise InvalidInputError("The collection must have vectors of floats, got one without.")
    first = next(iter(names))
    if name is None and len(names) > 1:
        raise InvalidInputError(
            f"The rows have {len(names)} vectors ({', '.join(names)}): say which, as in "
            f"{option}={first!r}."
        )
    if name is not None and name not in names:
        raise UnknownNameError(option, name, list(names))
    return first if name is None else name


def distances_of_scores(metric: Metric, scores: Any) -> npt.NDArray[np.float64]:
    """Distances as ``squared_distances`` takes them, of an engine whose cosines and products are
    the larger, the nearer.
    """
    values = np.asarray(scores, np.float64)
    if metric == "euclidean":
        return values
    return 1 - values if metric == "cosine" else -values


def _joined_pages(pages: Iterable[Ids]) -> Ids:
    """Ids of several pages as one array."""
    filled = [page for page in pages if len(page)]
    if len({page.dtype.kind for page in filled}) > 1:
        raise InvalidInputError("`ids` of the store must be all text or all integers, got both.")
    return np.concatenate(filled) if filled else as_ids([])


def as_lists(n: int, k: int, owners: Longs, ids: Ids, values: npt.NDArray[Any]) -> Neighbors:
    """The results of ``n`` queries as lists of ``k``, -1 or "" and infinity behind the last.

    owners : whose each result is, ascending
    """
    measured = np.isfinite(values)  # engines answer rows without a vector too
    owners = owners[measured]
    counts = np.bincount(owners, minlength=n)
    columns = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    names = np.full((n, k), "" if ids.dtype.kind == "U" else -1, ids.dtype)
    distances = np.full((n, k), np.inf, np.float32)
    names[owners, columns] = ids[measured]
    distances[owners, columns] = values[measured]
    return Neighbors(names, distances)
