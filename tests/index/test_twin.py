"""The online mode equals its slow twin, ``naive.online``, for every option an index takes."""

import pydoc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import naive
from engine_data import clustered, digits
from kinrank import CAS
from kinrank.index.index import Index
from row_store import RowStore
from twin_stages import ORDER, first_difference, index_stages, query_stages

OPTIONS = [
    {},
    {"variant": "paper"},
    *({"variant": v, "clusters": c} for v in ("paper", "authors") for c in ("knn", "reciprocal")),
    {"self_counts": True},
    {"regularizer": "graph"},
    {"variant": "paper", "regularizer": "graph"},
    {"start": "regularizer"},
    {"start": "zero", "steps": 3},
    *({"similarity": s, "smoothing": m} for s in ("original", "smoothed") for m in ("nss", None)),
    {"solver": "local"},
    {"smoothing": "aqe"},
    {"guide": "similarity", "beta": 0.01},
    {"variant": "paper", "guide": "walk"},
    {"enhancement": False},
    {"propagation": "transpose"},
    {"variant": "paper", "propagation": "square"},
    {"divergence": "jaccard"},
    {"divergence": "cosine"},
    {"fusion": "euclidean"},
    {"omega": 0.0},
    {"omega": 1.0},
    {"kappa": 1.0, "sigma": 0.5, "mu": 0.05},
    {"graph_k": 9, "walk_k": 4, "enhance_k": 2, "keep": 6},
    {"geodesic": True, "geodesic_k": 14},
    {"geodesic": True, "geodesic_k": 4},
    {"geodesic": True, "geodesic_k": 30, "divergence": "cosine", "omega": 0.0},
    {"geodesic": True, "geodesic_k": 6, "variant": "paper", "divergence": "jaccard"},
    {"geodesic": True, "omega": 1.0},
]


class UndecidedError(AssertionError):
    """Rounding decides too often to compare."""


def named(options):
    return "-".join(f"{k}={v}" for k, v in options.items()) or "defaults"


def answers(index, queries):
    """Distances by gallery row, and the order."""
    found = index.search(queries, k=None)
    out = np.full(found.indices.shape, np.nan)
    np.put_along_axis(out, found.indices.astype(np.int64), found.distances, axis=1)
    return out, found.indices


def query_row(stages, query):
    """The query's own row of each stage of the twin."""
    return {
        name: matrix if matrix.ndim == 1 else matrix[query]
        for name, matrix in stages.items()
        if name in ORDER
    }


def assert_equal(method, fit, rows, queries, atol=2e-6):
    """d* within 1e-4, relatively, and the same order; fit : an index of a method over the rows.

    Where entries of P are neither equal nor clearly different, rounding decides who is kept: all of
    them then.
    """
    for keep in (method.keep, len(rows) + 1):
        index = fit(method.replace(keep=keep))
        state = index.engine.state
        known = (index.method, state.neighbors.k)
        before = naive.offline(rows, *known, over_store=len(state.vectors) == 0)
        twins = [naive.online(rows, query, *known, before) for query in queries]
        decided = [at for at, (_, stages) in enumerate(twins) if stages["margin"] > naive.UNDECIDED]
        if 2 * len(decided) > len(queries):
            break
    d, order = answers(index, queries)
    if 2 * len(decided) <= len(queries):
        raise UndecidedError
    for at in decided:
        expected = twins[at][0][: len(index)]
        try:
            np.testing.assert_allclose(d[at], expected, rtol=1e-4, atol=atol)
        except AssertionError as error:
            offline = first_difference(index_stages(state), before[2])
            error.add_note(f"Of the rows before the query: {offline}")
            own = query_row(twins[at][1], len(rows))
            error.add_note(
                f"Of the query: {first_difference(query_stages(index, queries[at]), own)}"
            )
            raise
        ordered = expected[order[at]]
        assert (np.diff(ordered) >= -1e-4 * ordered[1:] - atol).all()


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=named)
@pytest.mark.parametrize("context", [0, 30])
def test_clusters(options, context):
    rows, queries = clustered(110, seed=3, clusters=7), clustered(4, seed=3, clusters=7)
    gallery, more = rows[: 110 - context], rows[110 - context :] if context else None
    method = CAS(k1=12, k2=4).replace(**options)
    assert_equal(method, lambda method: method.fit(gallery, context=more), rows, queries)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=named)
def test_digits(options):
    queries, gallery, _, _ = digits()
    # Pixels are whole numbers, and distances tie but for rounding: a little noise tells them apart.
    rows = gallery[:120] + np.random.default_rng(0).normal(0, 1e-3, (120, 64)).astype(np.float32)
    method = CAS(k1=15, k2=5).replace(**options)
    assert_equal(method, lambda method: method.fit(rows), rows, queries[:3])


@pytest.mark.parametrize("options", OPTIONS, ids=named)
def test_stores(options):
    rows, queries = clustered(110, seed=4, clusters=7), clustered(3, seed=4, clusters=7)
    d = ((rows[:, None].astype(np.float64) - rows[None]) ** 2).sum(2)
    order = np.argsort(d, axis=1, kind="stable")[:, :40]
    lists = (np.take_along_axis(d, order, axis=1), order)

    def fit(method):
        known = {"squared": True, "farthest": d.max(axis=1)}
        return Index.from_neighbors(method, *lists, store=RowStore(rows), **known)

    assert_equal(CAS(k1=12, k2=4).replace(**options), fit, rows, queries)


@st.composite
def integer_rows(draw):
    """Small whole numbers: every distance is exact, ties and duplicates are everywhere."""
    n, d = draw(st.integers(4, 24)), draw(st.integers(1, 4))
    return draw(arrays(np.int64, (n, d), elements=st.integers(-3, 3)))


# `keep` is out of the way: in such symmetric data entries of P tie in theory, and rounding decides.
SIZES = st.fixed_dictionaries(
    {
        "k1": st.integers(3, 12),
        "k2": st.integers(1, 3),
        "variant": st.sampled_from(["paper", "authors"]),
        "clusters": st.sampled_from(["expanded", "reciprocal", "knn"]),
    }
)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@given(rows=integer_rows(), sizes=SIZES, geodesic=st.booleans())
@settings(max_examples=80, deadline=None)
def test_ties_and_duplicates(rows, sizes, geodesic):
    rows = rows.astype(np.float32)
    method = CAS(**sizes, keep=64, tol=1e-9, geodesic=geodesic)
    try:
        assert_equal(method, lambda method: method.fit(rows[1:]), rows[1:], rows[:1], atol=1e-5)
    except UndecidedError:
        assume(False)


@pytest.mark.parametrize(
    ("function", "of", "stage"),
    [
        ("kinrank.stages.encode.smooth", "Of the rows before the query", "smoothing"),
        ("kinrank.index.query._QueryKernels.smooth", "Of the query", "smoothing"),
        ("kinrank.index.query._QueryKernels.enhance", "Of the query", "enhancement"),
    ],
)
def test_a_failing_twin_names_the_first_stage_that_differs(monkeypatch, function, of, stage):
    module, _, name = function.rpartition(".")
    place = pydoc.locate(module)
    right = getattr(place, name)

    def doubled(*args, **options):
        made = right(*args, **options)
        rows = getattr(made, "rows", made)
        (rows if hasattr(rows, "ptr") else made).values[0] *= 2
        return made

    monkeypatch.setattr(place, name, doubled)
    rows, queries = clustered(110, seed=3, clusters=7), clustered(1, seed=3, clusters=7)
    with pytest.raises(AssertionError) as failed:
        assert_equal(CAS(k1=12, k2=4), lambda method: method.fit(rows), rows, queries)
    assert any(
        f"{of}: The first stage that differs is {stage}" in n for n in failed.value.__notes__
    )
