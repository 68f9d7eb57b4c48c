"""Query expansion with weights by rule or by a margin, and its twin on the database side.

AQE: Ondrej Chum, James Philbin, Josef Sivic, Michael Isard, Andrew Zisserman: Total Recall:
Automatic Query Expansion with a Generative Feature Model for Object Retrieval, ICCV 2007.
AQEwD: Albert Gordo, Jon Almazan, Jerome Revaud, Diane Larlus: End-to-End Learning of Deep Visual
Representations for Image Retrieval, IJCV 2017.
AlphaQE: Filip Radenović, Giorgos Tolias, Ondřej Chum: Fine-tuning CNN Image Retrieval with No Human
Annotation, TPAMI 2019.
DQE: Relja Arandjelović, Andrew Zisserman: Three Things Everyone Should Know to Improve Object
Retrieval, CVPR 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kinrank.kernels.expand import weighted_sums
from kinrank.kernels.svm import margin_weights
from kinrank.methods.common import InductiveMethod
from kinrank.options import option
from kinrank.parallel import Out, Runner
from kinrank.runs.execution import Execution
from kinrank.search.exact import exact_search
from kinrank.search.find import search_others
from kinrank.search.stored import Stored, for_kernels
from kinrank.types import Floats, Ints, Ranking


@dataclass(frozen=True, kw_only=True)
class Expansion(InductiveMethod):
    """q' = the unit vector along the weighted sum of q and its nearest; score = q' g.

    On the database side (``dba``) every gallery row is replaced in the same way first.

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d),
    with ``dba`` O(n^2 d) more to fit; memory O(n d). A new query needs only the fitted gallery.

    Parameters
    ----------
    metric : "cosine", the only one of this method
    kqe : nearest rows that join the query
    dba, kdba : expand the gallery rows too; rows one is made from, itself counted
    order : with ``dba``: the query is joined by "original" gallery rows (the CAS authors) or by
        "augmented" ones
    """

    kqe: int = option(4, "nearest rows that join the query", spare=0)
    dba: bool = option(False, "expand the gallery rows too")
    kdba: int = option(4, "rows a gallery row is made from, itself counted", spare=0)
    order: Literal["original", "augmented"] = option(
        "original", "which gallery rows join the query"
    )

    def _limits(self, n: int) -> dict[str, int]:
        limits = super()._limits(n)
        return limits if self.dba else {name: limits[name] for name in limits if "db" not in name}

    def prepare_gallery(self, gallery: Stored, execution: Execution) -> Stored:
        """The gallery that is searched in the end."""
        if not self.dba:
            return gallery
        lists = execution.searcher(gallery).neighbors(self.kdba)
        return self._expand(
            gallery, gallery, lists.indices[:, 1:], lists.distances[:, 1:], execution.runner
        )

    def search_prepared(
        self,
        state: Any,
        gallery: Stored,
        queries: Stored,
        k: int,
        execution: Execution,
        own_rows: Ints | None = None,
    ) -> Ranking:
        run = execution.runner
        if self.order == "original":
            source = gallery
            searcher = execution.searcher(gallery)
        else:
            source = state
            searcher = execution.own_searcher(state)
        near = search_others(searcher, queries, self.kqe, len(source), own_rows)
        expanded = self._expand(queries, source, near.indices, near.distances, run)
        answers = exact_search(expanded, state, k, run, "inner")
        return Ranking(answers.indices, answers.distances)

    def _expand(
        self, rows: Stored, gallery: Stored, ids: Ints, squared: Floats, run: Runner
    ) -> Floats:
        """Each row joined with the gallery rows ``ids``; squared : their distances."""
        similarity = np.ones((len(rows), ids.shape[1] + 1), np.float32)
        similarity[:, 1:] -= squared / 2
        return add_up(rows, gallery, ids, self._weights(similarity), run)

    def _weights(self, similarity: Floats) -> Floats:
        """Weights of the row itself and of its nearest, from their similarities to it."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class AQE(Expansion):
    """Average query expansion: the mean of the query and its nearest; with ``dba`` also ADBA.

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d),
    with ``dba`` O(n^2 d) more to fit; memory O(n d). A new query needs only the fitted gallery.

    Parameters
    ----------
    metric : "cosine", the only one of this method
    kqe : nearest rows that join the query
    dba, kdba : expand the gallery rows too; rows one is made from, itself counted
    order : with ``dba``: the query is joined by "original" gallery rows (the CAS authors) or by
        "augmented" ones

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> index = kinrank.AQE().fit(data.gallery.features)
    >>> index.search(data.query.features, k=3).indices[0].tolist()
    [317, 324, 41]
    """

    def _weights(self, similarity: Floats) -> Floats:
        return np.ones_like(similarity)


@dataclass(frozen=True, kw_only=True)
class AQEwD(Expansion):
    """Query expansion with decay: weights (K - r) / K at rank r of K; with ``dba`` also ADBAwD.

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d),
    with ``dba`` O(n^2 d) more to fit; memory O(n d). A new query needs only the fitted gallery.

    Parameters
    ----------
    metric : "cosine", the only one of this method
    kqe : nearest rows that join the query
    dba, kdba : expand the gallery rows too; rows one is made from, itself counted
    order : with ``dba``: the query is joined by "original" gallery rows (the CAS authors) or by
        "augmented" ones

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> index = kinrank.AQEwD().fit(data.gallery.features)
    >>> index.search(data.query.features, k=3).indices[0].tolist()
    [324, 317, 269]
    """

    kqe: int = option(8, "nearest rows that join the query", spare=0)

    def _weights(self, similarity: Floats) -> Floats:
        count = similarity.shape[1]
        decay = (count - np.arange(count)) / count
        return np.tile(decay.astype(np.float32), (len(similarity), 1))


@dataclass(frozen=True, kw_only=True)
class AlphaQE(Expansion):
    """Alpha query expansion: the nearest weigh max(s, 0)^alpha; with ``dba`` also alphaDBA.

    Negative similarities have no weight: in the original an odd power makes them subtract and a
    fractional one gives NaN.

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d),
    with ``dba`` O(n^2 d) more to fit; memory O(n d). A new query needs only the fitted gallery.

    Parameters
    ----------
    metric : "cosine", the only one of this method
    kqe : nearest rows that join the query
    alpha : power of the similarity
    dba, kdba : expand the gallery rows too; rows one is made from, itself counted
    order : with ``dba``: the query is joined by "original" gallery rows (the CAS authors) or by
        "augmented" ones

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> index = kinrank.AlphaQE().fit(data.gallery.features)
    >>> index.search(data.query.features, k=3).indices[0].tolist()
    [317, 266, 269]
    """

    kqe: int = option(48, "nearest rows that join the query", spare=0)
    kdba: int = option(32, "rows a gallery row is made from, itself counted", spare=0)
    alpha: float = option(3.0, "power of the similarity", within=(0, 100))

    def _weights(self, similarity: Floats) -> Floats:
        weights: Floats = np.maximum(similarity, 0) ** np.float32(self.alpha)
        return weights


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
    metric : "cosine", the only one of this method
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


def add_up(rows: Stored, gallery: Stored, ids: Ints, weights: Floats, run: Runner) -> Floats:
    """The unit vectors along the weighted sums of each row and the gallery rows ``ids``."""
    both = (for_kernels(rows), for_kernels(gallery))
    args = (*both, np.ascontiguousarray(ids), weights.astype(np.float32))
    expanded: Floats = run.fill(
        "expansion", weighted_sums, args, len(rows), Out(np.float32, rows.shape[1])
    )
    return expanded
