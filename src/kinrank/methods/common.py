"""What methods that take vectors share: parameters, checks, and the two ways to answer.

A joint (transductive) method ranks all queries and the gallery together. An inductive one prepares
the gallery once, ``fit``, and then answers any query, ``search``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kinrank.compiling import prepare
from kinrank.conditions import Conditions
from kinrank.errors import InvalidInputError, UnsupportedError
from kinrank.filters import Filter, RankAndDrop, first_answer
from kinrank.methods.base import Method
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.projection.kinds import projection_for
from kinrank.projection.projection import Projection
from kinrank.runs.execution import Execution
from kinrank.runs.run import Run, as_run
from kinrank.search.searcher import RowSearcher
from kinrank.search.stored import Stored, rows_between, stored_vectors
from kinrank.stages.distances import VectorDistances
from kinrank.types import Ints, Longs, Neighbors, Ranking
from kinrank.validation import (
    as_matrix,
    as_vectors,
    check_choice,
    check_int,
    reduce_k,
    same_width,
)

# Methods of the index that ``CAS.fit`` makes and a fitted method of another kind lacks.
_INDEX_ONLY = ("save", "add", "remove", "update", "neighbors", "vectors", "explain", "calibrate")
# Rows beside k that the list of a query holds, so that the first k follow from it alone.
SPARE_ROWS = 64
_FEW_DISTANCES = 8192  # that are computed sooner than longer lists


def results(k: int | None, n_gallery: int) -> int:
    """How many results there are for each query; None is the whole gallery."""
    if k is None:
        return n_gallery
    return reduce_k("k", check_int("k", k, 1), n_gallery, "gallery rows")


@dataclass(frozen=True, eq=False)
class JointRows:
    """Queries and gallery, one above the other; or rows that are both.

    searcher : finds the neighbours of these rows
    row_filter : which gallery rows may be results
    """

    vectors: Stored
    n_queries: int
    searcher: RowSearcher
    row_filter: Filter | None = None

    @property
    def first(self) -> int:
        """The number of the first gallery row."""
        return first_answer(self.n_queries, self.row_filter)

    @property
    def queries(self) -> Stored:
        return rows_between(self.vectors, 0, self.n_queries)

    @property
    def gallery(self) -> Stored:
        """The rows behind the queries, or all."""
        return rows_between(self.vectors, self.first)

    @property
    def n_answers(self) -> int:
        """How many rows may be results of a query, before any filter."""
        return len(self) - (self.first or 1)  # a row is no result of itself

    def depth(self, k: int) -> int:
        """How many results are ranked to have ``k`` that are allowed."""
        return k if self.row_filter is None else self.row_filter.depth(k)

    def __len__(self) -> int:
        return len(self.vectors)

    def distances(self, length: int, k: int, spare: int = SPARE_ROWS) -> VectorDistances:
        """Lists of ``length`` for every row, and for queries long enough to take k results from.

        spare : rows beside k that a query's list has
        """
        n = len(self)
        query_length = min(n, max(length, self.n_queries and self.depth(k) + spare))
        # Where lists of most rows were needed, or rows are few, the whole row is ranked instead.
        if 4 * query_length > n or self.n_queries * n <= _FEW_DISTANCES:
            query_length = length
        lists = self.searcher.neighbors_and_more(length, self.n_queries, query_length)
        return VectorDistances.of(*lists, self.vectors)

    def neighbors(self, length: int) -> Neighbors:
        """The nearest rows of every row, itself first."""
        return self.searcher.neighbors(length)


def begin_ranking(
    method: Method,
    queries: Any,
    gallery: Any,
    k: int | None,
    execution: Execution,
    row_filter: Filter | None = None,
) -> tuple[JointRows, int]:
    """The inputs of a ranking as checked rows, and how many results each query has.

    gallery : None where the queries are the gallery
    """
    named = [("vectors", queries)]
    if gallery is not None:
        named = [("queries", queries), ("gallery", gallery)]
    matrices = same_width(*named)
    threads = execution.runner.threads
    projection = projection_for(method.whiten, matrices[-1:], threads, execution.arrays)
    cosine = measures_angles(method)
    vectors = stored_vectors(
        matrices,
        cosine,
        threads,
        projection,
        dtype=execution.vectors,
        arrays=execution.arrays,
    )
    as_given = None
    if not (cosine or isinstance(execution.search, str)):
        as_given = as_vectors(*matrices, together=False)
    n_queries = len(matrices[0][1])
    searcher = execution.searcher(vectors, as_given, first_answer(n_queries, row_filter))
    rows = JointRows(vectors, n_queries, searcher, row_filter)
    k = results(k, rows.n_answers)
    prepare(type(method).__name__.lower(), whole=k == rows.n_answers)
    return rows, k


def measures_angles(method: Method) -> bool:
    """Whether rows are divided by their norms."""
    return method.whiten is not None or getattr(method, "metric", "cosine") == "cosine"


def check_cosine(name: str, value: Any) -> str:
    """The metric of a method whose formulas have the cosines of vectors in them."""
    if isinstance(value, str) and value == "euclidean":
        raise InvalidInputError(
            f"`{name}` must be 'cosine' for this method, got 'euclidean': its formulas weigh "
            "neighbours by their cosines, so vectors are always divided by their norms."
        )
    metric: str = check_choice(name, value, ("cosine",))
    return metric


def cosine_only() -> Any:
    """The field ``metric`` of such a method."""
    return option("cosine", "vectors are always normalised", check=check_cosine)


@dataclass(frozen=True, kw_only=True)
class JointMethod(Method):
    """A method in which queries and gallery rows influence each other."""

    metric: Literal["euclidean", "cosine"] = option("euclidean", "cosine normalises the vectors")

    def ranked(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        row_filter: Filter | None = None,
    ) -> Ranking:
        rows, k = begin_ranking(self, queries, gallery, k, execution, row_filter)
        return self.resolved(len(rows)).rank_rows(rows, k, execution.runner)

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        """The first ``k`` gallery rows of each query; what a method computes."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class InductiveMethod(Method):
    """A method that prepares the gallery once and answers each query on its own."""

    metric: Literal["cosine"] = cosine_only()

    def fit(
        self, gallery: Any, *, threads: int | None = None, run: Run | None = None
    ) -> FittedMethod:
        """Prepare the gallery; the result has ``search(queries, k)``."""
        prepare(type(self).__name__.lower())
        matrices = same_width(("gallery", gallery))
        with as_run(run).keeping("fit", (self, matrices[0][1]), threads) as execution:
            projection = projection_for(
                self.whiten, matrices, execution.runner.threads, execution.arrays
            )
            vectors = as_vectors(*matrices, cosine=True, onto=projection)
            fitted = execution.outlasting(self.fitted(vectors, execution))
        return replace(fitted, projection=projection)

    def ranked(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        row_filter: Filter | None = None,
    ) -> Ranking:
        rows, k = begin_ranking(self, queries, gallery, k, execution, row_filter)
        fitted = self.fitted(rows.gallery, execution, rows.n_answers)
        return fitted.search_vectors(rows.queries, k, execution, row_filter)

    def fitted(
        self, gallery: Stored, execution: Execution, n_answers: int | None = None
    ) -> FittedMethod:
        """As ``fit``, of unit rows that were checked before.

        n_answers : how many of them may be results of a query; None is all
        """
        method = self.resolved(n_answers or len(gallery), "gallery rows")
        return FittedMethod(method, gallery, method.prepare_gallery(gallery, execution))

    def prepare_gallery(self, gallery: Stored, execution: Execution) -> Any:
        """All that can be computed before there is a query."""
        raise NotImplementedError

    def search_prepared(
        self,
        state: Any,
        gallery: Stored,
        queries: Stored,
        k: int,
        execution: Execution,
        own_rows: Ints | None = None,
    ) -> Ranking:
        """The first ``k`` gallery rows of each query.

        state : of ``prepare_gallery``
        own_rows : the gallery row that each query is, which does not count as one of its nearest;
            None where queries are not in the gallery
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class FittedMethod:
    """A method with a gallery it is ready to search.

    projection : what was made of the gallery's rows, and will be of queries
    """

    method: InductiveMethod
    gallery: Stored
    state: Any
    projection: Projection | None = None

    def __len__(self) -> int:
        return len(self.gallery)

    if not TYPE_CHECKING:  # or every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            if name in _INDEX_ONLY:
                raise UnsupportedError(
                    f"A fitted {type(self.method).__name__} can only `search`, got `{name}`: "
                    "files, changes and explanations are for the index that `CAS.fit` makes."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def search(
        self,
        queries: Any,
        k: int | None = None,
        *,
        allowed: Any = None,
        exclude: Any = None,
        threads: int | None = None,
        run: Run | None = None,
    ) -> Ranking:
        """Rank the gallery for each query on its own.

        Parameters
        ----------
        queries : (n_queries, d) array of any real dtype, or a torch tensor
        k : how many results per query; None ranks the whole gallery
        allowed, exclude : gallery rows that may be answers, that may not; see ``kinrank.rerank``
        threads : how many threads to use; never changes the result
        run : its ``search`` and ``block_size`` are taken
        """
        execution = as_run(run).in_memory(threads, "search", "search")
        queries = as_matrix("queries", queries)
        projection = self.projection
        width = self.gallery.shape[1] if projection is None else projection.width
        if queries.shape[1] != width:
            raise InvalidInputError(
                f"`queries` must have as many columns as the gallery ({width}), "
                f"got {queries.shape[1]}."
            )
        vectors = as_vectors(("queries", queries), cosine=True, onto=projection)
        conditions = Conditions(allowed=allowed, exclude=exclude)
        row_filter = conditions.filter(len(vectors), len(self))
        return self.search_vectors(vectors, results(k, len(self)), execution, row_filter)

    def search_vectors(
        self, queries: Stored, k: int, execution: Execution, row_filter: Filter | None = None
    ) -> Ranking:
        """As ``search``, of unit vectors that were checked before."""
        own_rows = None
        if row_filter is not None and row_filter.among_themselves:
            own_rows = np.arange(len(self), dtype=np.int32)
        search = _QueriesOfFitted(self, queries, own_rows, execution)
        if row_filter is None:
            return search.rank(None, k)
        return row_filter.rank(k, RankAndDrop(row_filter, search.rank))


@dataclass(frozen=True, eq=False)
class _QueriesOfFitted:
    """Queries of a fitted method, which it ranks without regard to any filter.

    own_rows : as of ``search_prepared``
    """

    fitted: FittedMethod
    queries: Stored
    own_rows: Ints | None
    execution: Execution

    def rank(self, numbers: Longs | None, depth: int) -> Ranking:
        """The first ``depth`` gallery rows of the queries with these numbers; None for all."""
        queries = self.queries
        own_rows = self.own_rows
        if numbers is not None:
            queries = queries[numbers]
            own_rows = None if own_rows is None else own_rows[numbers]
        fitted = self.fitted
        return fitted.method.search_prepared(
            fitted.state, fitted.gallery, queries, depth, self.execution, own_rows
        )
