"""Average query expansion with decay.

Albert Gordo, Jon Almazan, Jerome Revaud, Diane Larlus: End-to-End Learning of Deep Visual
Representations for Image Retrieval, IJCV 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.methods.query_expansion.expansion import Expansion
from kinrank.options import option
from kinrank.types import Floats


@dataclass(frozen=True, kw_only=True)
class AQEwD(Expansion):
    """The query and its nearest, weights (K - r) / K at rank r of K; with ``dba`` also ADBAwD.

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d),
    with ``dba`` O(n^2 d) more to fit; memory O(n d). A new query needs only the fitted gallery.

    Parameters
    ----------
    kqe : nearest rows that join the query
    dba, kdba : expand the gallery rows too; rows one is made from, itself counted
    order : with ``dba``: the query is joined by "original" gallery rows (the CAS authors) or by
        "augmented" ones
    """

    kqe: int = option(8, "nearest rows that join the query", spare=0)

    def _weights(self, similarity: Floats) -> Floats:
        count = similarity.shape[1]
        decay = (count - np.arange(count)) / count
        return np.tile(decay.astype(np.float32), (len(similarity), 1))
