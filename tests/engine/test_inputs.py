"""Whatever a user gives: a clear error or the right answer."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import kinrank
from engine_data import clustered, digits
from kinrank import CAS, InvalidInputError, KinrankWarning

X = clustered(80, d=6)
Q, G = X[:8], X[8:]
SMALL = {"k1": 6, "k2": 3}


def ids(queries, gallery, **options):
    return kinrank.rerank(queries, gallery, **{**SMALL, **options}).indices


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_any_float_is_computed_in_float32(dtype):
    expected = ids(Q.astype(dtype).astype(np.float32), G.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(ids(Q.astype(dtype), G.astype(dtype)), expected)


def test_integers():
    whole = np.rint(X * 10).astype(np.int16)
    expected = ids(whole[:8].astype(np.float32), whole[8:].astype(np.float32))
    np.testing.assert_array_equal(ids(whole[:8], whole[8:]), expected)


def test_views_lists_and_files(tmp_path):
    expected = ids(Q, G)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(ids(wide[:8], np.asfortranarray(G)), expected)
    np.testing.assert_array_equal(ids(Q.tolist(), G[::-1][::-1]), expected)
    np.save(tmp_path / "gallery.npy", G)
    mapped = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    np.testing.assert_array_equal(ids(Q, mapped), expected)
    Q.flags.writeable = False
    np.testing.assert_array_equal(ids(Q, G), expected)


def test_inputs_are_not_changed():
    before = G.copy()
    kinrank.rerank(Q, G, metric="cosine", **SMALL)
    np.testing.assert_array_equal(G, before)


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e25])
def test_the_unit_of_length_does_not_matter(scale):
    big = X.astype(np.float64) * scale
    np.testing.assert_array_equal(ids(big[:8], big[8:]), ids(Q, G))


def test_cosine_ignores_lengths():
    lengths = np.linspace(0.01, 100, len(X))[:, None]
    stretched = X * lengths
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = ids(unit[:8], unit[8:])
    np.testing.assert_array_equal(ids(stretched[:8], stretched[8:], metric="cosine"), expected)


def broken(value):
    bad = G.copy()
    bad[5, 2] = value
    return bad


@pytest.mark.parametrize(
    ("queries", "gallery", "message"),
    [
        (Q, broken(np.nan), "`gallery` must be finite, got NaN or infinity in row 5"),
        (broken(np.inf), G, "`queries` must be finite, got NaN or infinity in row 5"),
        (Q[:, :5], G, "`gallery` must have as many columns as `queries` \\(5\\), got 6"),
        (Q[0], G, "`queries` must be two-dimensional"),
        (Q, G[None], "`gallery` must be two-dimensional"),
        (Q[:0], G, "`queries` must have at least one row"),
        (Q, G[:0], "`gallery` must have at least one row"),
        (Q[:, :0], G[:, :0], "at least one row and one column"),
        (Q.astype(complex), G, "`queries` must hold real numbers, got dtype complex"),
        (Q.astype(str), G, "`queries` must hold real numbers"),
        (Q > 0, G, "`queries` must hold real numbers, got dtype bool"),
    ],
)
def test_bad_vectors(queries, gallery, message):
    with pytest.raises(InvalidInputError, match=message):
        kinrank.rerank(queries, gallery, **SMALL)


def test_zero_vectors():
    gallery = G.copy()
    gallery[3] = 0
    with pytest.raises(InvalidInputError, match=r"Row 3 of .* is a zero vector"):
        kinrank.rerank(Q, gallery, metric="cosine", **SMALL)
    assert np.isfinite(kinrank.rerank(Q, gallery, **SMALL).distances).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "`k` must be an integer of at least 1, got 0"),
        ({"k": 2.5}, "`k` must be an integer"),
        ({"k1": 0}, "`k1` must be an integer of at least 1, got 0"),
        ({"k1": 4, "k2": 6}, "`k2` must be at most k1"),
        ({"omega": 1.5}, "`omega` must be a number in \\[0, 1\\], got 1.5"),
        ({"sigma": 0}, "`sigma` must be a number in \\[1e-06"),
        ({"mu": float("nan")}, "`mu` must be a number"),
        ({"threads": 0}, "`threads` must be an integer"),
        ({"run": "4GB"}, "`run` must be a kinrank.Run"),
        ({"geodesic": 1}, "`geodesic` must be True or False, got 1"),
        (
            {"regularizer": np.eye(3)},
            "`regularizer` must be 'identity', 'graph' or a sparse matrix",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InvalidInputError, match=message):
        kinrank.rerank(Q, G, **{**SMALL, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "cass"}, "Did you mean 'cas'"),
        ({"solver": "locall"}, "Did you mean 'local'"),
        ({"divergence": None}, "`divergence` must be one of"),
        ({"variant": "mine"}, "`variant` must be one of authors, paper"),
        ({"sigmaa": 0.3}, "Did you mean 'sigma'"),
    ],
)
def test_unknown_names(options, message):
    with pytest.raises(kinrank.UnknownNameError, match=message):
        kinrank.rerank(Q, G, **{**SMALL, **options})


@pytest.mark.parametrize(
    "kind", ["asymmetric", "negative", "indefinite", "wrong size", "none", "huge", "tiny"]
)
def test_bad_regularizers(kind):
    from scipy.sparse import csr_array

    e = np.eye(len(X)) * {"none": 0, "huge": 1e300, "tiny": 1e-300}.get(kind, 1)
    if kind == "asymmetric":
        e[0, 1] = 1
    elif kind == "negative":
        e[0, 1] = e[1, 0] = -0.1
    elif kind == "indefinite":
        e[0, 1] = e[1, 0] = 3
    elif kind == "wrong size":
        e = e[:5, :5]
    with pytest.raises(InvalidInputError, match=r"`regularizer` must (be|have)"):
        kinrank.rerank(Q, G, regularizer=csr_array(e), **SMALL)
    with pytest.raises(InvalidInputError, match="`regularizer` must hold real numbers, got dtype"):
        kinrank.rerank(Q, G, regularizer=csr_array(np.eye(len(X)) * 1j), **SMALL)


@pytest.mark.parametrize("n_gallery", [1, 2, 3, 5])
@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_tiny_galleries(n_gallery, variant):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KinrankWarning)
        for geodesic in (False, True):
            ranking = kinrank.rerank(Q[:1], G[:n_gallery], variant=variant, geodesic=geodesic)
            assert ranking.indices.shape == (1, n_gallery)
            assert np.isfinite(ranking.distances).all()


def test_sizes_beyond_the_data_are_reduced_and_said():
    with pytest.warns(KinrankWarning, match="`k1` is 500, but there are only 79 rows"):
        kinrank.rerank(Q, G, k1=500, k2=3)
    with pytest.warns(
        KinrankWarning, match="`k` is 100, but there are only 72 gallery rows: 72 is"
    ):
        assert kinrank.rerank(Q, G, k=100, **SMALL).k == 72


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("sizes", [{"k1": 2**31 - 1, "k2": 3}, {**SMALL, "keep": 2**31 - 1}])
def test_sizes_as_large_as_can_be(sizes):
    """In graph and index, also after rows came."""
    usual = CAS(**sizes).replace(**({"k1": 79} if sizes["k1"] > 80 else {"keep": 80}))
    np.testing.assert_array_equal(CAS(**sizes).rerank(Q, G).distances, usual.rerank(Q, G).distances)
    index = CAS(**sizes).fit(G)
    index.add(Q)
    assert np.isfinite(index.search(Q + 0.1).distances).all()


@pytest.mark.parametrize("start", ["graph", "regularizer", "zero"])
def test_a_thousand_steps_have_converged(start):
    many = kinrank.rerank(Q, G, solver="iterate", start=start, steps=1000, **SMALL)
    few = kinrank.rerank(Q, G, solver="iterate", start=start, steps=300, **SMALL)
    np.testing.assert_allclose(many.distances, few.distances, atol=1e-6)


@pytest.mark.parametrize("geodesic", [False, True])
@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_all_rows_alike(variant, geodesic):
    same = np.ones((300, 4), np.float32)
    ranking = kinrank.rerank(same[:5], same[5:], variant=variant, geodesic=geodesic)
    assert np.isfinite(ranking.distances).all()
    assert (np.sort(ranking.indices, axis=1) == np.arange(295)).all()


def test_many_duplicates_and_queries_from_the_gallery():
    rows = np.repeat(clustered(40), 10, axis=0)
    ranking = kinrank.rerank(rows[::40], rows, k=10)
    assert np.isfinite(ranking.distances).all()
    expected = np.arange(0, 400, 40)[:, None] // 10
    assert (ranking.indices // 10 == expected).all()


@pytest.mark.parametrize("geodesic", [False, True])
def test_threads_and_blocks_do_not_change_a_bit(geodesic):
    queries, gallery, _, _ = digits()
    method = CAS(k1=20, k2=5, geodesic=geodesic)
    for k in (None, 20):
        expected = method.rerank(queries, gallery, k, threads=1)
        for threads, block_size in [(2, None), (4, None), (4, 7), (1, 100), (2, 10**9)]:
            found = method.rerank(
                queries, gallery, k, threads=threads, run=kinrank.Run(block_size=block_size)
            )
            np.testing.assert_array_equal(found.indices, expected.indices)
            np.testing.assert_array_equal(found.distances, expected.distances)


def test_variants_are_visible_and_overridable():
    method = CAS(variant="paper")
    assert (method.solver, method.guide, method.propagation) == ("local", "similarity", "transpose")
    assert CAS(variant="paper", solver="cg").solver == "cg"
    assert "solver='iterate'" in repr(CAS())
    assert CAS(k1=60).keep == 80
    assert CAS(k1=20).replace(k1=60).keep == 80
    assert CAS(keep=30).replace(k1=60).keep == 30
    with pytest.raises(AttributeError):
        method.k1 = 3


PLAIN = """
import sys
import numpy as np, kinrank
x = np.load(sys.argv[1])
kinrank.CAS(k1=6, k2=3, geodesic=True).rerank(x[:6], x[6:]).save(sys.argv[2])
"""


def test_the_same_without_compilation(tmp_path):
    rows = clustered(50)
    np.save(tmp_path / "rows.npy", rows)
    command = [sys.executable, "-c", PLAIN, tmp_path / "rows.npy", tmp_path / "plain.npz"]
    subprocess.run(command, check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"})
    plain = kinrank.Ranking.load(tmp_path / "plain.npz")
    compiled = CAS(k1=6, k2=3, geodesic=True).rerank(rows[:6], rows[6:])
    np.testing.assert_array_equal(plain.indices, compiled.indices)
    np.testing.assert_allclose(plain.distances, compiled.distances, atol=2e-6)
