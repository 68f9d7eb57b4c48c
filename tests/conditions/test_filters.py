"""Filters: rows that are in the graph and never answers, for every method."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

import kinrank
from kinrank import CAS, InvalidInputError
from kinrank.datasets.base import Dataset, Part
from methods.test_contract import METHODS, VARIANTS, make
from struck import assert_struck, rows

NQ, NG = 9, 150


@pytest.fixture(scope="module")
def sets():
    return rows(NQ, 5), rows(NG, 6)


def masks(seed=0):
    """From nearly everything to nothing, for all queries and for each."""
    rng = np.random.default_rng(seed)
    for share in (0.97, 0.5, 0.03, 0.0):
        yield rng.random(NG) < share
        yield rng.random((NQ, NG)) < share


@pytest.mark.parametrize(("name", "params"), [*((name, {}) for name in METHODS), *VARIANTS])
def test_every_method_strikes_out(sets, name, params):
    """Each mask with one length of the lists: a short one, or all rows."""
    method = make(name, **params)
    whole = method.rerank(*sets)
    for mask, k in zip(masks(), [4, NG, NG, 4] * 2, strict=True):
        assert_struck(method.rerank(*sets, k, allowed=mask), whole, mask, k)
    few = np.random.default_rng(2).random((NQ, NG)) < 0.02
    assert_struck(method.rerank(*sets, 4, exclude=few), whole, ~few, 4)


@pytest.mark.long
@pytest.mark.parametrize(("name", "params"), [*((name, {}) for name in METHODS), *VARIANTS])
def test_every_method_strikes_out_of_lists_of_both_lengths(sets, name, params):
    method = make(name, **params)
    whole = method.rerank(*sets)
    for mask in masks():
        for k in (4, NG):
            assert_struck(method.rerank(*sets, k, allowed=mask), whole, mask, k)


@pytest.mark.parametrize(
    "options",
    [
        {"omega": 0.0},
        {"omega": 1.0},
        {"geodesic": True, "geodesic_k": 20},
        {"fusion": "diffusion"},
        {"fusion": "euclidean"},
        {"divergence": "euclidean"},
        {"divergence": "similarity"},
        {"metric": "cosine"},
    ],
)
def test_options_of_cas(sets, options):
    method = CAS(k1=8, k2=4, **options)
    whole = method.rerank(*sets)
    for mask in masks(3):
        for k in (4, None):
            assert_struck(method.rerank(*sets, k, allowed=mask), whole, mask, k)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_shape_and_ties(data):
    whole_numbers = st.integers(0, 2)
    n_queries, n = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 40))
    points = data.draw(
        st.lists(st.lists(whole_numbers, min_size=2, max_size=2), min_size=n + n_queries,
                 max_size=n + n_queries)
    )  # fmt: skip
    points = np.array(points, np.float32)
    queries, gallery = points[:n_queries], points[n_queries:]
    method = CAS(k1=3, k2=2)
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=n_queries * n, max_size=n_queries * n))
    ).reshape(n_queries, n)
    k = data.draw(st.integers(1, n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        whole = method.rerank(queries, gallery)
        assert_struck(method.rerank(queries, gallery, k, allowed=mask), whole, mask, k)
        got = method.rerank(queries, gallery, k, allowed=mask[0], exclude=~mask)
        assert_struck(got, whole, mask & mask[0], k)


def test_all_forms_say_the_same(sets):
    method = CAS(k1=8, k2=4)
    mask = np.random.default_rng(1).random(NG) < 0.4
    expected = method.rerank(*sets, 5, allowed=mask)
    numbers = np.flatnonzero(mask)
    per_query = [numbers.tolist() for _ in range(NQ)]
    wide = np.tile(mask, (NQ, 1))
    forms = [
        {"allowed": numbers}, {"allowed": numbers.tolist()}, {"allowed": set(numbers.tolist())},
        {"allowed": per_query}, {"allowed": [set(ids) for ids in per_query]},
        {"allowed": np.array(per_query)}, {"allowed": mask.tolist()}, {"allowed": wide},
        {"allowed": wide.tolist()}, {"allowed": csr_array(wide)}, {"allowed": coo_array(wide)},
        {"exclude": ~mask}, {"exclude": np.flatnonzero(~mask)}, {"exclude": csr_array(~wide)},
        {"exclude": ~wide},
    ]  # fmt: skip
    for form in forms:
        got = method.rerank(*sets, 5, **form)
        np.testing.assert_array_equal(got.indices, expected.indices)
        np.testing.assert_array_equal(got.distances, expected.distances)
    function = kinrank.rerank(*sets, k=5, k1=8, k2=4, allowed=mask)
    np.testing.assert_array_equal(function.indices, expected.indices)


def test_fitted_methods_take_filters(sets):
    queries, gallery = sets
    fitted = make("dfs").fit(gallery)
    mask = np.random.default_rng(1).random((NQ, NG)) < 0.2
    got = fitted.search(queries, 5, allowed=mask)
    assert_struck(got, fitted.search(queries), mask, 5)


def test_threads_change_nothing(sets):
    mask = np.random.default_rng(4).random((NQ, NG)) < 0.3
    method = CAS(k1=8, k2=4)
    expected = method.rerank(*sets, 10, allowed=mask, threads=1)
    for threads, run in ((3, None), (2, kinrank.Run(block_size=2))):
        got = method.rerank(*sets, 10, allowed=mask, threads=threads, run=run)
        assert got.indices.tobytes() == expected.indices.tobytes()
        assert got.distances.tobytes() == expected.distances.tobytes()


def test_half_precision_and_approximate_search(sets):
    mask = np.random.default_rng(4).random(NG) < 0.2
    for run in (kinrank.Run(vectors="float16"), kinrank.Run(search="approximate")):
        for name in ("cas", "alphaqe"):
            whole = make(name).rerank(*sets, run=run)
            assert_struck(make(name).rerank(*sets, 5, allowed=mask, run=run), whole, mask, 5)


def test_the_junk_rule_is_a_filter():
    """Same person and same camera as the query: by the protocol, and left out by the filter."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 16))
    ids, cams = rng.integers(0, 12, 200), rng.integers(0, 3, 200)
    points = (centres[ids] + 0.8 * rng.normal(size=(200, 16))).astype(np.float32)
    parts = [
        Part(features=points[s], labels=ids[s], cams=cams[s])
        for s in (slice(0, 30), slice(30, None))
    ]
    data = Dataset(name="made", protocol="reid", query=parts[0], gallery=parts[1])
    junk = (ids[:30, None] == ids[30:]) & (cams[:30, None] == cams[30:])
    method = CAS(k1=8, k2=4)
    by_rule = data.evaluate(method.rerank(points[:30], points[30:]))
    by_filter = data.evaluate(method.rerank(points[:30], points[30:], exclude=junk))
    assert by_filter.summary() == by_rule.summary()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"allowed": np.ones(7, bool)}, r"mask of shape \(150,\).*got \(7,\)"),
        ({"exclude": np.ones((2, NG), bool)}, r"\(9, 150\) for each query, got \(2, 150\)"),
        ({"allowed": csr_array(np.ones((2, NG)))}, r"sparse matrix of shape \(9, 150\), got \(2,"),
        ({"allowed": [[1], [2]]}, "one list for each of the 9 queries, got 2"),
        ({"allowed": [1, NG]}, "0 to 149, got 150"),
        ({"exclude": [-1]}, "0 to 149, got -1"),
        ({"allowed": ["a"]}, "numbers of gallery rows or a mask"),
        ({"allowed": 3}, "a list of ids"),
        ({"allowed": np.zeros((1, 2, 3), int)}, "a list of ids"),
    ],
)
def test_bad_filters(sets, given, message):
    with pytest.raises(InvalidInputError, match=message):
        CAS(k1=8, k2=4).rerank(*sets, 5, **given)


def test_nothing_allowed_is_an_empty_answer(sets):
    for nothing in (np.zeros(NG, bool), [], [[]] * NQ):
        got = CAS(k1=8, k2=4).rerank(*sets, 5, allowed=nothing)
        assert (got.indices == -1).all()
        assert np.isinf(got.distances).all()
        assert [len(results) for results in got] == [0] * NQ
