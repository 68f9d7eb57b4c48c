"""Links between rows against their slow twins."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank
import naive_groups
from kinrank.groups import links
from kinrank.groups.constraints import LeafPairs
from kinrank.groups.links import TRACE, Links, linked, mean_similarities, ranked, similarities
from kinrank.groups.singles import nearest_cosines
from kinrank.groups.tree import USUAL_LEVEL, links_of_leaves
from kinrank.kernels.links import listed_links, nearer_rows
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.stages.sparse import transposed
from kinrank.types import SparseRows


def some_rows(n=200, d=12, seed=0):
    random = np.random.default_rng(seed)
    rows = np.repeat(random.normal(size=(n // 8, d)), 8, axis=0)
    return (rows + 0.5 * random.normal(size=rows.shape)).astype(np.float32)


def some_ranking(seed, n=30, k=6):
    random = np.random.default_rng(seed)
    indices = np.argsort(random.random((n, n)), axis=1)[:, :k].astype(np.int32)
    indices[:, 0] = np.arange(n)  # as a row is in its own ranking
    indices[1:, 1:][indices[1:, 1:] == np.arange(1, n)[:, None]] = -1
    indices[0, 1:] = -1
    distances = np.sort(random.random((n, k)), axis=1).astype(np.float32)
    distances[indices < 0] = np.inf
    return indices, distances


def of_both(indices, distances, run):
    n = len(indices)
    listed = run.rows("links", listed_links, (indices, distances, 0.1), n, n)
    return run.rows("links", nearer_rows, (*listed.csr, *transposed(listed, run).csr), n, n)


@pytest.mark.parametrize("run", [Runner(1), Runner(2, 7)])
def test_links_are_those_of_the_twin(run):
    rankings = [some_ranking(seed) for seed in range(2)]
    expected = [naive_groups.similarities(*ranking, 0.1) for ranking in rankings]
    one, other = (of_both(*ranking, run) for ranking in rankings)
    np.testing.assert_allclose(similarities(one).toarray(), expected[0], atol=1e-7)
    mean = mean_similarities(one, other, run)
    np.testing.assert_allclose(mean.toarray(), (expected[0] + expected[1]) / 2, atol=1e-7)
    for row in range(len(mean)):
        assert (np.diff(mean.indices[mean.indptr[row] : mean.indptr[row + 1]]) > 0).all()


def test_a_row_that_is_not_in_its_own_ranking_has_no_more_links_than_others():
    indices = np.array([[1, 2, 3], [1, 0, 2]], np.int32)
    distances = np.zeros((2, 3), np.float32)
    lengths, ids, _ = listed_links(0, 2, indices, distances, 0.0)
    assert lengths.tolist() == [2, 2]
    assert ids.tolist() == [1, 2, 0, 2]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"variant": "paper", "fusion": "squared"},
        {"divergence": "similarity"},
        {"whiten": 0.25, "k1": 30},
    ],
)
def test_sharing_rows_are_ranked_as_all_rows_are(options):
    rows = some_rows()
    method = CASMethod(omega=TRACE, **options)
    whole = method.rerank(rows, k=40, threads=1)
    found = method.rank_sharing(rows, 40, Execution(Runner(2)))
    for row in range(len(rows)):
        some = found.indices[row] >= 0
        ids = found.indices[row][some]
        others = ids != row
        near = whole.distances[row] < 1 - TRACE
        assert row in ids
        assert ids[others][: near.sum()].tolist() == whole.indices[row][near].tolist()
        np.testing.assert_allclose(
            found.distances[row][some][others][: near.sum()], whole.distances[row][near], atol=1e-6
        )


def test_links_do_not_depend_on_threads_or_blocks():
    rows = some_rows()
    one, other = (
        linked(ranked(CASMethod(omega=TRACE), rows, 50, Execution(run)), run)
        for run in (Runner(1), Runner(3, 17))
    )
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize(("largest", "lengths"), [(10, [100, 100]), (150, [100, 200, 200])])
def test_lists_are_long_where_short_ones_end_inside_a_group(monkeypatch, largest, lengths):
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(51), [largest, *[10] * 50])
    rows = random.normal(size=(51, 16))[labels] + 0.3 * random.normal(size=(len(labels), 16))
    asked = []

    def counted(method, vectors, k, execution):
        asked.append(k)
        return ranked(method, vectors, k, execution)

    monkeypatch.setattr(links, "ranked", counted)
    rows = rows.astype(np.float32)
    links.find_links(rows, CASMethod(), Execution(Runner(1)), USUAL_LEVEL)
    assert asked == lengths


@pytest.mark.parametrize("seed", range(3))
def test_links_of_leaves_are_those_of_the_twin(seed):
    random = np.random.default_rng(seed)
    n = 40
    dense = np.where(random.random((n, n)) < 0.2, random.random((n, n)), 0).astype(np.float32)
    dense = np.triu(dense, 1) + np.triu(dense, 1).T
    owners, others = np.nonzero(dense)
    pairs = SparseRows.of_entries(owners, others, dense[owners, others], n)
    leaves = np.sort(random.integers(0, 12, n))
    leaves = np.unique(leaves, return_inverse=True)[1]
    size = int(leaves.max()) + 1
    single = random.random(n) < 0.2
    more = LeafPairs(
        np.array([0, 1, 2] + [2] * (size - 2)),
        np.array([1, 0], np.int32),
        np.array([0.5, 0.5]),
        np.ones(2, np.bool_),
    )
    ptr, ids, sums, apart = links_of_leaves(pairs, leaves, size, single, more)
    expected = naive_groups.leaf_sums(dense.astype(float), leaves, single)
    expected[0, 1] += 0.5
    expected[1, 0] += 0.5
    got = np.zeros((size, size))
    for leaf in range(size):
        part = slice(ptr[leaf], ptr[leaf + 1])
        assert (np.diff(ids[part]) > 0).all()
        assert apart[part].tolist() == [{leaf, int(other)} == {0, 1} for other in ids[part]]
        got[leaf, ids[part]] = sums[part]
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_nearest_cosines():
    rows = kinrank.projection.arrays.unit(some_rows(40))
    pairs = SparseRows.of_entries(
        np.array([0, 1, 1, 2]), np.array([1, 0, 2, 1]), np.ones(4, np.float32), len(rows)
    )
    nearest = nearest_cosines(Links(pairs, rows, ()))
    cosines = rows.astype(float) @ rows.T.astype(float)
    np.testing.assert_allclose(
        nearest[:3], [cosines[0, 1], cosines[1, [0, 2]].max(), cosines[1, 2]]
    )
    assert (nearest[3:] == -1).all()
