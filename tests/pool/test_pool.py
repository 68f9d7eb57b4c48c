"""Pools: the slow twin is the method itself, over one query and its candidates."""

import warnings

import numpy as np
import pytest

import kinrank
from kinrank import progress

RNG = np.random.default_rng(7)
METHOD = kinrank.CAS(k1=6, k2=3)


def clustered(n, width=16, size=12):
    centres = RNG.normal(size=(max(1, n // size), width))
    return centres[RNG.integers(0, len(centres), n)] + 0.6 * RNG.normal(size=(n, width))


def pools_of(*sizes, width=16):
    return clustered(len(sizes), width), [clustered(size, width) for size in sizes]


def same(ranking, row, twin):
    np.testing.assert_array_equal(ranking.indices[row, : twin.k], twin.indices[0])
    np.testing.assert_array_equal(ranking.distances[row, : twin.k], twin.distances[0])
    assert (ranking.indices[row, twin.k :] == -1).all()
    assert np.isinf(ranking.distances[row, twin.k :]).all()


@pytest.mark.parametrize("size", [40, 300, 2500])
@pytest.mark.parametrize("k", [None, 10])
def test_one_query_is_the_method_over_its_candidates(size, k):
    (query,), (candidates,) = pools_of(size)
    twin = METHOD.rerank(query[None], candidates, k)
    for one in (query, query[None], query.tolist()):
        same(kinrank.rerank_pool(one, candidates, METHOD, k), 0, twin)
    same(kinrank.rerank_pool(query, candidates, k=k, k1=6, k2=3), 0, twin)


KINDS = ["cas", "kreciprocal", "alphaqe", "sg", "gnn", "dfs", "egt", "cdm"]


@pytest.mark.parametrize("name", KINDS)
def test_methods_of_every_kind(name):
    queries, pools = pools_of(60, 45)
    with warnings.catch_warnings():  # sizes of some are larger than these pools
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        ranking = kinrank.rerank_pool(queries, pools, name, 8)
        for row, pool in enumerate(pools):
            same(ranking, row, kinrank.rerank(queries[row : row + 1], pool, name, 8))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_batch_of_different_pools_is_each_query_alone(threads):
    sizes = [50, 700, 31, 2100, 0, 64]
    queries, pools = pools_of(*sizes)
    ranking = kinrank.rerank_pool(queries, pools, METHOD, threads=threads)
    assert ranking.indices.shape == (6, 2100)
    for row, pool in enumerate(pools):
        if len(pool):
            same(ranking, row, METHOD.rerank(queries[row : row + 1], pool))
    assert (ranking.indices[4] == -1).all()
    same(kinrank.rerank_pool(queries, pools, METHOD, 5), 1, ranking_of(queries[1], pools[1], 5))


def ranking_of(query, pool, k):
    return METHOD.rerank(query[None], pool, k)


def test_pools_of_one_size_may_be_one_array():
    queries, pools = pools_of(40, 40, 40)
    one = kinrank.rerank_pool(queries, np.stack(pools), METHOD)
    np.testing.assert_array_equal(one.indices, kinrank.rerank_pool(queries, pools, METHOD).indices)


def test_ids_follow_the_candidates():
    queries, pools = pools_of(30, 50)
    numbers = [RNG.permutation(2**62 + np.arange(len(pool))) for pool in pools]
    ranking = kinrank.rerank_pool(queries, pools, METHOD, ids=numbers)
    assert ranking.ids.dtype == np.int64
    np.testing.assert_array_equal(ranking.ids[1], numbers[1][ranking.indices[1]])
    np.testing.assert_array_equal(ranking.ids[0, :30], numbers[0][ranking.indices[0, :30]])
    assert (ranking.ids[0, 30:] == -1).all()

    names = [[f"image-{n:0{len(pool)}}" for n in range(len(pool))] for pool in pools]
    ranking = kinrank.rerank_pool(queries, pools, METHOD, ids=names)
    assert ranking.ids[1].tolist() == [names[1][at] for at in ranking.indices[1]]
    assert ranking.ids[0, 30:].tolist() == [""] * 20

    one = kinrank.rerank_pool(queries[0], pools[0], METHOD, 4, ids=names[0])
    assert one.ids.tolist() == [[names[0][at] for at in one.indices[0]]]
    assert one.top(2).ids.shape == (1, 2)


def test_nothing_found_is_an_empty_answer():
    ranking = kinrank.rerank_pool(np.ones(4), np.empty((0, 4)), METHOD, ids=[])
    assert ranking.indices.shape == ranking.ids.shape == (1, 0)


def test_one_candidate_and_copies_of_the_query():
    query = RNG.normal(size=8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert kinrank.rerank_pool(query, query[None] + 1).indices.tolist() == [[0]]
    assert "`k1` is 20, but there are only 1 rows" in str(caught[0].message)
    candidates = np.concatenate([clustered(40, 8), query[None], query[None]])
    assert set(kinrank.rerank_pool(query, candidates, METHOD, 2).indices[0]) == {40, 41}


def test_half_precision_and_cosine():
    queries, pools = pools_of(80)
    half = pools[0].astype(np.float16)
    twin = kinrank.CAS(k1=6, k2=3, metric="cosine").rerank(queries, half, 9)
    same(kinrank.rerank_pool(queries[0], half, k=9, k1=6, k2=3, metric="cosine"), 0, twin)


def test_progress_counts_queries():
    queries, pools = pools_of(30, 30, 30)
    seen = []
    with progress.listen(lambda *report: seen.append(report)):
        kinrank.rerank_pool(queries, pools, METHOD, threads=2)
    assert seen[0] == ("pools", 0, 3)
    assert seen[-1] == ("pools", 3, 3)


def test_more_results_than_candidates_warns_once():
    queries, pools = pools_of(30, 40)
    with pytest.warns(kinrank.KinrankWarning, match="only 40 candidates: 40 is used") as caught:
        assert kinrank.rerank_pool(queries, pools, METHOD, 99).k == 40
    assert len(caught) == 1


BAD = [
    (lambda q, p: (q, p[0]), "one array for each of the 2 queries, got a single one"),
    (lambda q, p: (q, p[:1]), r"one array per query \(2\), got 1"),
    (lambda q, p: (q[0], p), r"one array per query \(1\), got 2"),
    (lambda q, p: (q, []), "got 0"),
    (lambda q, p: (q, [p[0], p[1][:, :3]]), r"`candidates\[1\]` must have as many columns"),
    (lambda q, p: (q, [p[0], p[1] * np.nan]), "Pool 1: `gallery` must be finite"),
    (lambda q, p: (q[0], p[0][0]), "`candidates` must be two-dimensional"),
    (lambda q, p: (q[0], [["a"]]), "`candidates` must hold real numbers"),
    (lambda q, p: (q[None], p), "`query` must be two-dimensional"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD)
def test_what_cannot_be_used_is_named(make, message):
    with pytest.raises(kinrank.InvalidInputError, match=message):
        kinrank.rerank_pool(*make(*pools_of(30, 30)), METHOD)


def test_bad_methods_sizes_and_ids():
    queries, pools = pools_of(30, 30)
    with pytest.raises(kinrank.UnknownNameError, match=r"one of .*, got 'caz'"):
        kinrank.rerank_pool(queries, pools, "caz")
    with pytest.raises(
        kinrank.InvalidInputError, match=r"belong into the method object, got \['k1'\]"
    ):
        kinrank.rerank_pool(queries, pools, METHOD, k1=3)
    with pytest.raises(kinrank.InvalidInputError, match=r"a name or a method .* got 3"):
        kinrank.rerank_pool(queries, pools, 3)
    with pytest.raises(kinrank.InvalidInputError, match="`k` must be an integer of at least 1"):
        kinrank.rerank_pool(queries, pools, METHOD, 0)
    with pytest.raises(kinrank.InvalidInputError, match=r"one per row \(30\), got 2"):
        kinrank.rerank_pool(queries[0], pools[0], METHOD, ids=[1, 2])
    with pytest.raises(kinrank.InvalidInputError, match="one list for each of the 2 queries"):
        kinrank.rerank_pool(queries, pools, METHOD, ids=[range(30)])
    with pytest.raises(kinrank.InvalidInputError, match="all text or all integers, got both"):
        kinrank.rerank_pool(queries, pools, METHOD, ids=[range(30), list("abcdefghij" * 3)])


def test_the_first_error_of_a_batch_is_raised_and_nothing_hangs():
    queries, pools = pools_of(*[30] * 6)
    pools[2] = pools[2].copy()
    pools[2][4, 1] = np.inf
    with pytest.raises(kinrank.InvalidInputError, match=r"Pool 2: .* row 4"):
        kinrank.rerank_pool(queries, pools, METHOD, threads=2)
