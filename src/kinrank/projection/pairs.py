"""Pairs that belong together: those that CAS finds among rows, or those of one label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.parallel import Runner
from kinrank.projection.arrays import Wide
from kinrank.search.exact import exact_neighbors
from kinrank.stages.distances import VectorDistances, lay_out
from kinrank.stages.divergence import Divergence
from kinrank.stages.encode import encode
from kinrank.stages.parameters import StageParameters
from kinrank.types import Floats, Longs
from kinrank.validation import as_array

K1 = 10  # sizes of the CAS that finds pairs; small, so that its partners are certain
K2 = 3
ENHANCE_K = 6
WALK_K = 14
NEAR = 50  # neighbours of a row that may be its partners, itself counted
SHARPNESS = 2  # power of the similarity 1 - d' that a pair counts by
PER_LABEL = 16  # partners of a row among those of its label
_LONE = -1  # a row without a label


@dataclass(frozen=True, eq=False)
class Pairs:
    """Rows ``first[p] < second[p]`` that belong together, and how much each pair counts."""

    first: Longs
    second: Longs
    weight: Wide

    def __len__(self) -> int:
        return len(self.first)


def found_pairs(rows: Floats, run: Runner, near: int = NEAR) -> Pairs:
    """The pairs that CAS puts together among unit rows, w = (1 - d')^SHARPNESS.

    near : d' is asked for the pairs of which one is among so many nearest of the other
    """
    n = len(rows)
    sizes: dict[str, Any] = {name: min(size, n) for name, size in _SIZES.items()}
    neighbors = exact_neighbors(rows, min(max(near, WALK_K), n), run)
    distances, layout = lay_out(
        VectorDistances.of(neighbors, neighbors, rows), K1 + 1, n_queries=n, run=run
    )
    stages = encode(StageParameters(**sizes, **_STAGES), distances, layout, run)
    divergence = Divergence.of(stages.encoding, "js", run)
    graph = divergence.graph(distances.neighbors.indices, min(near, n), run)
    first = layout.order[graph.owners].astype(np.int64)
    second = layout.order[graph.indices].astype(np.int64)
    similarity = 1 - graph.values.astype(np.float64)
    apart = (first < second) & (similarity > 0)
    order = np.lexsort((second[apart], first[apart]))
    return Pairs(first[apart][order], second[apart][order], similarity[apart][order] ** SHARPNESS)


_SIZES: dict[str, Any] = {
    "cluster_k": K1 + 1,
    "half_k": K1 // 2 + 1,
    "confident_k": K2,
    "graph_k": K2 - 1,
    "walk_k": WALK_K,
    "enhance_k": ENHANCE_K,
    "keep": K1 + 1,
}
_STAGES: dict[str, Any] = {
    "clusters": "expanded",
    "sigma": 0.3,
    "kappa": 2.0,
    "symmetric": True,
    "similarity": "bidirectional",
    "alpha": 1 / 1.23,
    "regularizer": "identity",
    "solver": "iterate",
    "steps": 10,
    "start": "graph",
    "tol": 3e-7,
    "smoothing": "nss",
    "guide": "walk",
    "beta": 0.0,
    "propagation": "square",
}


def label_numbers(ids: Any, n: int) -> Longs:
    """One number for each label; -1 for rows without one (None, "" or a negative number)."""
    labels = as_array("ids", ids)
    if labels.shape != (n,):
        raise InvalidInputError(
            f"`ids` must be one label for each of the {n} vectors, got shape {labels.shape}."
        )
    if labels.dtype == object:
        labels = np.array(["" if label is None else str(label) for label in labels])
    if labels.dtype.kind not in "iuUb":
        raise InvalidInputError(
            f"`ids` must be labels, all text or all whole numbers, got {labels.dtype}."
        )
    missing = labels == "" if labels.dtype.kind == "U" else labels < 0
    numbers = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    numbers[missing] = _LONE
    return np.asarray(numbers)


def labelled_pairs(labels: Longs) -> Pairs:
    """Pairs of rows of one label, each with the PER_LABEL next of its label, in the order of rows.

    labels : numbers; -1 for a row without one
    """
    order = np.argsort(labels, kind="stable")
    order = order[labels[order] != _LONE]
    begins = np.searchsorted(labels[order], labels[order], "left")
    ends = np.searchsorted(labels[order], labels[order], "right")
    position = np.arange(len(order))
    firsts = []
    seconds = []
    for step in range(1, PER_LABEL + 1):
        size = ends - begins
        partner = begins + (position - begins + step) % np.maximum(size, 1)
        fresh = step < size
        firsts.append(order[fresh])
        seconds.append(order[partner[fresh]])
    low = np.minimum(np.concatenate(firsts), np.concatenate(seconds))
    high = np.maximum(np.concatenate(firsts), np.concatenate(seconds))
    known = np.unique(np.stack([low, high], axis=1), axis=0)
    return Pairs(known[:, 0], known[:, 1], np.ones(len(known)))


def with_labels(found: Pairs, labels: Longs) -> Pairs:
    """The labelled pairs, and the ``found`` ones of which a row has no label."""
    known = labelled_pairs(labels)
    open_ended = (labels[found.first] == _LONE) | (labels[found.second] == _LONE)
    return Pairs(
        np.concatenate([known.first, found.first[open_ended]]),
        np.concatenate([known.second, found.second[open_ended]]),
        np.concatenate([known.weight, found.weight[open_ended]]),
    )


def balanced(pairs: Pairs, n: int) -> Pairs:
    """Weights over the square root of the sums of both rows: no large group outvotes small ones."""
    sums = np.bincount(pairs.first, pairs.weight, n) + np.bincount(pairs.second, pairs.weight, n)
    scale = np.sqrt(sums[pairs.first] * sums[pairs.second])
    return replace(pairs, weight=pairs.weight / scale)
