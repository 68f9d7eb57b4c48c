"""Whitening as an option of every method."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinrank
import naive
from cli_helpers import run
from kinrank import InvalidInputError, Projection
from kinrank.evaluate.search import Plain, Pooled
from kinrank.evaluate.spec import parse_method
from kinrank.io import save_safetensors
from kinrank.registry import method_class, ready_methods
from kinrank.testing import check_ranking
from learned_models import untrained
from method_data import SMALL

RNG = np.random.default_rng(5)
NQ, NG, D = 11, 130, 12


def drawn(n, d=D, seed=0):
    """Rows around centres, far from the origin, more and less spread by their columns."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(9, d))
    rows = centres[rng.integers(0, 9, n)] + 0.4 * rng.normal(size=(n, d))
    return (rows * 2.0 ** -(np.arange(d) % 7) + 0.3).astype(np.float32)


QUERY, GALLERY = drawn(NQ, seed=2), drawn(NG, seed=3)


def make(name, **params):
    return method_class(name)(**{**SMALL.get(name, {}), **params})


@pytest.mark.parametrize("power", [0, 0.25, 0.4, 0.5])
def test_the_twin(power):
    whitening = Projection.fit(GALLERY, kind=power)
    unit, expected = (
        (QUERY / norms(QUERY)).astype(np.float32),
        naive.whitened(QUERY, GALLERY, power),
    )
    np.testing.assert_allclose(whitening.project(unit), expected, atol=1e-6)
    np.testing.assert_allclose(whitening.apply(unit), expected, atol=3e-6)


def norms(rows):
    return np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("name", ready_methods())
@pytest.mark.parametrize("power", [0.25, 0.5])
def test_every_method_ranks_whitened_rows(name, power):
    rows = naive.whitened(np.concatenate([QUERY, GALLERY]), GALLERY, power)
    expected = make(name).rerank(rows[:NQ], rows[NQ:])
    got = make(name, whiten=power).rerank(QUERY * 3, GALLERY * 5)
    check_ranking(got, NQ, NG, NG)
    atol = 2e-3 if name == "gss" else 2e-4  # it learns
    np.testing.assert_allclose(got.distances, expected.distances, atol=atol)
    if name != "dqe":  # whose examples all lie on one margin
        assert np.mean(got.indices[:, :10] == expected.indices[:, :10]) > 0.97
    fitted = make(name, whiten=Projection.fit(GALLERY * 5, kind=power)).rerank(
        QUERY * 3, GALLERY * 5
    )
    assert fitted.distances.tobytes() == got.distances.tobytes()


@pytest.mark.parametrize("name", ["cas", "kreciprocal", "alphaqe", "dfs"])
def test_same_bits_for_any_threads_blocks_and_other_queries(name, tmp_path):
    method = make(name, whiten=0.25)
    expected = method.rerank(QUERY, GALLERY, 20, threads=1)
    for threads, how in ((4, kinrank.Run(block_size=7)), (None, kinrank.Run(work=tmp_path / "w"))):
        got = method.rerank(QUERY, GALLERY, 20, threads=threads, run=how)
        assert got.distances.tobytes() == expected.distances.tobytes()
        assert got.indices.tobytes() == expected.indices.tobytes()


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 9), st.sampled_from([0, 0.25, 0.5]))
def test_a_row_has_the_same_bits_alone_and_among_others(n, d, seed, power):
    rows = np.random.default_rng(seed).normal(size=(n + 2, d)).astype(np.float32)
    rows /= norms(rows)
    try:
        whitening = Projection.fit(rows, kind=power)
    except InvalidInputError:
        assert d == 1
        return
    whole = whitening.project(rows)
    for size in (1, 7, 256):
        parts = [whitening.project(rows[at : at + size]) for at in range(0, len(rows), size)]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
    assert whitening.project(np.asfortranarray(rows)).tobytes() == whole.tobytes()


def test_sums_between_two_points_of_the_grid_have_one_order(monkeypatch):
    """Products that are off by rounding, as another BLAS would have them, change no bit."""
    rows = RNG.normal(size=(200, 64)).astype(np.float32)
    rows /= norms(rows)
    whitening = Projection.fit(rows, kind=0.25)
    expected = whitening.project(rows)
    columns, steps = whitening._columns
    off = columns * (1 + 1e-16 * RNG.integers(-2, 3, columns.shape))
    object.__setattr__(whitening, "_columns", (off, steps))
    assert whitening.project(rows).tobytes() == expected.tobytes()


def test_a_fit_has_the_same_bits_again():
    one, other = Projection.fit(GALLERY, kind=0.25), Projection.fit(GALLERY.copy(), kind=0.25)
    assert one.digest == other.digest
    assert repr(one) == repr(other) == f"<Projection 0.25 of 12 columns to 12, {one.digest}>"
    assert one.digest != Projection.fit(GALLERY, kind=0.3).digest


def test_half_precision():
    method = make("cas", whiten=0.25)
    whole, half = (
        method.rerank(QUERY, GALLERY, 20, run=kinrank.Run(vectors=kind))
        for kind in ("float32", "float16")
    )
    np.testing.assert_allclose(half.distances, whole.distances, atol=0.05)
    again = method.rerank(
        QUERY, GALLERY, 20, threads=1, run=kinrank.Run(vectors="float16", block_size=3)
    )
    assert again.distances.tobytes() == half.distances.tobytes()


@pytest.mark.parametrize(
    "rows",
    [
        drawn(9),  # fewer rows than columns
        np.where(np.arange(D) % 3, drawn(60), 0.5),  # constant columns
        drawn(60) @ np.diag(np.arange(D) < 4) + 1e-3,  # of few directions
        np.repeat(drawn(20), 4, axis=0),  # the same rows again
        drawn(60, d=1) - 0.3,  # one column: each row is 1 or -1
        drawn(2),  # the fewest
    ],
)
@pytest.mark.parametrize("power", [0.25, 0.5])
def test_odd_galleries(rows, power):
    rows = rows.astype(np.float32)
    queries = drawn(5, rows.shape[1], seed=8)
    got = [Projection.fit(rows, kind=power).project((x / norms(x)).astype(np.float32)) for x in
           (queries, rows)]  # fmt: skip
    expected = [naive.whitened(x, rows, power) for x in (queries, rows)]
    np.testing.assert_allclose(got[0] @ got[1].T, expected[0] @ expected[1].T, atol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        for name in ("cas", "kreciprocal", "alphaqe", "sca"):
            ranking = make(name, whiten=power).rerank(queries, rows)
            check_ranking(ranking, 5, len(rows), len(rows))


def test_a_row_at_the_mean_is_in_the_middle():
    gallery = np.array([[1, 0, 0.0], [0, 1, 0]], np.float32)
    gallery = np.concatenate([gallery, [[1, 1, 0]] / np.sqrt(2)]).astype(np.float32)
    mean = gallery.mean(axis=0, dtype=np.float64).astype(np.float32)
    whitening = Projection.fit(gallery, kind=0.25)
    assert not whitening.project(whitening.mean[None]).any()
    with pytest.warns(kinrank.KinrankWarning):
        ranking = kinrank.CAS(whiten=Projection(mean, np.eye(3))).rerank(gallery[:1], gallery)
    assert np.isfinite(ranking.distances).all()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((5, 3)), "`gallery` must have rows that differ to be whitened, got equal rows"),
        (np.ones((5, 3)) * np.arange(1, 6)[:, None], "got equal rows"),
        (np.ones((1, 3)), "`gallery` must have rows that differ to be whitened, got one row"),
        (np.ones((5, 1)), "got equal rows"),
        (np.zeros((5, 3)), "Row 0 of `gallery` is a zero vector.* without `whiten`"),
        (np.full((5, 3), np.nan), "`gallery` must be finite"),
        (np.ones((2, 20000), np.float16), "at most 16,384 columns to be whitened, got 20,000"),
    ],
)
def test_galleries_that_cannot_be_whitened(rows, message):
    with pytest.raises(InvalidInputError, match=message):
        kinrank.CAS(whiten=0.25).rerank(np.ones((1, rows.shape[1])), rows)
    if len(rows) > 1:
        with pytest.raises(InvalidInputError, match=message):
            kinrank.CAS(whiten=0.25).fit(rows)


@pytest.mark.parametrize("bad", [-0.1, 0.51, np.nan, np.inf, True, "1", (0.2,), np.eye(2)])
@pytest.mark.parametrize("name", ["cas", "aqe", "gss", "fsr"])
def test_powers_that_are_refused(name, bad):
    with pytest.raises(InvalidInputError, match=r"`whiten` must be None, .* a power between 0 and"):
        make(name, whiten=bad)
    with pytest.raises(InvalidInputError, match="`kind` must be 'pairs', 'views' or a power"):
        Projection.fit(GALLERY, kind=bad)


def test_a_whitening_of_other_columns_is_refused():
    other = Projection.fit(drawn(30, d=5), kind=0.25)
    message = f"`whiten` must be a projection of {D} columns, as `gallery` has, got one of 5 to 5"
    for call in (
        lambda m: m.rerank(QUERY, GALLERY),
        lambda m: m.fit(GALLERY),
        lambda m: kinrank.rerank_pool(QUERY[0], GALLERY, m),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call(kinrank.CAS(whiten=other))
    with pytest.raises(InvalidInputError, match="`gallery` must have as many columns"):
        kinrank.CAS(whiten=0.25).rerank(QUERY[:, :5], GALLERY)


def test_files(tmp_path):
    fitted = Projection.fit(GALLERY, kind=0.3)
    path = tmp_path / "w.safetensors"
    fitted.save(path)
    method = kinrank.CAS(whiten=str(path))
    assert method.whiten.digest == fitted.digest
    assert kinrank.CAS(whiten=path).parameters()["whiten"] == repr(fitted)
    arrays = {"mean": np.zeros(D, np.float32), "matrix": np.full((D, D), np.nan, np.float32)}
    save_safetensors(tmp_path / "nan", arrays, {})
    with pytest.raises(kinrank.FileFormatError, match=r"nan must be a projection saved by kinrank"):
        kinrank.CAS(whiten=str(tmp_path / "nan"))
    with pytest.raises(InvalidInputError, match="a Projection or a file of one, got 'half'"):
        kinrank.CAS(whiten="half")


def test_fewer_dimensions():
    first = Projection.fit(GALLERY, kind=0.25)
    fewer = Projection(first.mean, first.matrix[:5])
    rows = (GALLERY / norms(GALLERY)).astype(np.float32)
    twin = kinrank.CAS(k1=8, k2=4).rerank(fewer.project(rows[:9]), fewer.project(rows), k=20)
    got = kinrank.CAS(k1=8, k2=4, whiten=fewer).rerank(rows[:9], rows, k=20)
    np.testing.assert_allclose(got.distances, twin.distances, atol=1e-5)
    for fitted in (kinrank.CAS(k1=8, k2=4, whiten=fewer), make("alphaqe", whiten=fewer)):
        assert fitted.fit(rows).search(rows[:3], 7).k == 7


@pytest.mark.parametrize("name", ["alphaqe", "dfs", "sg"])
def test_a_fitted_method_projects_queries(name):
    method = make(name, whiten=0.25)
    expected = method.rerank(QUERY, GALLERY, 20)
    fitted = method.fit(GALLERY)
    for rows in (QUERY, QUERY[:1], QUERY[3:5]):
        at = np.flatnonzero((QUERY[:, None] == rows).all(axis=2).any(axis=1))
        got = fitted.search(rows, 20)
        assert got.distances.tobytes() == expected.distances[at].tobytes()
    with pytest.raises(InvalidInputError, match=f"as many columns as the gallery \\({D}\\), got 5"):
        fitted.search(QUERY[:, :5])


@pytest.mark.parametrize("name", ["csa", "lattqe", "ssr"])
def test_trained_weights_know_rows_as_they_are(name):
    with pytest.raises(InvalidInputError, match="`whiten` must be None with trained weights"):
        method_class(name)(**untrained(name, D), whiten=0.25)


def test_weights_of_gss_know_rows_as_they_are():
    with pytest.raises(InvalidInputError, match="`whiten` must be None with trained weights"):
        kinrank.GSS(weights="w.safetensors", whiten=0.25)


def test_distances_that_are_given_cannot_be_whitened():
    with pytest.raises(InvalidInputError, match="`whiten` must be None where distances are given"):
        kinrank.CAS(whiten=0.25).rerank_neighbors(np.ones((4, 4)), n_queries=1)


def test_pools():
    fitted = Projection.fit(GALLERY, kind=0.25)
    pool = kinrank.rerank_pool(QUERY[0], GALLERY[:40], k=9, k1=8, k2=4, whiten=fitted)
    twin = kinrank.CAS(k1=8, k2=4, whiten=fitted).rerank(QUERY[:1], GALLERY[:40], 9)
    assert pool.distances.tobytes() == twin.distances.tobytes()
    with pytest.raises(InvalidInputError, match=r"fitted Projection for pools, got 0.25"):
        kinrank.rerank_pool(QUERY[0], GALLERY[:40], whiten=0.25)


def test_plain_search_and_pools_of_a_comparison():
    rows = naive.whitened(np.concatenate([QUERY, GALLERY]), GALLERY, 0.25)
    got = parse_method("none(whiten=0.25)").build().rerank(QUERY, GALLERY, 9)
    squared = ((rows[:NQ, None] - rows[NQ:]) ** 2).sum(-1)
    np.testing.assert_allclose(got.distances, np.sqrt(np.sort(squared)[:, :9]), atol=1e-5)
    whole = Pooled(method=make("cas", whiten=0.25), pool=NG).rerank(QUERY, GALLERY, 9)
    fitted = make("cas", whiten=Projection.fit(GALLERY, kind=0.25))
    one = [fitted.rerank(query[None], GALLERY, 9) for query in QUERY]
    np.testing.assert_array_equal(whole.distances, np.concatenate([r.distances for r in one]))
    with pytest.raises(InvalidInputError, match="set in the method that ranks the pools"):
        Pooled(method=Plain(), whiten=0.25)


def test_specs_and_commands(tmp_path):
    np.save(tmp_path / "q.npy", QUERY)
    np.save(tmp_path / "g.npy", GALLERY)
    files = ["--query", str(tmp_path / "q.npy"), "--gallery", str(tmp_path / "g.npy")]
    fitted = str(tmp_path / "w.safetensors")
    asked = ["--gallery", str(tmp_path / "g.npy"), "--kind", "0.25", "--out", fitted]
    assert run("project", *asked).exit_code == 0
    expected = kinrank.CAS(whiten=0.25).rerank(QUERY, GALLERY, 5)
    for text in ("0.25", fitted):
        assert parse_method(f"cas(whiten={text})").label == f"cas(whiten={text})"
        out = str(tmp_path / "r.npz")
        made = run("rerank", *files, "--whiten", text, "-k", "5", "--out", out, "--json")
        assert made.exit_code == 0, made.stderr
        assert json.loads(made.stdout)["parameters"]["whiten"] in (
            0.25,
            repr(Projection.load(fitted)),
        )
        ranking = kinrank.Ranking.load(out)
        assert ranking.distances.tobytes() == expected.distances.tobytes()
    wrong = run("rerank", *files, "--whiten", "0.7", "-k", "5", "--out", str(tmp_path / "r.npz"))
    assert "`whiten` must be None, 'pairs', 'views' or a power between 0 and 0.5" in wrong.stderr
    assert "--whiten" in run("rerank", "--help").stdout


def test_tuning_keeps_it():
    tuning = kinrank.tune(QUERY, GALLERY, "alphaqe", whiten=0.25)
    assert tuning.params["whiten"] == 0.25
    assert tuning.projection.kind == "0.25"
    assert tuning.make().whiten is tuning.projection
    fitted = Projection.fit(GALLERY, kind=0.25)
    same = kinrank.tune(QUERY, GALLERY, "alphaqe", whiten=fitted)
    assert same.reasons == tuning.reasons
    assert same.diagnosis == tuning.diagnosis
    assert json.loads(json.dumps(same.to_dict()))["params"]["whiten"] == repr(fitted)


def test_jaccard_graph():
    rows = naive.whitened(GALLERY, GALLERY, 0.25)
    expected = kinrank.jaccard_graph(rows, k1=6, k2=3)
    got = kinrank.jaccard_graph(GALLERY, k1=6, k2=3, whiten=0.25)
    np.testing.assert_allclose(got.toarray(), expected.toarray(), atol=1e-4)
    with pytest.raises(InvalidInputError, match="`whiten` must be None"):
        kinrank.jaccard_graph(GALLERY, whiten=3)
