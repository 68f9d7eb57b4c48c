"""Orders of values: digits that are counted, and keys that are sorted."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.ordering import ascending


@pytest.mark.parametrize("n", [0, 1, 50, 1024, 1025, 5000])
@pytest.mark.parametrize("kind", ["normal", "ties", "zeros", "far"])
def test_order_is_that_of_a_stable_sort(n, kind):
    rng = np.random.default_rng(n)
    values = {
        "normal": rng.normal(size=n),
        "ties": rng.integers(-3, 3, n),
        "zeros": np.where(rng.random(n) < 0.5, -0.0, 0.0),
        "far": np.where(rng.random(n) < 0.1, np.inf, rng.normal(size=n) * 1e-40),
    }[kind].astype(np.float32)
    stable = np.argsort(values, kind="stable")
    np.testing.assert_array_equal(ascending(values), stable)
    for k in (1, n // 5, n // 2):
        np.testing.assert_array_equal(ascending(values, k), stable[:k])
