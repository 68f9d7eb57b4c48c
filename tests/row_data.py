"""Rows of tests that no data set is needed for."""

import numpy as np


def unit(rows):
    """Rows of length one, of the type that they had."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def blobs(n_groups=25, size=12, noise=0.6, seed=0, d=24):
    """Groups that overlap a little, shuffled."""
    random = np.random.default_rng(seed)
    centres = np.repeat(random.normal(size=(n_groups, d)), size, axis=0)
    rows = centres + noise * random.normal(size=centres.shape)
    return random.permutation(rows).astype(np.float32)


def hidden(n_groups=80, size=12, seed=0):
    """Groups in weak directions, below strong ones that say nothing: a map shows them."""
    random = np.random.default_rng(seed)
    centres = np.repeat(random.normal(size=(n_groups, 24)), size, axis=0)
    rows = np.hstack([centres, 1.2 * random.normal(size=(len(centres), 24))])
    return unit(rows + 0.2 * random.normal(size=rows.shape)).astype(np.float32)
