"""The functions of the package's front door."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Unpack

from kinrank.errors import InvalidInputError
from kinrank.grouped import rank_groups
from kinrank.io import PathLike
from kinrank.registry import make_method
from kinrank.types import Ranking
from kinrank.validation import as_matrix, check_choice, check_float, check_int, reduce_k

if TYPE_CHECKING:
    from kinrank.cluster import Cluster
    from kinrank.methods.base import Method
    from kinrank.runs.options import RunOptions
    from kinrank.tune.result import Tuning


def rerank(
    queries: Any,
    gallery: Any = None,
    method: str = "cas",
    k: int | None = None,
    *,
    allowed: Any = None,
    exclude: Any = None,
    groups: Any = None,
    of: Any = None,
    threshold: float | None = None,
    params: str | None = None,
    threads: int | None = None,
    block_size: int | None = None,
    search: Literal["exact", "approximate"] = "exact",
    memory_budget: int | str | None = None,
    work: PathLike | None = None,
    vectors: Literal["float32", "float16"] = "float32",
    cluster: str | Cluster | None = None,
    storage: PathLike | None = None,
    **options: Any,
) -> Ranking:
    """Re-rank the gallery for each query.

    Parameters
    ----------
    queries : (n_queries, d) array of any real dtype, or a torch tensor
    gallery : (n_gallery, d) likewise; None ranks the queries among themselves: each row asks all
        others, and copies of it are answers
    method : a name of ``kinrank.methods()``
    k : how many results per query; None ranks the whole gallery
    allowed, exclude : gallery rows that may be answers, that may not: row numbers or a boolean mask
        (n_gallery,); for each query a list of row numbers, or a mask (n_queries, n_gallery), which
        may be a sparse matrix of scipy. Other rows stay in the graph; -1 and infinity stand behind
        the last that is allowed.
    groups : ``(of_queries, of_gallery)``, a value for each query and for each gallery row; without
        a gallery, one for each row. Each group is ranked as if it were a collection of its own, and
        "auto" chooses its parameters for it.
    of : whose picture each query is, such as ``[0, 0, 0, 1, 1]``: one ranking for each thing, in
        the order of its first picture, by the mean distance of its pictures
    threshold : leave out results that are farther away; see ``Ranking.within``
    params : "auto" chooses the parameters that are not given by ``kinrank.tune``; None leaves them
        at their defaults
    threads : how many threads to use; None is one per core
    block_size : how many rows a thread takes at a time; never changes the result
    search : "exact", or "approximate" for many rows
    memory_budget : bytes, or a size such as "4GB", that the process may occupy; stages are then
        kept in files, and arrays that are mapped from files are never copied into memory
    work : the folder of these files, in which a run that was stopped goes on; it is emptied when
        the ranking is there. None is a temporary one.
    vectors : "float32"; or "float16", to which values are rounded once and in which they are kept,
        in memory and in files; everything is computed in float32 from them
    cluster : other machines to do the work: "local", an address, or what
        ``kinrank.cluster.connect`` returned (extra ``ray``)
    storage : for ``cluster``, a folder that all machines see or a URL to exchange arrays by; None
        is their memory
    **options : parameters of the method, see its class

    Returns
    -------
    Ranking
        ``indices`` and ``distances``, (n_queries, k), nearest first.

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> points = np.random.default_rng(0).normal(size=(100, 8))
    >>> kinrank.rerank(points[:3], points[3:], k=5, k1=6, k2=3).indices.shape
    (3, 5)
    """
    if threshold is not None:
        check_float("threshold", threshold, -math.inf)

    def near(ranking: Ranking) -> Ranking:
        return ranking if threshold is None else ranking.within(threshold)

    same: dict[str, Any] = {"params": params, "threads": threads, "block_size": block_size}
    same |= {"search": search, "vectors": vectors, **options}
    files: dict[str, Any] = {"memory_budget": memory_budget, "work": work, "cluster": cluster}
    if of is not None:
        _refuse_beside("with `of`", groups=groups)
        same |= {"allowed": allowed, "exclude": exclude, **files, "storage": storage}
        return near(_of_things(queries, gallery, of, method, k, same))
    if groups is not None:
        _refuse_beside("with `groups`", **files)

        def group(queries: Any, gallery: Any, k: int | None, allowed: Any) -> Ranking:
            return rerank(queries, gallery, method, k, allowed=allowed, **same)

        return near(rank_groups(group, queries, gallery, groups, k, allowed, exclude))
    if params is None:
        chosen = make_method(method, **options)
    else:
        check_choice("params", params, ("auto",))
        found = tune(queries, gallery, method, threads=threads, block_size=block_size, **options)
        chosen = found.make()
    usual = {"search": "exact", "memory_budget": None, "work": None, "vectors": "float32"}
    where: Any = {"search": search, "memory_budget": memory_budget, "work": work}
    where |= {"vectors": vectors}
    where = {name: value for name, value in where.items() if value != usual[name]}
    ranking = rank_on(
        cluster, storage, chosen, queries, gallery, k, threads, block_size, allowed=allowed,
        exclude=exclude, **where,
    )  # fmt: skip
    return near(ranking)


def _of_things(
    queries: Any, gallery: Any, of: Any, method: str, k: int | None, same: dict[str, Any]
) -> Ranking:
    """One ranking for each thing; those of its pictures are held whole."""
    if gallery is None:
        raise InvalidInputError("`gallery` must be given with `of`, got None.")
    n = len(as_matrix("gallery", gallery))
    from kinrank.things import mean_ranking, things_of

    things = things_of(of, len(as_matrix("queries", queries)))
    k = n if k is None else reduce_k("k", check_int("k", k, 1), n, "gallery rows")
    return mean_ranking(rerank(queries, gallery, method, **same), things, n, k)


def rank_on(
    cluster: str | Cluster | None, storage: PathLike | None, method: Method, queries: Any,
    gallery: Any, k: int | None, threads: int | None, block_size: int | None,
    allowed: Any = None, exclude: Any = None, **where: Unpack[RunOptions],
) -> Ranking:  # fmt: skip
    """``method.rerank`` on this machine, or on a cluster."""
    if cluster is None:
        _refuse_beside("without `cluster`", storage=storage)
        given: dict[str, Any] = {"allowed": allowed, "exclude": exclude}
        given = {name: value for name, value in given.items() if value is not None}
        work_on = {"threads": threads, "block_size": block_size}
        return method.rerank(queries, gallery, k, **given, **work_on, **where)
    from kinrank.runs.ray.session import using

    if gallery is None:
        raise InvalidInputError("`gallery` must be given with `cluster`, got None.")
    _refuse_beside("with `cluster`", allowed=allowed, exclude=exclude)
    search = where.pop("search", "exact")
    _refuse_beside("with `cluster`", **where)
    with using(cluster, storage, threads) as joined:
        return joined.rerank(
            method, queries, gallery, k, threads=threads, block_size=block_size, search=search
        )


def tune(
    queries: Any,
    gallery: Any = None,
    method: str = "cas",
    budget: float = 10.0,
    *,
    seed: int = 0,
    threads: int | None = None,
    block_size: int | None = None,
    **fixed: Any,
) -> Tuning:
    """Choose the parameters of a method without labels, and say whether it will help.

    Parameters
    ----------
    queries : (n_queries, d) array of any real dtype, or a torch tensor; None if there are none yet
    gallery : (n_gallery, d) likewise; None if the queries are the gallery
    method : "cas", "kreciprocal", "alphaqe", "rdp", "ecn" or "gnn"
    budget : what may be spent: the neighbours of 25 rows are looked at for each unit, 250 by
        default; more is less noise
    seed : of the random numbers; the same seed gives the same answer
    threads, block_size : how the work is divided; never changes the result
    **fixed : parameters of the method that stay as they are given

    Returns
    -------
    Tuning
        With a ``KinrankWarning`` when re-ranking is not expected to help.

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> random = np.random.default_rng(0)
    >>> points = np.repeat(random.normal(size=(20, 16)), 10, axis=0)
    >>> points += 0.4 * random.normal(size=points.shape)
    >>> kinrank.tune(points[:20], points[20:]).diagnosis.verdict
    'will help'
    """
    from kinrank.tune.tuner import run_tuning

    if gallery is None:
        queries, gallery = None, queries
    return run_tuning(queries, gallery, method, budget, seed, threads, block_size, fixed)


def _refuse_beside(how: str, **given: Any) -> None:
    """Say that parameters do not go with another one, or not without it."""
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(f"`{name}` cannot be used {how}.")
