"""Alpha query expansion.

Filip Radenović, Giorgos Tolias, Ondřej Chum: Fine-tuning CNN Image Retrieval with No Human
Annotation, TPAMI 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.methods.query_expansion.expansion import Expansion
from kinrank.options import option
from kinrank.types import Floats


@dataclass(frozen=True, kw_only=True)
class AlphaQE(Expansion):
    """The query and its nearest, weights max(s, 0)^alpha; with ``dba`` also alphaDBA.

    Negative similarities have no weight: in the original an odd power makes them subtract and a
    fractional one gives NaN.

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d),
    with ``dba`` O(n^2 d) more to fit; memory O(n d). A new query needs only the fitted gallery.

    Parameters
    ----------
    kqe : nearest rows that join the query
    alpha : power of the similarity
    dba, kdba : expand the gallery rows too; rows one is made from, itself counted
    order : with ``dba``: the query is joined by "original" gallery rows (the CAS authors) or by
        "augmented" ones
    """

    kqe: int = option(48, "nearest rows that join the query", spare=0)
    kdba: int = option(32, "rows a gallery row is made from, itself counted", spare=0)
    alpha: float = option(3.0, "power of the similarity", within=(0, 100))

    def _weights(self, similarity: Floats) -> Floats:
        weights: Floats = np.maximum(similarity, 0) ** np.float32(self.alpha)
        return weights
