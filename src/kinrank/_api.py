"""The functions of the package's front door."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinrank.conditions import Conditions
from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.filters import Filter, empty_ranking
from kinrank.grouped import group_labels, largest_group, split_groups
from kinrank.items import mean_ranking, pictures_of_items
from kinrank.registry import make_method
from kinrank.runs.execution import Execution
from kinrank.runs.run import Run, as_run
from kinrank.types import Ranking
from kinrank.validation import as_matrix, check_choice, check_finite, check_int, reduce_k

if TYPE_CHECKING:
    from kinrank.groups import Constraints, Corrections, Groups
    from kinrank.io import PathLike
    from kinrank.methods.cas import CASMethod
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
    items: Any = None,
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
    items : which item each query is a picture of, such as ``[0, 0, 0, 1, 1]``: one ranking for each
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
    conditions = Conditions(allowed=allowed, exclude=exclude, threshold=threshold)
    if params is not None:
        check_choice("params", params, ("auto",))
    if items is not None and groups is not None:
        raise InvalidInputError("`groups` cannot be used with `items`: give one of them.")
    ranker = _Ranker(method, params, threads, as_run(run), options)
    row_filter = conditions.filter_of_arrays(queries, gallery)
    if items is not None:
        ranking = _rerank_items(ranker, queries, gallery, items, k, row_filter)
    elif groups is not None:
        ranking = _rerank_groups(ranker, queries, gallery, groups, k, row_filter)
    else:
        ranking = ranker.method_for(queries, gallery).rerank_filtered(
            queries, gallery, k, row_filter, threads, ranker.run
        )
    return conditions.near_enough(ranking)


@dataclass(frozen=True)
class _Ranker:
    """How a call ranks, however often it does: for each group, or the pictures of items."""

    method: str
    params: str | None
    threads: int | None
    run: Run
    options: dict[str, Any]

    def method_for(self, queries: Any, gallery: Any) -> Any:
        """The method with its parameters; gallery : None for the queries themselves."""
        if self.params is None:
            return make_method(self.method, **self.options)
        run = Run(block_size=self.run.block_size)
        tuning = tune(queries, gallery, self.method, threads=self.threads, run=run, **self.options)
        return tuning.make()

    def rank(self, queries: Any, gallery: Any, k: int | None, row_filter: Filter | None) -> Ranking:
        """The first ``k`` gallery rows of each query."""
        ranking: Ranking = self.method_for(queries, gallery).rerank_filtered(
            queries, gallery, k, row_filter, self.threads, self.run
        )
        return ranking

    def rank_in(
        self,
        execution: Execution,
        queries: Any,
        gallery: Any,
        k: int,
        row_filter: Filter | None,
    ) -> Ranking:
        """As ``rank``, of a call whose execution has begun."""
        method = self.method_for(queries, gallery)
        method.check_run(self.run)
        ranking: Ranking = method.rank_if_any(queries, gallery, k, execution, row_filter)
        return ranking

    @property
    def facts(self) -> tuple[Any, ...]:
        """What rankings follow from, beside the vectors."""
        return self.method, self.params, *sorted(self.options.items())


def _rerank_items(
    ranker: _Ranker,
    queries: Any,
    gallery: Any,
    items: Any,
    k: int | None,
    row_filter: Filter | None,
) -> Ranking:
    """One ranking for each item; the rankings of its pictures are held whole."""
    if gallery is None:
        raise InvalidInputError("`gallery` must be given with `items`, got None.")
    n_gallery = len(as_matrix("gallery", gallery))
    pictures = pictures_of_items(items, len(as_matrix("queries", queries)))
    k = n_gallery if k is None else reduce_k("k", check_int("k", k, 1), n_gallery, "gallery rows")
    whole = ranker.rank(queries, gallery, None, row_filter)
    return mean_ranking(whole, pictures, n_gallery, k)


def _rerank_groups(
    ranker: _Ranker,
    queries: Any,
    gallery: Any,
    groups: Any,
    k: int | None,
    row_filter: Filter | None,
) -> Ranking:
    """The rows of each query's group, ranked as if there were no others."""
    if ranker.run.memory_budget is not None:
        raise InvalidInputError(
            "`memory_budget` cannot be used with `groups`: it is planned for one collection."
        )
    among_themselves = gallery is None
    vectors = as_matrix("vectors" if among_themselves else "queries", queries)
    rows = vectors if among_themselves else as_matrix("gallery", gallery)
    query_labels, row_labels = group_labels(
        groups, len(vectors), None if among_themselves else len(rows)
    )
    if k is None:
        k = largest_group(row_labels, among_themselves=among_themselves)
    else:
        most = len(rows) - among_themselves
        k = reduce_k("k", check_int("k", k, 1), most, "gallery rows")
    ranking = empty_ranking(len(vectors), k)
    inputs = (ranker.facts, vectors, rows, query_labels, row_labels, k, row_filter)
    with ranker.run.execution("rerank groups", inputs, ranker.threads) as execution:
        for group in split_groups(
            query_labels, row_labels, row_filter, among_themselves=among_themselves
        ):
            ranked = ranker.rank_in(
                execution,
                vectors[group.queries],
                None if among_themselves else rows[group.rows],
                min(k, group.n_results),
                group.row_filter,
            )
            group.put(ranked, ranking)
    return ranking


def group(
    vectors: Any,
    ids: Any = None,
    *,
    strictness: float = 0.5,
    threshold: float | None = None,
    constraints: Constraints | None = None,
    corrections: Corrections | PathLike | None = None,
    method: CASMethod | None = None,
    threads: int | None = None,
    run: Run | None = None,
) -> Groups:
    """Say who is the same: groups of rows, with reasons, that a person can correct.

    Parameters
    ----------
    vectors : (n, d) array of any real dtype, or a torch tensor
    ids : (n,) names of the rows, all text or all integers; None numbers them
    strictness : one slider, 0 generous to 1 cautious. Generous merges more: fewer people are in
        two groups, more groups have two people; cautious the other way round.
    threshold : a person's own instead: the least link within a group, 0 to 1
    constraints : what is known before, see ``kinrank.Constraints``
    corrections : the file in which corrections are kept; all that are in it are heeded. None keeps
        them in memory.
    method : how rows are ranked; None chooses parameters by ``kinrank.tune``
    threads : how many threads to use; never changes the result
    run : where the work is done: approximately, in files under a memory budget, on other machines

    Returns
    -------
    Groups
        ``labels`` has a number for each row. Where the features cannot tell, ``verdict`` says so
        and all rows are single items.

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> groups = kinrank.group(data.gallery.features)
    >>> groups.labels.shape
    (330,)
    """
    from kinrank.groups.given import as_row_ids, refuse_zero_rows
    from kinrank.groups.run import group_rows
    from kinrank.methods.cas import CASMethod
    from kinrank.tune.tuner import run_tuning

    rows = as_matrix("vectors", vectors)
    check_finite("vectors", rows)
    names = as_row_ids(ids, len(rows))
    run = as_run(run)
    if rows.shape[1] < 2:
        raise InvalidInputError(
            "`vectors` must have at least 2 columns, so that features can be split, got 1."
        )
    if rows.any():  # all of them zeros are copies of one row
        refuse_zero_rows(rows)
    if method is None:
        with warnings.catch_warnings():
            # Whether re-ranking gains and what groups there are is told by the verdict.
            warnings.simplefilter("ignore", KinrankWarning)
            with run.before_the_plan(threads) as execution:
                tuning = run_tuning(None, rows, execution)
            method = CASMethod(**tuning.options)
    return group_rows(
        rows,
        names,
        method,
        strictness=strictness,
        threshold=threshold,
        constraints=constraints,
        corrections=corrections,
        threads=threads,
        run=run,
    )


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
    budget : what may be spent: the neighbours of 50 rows are looked at for each unit, 500 by
        default; more is less noise
    seed : of the random numbers; the same seed gives the same answer
    threads : how many threads to use; never changes the result
    run : its ``block_size`` is taken
    **fixed : parameters of the method that stay as they are given

    Returns
    -------
    Tuning
        With a ``KinrankWarning`` when re-ranking is not expected to help, or nobody can tell.

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
    execution = as_run(run).in_memory(threads, "tune")
    return run_tuning(queries, gallery, execution, method, budget, seed, fixed)
