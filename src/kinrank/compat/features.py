"""Re-ranking as people retype it in scripts: features in, distances out."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kinrank.compat.blocks import as_square, make_ranker
from kinrank.compat.strong_baseline import re_ranking
from kinrank.validation import as_matrix

Matrix = npt.NDArray[np.float32]


def rerank_features(
    query_feats: Any,
    gallery_feats: Any,
    k1: int = 20,
    k2: int = 6,
    lambda_value: float = 0.3,
    *,
    method: Literal["kreciprocal", "cas"] = "kreciprocal",
) -> Matrix:
    """New distances between queries and gallery, (nq, ng).

    Parameters
    ----------
    query_feats, gallery_feats : (nq, d), (ng, d) arrays or tensors
    k1, k2, lambda_value : of k-reciprocal encoding
    method : "cas" for cluster-aware similarity diffusion instead, with omega = lambda_value
    """
    return re_ranking(query_feats, gallery_feats, k1, k2, lambda_value, method=method)


def rerank_embeddings(
    embeddings: Any,
    k1: int = 20,
    k2: int = 6,
    lambda_value: float = 0.3,
    *,
    method: Literal["kreciprocal", "cas"] = "kreciprocal",
) -> Matrix:
    """New distances of a collection to itself, (n, n), with 0 from each row to itself.

    Each row is in the graph once; parameters are those of ``rerank_features``.
    """
    rows = as_matrix("embeddings", embeddings)
    n = len(rows)
    out = np.zeros((len(rows), len(rows)), np.float32)
    ranking = make_ranker(method, n, k1, k2, lambda_value).rerank(rows)
    np.put_along_axis(out, ranking.indices.astype(np.int64), ranking.distances, axis=1)
    return out


class RerankMatcher:
    """A similarity of the kind that wildlife-tools calls: ``matcher(query, database)``.

    Parameters
    ----------
    method : a name of ``kinrank.methods()``
    **params : parameters of the method
    """

    def __init__(self, method: str = "cas", **params: Any) -> None:
        from kinrank.registry import make_method

        self.method = make_method(method, **params)

    def __call__(self, query: Any, database: Any) -> Matrix:
        """Similarities, (nq, nd), larger is more alike: minus the distances.

        query, database : features, or data sets that have them as ``features``
        """
        rows = (getattr(one, "features", one) for one in (query, database))
        return -as_square(self.method.rerank(*rows))
