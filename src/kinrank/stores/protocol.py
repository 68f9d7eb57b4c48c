"""What a store has to answer, and what all of ours share.

Engines measure in their own ways. A store says which, and answers squared Euclidean distances:
between the vectors themselves ("euclidean"), or to rows brought to unit norm ("cosine", "inner").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from kinrank.errors import InvalidInputError, KinrankError, StoreError, UnknownIdError
from kinrank.index.ids import Ids, IdTable, as_ids
from kinrank.index.search import SearchStore
from kinrank.types import Floats
from kinrank.validation import as_vectors

Metric: TypeAlias = Literal["euclidean", "cosine", "inner"]
METRICS: tuple[Metric, ...] = ("euclidean", "cosine", "inner")
MOST = 1 << 24  # results of a query: engines ask for memory for all of them at once


@runtime_checkable
class Store(SearchStore, Protocol):
    """Vectors with ids, 64-bit integers or text, and a search among them."""

    @property
    def metric(self) -> Metric:
        """What the engine orders by; "inner" asks for rows of unit norm."""

    @property
    def width(self) -> int:
        """The length of the vectors."""

    def ids(self) -> Ids:
        """The ids of all rows."""


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


def checked_queries(queries: Any, width: int, metric: Metric) -> Floats:
    """Queries as finite float32 rows of the store's width."""
    rows = as_vectors(("queries", queries), together=False)
    if rows.shape[1] != width:
        raise InvalidInputError(
            f"`queries` must have as many columns as the store ({width}), got {rows.shape[1]}."
        )
    if metric == "cosine" and not rows.any(axis=1).all():
        raise InvalidInputError("`queries` must have no zero vectors for cosine, got one.")
    return rows


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


def as_rows(owners: Any, ids: Any, values: Any, n_queries: int, k: int) -> tuple[Ids, Floats]:
    """A flat answer as (n_queries, k) arrays: ``owners`` ascends and says whose each entry is.

    Entries without a distance, as engines have them for rows without a vector, are left out.
    """
    measured = np.isfinite(values)
    owners, ids, values = (
        np.asarray(owners, np.int64)[measured],
        as_ids(ids)[measured],
        values[measured],
    )
    counts = np.bincount(owners, minlength=n_queries)
    columns = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.full((n_queries, k), "" if ids.dtype.kind == "U" else -1, ids.dtype)
    distances = np.full((n_queries, k), np.inf, np.float32)
    found[owners, columns] = ids
    distances[owners, columns] = values
    return found, distances


def in_order(wanted: Ids, ids: list[Any], vectors: Floats) -> Floats:
    """Vectors that came in any order, in the order asked for; raises on ids that did not come."""
    rows: Floats = vectors[IdTable(as_ids(ids)).places(wanted)]
    return rows
