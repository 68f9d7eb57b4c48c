"""The one seam for search: who finds the nearest rows, ours or somebody else's.

Anybody may write a searcher, and kernels check nothing, so what it returns is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.types import Floats, Neighbors
from kinrank.validation import as_matrix

Metric: TypeAlias = Literal["euclidean", "cosine", "inner"]
METRICS: tuple[Metric, ...] = ("euclidean", "cosine", "inner")

_ROUNDING = 1e-4  # of the query's squared norm, by which a distance may be below 0
_COMPARED = 1e-3  # of the largest distance, from which on distances are compared
_EXACT = 0.02  # by which a formula may be off and still be what a store computes
_COMPRESSED = 3.0  # by which distances of compressed vectors may be off


@runtime_checkable
class Searcher(Protocol):
    """Anything that finds the nearest rows of queries: an exact search, cells, faiss, a store."""

    def search(self, queries: Any, k: int, /) -> Neighbors:
        """The ``k`` nearest rows of each query, (n_queries, k), nearest first.

        Distances are squared and Euclidean: for a cosine and unit vectors, 2 - 2 cos. Where fewer
        rows were found they are infinite, with the index -1, or "" where ids are text.
        """


# Who finds neighbours: one of ours by its name, or somebody else.
Search: TypeAlias = Literal["exact", "approximate"] | Searcher


@runtime_checkable
class Store(Searcher, Protocol):
    """Vectors that somebody else keeps, such as a vector database: a searcher that knows ids.

    Its rows have ids, 64-bit integers or text, each once; ``search`` returns these as indices.
    """

    @property
    def metric(self) -> Metric:
        """What the engine orders by; "inner" asks for rows of unit norm."""

    @property
    def width(self) -> int:
        """The length of the vectors."""

    def __len__(self) -> int:
        """The number of rows."""

    def ids(self) -> Any:
        """The ids of all rows."""

    def fetch(self, ids: Any, /) -> Floats:
        """The vectors of some rows, (len(ids), width), in the order asked for.

        Raises ``UnknownIdError``.
        """


@runtime_checkable
class FilteringStore(Store, Protocol):
    """A store that knows more of its rows than their vectors, and filters by it."""

    def matching(self, where: Any, /) -> Any:
        """The ids of all rows whose attributes are as ``where`` of ``Index.search`` says.

        Rows without a value of a name that is asked for do not match.
        """

    def attributes(self, names: Any, /) -> tuple[Any, dict[str, Any]]:
        """The ids of all rows, and for each of some names their values; None for no value."""


@runtime_checkable
class ListingStore(Store, Protocol):
    """A store that finds the neighbours of its own rows, without their vectors being moved."""

    def neighbors(self, k: int, /) -> Iterator[tuple[Any, Neighbors]]:
        """Ids of some rows, and their ``k`` nearest others as ``search`` lists them; of all rows
        in turn.
        """


class RowSearcher(Searcher, Protocol):
    """A searcher of ours over rows in arrays, which also finds the neighbours of these rows."""

    def neighbors(self, k: int) -> Neighbors:
        """The ``k`` nearest rows of every row, itself first."""

    def neighbors_and_more(self, k: int, n_first: int, first_k: int) -> tuple[Neighbors, Neighbors]:
        """As ``neighbors``, and lists of ``first_k`` >= k for the first ``n_first`` rows."""


def checked_search(searcher: Searcher, queries: Floats, k: int) -> Neighbors:
    """What a searcher returns, with float32 distances; an error if it cannot be used.

    A list may have more or fewer than k entries, in any order. Whether its rows exist is for the
    caller to check.
    """
    name = type(searcher).__name__
    answer = searcher.search(queries, k)
    if not isinstance(answer, Neighbors):
        raise InvalidInputError(
            f"`{name}.search` must return kinrank.Neighbors (indices and squared distances), "
            f"got {type(answer).__name__}."
        )
    indices = answer.indices
    distances = answer.distances
    n_queries = len(queries)
    if distances.ndim != 2 or len(distances) != n_queries or indices.shape != distances.shape:
        raise InvalidInputError(
            f"`{name}.search` returned indices of shape {indices.shape} and distances of shape "
            f"{distances.shape}: both must have a row for each of the {n_queries} queries."
        )
    if distances.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"`{name}.search` returned distances of dtype {distances.dtype}: they must be numbers."
        )
    squared_norms = np.einsum("ij,ij->i", queries, queries, dtype=np.float64)
    wrong = ~(distances >= -_ROUNDING * squared_norms[:, None])
    if wrong.any():
        raise InvalidInputError(
            f"`{name}.search` returned the squared distance {distances[wrong][0]}: it must be 0 or "
            "more, and infinite where there is no row."
        )
    with np.errstate(over="ignore"):
        return Neighbors(indices, np.maximum(distances.astype(np.float32, copy=False), 0))


def check_squared_distances(name: str, returned: Floats, computed: Floats) -> None:
    """Refuse a store whose distances are other ones than those of the vectors that it fetches.

    name : of the store; returned, computed : (m,) squared distances of the same pairs. Distances of
        compressed vectors may be off.
    """
    usable = np.isfinite(returned) & (computed > _COMPARED * computed.max(initial=0))
    claimed = returned[usable].astype(np.float64)
    true = computed[usable].astype(np.float64)
    if len(true) == 0 or _off(claimed, true) <= _EXACT:
        return
    cure = {
        "1 - cos": (true / 2, "return 2 - 2 cos, twice as much"),
        "the distance itself": (np.sqrt(true), "return its square"),
        "the cosine": (1 - true / 2, "return 2 - 2 cos"),
    }
    for formula, (values, what_to_do) in cure.items():
        if _off(claimed, values) <= _EXACT:
            raise InvalidInputError(
                f"`{name}.search` must return squared Euclidean distances, and returned {formula}: "
                f"{claimed[0]:.4g} where the vectors that it fetches are {true[0]:.4g} apart, "
                f"squared. Let it {what_to_do}."
            )
    ratio = float(np.median(claimed / true))
    if not 1 / _COMPRESSED <= ratio <= _COMPRESSED:
        raise InvalidInputError(
            f"`{name}.search` must return squared Euclidean distances between the vectors that "
            f"`{name}.fetch` returns, and returned {claimed[0]:.4g} where these are {true[0]:.4g} "
            "apart, squared. Check the metric of the engine, and that both are of the same rows."
        )


def _off(returned: Any, expected: Any) -> float:
    """The median of |returned - expected| / |expected|; both (m,)."""
    return float(np.median(np.abs(returned - expected) / np.maximum(np.abs(expected), 1e-12)))


def checked_fetch(store: Store, ids: Any, width: int) -> Any:
    """The vectors of some rows, (len(ids), width), as the store has them."""
    name = type(store).__name__
    vectors = as_matrix(f"{name}.fetch", store.fetch(ids))
    if len(vectors) != len(ids):
        raise InvalidInputError(
            f"`{name}.fetch` returned {len(vectors)} vectors for {len(ids)} ids: it must return "
            "one for each."
        )
    if vectors.shape[1] != width:
        raise InvalidInputError(
            f"`{name}.fetch` returned vectors with {vectors.shape[1]} columns: they must have "
            f"{width}."
        )
    return vectors
