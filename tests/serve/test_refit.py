"""Other parameters over all rows, as the sliders ask for them."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engine_data import clustered
from index_data import QUERIES, ROWS
from kinrank import CAS
from kinrank.index import refit
from kinrank.index.refit import Refits
from kinrank.parallel import Runner
from kinrank.serve.problems import Problem
from kinrank.serve.work import stopped_with, until
from kinrank.stages import diffusion
from kinrank.stages.diffusion import polynomial_of
from kinrank.stages.graph import Graph
from serve_process import ask, serving

SETTINGS = [
    {"omega": 0.7},
    {"sigma": 0.5, "mu": 1.0},
    {"kappa": 5.0, "omega": 0.0},
    {"k1": 15, "k2": 5},
    {"k1": 40, "k2": 6, "omega": 0.1},  # longer lists than those of the index
]
RUN = Runner(2)
ROUNDING = 1e-6  # of d*, which is at most 1: rows are summed in another order
LEFT_OUT = 3e-5  # what `tol` lets an index leave out, which is less here


@pytest.fixture(scope="module")
def index():
    return CAS(k1=10, k2=4).fit(ROWS)


@pytest.fixture(scope="module")
def refits(index):
    return Refits(index.engine.state)


def compared(server, query, params, **more):
    sent = {"query": query, "right": {"method": "cas", "params": params}, "k": 300, **more}
    status, _, answer = ask(server, "POST", "/v1/compare", sent)
    assert status == 200, answer
    return answer["right"]


def by_name(found, name):
    """d* from a row to all rows, in the order in which rows were given."""
    state = found.engine.state
    out = np.empty(len(state), np.float32)
    out[state.order] = found.distances(int(state.position[name]))
    return out


def assert_as_fitted(refits, method, rows, atol):
    found, fitted = refits.over_all_rows(method, RUN, for_vectors=True), method.fit(rows)
    expected = fitted.neighbors(7, None)
    got = by_name(found, 7)[expected.indices[0]]
    np.testing.assert_allclose(got, expected.distances[0], atol=atol)
    assert (np.diff(got) > -2 * atol).all()
    placed = found.engine.state.scaling.apply("queries", QUERIES)
    answers, expected = found.engine.search(placed, 30, RUN), fitted.search(QUERIES, 30)
    np.testing.assert_array_equal(answers.indices, expected.indices)
    np.testing.assert_allclose(answers.distances, expected.distances, atol=atol)


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_answers_are_those_of_an_index_with_these_parameters(refits, params):
    method = refits.state.unresolved.replace(**params)
    assert_as_fitted(refits, method, ROWS, LEFT_OUT)
    assert_as_fitted(refits, method.replace(tol=1e-12), ROWS, ROUNDING)
    assert refits.kept(method) is not None  # and without work the next time


@pytest.mark.parametrize(
    "options", [{"variant": "paper"}, {"divergence": "cosine"}, {"smoothing": "aqe"}], ids=str
)
def test_other_indexes_answer_so_too(options):
    index = CAS(k1=10, k2=4, **options).fit(ROWS)
    refits = Refits(index.engine.state)
    for params in SETTINGS[1:4]:
        assert_as_fitted(
            refits, refits.state.unresolved.replace(**params, tol=1e-12), ROWS, ROUNDING
        )


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_a_row_needs_no_more_than_its_own_columns(index, params):
    method = index.engine.state.unresolved.replace(**params, tol=1e-6)
    refits = Refits(index.engine.state)
    some = by_name(refits.over_all_rows(method, RUN), 31)
    state = refits.kept(method).engine.state
    assert state.columns.nnz == 0
    whole = refits.over_all_rows(method, RUN, for_vectors=True)
    assert whole.engine.state.columns.nnz > 0
    np.testing.assert_allclose(some, by_name(whole, 31), atol=ROUNDING)


@pytest.mark.parametrize("mu", [0.05, 0.23, 2.0])
def test_rows_side_by_side_diffuse_as_rows_alone(mu):
    rows = clustered(500, d=6, clusters=12, seed=4, spread=0.8)  # balls of most of the rows
    state = CAS(k1=12, k2=4, mu=mu).fit(rows).engine.state
    graph = Graph(state.normalized, state.affinity)
    pattern = state.smoothed.with_data(None)
    every = np.arange(len(pattern), dtype=np.int32)
    exact = polynomial_of(state.method.replace(tol=1e-12).stage_parameters)
    polynomial = polynomial_of(state.method.stage_parameters)
    expected = diffusion.apply(graph, pattern, exact, RUN)
    found = diffusion.apply(graph, pattern, polynomial, RUN)
    alone = diffusion.apply(graph, pattern, polynomial, RUN, every)
    np.testing.assert_allclose(found.values, expected.values, atol=3e-6)
    lost = [np.abs(one.values - expected.values).max() for one in (found, alone)]
    assert lost[0] <= lost[1] + 1e-7


def test_lists_for_all_sliders_are_searched_ahead(index):
    refits = Refits(index.engine.state)
    assert refits.longest_lists.k < 100
    refits.prepare()
    refits.prepare()  # once
    end = time.monotonic() + 120
    while refits.longest_lists.k < 100:
        assert time.monotonic() < end
        time.sleep(0.02)
    longest = refits.longest_lists
    refits.over_all_rows(refits.state.unresolved.replace(**refit.FARTHEST), RUN)
    assert refits.longest_lists is longest


@pytest.mark.parametrize("params", SETTINGS[1:4], ids=str)
def test_paths_are_those_of_the_whole_graph(refits, params):
    method = refits.state.unresolved.replace(**params, geodesic=True)
    others = np.delete(np.arange(len(ROWS)), 7)
    expected = method.rerank(ROWS[7:8], ROWS[others])
    got = by_name(refits.over_all_rows(method, RUN), 7)[others[expected.indices[0]]]
    np.testing.assert_allclose(got, expected.distances[0], atol=2e-6)


NEAR = [{"sigma": 0.5}, {"mu": 1.0, "kappa": 1.0}, {"k1": 8, "k2": 3}, {"geodesic": True}]


@pytest.mark.parametrize("params", NEAR, ids=str)
def test_around_a_row_an_index_is_as_it_is(params):
    rows = clustered(3000, d=8, clusters=150, seed=5, spread=0.3)
    refits = Refits(CAS(k1=10, k2=4, geodesic_k=12).fit(rows).engine.state)
    refits.lists(16, RUN)
    method, starts = refits.state.unresolved.replace(**params), refits.state.position[[11]]
    expected = by_name(refits.over_all_rows(method, RUN), 11)
    near = refits.around_rows(method, starts, RUN)
    assert (
        refits.around_rows(method, starts, RUN).engine.state.transition
        is near.engine.state.transition
    )  # once
    assert 1000 <= near.around < 3000
    got, first = by_name(near, 11), np.argsort(expected)[:50]
    # What is left out is far away: 1e-4 is what `tol` may leave out here.
    np.testing.assert_allclose(got[first], expected[first], atol=2e-3)
    assert len(set(np.argsort(got)[:20]) & set(first[:20])) >= 19


def test_around_a_vector_from_outside(refits):
    method = refits.state.unresolved.replace(sigma=0.5)
    starts = refits.state.position[np.argsort(((ROWS - QUERIES[0]) ** 2).sum(1))[:10]]
    near = refits.around_rows(method, starts, RUN, for_vectors=True)
    placed = near.engine.state.scaling.apply("queries", QUERIES[:1])
    expected = method.fit(ROWS).search(QUERIES[:1], 20)
    np.testing.assert_array_equal(near.engine.search(placed, 20, RUN).indices, expected.indices)


def test_around_a_row_nothing_is_told_without_lists_that_are_long_enough(refits):
    short = Refits(refits.state)
    assert (
        short.around_rows(short.state.unresolved.replace(k1=40), short.state.position[[3]], RUN)
        is None
    )


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """More rows than are ranked at once; the method of its index; where it is served."""
    rows = clustered(1200, d=8, clusters=60, seed=2, spread=0.3)
    path = tmp_path_factory.mktemp("many") / "an.index"
    CAS(k1=10, k2=4).fit(rows).save(path)
    with serving(path) as server:
        yield server, rows


def test_rows_around_the_query_are_ranked_first(many):
    server, rows = many
    params = {"sigma": 0.4}
    expected = CAS(k1=10, k2=4, **params).fit(rows).neighbors(40, 20)
    for query in ({"id": "40"}, {"vector": rows[40].tolist()}):
        near = compared(server, query, params, cluster=True)
        assert not near["whole"]
        assert near["scope"].endswith("rows around it")
    got = compared(server, {"id": "40"}, params)["results"][:20]
    assert [int(one["id"]) for one in got[:10]] == expected.ids[0][:10].tolist()


def test_the_nearest_rows_are_ranked_first_and_then_all(many):
    server, rows = many
    params = {"k1": 14, "k2": 5, "sigma": 0.4}
    first = compared(server, {"id": "40"}, params)
    # The lists of the index are too short for these parameters, and nobody searched longer ones.
    assert (first["whole"], first["scope"]) == (False, "the 500 nearest rows")
    whole = compared(server, {"id": "40"}, params, whole=True)
    assert (whole["whole"], whole["scope"]) == (True, "all rows")
    expected = CAS(**params).fit(rows).neighbors(40, 300)
    assert [int(one["id"]) for one in whole["results"]] == expected.ids[0].tolist()
    distances = [one["distance"] for one in whole["results"]]
    np.testing.assert_allclose(distances, expected.distances[0], atol=1e-6)
    # All that follows from it is known now.
    for other in ({"id": "40"}, {"id": "7"}, {"vector": rows[3].tolist()}):
        assert compared(server, other, {**params, "omega": 0.5})["whole"]
    assert not compared(server, {"id": "40"}, {**params, "geodesic": True})["whole"]
    assert compared(server, {"id": "40"}, {**params, "geodesic": True}, whole=True)["whole"]
    # A picture is no row of the graph that paths lead through.
    vector = {"vector": rows[3].tolist()}
    assert not compared(server, vector, {**params, "geodesic": True}, whole=True)["whole"]


def test_the_cluster_is_that_of_the_setting(many):
    server, rows = many
    params = {"k1": 12, "k2": 3}
    sent = {
        "query": {"vector": rows[5].tolist()}, "right": {"method": "cas", "params": params},
        "whole": True, "cluster": True,
    }  # fmt: skip
    members = ask(server, "POST", "/v1/compare", sent)[2]["cluster"]["members"]
    expected = CAS(**params).fit(rows).explain(rows[5], 5).members
    assert {one["id"]: one["smoothed"] for one in members} == pytest.approx(
        {None if one.id is None else str(one.id): one.smoothed for one in expected}
    )


def test_what_cannot_be_made_again_ranks_the_nearest(refits, index, monkeypatch):
    asked = refits.state.unresolved
    for other in ({"metric": "cosine"}, {"divergence": "euclidean"}, {"symmetric": False}):
        assert refits.obstacle(asked.replace(**other))
        assert refits.over_all_rows(asked.replace(**other), RUN) is None
        assert refits.kept(asked.replace(**other)) is None
    monkeypatch.setattr(refit, "ROWS", len(ROWS) - 1)
    assert "more than 459 rows" in refits.obstacle(asked)


def test_not_everything_is_kept(index, monkeypatch):
    monkeypatch.setattr(refit, "_BYTES", 1)
    refits = Refits(index.engine.state)
    methods = [refits.state.unresolved.replace(mu=mu) for mu in (0.5, 1.0, 1.5)]
    for method in methods:
        refits.over_all_rows(method, RUN)
    kept = [refits.kept(method) is not None for method in (refits.state.unresolved, *methods)]
    assert kept == [True, False, False, True]  # the index itself, and the newest


def test_work_that_nobody_waits_for_is_given_up(refits):
    stop = threading.Event()
    method = refits.state.unresolved.replace(mu=0.77)
    stop.set()
    with until(stop), pytest.raises(Problem, match="Nobody waited"):
        refits.over_all_rows(method, RUN)
    assert refits.kept(method) is None
    stop.clear()
    with until(stop):
        assert refits.over_all_rows(method, RUN) is not None


def test_a_caller_that_goes_away_stops_its_work():
    class Gone:
        async def is_disconnected(self):
            return True

    async def wait():
        async with stopped_with(Gone()) as stop:
            while not stop.is_set():
                await asyncio.sleep(0.001)
        return stop.is_set()

    with ThreadPoolExecutor(1) as pool:  # the browser's loop may be running on this thread
        assert pool.submit(asyncio.run, wait()).result(timeout=60)
