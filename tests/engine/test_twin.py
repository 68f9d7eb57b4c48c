"""The sparse engine equals its dense twin, for every option."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

import naive
from engine_data import clustered, dense, digits
from kinrank import CAS
from twin_stages import engine_stages, explained, first_difference

OPTIONS = [
    {},
    {"variant": "paper"},
    *({"variant": v, "clusters": c} for v in ("paper", "authors") for c in ("knn", "reciprocal")),
    {"variant": "paper", "symmetric": False},
    {"variant": "authors", "symmetric": False},
    {"regularizer": "graph"},
    {"variant": "paper", "regularizer": "graph"},
    {"regularizer": "graph", "start": "regularizer"},
    {"start": "zero", "steps": 3},
    {"start": "regularizer", "steps": 1},
    *(
        {"variant": v, "similarity": s}
        for v in ("paper", "authors")
        for s in ("original", "smoothed")
    ),
    *({"variant": v, "smoothing": s} for v in ("paper", "authors") for s in (None, "aqe")),
    {"enhancement": False},
    {"guide": "similarity", "beta": 0.01},
    {"guide": "walk", "variant": "paper"},
    {"propagation": "transpose"},
    {"variant": "paper", "propagation": "square"},
    *({"divergence": d} for d in ("jaccard", "cosine", "euclidean", "similarity")),
    *({"divergence": d, "geodesic": True} for d in ("js", "jaccard", "euclidean", "similarity")),
    {"variant": "paper", "geodesic": True, "geodesic_k": 5},
    {"fusion": "euclidean"},
    {"fusion": "diffusion"},
    {"variant": "paper", "fusion": "diffusion", "omega": 0.6},
    {"omega": 0.0},
    {"omega": 1.0},
    {"kappa": 1.0, "sigma": 0.5, "mu": 0.05},
    {"self_counts": True},
    {"solver": "cg", "tol": 1e-8},
    {"solver": "dense"},
    {"graph_k": 9, "walk_k": 4, "enhance_k": 2, "keep": 6},
]


def named(options):
    return "-".join(f"{k}={v}" for k, v in options.items()) or "defaults"


def assert_equal(method, queries, gallery, regularizer=None):
    """d* within 1e-4, relatively, and the same order."""
    rows = np.concatenate([queries, gallery])
    d2 = naive.squared_distances(rows)
    expected, stages = naive.cas(d2, len(queries), method, regularizer)
    while naive.cut_margin(stages["F_tilde"], method.keep, method.propagation) < naive.UNDECIDED:
        # Entries of P tie where P is cut, often exactly: rounding would decide, so cut elsewhere.
        method = method.replace(keep=method.keep + 1)
        expected, stages = naive.cas(d2, len(queries), method, regularizer)
    ranking = method.rerank(queries, gallery)
    with explained(partial(engine_stages, method, rows, regularizer), stages):
        np.testing.assert_allclose(dense(ranking, len(gallery)), expected, rtol=1e-4, atol=2e-6)
    ordered = np.take_along_axis(expected, ranking.indices.astype(np.int64), axis=1)
    assert (np.diff(ordered, axis=1) >= -1e-4 * ordered[:, 1:] - 2e-6).all()
    for k in (1, 7):
        first = method.rerank(queries, gallery, k=k)
        np.testing.assert_array_equal(first.indices, ranking.indices[:, :k])
        np.testing.assert_allclose(first.distances, ranking.distances[:, :k], atol=1e-6)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=named)
def test_clusters(options):
    x = clustered(110, seed=3)
    assert_equal(CAS(k1=12, k2=4).replace(**options), x[:10], x[10:])


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=named)
def test_digits(options):
    queries, gallery, _, _ = digits()
    assert_equal(CAS(k1=15, k2=5).replace(**options), queries[:12], gallery[:100])


@pytest.mark.parametrize("options", [{"variant": "paper"}, {}, {"start": "regularizer"}], ids=named)
def test_any_regularizer(options):
    x = clustered(90, seed=5)
    rng = np.random.default_rng(0)
    factor = np.where(rng.random((90, 90)) < 0.03, rng.random((90, 90)), 0)
    e = factor @ factor.T + 0.5 * np.eye(90)
    method = CAS(k1=10, k2=4, regularizer=csr_array(e), tol=1e-9).replace(**options)
    assert_equal(method, x[:10], x[10:], e)


@st.composite
def integer_rows(draw):
    """Small whole numbers: every distance is exact, ties and duplicates are everywhere."""
    n, d = draw(st.integers(3, 24)), draw(st.integers(1, 4))
    return draw(arrays(np.int64, (n, d), elements=st.integers(-3, 3)))


# `keep` is out of the way: in such symmetric data entries of P tie in theory, and rounding decides.
SIZES = st.fixed_dictionaries(
    {
        "k1": st.integers(3, 12),
        "k2": st.integers(1, 3),
        "variant": st.sampled_from(["paper", "authors"]),
    }
)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@given(rows=integer_rows(), sizes=SIZES, geodesic=st.booleans(), n_queries=st.integers(1, 2))
@settings(max_examples=150)
def test_ties_and_duplicates(rows, sizes, geodesic, n_queries):
    method = CAS(**sizes, keep=64, geodesic=geodesic, tol=1e-9).resolved(len(rows))
    rows = rows.astype(np.float32)
    expected, stages = naive.cas(naive.squared_distances(rows), n_queries, method)
    ranking = method.rerank(rows[:n_queries], rows[n_queries:])
    with explained(partial(engine_stages, method, rows), stages):
        np.testing.assert_allclose(
            dense(ranking, len(rows) - n_queries), expected, rtol=1e-4, atol=1e-5
        )


def test_stages_equal_the_twin_on_digits():
    """Every matrix on the way, not only the end."""
    queries, gallery, _, _ = digits()
    rows = np.concatenate([queries[:20], gallery[:300]])
    method = CAS()
    _, expected = naive.cas(naive.squared_distances(rows), 20, method)
    found = engine_stages(method, rows)
    lists = found.pop("rank")
    assert (lists == expected["rank"][:, : lists.shape[1]]).mean() > 0.999  # but for ties
    assert len(found) == 8
    for name, matrix in found.items():
        np.testing.assert_allclose(matrix, expected[name], atol=1e-5, err_msg=name)


def doubled(stage):
    """A stage whose first entry is twice what it should be."""

    def wrong(*args, **options):
        rows = stage(*args, **options)
        values = rows.values.copy()
        values[0] *= 2
        return rows.with_data(values)

    return wrong


@pytest.mark.parametrize(
    ("function", "stage"),
    [
        ("similarity_on_clusters", "diffusion (F)"),
        ("smooth", "smoothing"),
        ("enhance", "enhancement"),
    ],
)
def test_a_failing_twin_names_the_first_stage_that_differs(monkeypatch, function, stage):
    from kinrank.stages import encode

    monkeypatch.setattr(encode, function, doubled(getattr(encode, function)))
    x = clustered(110, seed=3)
    with pytest.raises(AssertionError) as failed:
        assert_equal(CAS(k1=12, k2=4), x[:10], x[10:])
    [note] = failed.value.__notes__
    assert note.startswith(f"The first stage that differs is {stage}: ")


def test_a_failing_twin_whose_stages_agree_says_so():
    x = clustered(60, seed=3)
    method = CAS(k1=8, k2=3)
    _, expected = naive.cas(naive.squared_distances(x), 5, method)
    assert "No stage before the ranking" in first_difference(engine_stages(method, x), expected)
