"""What methods that take vectors share: parameters, checks, and the two ways to answer.

A joint (transductive) method ranks all queries and the gallery together. An inductive one prepares
the gallery once, ``fit``, and then answers any query, ``search``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from kinrank.compiling import prepare
from kinrank.errors import InvalidInputError, UnsupportedError
from kinrank.methods.base import Method
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.search.find import find_neighbors, find_neighbors_and_more
from kinrank.search.stored import Stored, rows_between, stored_vectors, whitening_for
from kinrank.search.whitening import Whitening
from kinrank.stages.distance import VectorDistances
from kinrank.types import Neighbors, Ranking
from kinrank.validation import as_matrix, as_vectors, check_int, reduce_k, same_width

# What only the index of CAS has, whose fitted form others resemble.
_OF_AN_INDEX = ("save", "add", "remove", "update", "neighbors", "vectors", "explain", "calibrate")
# Rows beside k that a list of a query holds, so that the first k can be told from it alone.
SPARE_ROWS = 64


def results(k: int | None, n_gallery: int) -> int:
    """How many results a user gets who asks for ``k``."""
    if k is None:
        return n_gallery
    return reduce_k("k", check_int("k", k, 1), n_gallery, "gallery rows")


@dataclass(frozen=True, eq=False)
class JointRows:
    """Queries and gallery, one above the other."""

    vectors: Stored
    n_queries: int

    @property
    def queries(self) -> Stored:
        """The first rows."""
        return rows_between(self.vectors, 0, self.n_queries)

    @property
    def gallery(self) -> Stored:
        """The rows behind the queries."""
        return rows_between(self.vectors, self.n_queries)

    def __len__(self) -> int:
        return len(self.vectors)

    def distances(
        self, length: int, k: int, run: Runner, spare: int = SPARE_ROWS
    ) -> VectorDistances:
        """Lists of ``length`` for every row, and for queries long enough to take k results from.

        spare : rows beside k that a query's list has
        """
        n = len(self)
        longer = min(n, max(length, self.n_queries and k + spare))
        if 4 * longer > n:
            longer = length  # the whole row will be ranked anyway
        lists, more = find_neighbors_and_more(self.vectors, length, self.n_queries, longer, run)
        return VectorDistances.of(lists, more, self.vectors)

    def neighbors(self, length: int, run: Runner) -> Neighbors:
        """The nearest rows of every row, itself first."""
        return find_neighbors(self.vectors, length, run)


def stacked(queries: Any, gallery: Any, method: Method, run: Runner) -> JointRows:
    """What was given as checked rows that the method asks for, in an array of the runner."""
    queries, cosine = as_matrix("queries", queries), measures_angles(method)
    return JointRows(stored_vectors(queries, gallery, cosine, run, method.whiten), len(queries))


def measures_angles(method: Method) -> bool:
    """Whether rows are divided by their norms."""
    return method.whiten is not None or getattr(method, "metric", "cosine") == "cosine"


@dataclass(frozen=True, kw_only=True)
class JointMethod(Method):
    """A method in which queries and gallery rows influence each other."""

    def ranked(self, queries: Any, gallery: Any, k: int | None, run: Runner) -> Ranking:
        rows = stacked(queries, gallery, self, run)
        return self.ranked_rows(rows, results(k, len(rows.gallery)), run)

    def ranked_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        """As ``ranked``, of rows that were checked before."""
        return self.resolved(len(rows))._rank(rows, k, run)

    def _rank(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        """The method itself."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class MetricMethod(JointMethod):
    """A joint method that takes vectors as they are, or of unit norm."""

    metric: Literal["euclidean", "cosine"] = option("euclidean", "cosine normalises the vectors")


@dataclass(frozen=True, kw_only=True)
class InductiveMethod(Method):
    """A method that prepares the gallery once and answers each query on its own."""

    def fit(
        self, gallery: Any, *, threads: int | None = None, block_size: int | None = None
    ) -> FittedMethod:
        """Prepare the gallery; the result has ``search(queries, k)``."""
        prepare(type(self).__name__.lower())
        run = Runner.of(threads, block_size)
        whitening = whitening_for(self.whiten, same_width(("gallery", gallery)))
        vectors = as_vectors(("gallery", gallery), cosine=True, onto=whitening)
        return replace(self.fitted(vectors, run), whitening=whitening)

    def ranked(self, queries: Any, gallery: Any, k: int | None, run: Runner) -> Ranking:
        rows = stacked(queries, gallery, self, run)
        return self.fitted(rows.gallery, run).answer(
            rows.queries, results(k, len(rows.gallery)), run
        )

    def fitted(self, gallery: Stored, run: Runner) -> FittedMethod:
        """As ``fit``, of unit rows that were checked before."""
        method = self.resolved(len(gallery), "gallery rows")
        return FittedMethod(method, gallery, method._prepare(gallery, run))

    def _prepare(self, gallery: Stored, run: Runner) -> Any:
        """All that can be computed before a query is known."""
        raise NotImplementedError

    def _search(self, state: Any, gallery: Stored, queries: Stored, k: int, run: Runner) -> Ranking:
        """The first ``k`` gallery rows of each query."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class FittedMethod:
    """A method with a gallery it is ready to search; see ``kinrank.types.Searcher``.

    whitening : what was made of the gallery's rows, and will be of queries
    """

    method: InductiveMethod
    gallery: Stored
    state: Any
    whitening: Whitening | None = None

    def __len__(self) -> int:
        return len(self.gallery)

    if not TYPE_CHECKING:  # or every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            if name in _OF_AN_INDEX:
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
        threads: int | None = None,
        block_size: int | None = None,
    ) -> Ranking:
        """Rank the gallery for each query on its own.

        Parameters
        ----------
        queries : (n_queries, d) array of any real dtype, or a torch tensor
        k : how many results per query; None ranks the whole gallery
        threads, block_size : how the work is divided; never changes the result
        """
        run = Runner.of(threads, block_size)
        queries, whitening = as_matrix("queries", queries), self.whitening
        width = self.gallery.shape[1] if whitening is None else whitening.width
        if queries.shape[1] != width:
            raise InvalidInputError(
                f"`queries` must have as many columns as the gallery ({width}), "
                f"got {queries.shape[1]}."
            )
        vectors = as_vectors(("queries", queries), cosine=True, onto=whitening)
        return self.answer(vectors, results(k, len(self)), run)

    def answer(self, queries: Stored, k: int, run: Runner) -> Ranking:
        """As ``search``, of unit vectors that were checked before."""
        return self.method._search(self.state, self.gallery, queries, k, run)
