"""The label-free projection as a transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kinrank.projection.projection import Projection
from kinrank.sklearn.neighbors import thread_count
from kinrank.types import Floats


class ProjectionTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows into a space where plain search does better, learnt without labels.

    Rows are divided by their norms before and after; see ``kinrank.Projection.fit``.

    Parameters
    ----------
    kind : "pairs", "views", or the power of a whitening from 0 to 0.5
    n_jobs : how many threads to use; None and -1 are one per core; never changes the result

    Attributes
    ----------
    projection_ : the ``kinrank.Projection``; its ``reason`` says why it is what it is
    n_features_in_ : the columns of the fitted rows

    Examples
    --------
    >>> import kinrank
    >>> from kinrank.sklearn import ProjectionTransformer
    >>> rows = kinrank.datasets.load("toy").gallery.features
    >>> ProjectionTransformer(kind=0.25).fit_transform(rows).shape
    (330, 8)
    """

    def __init__(self, *, kind: str | float = "pairs", n_jobs: int | None = None) -> None:
        self.kind = kind
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002  as scikit-learn calls them
        """Learn the projection from rows; y : ignored."""
        rows = validate_data(
            self,
            X,
            dtype=(np.float64, np.float32),
            ensure_min_samples=2,
            ensure_min_features=2,  # directions of one column are all the same
        )
        threads = thread_count(self.n_jobs)
        self.projection_ = Projection.fit(rows, kind=self.kind, threads=threads)
        self._n_features_out = self.projection_.dims
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """The projected rows, (n, dims) float32, of unit norm."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return self.projection_.transform(rows)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect: float32, whatever the rows are."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
