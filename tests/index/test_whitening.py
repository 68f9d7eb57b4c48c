"""An index of whitened rows."""

import numpy as np
import pytest

import kinrank
import naive
from cli_helpers import run
from index_data import IDS, QUERIES, ROWS
from kinrank import InvalidInputError, Projection
from row_store import RowStore

METHOD = kinrank.CAS(k1=8, k2=4, whiten=0.25)


def norms(rows):
    return np.linalg.norm(rows, axis=1, keepdims=True)


def test_an_index_of_whitened_rows(tmp_path):
    index = METHOD.fit(ROWS, ids=IDS)
    twin_rows = naive.whitened(np.concatenate([ROWS, QUERIES]), ROWS, 0.25)
    twin = kinrank.CAS(k1=8, k2=4).fit(twin_rows[: len(ROWS)], ids=IDS)
    got, expected = index.search(QUERIES, 20), twin.search(twin_rows[len(ROWS) :], 20)
    np.testing.assert_allclose(got.distances, expected.distances, atol=1e-4)
    assert np.mean(got.ids == expected.ids) > 0.98
    assert index.projection.digest == Projection.fit(ROWS, kind=0.25).digest
    assert index.width == ROWS.shape[1]
    alone = np.concatenate([index.search(query, 20).distances for query in QUERIES])
    assert alone.tobytes() == got.distances.tobytes()
    index.save(tmp_path / "i")
    opened = kinrank.open(tmp_path / "i")
    assert opened.method.whiten == 0.25
    assert opened.projection.digest == index.projection.digest
    assert opened.search(QUERIES, 20).distances.tobytes() == got.distances.tobytes()
    # d' is 1 less a sum near 1, which another order of adding rounds otherwise.
    explained = index.explain(QUERIES[0], got.ids[0, 0]).distance
    assert explained == pytest.approx(got.distances[0, 0], abs=2.0**-23)
    about = run("index", "info", str(tmp_path / "i")).stdout
    assert repr(index.projection) in about
    assert "whiten=0.25" in about
    assert kinrank.CAS(k1=8, k2=4).fit(ROWS).projection is None


def test_context_is_fitted_too():
    index = METHOD.fit(ROWS[:300], context=ROWS[300:])
    np.testing.assert_allclose(
        index.projection.mean, Projection.fit(ROWS, kind=0.25).mean, atol=1e-7
    )


def test_changes_keep_the_whitening(tmp_path):
    index = METHOD.fit(ROWS[:400], ids=IDS[:400])
    index.add(ROWS[400:], IDS[400:])
    index.remove(IDS[10:20])
    index.update(IDS[20:25], ROWS[20:25] + 0.1)
    rows = np.concatenate([ROWS[:10], ROWS[25:], ROWS[20:25] + 0.1])
    ids = IDS[:10] + IDS[25:] + IDS[20:25]
    fresh = METHOD.replace(whiten=index.projection).fit(rows, ids=ids)
    got, expected = index.search(QUERIES, 20), fresh.search(QUERIES, 20)
    np.testing.assert_allclose(got.distances, expected.distances, atol=1e-5)
    np.testing.assert_array_equal(index.vectors(ids[-3:]), fresh.vectors(ids[-3:]))
    fresh.save(tmp_path / "i")  # with a whitening that was given
    with kinrank.open(tmp_path / "i", writable=True) as opened:
        assert opened.method.whiten is opened.projection
        assert opened.projection.digest == index.projection.digest
        opened.remove(ids[:3])
        opened.save()
    assert len(kinrank.open(tmp_path / "i")) == len(ids) - 3


def test_a_store_holds_projected_rows(tmp_path):
    fitted = Projection.fit(ROWS, kind=0.25)
    fewer = Projection(fitted.mean, fitted.matrix[:6])
    unit = ROWS / norms(ROWS)
    projected, queries = fewer.transform(unit), QUERIES / norms(QUERIES)

    store = RowStore(projected, IDS)
    index = kinrank.attach(store, k1=8, k2=4, whiten=fewer)
    twin = kinrank.CAS(k1=8, k2=4, whiten=fewer).fit(ROWS, ids=IDS)
    assert index.width == ROWS.shape[1]
    np.testing.assert_allclose(
        index.search(queries, 20).distances, twin.search(queries, 20).distances, atol=1e-5
    )
    index.save(tmp_path / "i")
    opened = kinrank.open(tmp_path / "i", store=store)
    assert (
        opened.search(QUERIES, 20).distances.tobytes()
        == index.search(QUERIES, 20).distances.tobytes()
    )
    with pytest.raises(InvalidInputError, match=r"fitted Projection for an index over a store"):
        kinrank.attach(store, whiten=0.25)
    with pytest.raises(InvalidInputError, match=r"like those of the store \(6 columns\)"):
        kinrank.attach(store, whiten=fitted)


def test_lists_that_are_given_cannot_be_whitened():
    lists = kinrank.CAS(k1=8, k2=4).fit(ROWS).engine.state.neighbors
    with pytest.raises(InvalidInputError, match="`whiten` must be None with lists of neighbours"):
        kinrank.Index.from_neighbors(METHOD, lists.distances, lists.indices, vectors=ROWS)


def test_the_explorer_ranks_whitened_rows():
    index = METHOD.fit(ROWS, ids=IDS)
    explorer = index.explorer()
    assert explorer.method.whiten is None
    query = explorer.vector_query(QUERIES[:1])
    expected = index.search(QUERIES[:1], 10).ids[0]
    for ranked in (explorer.rank(query), explorer.rank_by(query, explorer.method, whole=True)):
        np.testing.assert_array_equal(index.ids[ranked.order[:10]], expected)


def test_commands(tmp_path):
    np.save(tmp_path / "g.npy", ROWS)
    np.save(tmp_path / "q.npy", QUERIES)
    index, out = str(tmp_path / "i"), str(tmp_path / "r.npz")
    build = ("index", "build", "--gallery", str(tmp_path / "g.npy"), "--out", index)
    made = run(*build, "--k1", "8", "--k2", "4", "--whiten", "0.25", "--geodesic")
    assert made.exit_code == 0, made.stderr
    asked = run(
        "index", "search", index, "--query", str(tmp_path / "q.npy"), "-k", "9", "--out", out
    )
    assert asked.exit_code == 0, asked.stderr
    expected = METHOD.replace(geodesic=True).fit(ROWS).search(QUERIES, 9)
    assert kinrank.Ranking.load(out).distances.tobytes() == expected.distances.tobytes()
