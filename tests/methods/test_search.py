"""The exact search of queries in a gallery, and sums of sparse rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinrank.ordering import ascending
from kinrank.parallel import Runner
from kinrank.search.exact import exact_search


def expected(queries, gallery, k, measure):
    wide, rows = queries.astype(np.float64), gallery.astype(np.float64)
    values = -wide @ rows.T
    if measure == "squared":
        values = ((wide[:, None] - rows[None]) ** 2).sum(-1)
    order = np.argsort(values, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(values, order, axis=1)


@pytest.mark.parametrize("measure", ["squared", "inner"])
@pytest.mark.parametrize(("n", "k"), [(50, 5), (700, 3), (3000, 40), (60, 60), (1, 1)])
def test_against_all_values(measure, n, k):
    rng = np.random.default_rng(n)
    queries = rng.integers(-3, 4, size=(20, 5)).astype(np.float32)
    gallery = rng.integers(-3, 4, size=(n, 5)).astype(np.float32)  # many ties and copies
    ids, values = expected(queries, gallery, k, measure)
    for run in (Runner(1), Runner(3)):
        found = exact_search(queries, gallery, k, run, measure)
        np.testing.assert_array_equal(found.indices, ids)
        np.testing.assert_allclose(found.distances, values, atol=1e-5)


def test_nearly_equal_rows_of_large_norm():
    rng = np.random.default_rng(0)
    gallery = (1000 + rng.normal(size=(900, 8)) * 1e-2).astype(np.float32)
    found = exact_search(gallery[:10], gallery, 4, Runner(2))
    np.testing.assert_array_equal(found.indices[:, 0], np.arange(10))
    np.testing.assert_array_equal(found.indices, expected(gallery[:10], gallery, 4, "squared")[0])


@given(st.lists(st.sampled_from([-2.0, -0.0, 0.0, 1e-30, 3.5, np.inf, -np.inf]), min_size=1))
def test_ascending_is_a_stable_sort(values):
    array = np.array(values, np.float32)
    order = np.argsort(array, kind="stable")
    np.testing.assert_array_equal(ascending(array), order)
    for k in (1, len(array)):
        np.testing.assert_array_equal(ascending(array, k), order[:k])
