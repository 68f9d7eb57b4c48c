"""Re-rank what a search returned: a query and a few thousand candidates, without any index.

ranking = kinrank.rerank_pool(query, candidates, k=10)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.conditions import Mask
from kinrank.errors import InvalidInputError, shown
from kinrank.filters import filter_of
from kinrank.index.ids import Ids, IdTable, as_ids
from kinrank.methods.base import Method
from kinrank.parallel import Runner, thread_count
from kinrank.registry import make_method
from kinrank.runs.run import Run
from kinrank.types import Ranking
from kinrank.validation import as_array, as_list, as_matrix, check_int, reduce_k

# Up to this many candidates the stages of one query are so short that handing them to threads
# takes longer than the work; the search among them is, only up to fewer.
_ALONE, _ALL_ALONE = 2048, 400


def rerank_pool(
    query: Any,
    candidates: Any,
    method: str | Method = "cas",
    k: int | None = None,
    *,
    ids: Any = None,
    allowed: Any = None,
    exclude: Any = None,
    threshold: float | None = None,
    threads: int | None = None,
    **params: Any,
) -> Ranking:
    """Rank the candidates of a query by what they know of each other, and of no other row.

    Parameters
    ----------
    query : (d,) or (1, d) vector, or (n_queries, d)
    candidates : (m, d) vectors that a search found for the query; for several queries a list of
        such arrays, one for each and of any length, or (n_queries, m, d)
    method : a name of ``kinrank.methods()`` or a method such as ``kinrank.CAS(k1=10)``
    k : how many results per query; None ranks all candidates
    ids : (m,) names of the candidates, integers or text; for several queries a list of them
    allowed, exclude : candidates that may be answers, that may not: their ``ids`` (positions where
        there are none) or a boolean mask (m,); for several queries a list of such
    threshold : leave out results that are farther away; see ``Ranking.within``
    threads : how many threads to use; None is one per core. Several queries share them out, a
        query each; of a single small one only the search does. Never changes the result.
    **params : parameters of the method, see its class; ``whiten`` takes a fitted Projection, as
        few candidates do not tell the directions of a collection

    Returns
    -------
    Ranking
        (n_queries, k). ``indices`` are positions in the query's own pool, -1 behind the end of a
        shorter one; with ``ids`` its ``ids`` are filled too, by -1 or "" there. Each query is
        ranked on its own, as by ``method.rerank(query[None], candidates, k)``.

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> points = np.random.default_rng(0).normal(size=(101, 8))
    >>> kinrank.rerank_pool(points[0], points[1:], k=5, k1=6, k2=3).indices.shape
    (1, 5)
    """
    ranker = pool_method(method, params)
    if isinstance(getattr(ranker, "whiten", None), str | float):
        raise InvalidInputError(
            f"`whiten` must be a fitted Projection for pools, got {ranker.whiten!r}: fit it "
            "to the gallery that they come from (kinrank.Projection.fit)."
        )
    pools = _filtered(_pools(query, candidates, ids), allowed, exclude)
    largest = max(len(pool) for pool in pools)
    k = largest if k is None else reduce_k("k", check_int("k", k, 1), largest, "candidates")
    count = thread_count(threads)
    each = max(1, count // len(pools))
    rankings = Runner(count, block_size=1).map(
        "pools", lambda at, _: pools[at].rank(ranker, k, each), len(pools)
    )
    ranking = _joined(pools, rankings, k)
    return ranking if threshold is None else ranking.within(threshold)


@dataclass(frozen=True, eq=False)
class Pool:
    """A query, (1, d), and its candidates, (m, d); ``place`` is where messages say it is."""

    query: npt.NDArray[Any]
    candidates: npt.NDArray[Any]
    ids: Ids | None
    place: str
    allowed: Mask | None = None

    def __len__(self) -> int:
        return len(self.candidates)

    def rank(self, method: Method, k: int, threads: int) -> Ranking:
        """The first ``k`` candidates, or all if there are fewer."""
        if len(self) == 0:
            return Ranking(np.empty((1, 0), np.int32), np.empty((1, 0), np.float32))
        k = min(k, len(self))
        run = None
        if len(self) <= _ALONE:
            run = Run(block_size=_ALONE + 1)
            if len(self) <= _ALL_ALONE:
                threads = 1
        try:
            return method.rerank(
                self.query, self.candidates, k, allowed=self.allowed, threads=threads, run=run
            )
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.place}: {error}") from error


def pool_method(method: str | Method, params: dict[str, Any]) -> Method:
    """A method by its name and parameters, or as it is."""
    if isinstance(method, str):
        return make_method(method, **params)
    if not callable(getattr(method, "rerank", None)):
        raise InvalidInputError(
            f"`method` must be a name or a method such as kinrank.CAS(), got {shown(method)}."
        )
    if params:
        raise InvalidInputError(
            f"Parameters belong into the method object, got {sorted(params)} beside it."
        )
    return method


def _pools(query: Any, candidates: Any, ids: Any) -> list[Pool]:
    """What was given, as one pool for each query."""
    vectors = as_array("query", query)
    vectors = as_matrix("query", vectors[None] if vectors.ndim == 1 else vectors)
    several = _several(candidates)
    if several is None:
        if len(vectors) > 1:
            raise InvalidInputError(
                f"`candidates` must be one array for each of the {len(vectors)} queries, got a "
                "single one. (All queries over one gallery is kinrank.rerank.)"
            )
        return [_pool(vectors, "candidates", candidates, ids, "Pool")]
    if len(several) != len(vectors):
        raise InvalidInputError(
            f"`candidates` must be one array per query ({len(vectors)}), got {len(several)}."
        )
    what = f"one list for each of the {len(several)} queries"
    named = [None] * len(several) if ids is None else as_list("ids", ids, what)
    if len(named) != len(several):
        raise InvalidInputError(f"`ids` must be {what}, got {len(named)}.")
    return [
        _pool(vectors[at : at + 1], f"candidates[{at}]", pool, named[at], f"Pool {at}")
        for at, pool in enumerate(several)
    ]


def _filtered(pools: list[Pool], allowed: Any, exclude: Any) -> list[Pool]:
    """The pools with what may be an answer of each."""
    given: dict[str, list[Any]] = {}
    for name, value in (("allowed", allowed), ("exclude", exclude)):
        what = f"one list or mask for each of the {len(pools)} queries"
        several = [value] if len(pools) == 1 else value
        several = [None] * len(pools) if value is None else as_list(name, several, what)
        if len(several) != len(pools):
            raise InvalidInputError(f"`{name}` must be {what}, got {len(several)}.")
        given[name] = several
    return [
        replace(pool, allowed=_mask(pool, *both))
        for pool, *both in zip(pools, given["allowed"], given["exclude"], strict=True)
    ]


def _mask(pool: Pool, allowed: Any, exclude: Any) -> Mask | None:
    places = None if pool.ids is None else IdTable(pool.ids).places
    filtered = filter_of(1, len(pool), allowed, exclude, places=places)
    return None if filtered is None else filtered.mask(0)


def _several(candidates: Any) -> Sequence[Any] | None:
    """The pools of several queries; None if it is one pool."""
    if isinstance(candidates, memoryview) or not isinstance(candidates, Sequence):
        array = as_array("candidates", candidates)
        return list(array) if array.ndim == 3 else None
    if len(candidates) == 0 or as_array("candidates", candidates[0]).ndim == 2:
        return candidates
    return None


def _pool(query: npt.NDArray[Any], name: str, candidates: Any, ids: Any, place: str) -> Pool:
    rows = as_array(name, candidates)
    if not (rows.ndim == 2 and len(rows) == 0):  # a search may have found nothing
        rows = as_matrix(name, rows)
    if rows.shape[1] != query.shape[1]:
        raise InvalidInputError(
            f"`{name}` must have as many columns as `query` ({query.shape[1]}), "
            f"got {rows.shape[1]}."
        )
    return Pool(query, rows, None if ids is None else as_ids(ids, len(rows)), place)


def _joined(pools: list[Pool], rankings: list[Ranking], k: int) -> Ranking:
    """One ranking of all queries."""
    shape = (len(pools), k)
    indices, distances = np.full(shape, -1, np.int32), np.full(shape, np.inf, np.float32)
    for row, ranking in enumerate(rankings):
        indices[row, : ranking.k] = ranking.indices[0]
        distances[row, : ranking.k] = ranking.distances[0]
    return Ranking(indices, distances, _names(pools, indices))


def _names(pools: list[Pool], indices: npt.NDArray[np.int32]) -> Ids | None:
    """The ids of the ranked candidates."""
    known = [pool.ids for pool in pools if pool.ids is not None and len(pool)]
    if all(pool.ids is None for pool in pools):
        return None
    if len({ids.dtype.kind for ids in known}) > 1:
        raise InvalidInputError("`ids` must be all text or all integers, got both.")
    text = bool(known) and known[0].dtype.kind == "U"
    names = np.full(indices.shape, "" if text else -1, np.result_type(*known) if known else None)
    for row, pool in enumerate(pools):
        ranked = indices[row] >= 0
        if pool.ids is not None:
            names[row, ranked] = pool.ids[indices[row, ranked]]
    return names
