"""Sizes and checks that the tests of methods share."""

import numpy as np

# Sizes that fit the small sets of this file, where the defaults are for thousands of rows.
SMALL = {
    "alphaqe": {"kqe": 8, "kdba": 5},
    "cas": {"k1": 8, "k2": 4},
    "dqe": {"kqe": 5, "neg": 5},
    "egt": {"k1": 6, "p": 30},
    "eir": {"k1": 8, "truncation": 40},
    "gnn": {"k1": 8, "k2": 3},
    "gss": {"epochs": 4},
    "sg": {"m": 30, "k1": 4},
}


def check_ranking(ranking, n_queries, k, n_gallery):
    assert ranking.indices.shape == ranking.distances.shape == (n_queries, k)
    assert ranking.indices.dtype == np.int32
    assert ranking.distances.dtype == np.float32
    assert ranking.indices.min() >= 0
    assert ranking.indices.max() < n_gallery
    assert np.isfinite(ranking.distances).all()
    assert (np.diff(ranking.distances, axis=1) >= 0).all()
    assert all(len(np.unique(row)) == k for row in ranking.indices)
