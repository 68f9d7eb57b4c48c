"""A made-up set on which re-ranking must help: classes are curves, not balls.

The ends of a curve are farther from each other than from the next curve, so that plain search
fails where neighbours of neighbours do not.
"""

from __future__ import annotations

import numpy as np

from kinrank.datasets.base import Dataset, Part
from kinrank.validation import check_int

_MOST = 1_000_000  # classes, and images of each


def toy(n_classes: int = 6, per_class: int = 60, n_queries: int = 30, seed: int = 0) -> Dataset:
    """Arcs in eight dimensions, one per class, with noise.

    Parameters
    ----------
    n_classes, per_class : how many arcs, and images on each
    n_queries : how many of the images are taken out as queries
    seed : of the random numbers

    Examples
    --------
    >>> import kinrank
    >>> kinrank.datasets.toy(n_classes=3, per_class=10, n_queries=5).gallery.features.shape
    (25, 8)
    """
    check_int("n_classes", n_classes, 2, _MOST)
    check_int("per_class", per_class, 2, _MOST)
    total = n_classes * per_class
    check_int("n_queries", n_queries, 1, total - n_classes)
    random = np.random.default_rng(check_int("seed", seed, 0))
    angles = random.uniform(0, 0.9 * np.pi, total)
    labels = np.repeat(np.arange(n_classes), per_class)
    points = random.normal(scale=0.04, size=(total, 8))
    points[:, 0] += np.cos(angles) * (1 + 0.35 * labels)
    points[:, 1] += np.sin(angles) * (1 + 0.35 * labels)
    order = random.permutation(total)
    query, gallery = (
        Part(labels=labels[rows], features=points[rows].astype(np.float32))
        for rows in (order[:n_queries], order[n_queries:])
    )
    return Dataset(name="toy", protocol="reid", query=query, gallery=gallery)
