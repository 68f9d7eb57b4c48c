"""A base for methods of your own that compute distances between all queries and all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.filters import Filter
from kinrank.methods.base import Method
from kinrank.methods.common import results
from kinrank.options import option
from kinrank.projection.kinds import projection_for
from kinrank.runs.execution import Execution
from kinrank.types import Floats, Ranking
from kinrank.validation import as_array, as_vectors, same_width


@dataclass(frozen=True, kw_only=True)
class DistanceMethod(Method):
    """A method that is a function of queries and gallery: write ``distances``, get all the rest.

    Derive a frozen, keyword-only dataclass from it. Its fields are the parameters, each with a type
    and a default. Inputs are checked before, and rankings, filters, ``metric`` and ``whiten`` made
    around it. Time and memory are those of ``distances``, and O(n_queries * n_gallery) for the
    order.

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    whiten : see ``Method``

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, kinrank
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Manhattan(kinrank.DistanceMethod):
    ...     def distances(self, queries, gallery):
    ...         return np.abs(queries[:, None] - gallery[None]).sum(axis=2)
    >>> Manhattan().rerank([[0.0, 0.0]], [[1.0, 1.0], [0.5, 0.0]]).indices.tolist()
    [[1, 0]]
    """

    metric: Literal["euclidean", "cosine"] = option(
        "euclidean", "cosine divides every vector by its norm first"
    )

    def distances(self, queries: Floats, gallery: Floats) -> Any:
        """(n_queries, n_gallery) numbers, smaller is better.

        queries, gallery : finite float32 rows; the same array where rows ask each other
        """
        raise NotImplementedError

    def ranked(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        row_filter: Filter | None = None,
    ) -> Ranking:
        """As ``rerank``, of a call whose execution has begun."""
        named = [("vectors", queries)]
        if gallery is not None:
            named = [("queries", queries), ("gallery", gallery)]
        matrices = same_width(*named)
        projection = projection_for(
            self.whiten, matrices[-1:], execution.runner.threads, execution.arrays
        )
        vectors = [
            as_vectors(matrix, cosine=self.metric == "cosine", together=False, onto=projection)
            for matrix in matrices
        ]
        n_queries = len(vectors[0])
        n_gallery = len(vectors[-1])
        k = results(k, n_gallery - 1 if gallery is None else n_gallery)
        distances = self._checked(self.distances(vectors[0], vectors[-1]), n_queries, n_gallery)
        if row_filter is not None:
            for query in range(n_queries):
                distances[query, ~row_filter.mask(query)] = np.inf
        order = np.argsort(distances, axis=1, kind="stable")[:, :k].astype(np.int32)
        nearest = np.take_along_axis(distances, order, axis=1)
        return Ranking(np.where(np.isinf(nearest), np.int32(-1), order), nearest)

    def _checked(self, distances: Any, n_queries: int, n_gallery: int) -> Floats:
        """A copy of what a user's function returned."""
        name = f"{type(self).__name__}.distances"
        array = as_array(name, distances)
        if array.shape != (n_queries, n_gallery) or array.dtype.kind not in "fiu":
            raise InvalidInputError(
                f"`{name}` must return numbers of shape ({n_queries}, {n_gallery}), got shape "
                f"{array.shape} and dtype {array.dtype}."
            )
        numbers: Floats = array.astype(np.float32)
        if not np.isfinite(numbers).all():
            query, row = np.argwhere(~np.isfinite(numbers))[0]
            raise InvalidInputError(
                f"`{name}` must return finite numbers, got {array[query, row]} for query {query} "
                f"and row {row}."
            )
        return numbers
