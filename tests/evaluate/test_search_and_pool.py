"""Plain search against a slow one; the pool protocol against doing it by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fakes import Fake
from kinrank import InvalidInputError, Run
from kinrank.datasets.base import StackedRows
from kinrank.evaluate import search
from kinrank.evaluate.search import Plain, Pooled
from kinrank.methods.base import Method
from kinrank.types import Ranking

# Whole numbers, so that distances are exact and ties are ties.
VECTORS = arrays(np.float32, st.tuples(st.integers(1, 12), st.just(2)), elements=st.integers(-2, 2))


@given(VECTORS, VECTORS, st.integers(1, 12), st.integers(1, 5), st.integers(1, 4))
def test_plain_search(queries, gallery, k, gallery_block, query_block) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "GALLERY_BLOCK", gallery_block)
        k = min(k, len(gallery))
        found = Plain().rerank(queries, gallery, k, threads=2, run=Run(block_size=query_block))
    distances = ((queries[:, None] - gallery) ** 2).sum(axis=2)
    expected = np.argsort(distances, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found.indices, expected)
    squares = np.take_along_axis(distances, expected, axis=1)
    np.testing.assert_allclose(found.distances, np.sqrt(squares), rtol=1e-6)


def test_plain_search_over_stacked_rows_and_by_cosine() -> None:
    random = np.random.default_rng(0)
    queries, gallery = random.normal(size=(3, 8)), random.normal(size=(20, 8))
    whole = Plain().rerank(queries, gallery)
    parts = Plain().rerank(queries, StackedRows(gallery[:7], gallery[7:]))
    np.testing.assert_array_equal(whole.indices, parts.indices)
    scaled = gallery * random.uniform(0.1, 9, size=(20, 1))
    cosine = [Plain(metric="cosine").rerank(queries, g).indices for g in (gallery, scaled)]
    np.testing.assert_array_equal(*cosine)


def test_plain_distances_do_not_depend_on_blocks_and_are_0_between_equal_rows() -> None:
    rows = np.tile(np.random.default_rng(0).normal(size=(20, 37)) * 7, (3, 1)).astype(np.float32)
    whole = Plain().rerank(rows[:9], rows, threads=1)
    for threads, block_size in ((1, 1), (2, 2)):
        parts = Plain().rerank(rows[:9], rows, threads=threads, run=Run(block_size=block_size))
        np.testing.assert_array_equal(whole.distances, parts.distances)
    assert (whole.distances[:, :3] == 0).all()


def test_plain_search_errors() -> None:
    with pytest.raises(InvalidInputError, match="as many columns as `queries`"):
        Plain().rerank(np.ones((2, 3)), np.ones((4, 2)))
    with pytest.raises(InvalidInputError, match="`k` must be an integer between 1 and 4"):
        Plain().rerank(np.ones((2, 2)), np.ones((4, 2)), 5)
    with pytest.raises(ValueError, match="metric"):
        Plain(metric="manhattan")
    with pytest.raises(InvalidInputError, match="`search` cannot be used with Plain"):
        Plain().rerank(np.ones((2, 2)), np.ones((4, 2)), run=Run(search="approximate"))


class Reverse(Method):
    """The farthest first, so that what was re-ranked can be seen."""

    def rerank(self, queries, gallery, k=None, *, threads=None, run=None):
        plain = Plain().rerank(queries, gallery)
        k = len(gallery) if k is None else k
        return Ranking(plain.indices[:, ::-1][:, :k], np.arange(k)[None] * np.ones((1, 1)))


def test_the_first_are_reranked_and_the_rest_stays() -> None:
    gallery = np.arange(10.0)[:, None]
    found = Pooled(method=Reverse(), pool=4).rerank(np.array([[0.0]]), gallery)
    assert found.indices.tolist() == [[3, 2, 1, 0, 4, 5, 6, 7, 8, 9]]
    assert (np.diff(found.distances) >= 0).all()
    cut = Pooled(method=Reverse(), pool=4).rerank(np.array([[0.0]]), gallery, 5)
    assert cut.indices.tolist() == [[3, 2, 1, 0, 4]]
    inside = Pooled(method=Reverse(), pool=4).rerank(np.array([[0.0]]), gallery, 2)
    assert inside.indices.tolist() == [[3, 2]]


def test_each_query_sees_its_own_pool_only() -> None:
    random = np.random.default_rng(1)
    queries, gallery = random.normal(size=(4, 3)), random.normal(size=(30, 3))
    found = Pooled(method=Fake(k1=5), pool=12).rerank(queries, gallery, 12)
    for query, row in zip(queries, found.indices, strict=True):
        first = Plain().rerank(query[None], gallery, 12).indices[0]
        members = np.sort(first)
        alone = Fake(k1=5).rerank(query[None], gallery[members], 12)
        np.testing.assert_array_equal(row, members[alone.indices[0]])


def test_a_pool_of_everything_is_the_method_for_one_query() -> None:
    random = np.random.default_rng(2)
    query, gallery = random.normal(size=(1, 3)), random.normal(size=(15, 3))
    pooled = Pooled(method=Fake(k1=3), pool=999).rerank(query, gallery)
    np.testing.assert_array_equal(pooled.indices, Fake(k1=3).rerank(query, gallery).indices)


def test_pool_of_the_real_method(toy_set) -> None:
    import kinrank

    pooled = Pooled(method=kinrank.CAS(k1=10, k2=4), pool=100)
    found = pooled.rerank(toy_set.query.features[:5], toy_set.gallery.features)
    assert sorted(found.indices[0]) == list(range(len(toy_set.gallery)))
    with pytest.raises(InvalidInputError, match="`pool` must be"):
        Pooled(method=kinrank.CAS(), pool=0)
