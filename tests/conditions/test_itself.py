"""A collection against itself: every row asks all others."""

import numpy as np
import pytest
from click.testing import CliRunner

import kinrank
from kinrank import CAS
from kinrank.cli.app import app
from kinrank.datasets.base import Dataset, Part
from kinrank.evaluate.cells import timed_ranking
from kinrank.evaluate.spec import MethodSpec
from kinrank.registry import method_class
from methods.test_contract import METHODS, VARIANTS, make
from struck import assert_struck, rows

N = 130
JOINT = [
    (name, params)
    for name, params in [*((name, {}) for name in METHODS), *VARIANTS]
    if not hasattr(method_class(name), "fit") or name == "cas" or params.get("mode") == "joint"
]


@pytest.fixture(scope="module")
def points():
    found = rows(N, 8)
    found[40] = found[3]  # a copy
    return found


@pytest.mark.parametrize(("name", "params"), [*((name, {}) for name in METHODS), *VARIANTS])
def test_each_row_asks_all_others(points, name, params):
    method = make(name, **params)
    whole = method.rerank(points)
    assert whole.indices.shape == (N, N - 1)
    expected = [np.setdiff1d(np.arange(N), [row]) for row in range(N)]
    np.testing.assert_array_equal(np.sort(whole.indices, axis=1), expected)
    assert (np.diff(whole.distances, axis=1) >= 0).all()
    first = method.rerank(points, k=7, threads=2, run=kinrank.Run(block_size=11))
    np.testing.assert_array_equal(first.indices, whole.indices[:, :7])
    np.testing.assert_array_equal(first.distances, whole.distances[:, :7])
    mask = np.random.default_rng(0).random(N) < 0.2
    assert_struck(method.rerank(points, k=5, allowed=mask), whole, mask, 5)


@pytest.mark.parametrize(("name", "params"), JOINT)
def test_each_row_is_in_the_graph_once(points, name, params):
    """The graph of a joint method does not know who asks: queries above a gallery are the same."""
    method, first = make(name, **params), 30
    apart = method.rerank(points[:first], points[first:])
    together = method.rerank(points, allowed=np.arange(N) >= first)
    np.testing.assert_array_equal(
        together.indices[:first, : N - first], apart.indices + np.int32(first)
    )
    # Rows lie in another order, in which sums are rounded differently.
    got = together.distances[:first, : N - first]
    np.testing.assert_allclose(got, apart.distances, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["aqe", "dfs", "egt", "sg"])
def test_queries_of_their_own_do_not_join_themselves(points, name):
    """An expansion counts a row once: as if the gallery had it not."""
    method = make(name)
    got = method.rerank(points, k=3)
    alone = method.rerank(points[:1], points[1:], 3)
    same = len(np.intersect1d(got.indices[0], alone.indices[0] + 1))
    assert same >= 2  # the graph has one row fewer, so that the last may differ


def test_a_copy_is_the_first_answer(points):
    got = kinrank.rerank(points, k=2, k1=8, k2=4)
    assert got.indices[3, 0] == 40
    assert got.indices[40, 0] == 3


def test_one_row_has_nobody_to_ask():
    assert kinrank.rerank(np.ones((1, 4))).indices.shape == (1, 0)
    assert kinrank.rerank(np.ones((1, 4)), k=3).indices.shape == (1, 0)


def test_two_rows():
    got = CAS(k1=1, k2=1).rerank(np.eye(2))
    np.testing.assert_array_equal(got.indices, [[1], [0]])


def test_parameters_are_tuned_on_it():
    points = rows(200, 3)
    assert kinrank.tune(points).params == kinrank.tune(None, points).params
    assert kinrank.rerank(points, k=3, params="auto").indices.shape == (200, 3)


def test_on_the_command_line(points, tmp_path):
    np.save(tmp_path / "g.npy", points)
    out = tmp_path / "r.npz"
    args = ["rerank", "--gallery", str(tmp_path / "g.npy"), "-k", "4", "--k1", "8", "--out", out]
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == 0, result.output
    expected = CAS(k1=8).rerank(points, k=4)
    np.testing.assert_array_equal(kinrank.Ranking.load(out).indices, expected.indices)


def test_compare_asks_the_collection_itself(points):
    labels = np.arange(N) % 9
    part = Part(features=points, labels=labels)
    data = Dataset(
        name="made", protocol="retrieval", query=part, gallery=part, query_rows=np.arange(N)
    )
    ranking, _ = timed_ranking(MethodSpec("cas"), data)
    np.testing.assert_array_equal(ranking.indices, CAS().rerank(points).indices)
    assert data.evaluate(ranking).missing == 0


def test_in_files(points, tmp_path):
    found = kinrank.rerank(points, k=3, run=kinrank.Run(work=tmp_path / "w"))
    expected = kinrank.rerank(points, k=3)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)
