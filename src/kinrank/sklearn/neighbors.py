"""Re-ranked neighbours behind the interface of ``KNeighborsTransformer``."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kinrank._api import tune
from kinrank.errors import InvalidInputError, shown
from kinrank.registry import make_method
from kinrank.runs.run import Run
from kinrank.sklearn.graphs import padded
from kinrank.types import Floats, Ints, Ranking
from kinrank.validation import check_choice, check_int


class NeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows into the graph of their re-ranked nearest neighbours.

    It stands wherever ``sklearn.neighbors.KNeighborsTransformer`` stands. A row that is equal to a
    fitted one is that row, and comes first in its own list. A new row is answered on its own by a
    method that can be fitted, such as CAS; by others together with the new rows beside it.

    Parameters
    ----------
    n_neighbors : neighbours of each row, itself not counted
    method : a name of ``kinrank.methods()``
    mode : "distance" gives n_neighbors + 1 entries a row, as scikit-learn counts: the row itself at
        distance 0 and its neighbours; "connectivity" gives n_neighbors ones, that of the row itself
        among them
    params : "auto" chooses the parameters that are not in ``options`` by ``kinrank.tune`` when it
        is fitted; None leaves them at their defaults
    options : parameters of the method, such as ``{"k1": 30, "metric": "cosine"}``
    search : "exact", or "approximate" for many rows
    n_jobs : how many threads to use; None and -1 are one per core; never changes the result

    Attributes
    ----------
    method_ : the method with its parameters, as "auto" may have chosen them
    n_samples_fit_, n_features_in_ : the shape of the fitted rows

    Examples
    --------
    >>> import kinrank
    >>> from kinrank.sklearn import NeighborsTransformer
    >>> rows = kinrank.datasets.load("toy").gallery.features
    >>> graph = NeighborsTransformer(n_neighbors=10).fit_transform(rows)
    >>> graph.shape, graph.nnz
    ((330, 330), 3630)
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        method: str = "cas",
        mode: Literal["distance", "connectivity"] = "distance",
        params: Literal["auto"] | None = None,
        options: dict[str, Any] | None = None,
        search: Literal["exact", "approximate"] = "exact",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.method = method
        self.mode = mode
        self.params = params
        self.options = options
        self.search = search
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002  as scikit-learn calls them
        """Re-rank the rows among themselves; y : ignored."""
        check_int("n_neighbors", self.n_neighbors, 1)
        check_choice("mode", self.mode, ("distance", "connectivity"))
        if self.params is not None:
            check_choice("params", self.params, ("auto",))
        rows = validate_data(self, X, dtype=(np.float64, np.float32), ensure_min_samples=2)
        rows = np.array(rows)  # later changes of the caller's array are not ours
        self.method_ = self._chosen_method(rows)
        self.n_samples_fit_ = len(rows)
        self._n_features_out = len(rows)  # one column for each fitted row
        self._rows = rows
        self._searcher: Any = None
        self._ranking = self._ranked_among_themselves(min(self.n_neighbors, len(rows) - 1))
        return self

    def transform(self, X: Any) -> csr_matrix:  # noqa: N803
        """The graph of the fitted rows nearest to each row of X, (len(X), n_samples_fit_)."""
        check_is_fitted(self)
        itself = 1 if self.mode == "distance" else 0
        return self.kneighbors_graph(X, self.n_neighbors + itself, self.mode)

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:  # noqa: N803
        """Fit to X, and the graph of its rows."""
        return self.fit(X, y).transform(X)

    def kneighbors(
        self,
        X: Any = None,  # noqa: N803
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> tuple[Floats, Ints] | Ints:
        """The fitted rows nearest to each row of X.

        Parameters
        ----------
        X : (n, d); a row that is equal to a fitted one is counted as its own neighbour and comes
            first. None asks the fitted rows, each without itself.
        n_neighbors : None is that of the estimator
        return_distance : False leaves the distances out

        Returns
        -------
        distances, (n, n_neighbors) float32, and row numbers, (n, n_neighbors) int32
        """
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        k = check_int("n_neighbors", k, 1)
        most = self.n_samples_fit_ - (X is None)
        if k > most:
            raise InvalidInputError(
                f"`n_neighbors` must be at most {most} (the fitted rows"
                f"{', without the row itself' if X is None else ''}), got {k}: expected "
                f"n_neighbors <= n_samples_fit, but n_samples_fit = {self.n_samples_fit_}."
            )
        if X is None:
            distances, indices = padded(self._own_lists(k), self.n_samples_fit_)
        else:
            rows = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
            distances, indices = self._lists_of(rows, k)
        return (distances, indices) if return_distance else indices

    def kneighbors_graph(
        self,
        X: Any = None,  # noqa: N803
        n_neighbors: int | None = None,
        mode: Literal["distance", "connectivity"] = "connectivity",
    ) -> csr_matrix:
        """``kneighbors`` as a sparse matrix whose rows ascend by distance.

        mode : "connectivity" stores ones, "distance" the distances, zeros included
        """
        check_choice("mode", mode, ("distance", "connectivity"))
        distances, indices = self.kneighbors(X, n_neighbors)
        n, k = indices.shape
        data = distances.ravel() if mode == "distance" else np.ones(n * k, np.float32)
        ends = np.arange(0, n * k + 1, k, dtype=np.int64)
        return csr_matrix((data, indices.ravel(), ends), shape=(n, self.n_samples_fit_))

    def set_output(self, *, transform: Any = None) -> Self:  # noqa: ARG002
        """Change nothing: no data frame holds the graph, so it stays a sparse matrix.

        A ``Pipeline`` can so be asked for data frames as a whole.
        """
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect: the graph is of float32, whatever the rows are."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the index for new rows, which is made again where it is needed."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "_searcher" in state:
            state["_searcher"] = None
        return state

    def _threads(self) -> int | None:
        return thread_count(self.n_jobs)

    def _run(self) -> Run:
        return Run(search=self.search)

    def _chosen_method(self, rows: Any) -> Any:
        options = dict(self.options or {})
        if self.params is None:
            return make_method(self.method, **options)
        return tune(None, rows, self.method, threads=self._threads(), **options).make()

    def _ranked_among_themselves(self, k: int) -> Ranking:
        ranking: Ranking = self.method_.rerank(
            self._rows, k=k, threads=self._threads(), run=self._run()
        )
        return ranking

    def _own_lists(self, k: int) -> Ranking:
        """The first ``k`` neighbours of each fitted row, itself left out."""
        if k > self._ranking.k:
            self._ranking = self._ranked_among_themselves(k)
        return self._ranking.top(k)

    def _lists_of(self, rows: Any, k: int) -> tuple[Floats, Ints]:
        """Distances and numbers of the nearest fitted rows; rows known from the fit come first."""
        fitted_row = self._equal_rows(rows)
        is_fitted = fitted_row >= 0
        distances = np.zeros((len(rows), k), np.float32)
        indices = np.empty((len(rows), k), np.int32)
        if is_fitted.any():
            indices[is_fitted, 0] = fitted_row[is_fitted]
            if k > 1:
                own_distances, own_indices = padded(self._own_lists(k - 1), self.n_samples_fit_)
                distances[is_fitted, 1:] = own_distances[fitted_row[is_fitted]]
                indices[is_fitted, 1:] = own_indices[fitted_row[is_fitted]]
        if not is_fitted.all():
            ranking = self._search(rows[~is_fitted], k)
            distances[~is_fitted], indices[~is_fitted] = padded(ranking, self.n_samples_fit_)
        return distances, indices

    def _equal_rows(self, rows: Any) -> Any:
        """The number of the fitted row that each row is equal to; -1 for none.

        Of several copies it is the first, unless the rows are all the fitted ones in their order.
        """
        if rows.shape == self._rows.shape and np.array_equal(rows, self._rows):
            return np.arange(len(rows))
        known = {row.tobytes(): i for i, row in reversed(list(enumerate(_plain(self._rows))))}
        return np.array([known.get(row.tobytes(), -1) for row in _plain(rows)])

    def _search(self, rows: Any, k: int) -> Ranking:
        """The nearest fitted rows of new ones."""
        if not hasattr(type(self.method_), "fit"):
            joint: Ranking = self.method_.rerank(
                rows, self._rows, k, threads=self._threads(), run=self._run()
            )
            return joint
        if self._searcher is None:
            self._searcher = self.method_.fit(self._rows, threads=self._threads(), run=self._run())
        found: Ranking = self._searcher.search(rows, k, threads=self._threads())
        return Ranking(found.indices, found.distances)


def thread_count(n_jobs: object) -> int | None:
    """A number of jobs as scikit-learn's users give it; None is one thread per core."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, Integral) and n_jobs == -1:
        return None
    if not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise InvalidInputError(
            f"`n_jobs` must be None, -1 or a number of threads, got {shown(n_jobs)}."
        )
    return int(n_jobs)


def _plain(rows: Any) -> Any:
    """Rows whose bytes are equal where their values are: one type, and no minus before a zero."""
    return np.ascontiguousarray(rows, np.float64) + 0.0
