"""The functions of the package's front door."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinrank.errors import InvalidInputError
from kinrank.grouped import rank_groups
from kinrank.registry import make_method
from kinrank.runs.run import Run, as_run
from kinrank.types import Ranking
from kinrank.validation import as_matrix, check_choice, check_float, check_int, reduce_k

if TYPE_CHECKING:
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
    run: Run | None = None,
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
    of : which item each query is a picture of, such as ``[0, 0, 0, 1, 1]``: one ranking for each
        item, in the order of its first picture, by the mean distance of its pictures
    threshold : leave out results that are farther away; see ``Ranking.within``
    params : "auto" chooses the parameters that are not given by ``kinrank.tune``; None leaves them
        at their defaults
    threads : how many threads to use; None is one per core; never changes the result
    run : where the work is done: approximately, in files under a memory budget, on other machines
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
    run = as_run(run)
    if threshold is not None:
        check_float("threshold", threshold, -math.inf)
    if params is not None:
        check_choice("params", params, ("auto",))
    ranker = _Ranker(method, params, threads, run, options)
    if of is not None and groups is not None:
        raise InvalidInputError("`groups` cannot be used with `of`: give one of them.")
    if of is not None:
        ranking = ranker.rank_items(queries, gallery, of, k, allowed, exclude)
    elif groups is not None:
        for name in ("memory_budget", "work", "cluster"):
            if getattr(run, name) is not None:
                raise InvalidInputError(f"`{name}` cannot be used with `groups`.")
        ranking = rank_groups(ranker.rank, queries, gallery, groups, k, allowed, exclude)
    else:
        ranking = ranker.rank(queries, gallery, k, allowed, exclude)
    return ranking if threshold is None else ranking.within(threshold)


@dataclass(frozen=True)
class _Ranker:
    """What stays the same when one call ranks several times: for groups, for items."""

    method: str
    params: str | None
    threads: int | None
    run: Run
    options: dict[str, Any]

    def rank(
        self, queries: Any, gallery: Any, k: int | None, allowed: Any = None, exclude: Any = None
    ) -> Ranking:
        """The first ``k`` gallery rows of each query."""
        if self.params is None:
            chosen = make_method(self.method, **self.options)
        else:
            tuning_run = Run(block_size=self.run.block_size)
            chosen = tune(
                queries, gallery, self.method, threads=self.threads, run=tuning_run, **self.options
            ).make()
        return chosen.rerank(
            queries,
            gallery,
            k,
            allowed=allowed,
            exclude=exclude,
            threads=self.threads,
            run=self.run,
        )

    def rank_items(
        self, queries: Any, gallery: Any, of: Any, k: int | None, allowed: Any, exclude: Any
    ) -> Ranking:
        """One ranking for each item; the rankings of its pictures are held whole."""
        if gallery is None:
            raise InvalidInputError("`gallery` must be given with `of`, got None.")
        from kinrank.things import mean_ranking, things_of

        n = len(as_matrix("gallery", gallery))
        items = things_of(of, len(as_matrix("queries", queries)))
        k = n if k is None else reduce_k("k", check_int("k", k, 1), n, "gallery rows")
        whole = self.rank(queries, gallery, None, allowed, exclude)
        return mean_ranking(whole, items, n, k)


def tune(
    queries: Any,
    gallery: Any = None,
    method: str = "cas",
    budget: float = 10.0,
    *,
    seed: int = 0,
    threads: int | None = None,
    run: Run | None = None,
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
    threads : how many threads to use; never changes the result
    run : its ``block_size`` is taken
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
        gallery = queries
        queries = None
    runner = as_run(run).runner_in_memory(threads, "tune")
    return run_tuning(queries, gallery, method, budget, seed, runner, fixed)
