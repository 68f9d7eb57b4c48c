"""Inputs of the engine's tests."""

from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

GOLDEN = Path(__file__).parent / "golden" / "digits.npz"


@cache
def digits():
    """Queries, gallery and their labels as in the golden file."""
    x, y = load_digits(return_X_y=True)
    x = x.astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    queries = np.arange(0, len(x), 18)
    rest = np.setdiff1d(np.arange(len(x)), queries)
    return x[queries], x[rest], y[queries], y[rest]


def clustered(n, d=8, clusters=6, seed=0, spread=0.6):
    """Rows around a few centres, in no order."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(clusters, d))
    return (centres[rng.integers(clusters, size=n)] + spread * rng.normal(size=(n, d))).astype(
        np.float32
    )


def dense(ranking, n_gallery):
    """The distances of a whole-gallery ranking by gallery row."""
    assert (np.sort(ranking.indices, axis=1) == np.arange(n_gallery)).all()
    out = np.empty(ranking.indices.shape)
    np.put_along_axis(out, ranking.indices.astype(np.int64), ranking.distances, axis=1)
    return out
