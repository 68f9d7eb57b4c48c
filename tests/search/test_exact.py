"""The exact search is exact, whatever the data look like."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import naive
from engine_data import clustered
from kinrank.parallel import Runner
from kinrank.search import pairs
from kinrank.search.exact import exact_neighbors, exact_neighbors_and_more
from kinrank.validation import as_vectors


def grid(*args, **options):
    """Rows on a grid: their distances are exact in float32, so that ties are ties."""
    return np.rint(clustered(*args, **options) * 64) / 64


def check(rows, k):
    found = exact_neighbors(rows, k, Runner(2))
    wide = rows.astype(np.float64)
    d2 = np.stack([((row - wide) ** 2).sum(1) for row in wide])
    expected = naive.ranks(d2)[:, :k]
    np.testing.assert_array_equal(found.indices, expected)
    np.testing.assert_allclose(found.distances, np.take_along_axis(d2, expected, 1), rtol=1e-5)
    np.testing.assert_allclose(found.farthest, d2.max(axis=1), rtol=1e-5)


@given(
    arrays(
        np.float32, st.tuples(st.integers(1, 40), st.integers(1, 5)), elements=st.integers(-2, 2)
    ),
    st.data(),
)
def test_ties_go_to_the_lower_index(rows, data):
    check(rows, data.draw(st.integers(1, len(rows))))


@pytest.mark.parametrize("k", [1, 5, 100, 700])
def test_many_rows(k):
    check(grid(1200, d=16, clusters=40), k)


def test_more_rows_than_a_tile(monkeypatch):
    monkeypatch.setattr(pairs, "TILE", 64)
    check(grid(500, d=5), 20)


def test_far_from_the_origin():
    """Products lose all digits there; the distances must not."""
    rows = grid(600, d=4) + 4000
    check(as_vectors(("rows", rows)), 30)
    moved = exact_neighbors(as_vectors(("rows", rows)), 30, Runner(1))
    still = exact_neighbors(rows - 4000, 30, Runner(1))
    np.testing.assert_array_equal(moved.indices, still.indices)
    np.testing.assert_array_equal(moved.distances, still.distances)


def test_a_thousand_duplicates():
    check(np.repeat(clustered(3, d=4), 400, axis=0), 25)


def test_longer_lists_for_the_first_rows():
    rows = clustered(700)
    found, longer = exact_neighbors_and_more(rows, 10, 600, 40, Runner(2))
    full = exact_neighbors(rows, 40, Runner(1))
    np.testing.assert_array_equal(found.indices, full.indices[:, :10])
    np.testing.assert_array_equal(longer.indices, full.indices[:600])
    np.testing.assert_array_equal(longer.distances, full.distances[:600])
