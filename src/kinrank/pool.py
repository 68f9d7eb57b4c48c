"""Re-rank what a search returned: a query and a few thousand candidates, without any index.

ranking = kinrank.rerank_pool(query, candidates, k=10)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.conditions import Conditions
from kinrank.errors import InvalidInputError, shown
from kinrank.filters import Filter, empty_ranking
from kinrank.index.ids import Ids, IdTable, as_ids
from kinrank.methods.base import Method
from kinrank.parallel import Runner, thread_count
from kinrank.registry import make_method
from kinrank.runs.run import Run
from kinrank.types import Ranking
from kinrank.validation import as_array, as_list, as_matrix, check_int, reduce_k

# Up to _ONE_BLOCK candidates every stage but the search is so short that handing blocks of it to
# threads takes longer than the work; up to _ONE_THREAD that is so for the search too.
_ONE_BLOCK = 2048
_ONE_THREAD = 400


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
    """Rank the candidates of a query among themselves: no other row has a say.

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
    n_threads = thread_count(threads)
    threads_per_pool = max(1, n_threads // len(pools))
    rankings = Runner(n_threads, block_size=1).map(
        "pools", lambda at, _: pools[at].rank(ranker, k, threads_per_pool), len(pools)
    )
    return Conditions(threshold=threshold).near_enough(_joined(pools, rankings, k))


@dataclass(frozen=True, eq=False)
class Pool:
    """A query, (1, d), and its candidates, (m, d).

    title : what messages call it; row_filter : which candidates may be results
    """

    query: npt.NDArray[Any]
    candidates: npt.NDArray[Any]
    ids: Ids | None
    title: str
    row_filter: Filter | None = None

    def __len__(self) -> int:
        return len(self.candidates)

    def rank(self, method: Method, k: int, threads: int) -> Ranking:
        """The first ``k`` candidates, or all if there are fewer."""
        if len(self) == 0:
            return Ranking(np.empty((1, 0), np.int32), np.empty((1, 0), np.float32))
        k = min(k, len(self))
        run = None
        if len(self) <= _ONE_BLOCK:
            run = Run(block_size=_ONE_BLOCK + 1)
            if len(self) <= _ONE_THREAD:
                threads = 1
        allowed = None if self.row_filter is None else self.row_filter.mask(0)
        try:
            return method.rerank(
                self.query, self.candidates, k, allowed=allowed, threads=threads, run=run
            )
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.title}: {error}") from error


def pool_method(method: str | Method, params: dict[str, Any]) -> Method:
    """A method by its name and parameters, or as it is."""
    if isinstance(method, str):
        named: Method = make_method(method, **params)
        return named
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
    per_query = _candidates_per_query(candidates)
    if per_query is None:
        if len(vectors) > 1:
            raise InvalidInputError(
                f"`candidates` must be one array for each of the {len(vectors)} queries, got a "
                "single one. (All queries over one gallery is kinrank.rerank.)"
            )
        return [_pool(vectors, "candidates", candidates, ids, "Pool")]
    if len(per_query) != len(vectors):
        raise InvalidInputError(
            f"`candidates` must be one array per query ({len(vectors)}), got {len(per_query)}."
        )
    what = f"one list for each of the {len(per_query)} queries"
    ids_per_query = [None] * len(per_query) if ids is None else as_list("ids", ids, what)
    if len(ids_per_query) != len(per_query):
        raise InvalidInputError(f"`ids` must be {what}, got {len(ids_per_query)}.")
    return [
        _pool(vectors[at : at + 1], f"candidates[{at}]", pool, ids_per_query[at], f"Pool {at}")
        for at, pool in enumerate(per_query)
    ]


def _filtered(pools: list[Pool], allowed: Any, exclude: Any) -> list[Pool]:
    """The pools, with the candidates of each that may be results."""
    allowed_per_pool = _per_pool("allowed", allowed, len(pools))
    exclude_per_pool = _per_pool("exclude", exclude, len(pools))
    filtered = []
    for pool, may, may_not in zip(pools, allowed_per_pool, exclude_per_pool, strict=True):
        conditions = Conditions(allowed=may, exclude=may_not)
        rows_of_ids = None if pool.ids is None else IdTable(pool.ids).rows
        row_filter = conditions.filter(1, len(pool), rows_of_ids=rows_of_ids)
        filtered.append(replace(pool, row_filter=row_filter))
    return filtered


def _per_pool(name: str, value: Any, n_pools: int) -> list[Any]:
    """A condition as one value for each pool; None for none."""
    if value is None:
        return [None] * n_pools
    what = f"one list or mask for each of the {n_pools} queries"
    values = [value] if n_pools == 1 else as_list(name, value, what)
    if len(values) != n_pools:
        raise InvalidInputError(f"`{name}` must be {what}, got {len(values)}.")
    return values


def _candidates_per_query(candidates: Any) -> Sequence[Any] | None:
    """The pools of several queries; None if it is one pool."""
    if isinstance(candidates, memoryview) or not isinstance(candidates, Sequence):
        array = as_array("candidates", candidates)
        return list(array) if array.ndim == 3 else None
    if len(candidates) == 0 or as_array("candidates", candidates[0]).ndim == 2:
        return candidates
    return None


def _pool(query: npt.NDArray[Any], name: str, candidates: Any, ids: Any, title: str) -> Pool:
    rows = as_array(name, candidates)
    if not (rows.ndim == 2 and len(rows) == 0):  # a search may have found nothing
        rows = as_matrix(name, rows)
    if rows.shape[1] != query.shape[1]:
        raise InvalidInputError(
            f"`{name}` must have as many columns as `query` ({query.shape[1]}), "
            f"got {rows.shape[1]}."
        )
    return Pool(query, rows, None if ids is None else as_ids(ids, len(rows)), title)


def _joined(pools: list[Pool], rankings: list[Ranking], k: int) -> Ranking:
    """One ranking of all queries."""
    joined = empty_ranking(len(pools), k)
    for row, ranking in enumerate(rankings):
        joined.indices[row, : ranking.k] = ranking.indices[0]
        joined.distances[row, : ranking.k] = ranking.distances[0]
    return replace(joined, ids=_ranked_ids(pools, joined.indices))


def _ranked_ids(pools: list[Pool], indices: npt.NDArray[np.int32]) -> Ids | None:
    """The ids of the ranked candidates, "" or -1 where there is none; None if nobody gave ids."""
    if all(pool.ids is None for pool in pools):
        return None
    all_ids = [pool.ids for pool in pools if pool.ids is not None and len(pool)]
    if len({ids.dtype.kind for ids in all_ids}) > 1:
        raise InvalidInputError("`ids` must be all text or all integers, got both.")
    is_text = bool(all_ids) and all_ids[0].dtype.kind == "U"
    ranked = np.full(
        indices.shape, "" if is_text else -1, np.result_type(*all_ids) if all_ids else None
    )
    for row, pool in enumerate(pools):
        is_ranked = indices[row] >= 0
        if pool.ids is not None:
            ranked[row, is_ranked] = pool.ids[indices[row, is_ranked]]
    return ranked
