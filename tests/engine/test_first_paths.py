"""The first k by shortest paths are those of the whole ranking, also where paths end."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank


@pytest.mark.parametrize("omega", [0.05, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("geodesic_k", [3, 8, 30])
def test_first_k_are_those_of_the_whole_ranking(omega, geodesic_k):
    rng = np.random.default_rng(geodesic_k)
    centres = 3 * rng.normal(size=(9, 6))
    rows = centres[rng.integers(0, 9, 240)] + rng.normal(size=(240, 6))
    rows[100:110] = rows[:10]  # duplicates
    method = kinrank.CAS(k1=6, k2=3, omega=omega, geodesic=True, geodesic_k=geodesic_k)
    whole = method.rerank(rows[:30], rows[30:])
    for k in (1, 5, 20, 60):
        first = method.rerank(rows[:30], rows[30:], k)
        np.testing.assert_array_equal(first.indices, whole.indices[:, :k])
        np.testing.assert_array_equal(first.distances, whole.distances[:, :k])
