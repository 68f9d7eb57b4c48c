"""The exact search is exact, whatever the data look like."""

from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from threadpoolctl import ThreadpoolController

import naive
from engine_data import clustered
from kinrank.parallel import Runner
from kinrank.search import tiles
from kinrank.search.blas import one_blas_thread
from kinrank.search.exact import ExactSearch, exact_neighbors
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
    monkeypatch.setattr(tiles, "TILE", 64)
    check(grid(500, d=5), 20)


def test_threads_and_tiles_change_no_bit(monkeypatch):
    rows = clustered(900, d=24)
    expected = exact_neighbors(rows, 12, Runner(1))
    monkeypatch.setattr(tiles, "TILE", 50)
    monkeypatch.setattr(tiles, "_BAND_BYTES", 1)
    for threads in (1, 3):
        lists = exact_neighbors(rows, 12, Runner(threads))
        for name in ("indices", "distances", "farthest"):
            np.testing.assert_array_equal(getattr(lists, name), getattr(expected, name))


def test_a_sample_that_misleads(monkeypatch):
    """Bounds that are too tight cost time, never a neighbour."""
    rows = grid(600, d=8)
    monkeypatch.setattr(tiles, "_sample", lambda vectors: np.repeat(vectors[:1], 256, axis=0))
    check(rows, 20)


def test_more_farthest_rows_than_fit():
    """Thirty copies of the farthest row of all others."""
    far = np.full((30, 6), 9, np.float32)
    check(np.concatenate([grid(300, d=6), far]), 10)


def test_lists_too_long_to_arrange(monkeypatch):
    monkeypatch.setattr(tiles, "_LONG", 30)
    check(grid(400, d=6), 50)


def test_searches_at_once_leave_blas_its_threads():
    (blas, *_) = ThreadpoolController().select(user_api="blas").lib_controllers
    before, leave = blas.num_threads, Event()

    def other():
        with one_blas_thread():
            leave.wait(10)

    thread = Thread(target=other)
    with one_blas_thread():
        thread.start()
    leave.set()
    thread.join()
    assert blas.num_threads == before


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


@pytest.mark.parametrize("first", [0, 1, 5, 600])  # few of them are searched another way
def test_longer_lists_for_the_first_rows(first):
    rows = clustered(700)
    rows[650:] = rows[:50]  # each of them twice: the row itself comes first
    found, longer = ExactSearch(rows, Runner(2)).neighbors_and_more(10, first, 40)
    full = exact_neighbors(rows, 40, Runner(1))
    np.testing.assert_array_equal(found.indices, full.indices[:, :10])
    np.testing.assert_array_equal(found.farthest, full.farthest)
    np.testing.assert_array_equal(longer.indices, full.indices[:first])
    np.testing.assert_array_equal(longer.distances, full.distances[:first])
