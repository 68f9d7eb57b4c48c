"""Groupings compared: ours, and what people do today, on one collection with labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank._api import group
from kinrank.jaccard import jaccard_graph
from kinrank.metrics.grouping import GroupingScores, score_grouping
from kinrank.optional import require
from kinrank.types import Floats
from kinrank.validation import as_labels, as_vectors

# As in clustering for re-identification without labels.
JACCARD_K1 = 20
JACCARD_K2 = 6
THRESHOLDS = np.linspace(0.05, 0.95, 37)  # of cosines, tried with the labels in hand


def compare_groupings(
    vectors: Any, labels: Any, groups: Any = None, *, threads: int | None = None
) -> dict[str, GroupingScores]:
    """Figures of a grouping and of the usual ways, by name (extra ``sklearn``).

    HDBSCAN (groups of 3) on the vectors, DBSCAN on the k-reciprocal Jaccard distance at 0.5 and
    0.6, and average link on cosines whose threshold is chosen by the labels, which nobody has. Rows
    that HDBSCAN and DBSCAN call noise are single items. Average link holds n x n numbers.

    Parameters
    ----------
    vectors : (n, d); labels : (n,) who each row is
    groups : (n,) the grouping that is compared; None is that of ``kinrank.group``
    threads : how many threads to use
    """
    rows = as_vectors(("vectors", vectors), cosine=True)
    right = as_labels("labels", labels, len(rows), "rows")
    cluster = require("sklearn.cluster", extra="sklearn", purpose="The comparison")
    found = {
        "kinrank": group(vectors, threads=threads).labels if groups is None else groups,
        "HDBSCAN": _singles(cluster.HDBSCAN(min_cluster_size=3, copy=True).fit_predict(rows)),
    }
    graph = jaccard_graph(rows, k1=JACCARD_K1, k2=JACCARD_K2, threads=threads)
    for limit in (0.5, 0.6):
        search = cluster.DBSCAN(eps=limit, min_samples=4, metric="precomputed")
        found[f"DBSCAN on Jaccard, {limit}"] = _singles(search.fit_predict(graph))
    scores = {name: score_grouping(right, groups) for name, groups in found.items()}
    scores["average link, threshold by labels"] = _average_link(rows, right)
    return scores


def _singles(labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Noise, -1, as groups of one."""
    out = labels.astype(np.int64)
    noise = out < 0
    out[noise] = out.max() + 1 + np.arange(int(noise.sum()))
    return out


def _average_link(rows: Floats, labels: npt.NDArray[Any]) -> GroupingScores:
    """The best of all thresholds."""
    hierarchy = require("scipy.cluster.hierarchy", extra="sklearn", purpose="Average link")
    centred = rows - rows.mean(axis=0)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    centred = centred / np.where(norms > 0, norms, 1)
    one, other = np.triu_indices(len(rows), 1)
    distances = 1 - (centred @ centred.T)[one, other]
    tree = hierarchy.linkage(np.maximum(distances, 0), "average")
    tried = [
        score_grouping(labels, hierarchy.fcluster(tree, 1 - cosine, "distance"))
        for cosine in THRESHOLDS
    ]
    return max(tried, key=lambda scores: scores.ari)
