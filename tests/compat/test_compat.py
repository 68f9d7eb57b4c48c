"""Drop-ins: same call, same numbers as the code they stand for."""

import numpy as np
import pytest

import kinrank
import naive
import naive_methods as slow
from kinrank.compat import compute_jaccard_distance, re_ranking, re_ranking_features

NQ, NG = 8, 60


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(11)
    centres = rng.normal(size=(7, 5)) * 2
    points = centres[rng.integers(0, 7, NQ + NG)] + rng.normal(size=(NQ + NG, 5))
    return slow.unit(points).astype(np.float32)


def blocks(matrix):
    return matrix[:NQ, NQ:], matrix[:NQ, :NQ], matrix[NQ:, NQ:]


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_re_ranking_squares_what_it_is_given(rows, power):
    given = slow.squared(rows.astype(float)) ** power
    expected = slow.kreciprocal(naive.over_farthest(given**2), NQ, 7, 3, 0.3)
    got = re_ranking(*blocks(given), k1=7, k2=3, lambda_value=0.3)
    assert got.shape == (NQ, NG)
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_re_ranking_agrees_with_the_method(rows):
    euclidean = np.sqrt(slow.squared(rows.astype(float)))
    got = re_ranking(*blocks(euclidean), 7, 3, 0.3)
    ranking = kinrank.rerank(rows[:NQ], rows[NQ:], "kreciprocal", k1=7, k2=3)
    np.testing.assert_allclose(np.sort(got, axis=1), ranking.distances, atol=1e-5)


def test_re_ranking_of_features(rows):
    expected = slow.kreciprocal_half(
        naive.over_farthest(slow.squared(rows.astype(float))), NQ, 7, 3, 0.3
    )
    got = re_ranking_features(rows[:NQ], rows[NQ:], 7, 3, 0.3)
    np.testing.assert_allclose(got, expected, atol=2e-3)


def test_local_distances_are_added_or_stand_alone(rows):
    d2 = slow.squared(rows.astype(float))
    local = np.abs(np.subtract.outer(rows[:, 0], rows[:, 0])).astype(float)
    for only, total in ((False, d2 + local), (True, local)):
        expected = slow.kreciprocal_half(naive.over_farthest(total), NQ, 7, 3, 0.3)
        got = re_ranking_features(rows[:NQ], rows[NQ:], 7, 3, 0.3, local, only)
        np.testing.assert_allclose(got, expected, atol=3e-3)
    for at, name in ((0, "probFea"), (-1, "galFea")):  # though nothing is made from them
        odd = rows.copy()
        odd[at, 0] = np.nan
        with pytest.raises(kinrank.InvalidInputError, match=f"`{name}` must be finite"):
            re_ranking_features(odd[:NQ], odd[NQ:], 7, 3, 0.3, local, True)
    with pytest.raises(kinrank.InvalidInputError, match="`only_local` needs `local_distmat`"):
        re_ranking_features(rows[:NQ], rows[NQ:], 7, 3, 0.3, None, True)
    with pytest.raises(kinrank.InvalidInputError, match="`local_distmat` must be"):
        re_ranking_features(rows[:NQ], rows[NQ:], 7, 3, 0.3, local[:5])


def test_cas_behind_the_same_call(rows):
    euclidean = np.sqrt(slow.squared(rows.astype(float)))
    expected = kinrank.CAS(k1=7, k2=3, omega=0.3).rerank(rows[:NQ], rows[NQ:])
    for got in (
        re_ranking(*blocks(euclidean), 7, 3, 0.3, method="cas"),
        re_ranking_features(rows[:NQ], rows[NQ:], 7, 3, 0.3, method="cas"),
    ):
        np.testing.assert_allclose(np.sort(got, axis=1), expected.distances, atol=1e-4)
    with pytest.raises(kinrank.UnknownNameError, match="`method`"):
        re_ranking(*blocks(euclidean), method="dfs")


def test_jaccard_of_all_pairs(rows):
    d2 = slow.squared(rows.astype(float))
    n = len(rows)
    expected = slow.kreciprocal(np.tile(d2, (1, 1)), n, 8, 3, 0.0, plain=True)
    assert expected.shape == (n, 0)  # no gallery: the block is taken from the encoding below
    rank = naive.ranks(d2)
    v = naive.l1(np.where(naive.R_star(rank, 8, 5), np.exp(-d2), 0))
    v = np.stack([v[rank[i, :3]].mean(axis=0) for i in range(n)])
    got = compute_jaccard_distance(rows, k1=8, k2=3, print_flag=False, search_option=3)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, slow.jaccard(v), atol=1e-5)
    half = compute_jaccard_distance(rows, k1=8, k2=3, use_float16=True)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, got, atol=1e-3)


def test_wrong_blocks_are_refused(rows):
    q_g, q_q, g_g = blocks(slow.squared(rows.astype(float)))
    with pytest.raises(kinrank.InvalidInputError, match=r"`q_q_dist` must be \(8, 8\)"):
        re_ranking(q_g, g_g, q_q)
    with pytest.raises(
        kinrank.InvalidInputError, match="`g_g_dist` has a negative, infinite or NaN entry"
    ):
        re_ranking(q_g, q_q, -g_g - 1)


def test_nothing_is_printed(rows, capsys):
    compute_jaccard_distance(rows, k1=8, k2=3)
    assert capsys.readouterr().out == ""
