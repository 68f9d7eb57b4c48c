"""Discriminative query expansion.

Relja Arandjelović, Andrew Zisserman: Three Things Everyone Should Know to Improve Object
Retrieval, CVPR 2012.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.kernels.svm import margin_weights
from kinrank.methods.query_expansion.expansion import Expansion, add_up
from kinrank.options import option
from kinrank.parallel import Out, Runner
from kinrank.search.exact import exact_search
from kinrank.search.stored import Stored, for_kernels
from kinrank.types import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class DQE(Expansion):
    """Discriminative query expansion: a margin between nearest and farthest; ``dba`` also DDBA.

    A linear support vector machine with a hard margin for each query: positives are the query and
    its kqe nearest, negatives the neg farthest gallery rows. Where they cannot be separated, dual
    weights are bounded by 1e4. The offset is left out of the score.

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d)
    and O(m^2 d) per query, m = 1 + kqe + neg, with ``dba`` O(n^2 d) more to fit; memory O(n d). A
    new query needs only the fitted gallery.

    Parameters
    ----------
    kqe, neg : nearest rows that are positives, farthest that are negatives
    dba, kdba, dbneg : expand the gallery rows too; positives (itself counted) and negatives of one
    order : with ``dba``: the query is joined by "original" gallery rows (the CAS authors) or by
        "augmented" ones

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> index = kinrank.DQE().fit(data.gallery.features)
    >>> index.search(data.query.features, k=3).indices[0].tolist()
    [324, 269, 222]
    """

    kqe: int = option(20, "nearest rows that are positives", spare=0)
    neg: int = option(20, "farthest rows that are negatives", spare=0)
    dbneg: int = option(4, "farthest rows that are negatives of a gallery row", spare=0)

    def _expand(
        self, rows: Stored, gallery: Stored, ids: Ints, squared: Floats, run: Runner
    ) -> Floats:
        del squared  # the machine weighs by itself
        negatives = self.dbneg if rows is gallery else self.neg
        farthest = exact_search(-rows, gallery, min(negatives, len(gallery)), run, "inner").indices
        members = np.concatenate([ids, farthest], axis=1)
        args = (for_kernels(rows), for_kernels(gallery), members, ids.shape[1] + 1)
        out = Out(np.float32, members.shape[1] + 1)
        weights = run.fill("expansion", margin_weights, args, len(rows), out)
        return add_up(rows, gallery, members, weights, run)
