"""Shortest paths in the index."""

import numpy as np
import pytest

import kinrank
from cli_helpers import run
from engine_data import clustered
from index_data import IDS, QUERIES, ROWS, assert_same
from kinrank.index import change
from kinrank.index.change_paths import changed_paths
from kinrank.index.state import list_length
from row_store import RowStore

METHOD = kinrank.CAS(k1=8, k2=4, geodesic=True, geodesic_k=12)


@pytest.fixture(scope="module")
def index():
    return METHOD.fit(ROWS, ids=IDS)


def test_distances_lie_in_one(index):
    whole = index.search(QUERIES, k=None)
    assert whole.distances.min() >= 0
    assert whole.distances.max() < 1
    assert (np.diff(whole.distances, axis=1) >= 0).all()
    joint = METHOD.rerank(QUERIES, ROWS)
    assert 0 <= joint.distances.min() < joint.distances.max() < 1


def test_first_k_are_those_of_the_whole(index):
    whole = index.search(QUERIES, k=None)
    for k in (1, 10, 100, 300):
        first = index.search(QUERIES, k=k)
        np.testing.assert_array_equal(first.indices, whole.indices[:, :k])
        np.testing.assert_array_equal(first.distances, whole.distances[:, :k])
    for threads, query in ((1, 3), (4, 5)):
        alone = index.search(QUERIES[query], k=30, threads=threads)
        assert alone.distances.tobytes() == whole.distances[query : query + 1, :30].tobytes()


def test_it_ranks_as_the_joint_mode_does(index):
    """Of rows that are asked as queries, most first ones are the same."""
    joint, online = METHOD.rerank(QUERIES[:1], ROWS, 20), index.search(QUERIES[:1], 20)
    assert len(set(joint.indices[0]) & set(online.indices[0])) >= 17


def test_files(index, tmp_path):
    index.save(tmp_path / "i")
    opened = kinrank.open(tmp_path / "i")
    assert opened.method.geodesic
    got, expected = opened.search(QUERIES, 20), index.search(QUERIES, 20)
    assert got.distances.tobytes() == expected.distances.tobytes()
    assert "paths" in opened.info()["bytes"]
    assert "geodesic=True" in run("index", "info", str(tmp_path / "i")).stdout


def test_changes_are_those_of_a_fresh_build():
    index = METHOD.fit(ROWS[:400], ids=IDS[:400])
    index.add(ROWS[400:], IDS[400:])
    assert_same(index, METHOD.fit(ROWS, ids=IDS))
    index.remove(IDS[10:20])
    rows, ids = np.delete(ROWS, np.s_[10:20], axis=0), IDS[:10] + IDS[20:]
    assert_same(index, METHOD.fit(rows, ids=ids))
    index.update(IDS[20:23], ROWS[20:23] + 0.05)
    rows = np.concatenate([np.delete(rows, np.s_[10:13], axis=0), ROWS[20:23] + 0.05])
    assert_same(index, METHOD.fit(rows, ids=ids[:10] + ids[13:] + IDS[20:23]))


def edges(index):
    """The graph of shortest paths as a dense matrix, by name."""
    state = index.engine.state
    full = np.full((len(state), len(state)), np.inf)
    names = state.order
    full[names[state.paths.owners], names[state.paths.indices]] = state.paths.values
    for row in range(len(state)):  # the shortest first
        part = slice(state.paths.indptr[row], state.paths.indptr[row + 1])
        assert (np.diff(state.paths.values[part]) >= 0).all()
        assert len(np.unique(state.paths.indices[part])) == part.stop - part.start
    return full


@pytest.mark.parametrize("divergence", ["js", "cosine"])
def test_a_small_change_leaves_most_edges_alone(divergence, monkeypatch):
    rows = clustered(2400, d=8, clusters=150, seed=5, spread=0.3)
    rows[7:9] = rows[6]  # copies
    ids = np.arange(len(rows))
    method = kinrank.CAS(k1=6, k2=3, geodesic=True, geodesic_k=9, divergence=divergence)
    index = method.fit(rows[:-3], ids=ids[:-3])
    made = []
    monkeypatch.setattr(change, "changed_paths", lambda *args: made.append(1) or patched(*args))
    patched = changed_paths
    index.add(rows[-3:], ids[-3:])
    index.remove([8, 500])
    index.update([20], rows[20:21] + 0.1)
    assert len(made) == 3
    kept = np.setdiff1d(ids, [8, 20, 500])
    fresh = method.fit(np.concatenate([rows[kept], rows[20:21] + 0.1]), ids=np.append(kept, 20))
    np.testing.assert_allclose(edges(index), edges(fresh), atol=1e-5)
    got, expected = (each.search(rows[30:40] + 0.02, 20) for each in (index, fresh))
    np.testing.assert_allclose(got.distances, expected.distances, atol=1e-5)


def test_explanations(index):
    ranking = index.search(QUERIES[:4], k=None)
    for query, place in ((0, 0), (1, 7), (2, 200), (3, 459)):
        item = ranking.ids[query, place]
        why = index.explain(QUERIES[query], item)
        assert why.distance == pytest.approx(ranking.distances[query, place], abs=1e-5)
        x = (1 - why.omega) * why.modified + why.omega * why.plain
        assert why.distance == pytest.approx(x / (1 + x), abs=1e-6)
        if why.path:
            assert why.path[-1] == item
            assert why.path[0] in index.search(QUERIES[query], 11, base=True).ids[0]
            assert "Path: " in str(why)
            assert "x / (1 + x), x = " in str(why)
        else:
            assert why.modified == 50
    assert kinrank.CAS(k1=8, k2=4).fit(ROWS).explain(QUERIES[0], 3).path == []


def test_a_path_over_copies_of_a_row():
    rows = np.repeat(clustered(30, d=4, clusters=3), 5, axis=0)
    index = kinrank.CAS(k1=6, k2=3, geodesic=True, geodesic_k=7).fit(rows)
    found = index.search(rows[:1] + 0.01, k=None)
    for place in (0, 10, 60, 149):
        why = index.explain(rows[0] + 0.01, found.ids[0, place])
        assert why.distance == pytest.approx(found.distances[0, place], abs=1e-5)


def test_rows_that_ask(index):
    """``neighbors`` and ``calibrate`` go by the paths of the row itself."""
    near = index.neighbors(IDS[3], 20)
    others = np.delete(np.arange(len(ROWS)), 3)
    joint = METHOD.rerank(ROWS[3:4], ROWS[others], 20)
    np.testing.assert_array_equal(others[joint.indices[0]], near.indices[0])
    np.testing.assert_allclose(joint.distances[0], near.distances[0], atol=1e-5)
    calibration = index.calibrate(sample=40)
    threshold = calibration.threshold(0.01)
    assert 0 < threshold < 1
    assert calibration.at(threshold)["pair_false_match_rate"] <= 0.01


@pytest.mark.parametrize("refine", [True, False])
def test_stores(refine, tmp_path):
    store = RowStore(ROWS, IDS)
    index = kinrank.attach(store, METHOD, refine=refine)
    twin = METHOD.fit(ROWS, ids=IDS)
    got, expected = index.search(QUERIES, 20), twin.search(QUERIES, 20)
    if refine:
        np.testing.assert_allclose(got.distances, expected.distances, atol=1e-5)
        item = expected.ids[0, 15]
        why = index.explain(QUERIES[0], item)
        assert why.distance == pytest.approx(expected.distances[0, 15], abs=1e-5)
    shared = [len(set(a) & set(b)) for a, b in zip(got.ids, expected.ids, strict=True)]
    assert np.mean(shared) > (19.9 if refine else 17)
    index.save(tmp_path / "i")
    opened = kinrank.open(tmp_path / "i", store=store, refine=refine)
    assert opened.search(QUERIES, 20).distances.tobytes() == got.distances.tobytes()


def test_the_explorer(index):
    explorer = index.explorer()
    query = explorer.vector_query(QUERIES[:1])
    expected = index.search(QUERIES[:1], 10)
    for ranked in (explorer.rank(query), explorer.rank_by(query, explorer.method, whole=True)):
        np.testing.assert_array_equal(index.ids[ranked.order[:10]], expected.ids[0])
        np.testing.assert_array_equal(ranked.distances[:10], expected.distances[0])
    plain = explorer.rank_by(query, explorer.method.replace(geodesic=False), whole=True)
    twin = METHOD.replace(geodesic=False).fit(ROWS, ids=IDS).search(QUERIES[:1], 10)
    assert len(set(index.ids[plain.order[:10]]) & set(twin.ids[0])) >= 9
    row = explorer.rank_by(explorer.row_query(3), explorer.method, whole=True)
    np.testing.assert_array_equal(row.order[:9], index.neighbors(IDS[3], 9).indices[0])
    assert explorer.rank_by(query, explorer.method.replace(k1=7), whole=True) is None


def test_sizes_and_short_lists(index):
    assert index.engine.state.neighbors.k == list_length(METHOD, len(ROWS)) >= 12
    alone = kinrank.CAS(k1=3, k2=2, geodesic=True, geodesic_k=1).fit(ROWS[:40])
    first = alone.search(ROWS[:2], 5)  # no edges: all rows are as far by paths
    assert first.distances.min() > 0.9


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_few_and_equal_rows():
    for rows in (np.ones((5, 3)), np.eye(3), clustered(6)):
        found = kinrank.CAS(geodesic=True).fit(rows).search(rows, k=None)
        assert np.isfinite(found.distances).all()
        assert found.distances.max() < 1
