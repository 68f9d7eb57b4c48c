"""Every method against its slow twin, on small random sets."""

import numpy as np
import pytest

import kinrank
import naive
import naive_methods as slow

NQ, NG, D = 9, 70, 6


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(8, D)) * 2
    points = centres[rng.integers(0, 8, NQ + NG)] + rng.normal(size=(NQ + NG, D))
    return points.astype(np.float32)


def distances(ranking):
    """Back from a ranking of the whole gallery to a matrix."""
    out = np.empty(ranking.indices.shape)
    np.put_along_axis(out, ranking.indices.astype(np.int64), ranking.distances, axis=1)
    return out


def check(rows, method, expected, atol=2e-5, **params):
    ranking = kinrank.rerank(rows[:NQ], rows[NQ:], method=method, **params)
    got = distances(ranking)
    np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=1e-4, atol=atol)


def base(rows, power):
    return naive.over_farthest(slow.squared(rows.astype(np.float64))) ** power


@pytest.mark.parametrize(("dialect", "power"), [("zhong", 1), ("torchreid", 2)])
@pytest.mark.parametrize(("k1", "k2"), [(7, 3), (12, 1), (5, 5)])
def test_kreciprocal(rows, dialect, power, k1, k2):
    expected = slow.kreciprocal(base(rows, power), NQ, k1, k2, 0.3)
    check(rows, "kreciprocal", expected, dialect=dialect, k1=k1, k2=k2)


def test_kreciprocal_of_unit_vectors(rows):
    expected = slow.kreciprocal(base(slow.unit(rows), 2), NQ, 8, 3, 0.3)
    check(rows, "kreciprocal", expected, dialect="layumi", k1=8, k2=3)


def test_kreciprocal_with_plain_weights(rows):
    x = slow.unit(rows)
    expected = slow.kreciprocal(slow.squared(x), NQ, 8, 3, 0.0, plain=True)
    check(rows, "kreciprocal", expected, dialect="spcl", metric="cosine", k1=8, k2=3)


@pytest.mark.parametrize(("k1", "k2"), [(4, 2), (10, 5), (6, 1)])
def test_sca(rows, k1, k2):
    check(rows, "sca", slow.sca(rows.astype(float), NQ, k1, k2), k1=k1, k2=k2)


def test_ecn(rows):
    check(rows, "ecn", slow.ecn(rows, NQ, 10, 2, 4), 1e-3, k1=10, t=2, q=4)


def test_stml(rows):
    check(rows, "stml", slow.stml(rows.astype(float), NQ, 9, 0.1), k1=9)


@pytest.mark.parametrize(("dialect", "own"), [("cas", 1), ("zhang", 0)])
@pytest.mark.parametrize(("k2", "mix"), [(4, 0.0), (3, 0.3), (1, 0.0)])
def test_gnn(rows, dialect, own, k2, mix):
    expected = slow.gnn(rows, NQ, 10, k2, 2.0, mix, own)
    params = {"k1": 10, "k2": k2, "mix": mix, "dialect": dialect}
    check(rows, "gnn", np.minimum(expected, 0), **params)


@pytest.mark.parametrize(("dialect", "both"), [("cas", True), ("shen", False)])
def test_knn(rows, dialect, both):
    expected = slow.knn(rows.astype(float), NQ, 6, both)
    check(rows, "knn", expected, 1e-4, k1=6, dialect=dialect)


@pytest.mark.parametrize(("steps", "alpha"), [(1, 1.0), (3, 0.5)])
def test_cdm(rows, steps, alpha):
    expected = slow.cdm(rows.astype(float), NQ, 5, alpha, steps)
    pool = {"pool": NQ + NG - 1} if steps > 1 else {}
    check(rows, "cdm", expected, 1e-4, k1=5, steps=steps, alpha=alpha, **pool)


@pytest.mark.parametrize("steps", [3, 20])
def test_dfs(rows, steps):
    expected = slow.dfs(rows[:NQ], rows[NQ:], 12, 4, 0.99, 3.0, steps, 1e-6)
    check(rows, "dfs", np.minimum(expected, 0), 1e-4, k1=12, steps=steps)


@pytest.mark.parametrize(("rank", "residual"), [("full", True), (20, True), (20, False)])
def test_fsr(rows, rank, residual):
    expected = slow.fsr(
        rows[:NQ], rows[NQ:], 12, 5, 0.9, 3.0, None if rank == "full" else rank, residual
    )
    params = {"k1": 12, "kq": 5, "alpha": 0.9, "rank": rank, "residual": residual}
    check(rows, "fsr", np.minimum(expected, 0), 1e-4, **params)


@pytest.mark.parametrize(("steps", "tol"), [(20, 0.0), (3, 0.0), (20, 1e-6)])
def test_rdp(rows, steps, tol):
    expected = slow.rdp(rows.astype(float), NQ, 8, 0.5, 0.3, steps)
    check(rows, "rdp", expected, k1=8, steps=steps, tol=tol)


def test_manifold(rows):
    expected = slow.manifold(rows.astype(float), NQ, 6, 0.3, 0.95)
    check(rows, "manifold", expected, k1=6, alpha=0.95)


@pytest.mark.parametrize("mode", ["online", "joint"])
def test_eir(rows, mode):
    args = (12, 4, 25, 0.99, 3.0, 20, 1e-6)
    expected = slow.eir(rows[:NQ], rows[NQ:], *args, joint=mode == "joint")
    params = {"k1": 12, "kq": 4, "truncation": 25, "mode": mode}
    check(rows, "eir", np.minimum(expected, 0), 1e-4, **params)


@pytest.mark.parametrize("t", [-1.0, 0.5, 0.9, 2.0])
@pytest.mark.parametrize("dialect", ["symmetric", "layer6"])
def test_egt(rows, t, dialect):
    params = {"method": "egt", "k1": 5, "p": 40, "t": t, "dialect": dialect}
    ranking = kinrank.rerank(rows[:NQ], rows[NQ:], **params)
    for q in range(NQ):
        expected = slow.egt_order(rows[q], rows[NQ:], 5, t, 40, dialect == "layer6")
        assert ranking.indices[q, : len(expected)].tolist() == expected
        rest = ranking.indices[q, len(expected) :]
        d = slow.squared(slow.unit(np.concatenate([rows[q : q + 1], rows[NQ:]])))[0, 1:]
        assert (np.diff(d[rest]) >= -1e-6).all()
    np.testing.assert_array_equal(ranking.distances[0], np.arange(NG))
