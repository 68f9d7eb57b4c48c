"""Average query expansion.

Ondrej Chum, James Philbin, Josef Sivic, Michael Isard, Andrew Zisserman: Total Recall: Automatic
Query Expansion with a Generative Feature Model for Object Retrieval, ICCV 2007.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.methods.query_expansion.expansion import Expansion
from kinrank.types import Floats


@dataclass(frozen=True, kw_only=True)
class AQE(Expansion):
    """The query and its nearest, all of one weight; with ``dba`` also ADBA.

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d),
    with ``dba`` O(n^2 d) more to fit; memory O(n d). A new query needs only the fitted gallery.

    Parameters
    ----------
    kqe : nearest rows that join the query
    dba, kdba : expand the gallery rows too; rows one is made from, itself counted
    order : with ``dba``: the query is joined by "original" gallery rows (the CAS authors) or by
        "augmented" ones
    """

    def _weights(self, similarity: Floats) -> Floats:
        return np.ones_like(similarity)
