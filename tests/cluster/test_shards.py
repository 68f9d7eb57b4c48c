"""Lists of shards, merged, are those of one search; no cluster is needed to see it."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_data import clustered
from kinrank.kernels import shards as kernels
from kinrank.kernels.topk import squared_distance
from kinrank.parallel import Runner
from kinrank.runs.ray.shards import merge_lists, search_shard
from kinrank.search.exact import exact_neighbors
from kinrank.search.tiles import squared_norms


@dataclass(frozen=True)
class Here:
    array: np.ndarray

    def open(self):
        return self.array


def in_shards(vectors, k, size, low=0, high=None):
    high = len(vectors) if high is None else high
    rows, peak = [Here(vectors[low:high])], float(squared_norms(vectors).max())
    parts = [
        search_shard(rows, Here(vectors[first : first + size]), first, k, peak)
        for first in range(0, len(vectors), size)
    ]
    return merge_lists(low, k, *parts).arrays


@pytest.mark.parametrize("size", [1, 7, 100, 333, 1000])
def test_merged_lists_are_those_of_one_search(size):
    vectors = clustered(600, d=24)
    expected = exact_neighbors(vectors, 12, Runner(1))
    indices, distances, farthest, sure = in_shards(vectors, 12, size)
    assert (indices == expected.indices).all()
    assert (distances == expected.distances).all()
    assert (farthest[sure] == expected.farthest[sure]).all()
    assert sure.mean() > 0.99


def test_some_of_the_rows():
    vectors = clustered(300, d=10)
    expected = exact_neighbors(vectors, 9, Runner(1))
    indices, distances, *_ = in_shards(vectors, 9, 64, 130, 290)
    assert (indices == expected.indices[130:290]).all()
    assert (distances == expected.distances[130:290]).all()


@given(
    st.integers(2, 40).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.integers(-2, 2), min_size=2, max_size=2), min_size=n, max_size=n),
            st.integers(1, n),
            st.integers(1, n),
        )
    )
)
def test_ties_and_duplicates(drawn):
    rows, k, size = drawn
    vectors = np.array(rows, np.float32)
    expected = exact_neighbors(vectors, k, Runner(1))
    indices, distances, farthest, sure = in_shards(vectors, k, size)
    assert (indices == expected.indices).all()
    assert (distances == expected.distances).all()
    assert (farthest == expected.farthest).all()
    # Products of whole numbers are exact, so nothing is too close to tell but what is equal; when
    # more rows are equally far than are kept, one cannot be sure.
    squared = ((vectors[:, None] - vectors) ** 2).sum(axis=2)
    equally_far = (squared == squared.max(axis=1, keepdims=True)).sum(axis=1)
    assert sure[equally_far <= kernels.CONTENDERS].all()


def test_rows_that_products_cannot_tell_apart_are_not_sure():
    vectors = np.zeros((40, 64), np.float32)
    vectors[0, 0] = 1
    vectors[1:] = np.float32(3)
    vectors[20] = np.nextafter(np.float32(3), np.float32(4))  # farther by less than rounding
    farthest, sure = in_shards(vectors, 3, 10)[2:]
    true = max(squared_distance(vectors[0], row) for row in vectors)
    assert not sure[0]
    assert farthest[0] == true


def test_more_contenders_than_places_are_all_looked_at():
    vectors = np.ones((50, 8), np.float32)
    vectors[0] = 0
    counts = np.array([kernels.CONTENDERS + 1])
    least, most = np.empty(1, np.float32), np.empty(1, np.float32)
    ids = np.zeros((1, kernels.CONTENDERS), np.int64)
    kernels.settle_farthest(0, 1, vectors[:1], vectors, ids, counts, least, most)
    assert (least[0], most[0]) == (0, 8)
