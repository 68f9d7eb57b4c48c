"""Stores of anybody's making, which answer nonsense or fail in the middle."""

import numpy as np
import pytest

import kinrank
from kinrank import Neighbors
from row_store import RowStore

PARAMS = {"k1": 8, "k2": 4}
K = 12


def thirds(values, other):
    """``values`` with every third column of another kind."""
    return np.where(np.arange(values.shape[1]) % 3 == 1, other, values)


# What a search may answer, and then still ranks something.
SEARCHES = {
    "fewer": lambda ids, d: Neighbors(ids[:, :2], d[:, :2]),
    "none": lambda ids, d: Neighbors(ids[:, :0], d[:, :0]),
    "more": lambda ids, d: Neighbors(np.tile(ids, 2), np.tile(d, 2)),
    "twice": lambda ids, d: Neighbors(np.repeat(ids, 2, axis=1), np.repeat(d, 2, axis=1)),
    "one row only": lambda ids, d: Neighbors(np.repeat(ids[:, :1], ids.shape[1], axis=1), d),
    "unknown": lambda ids, d: Neighbors(ids + 1000, d),
    "some unknown": lambda ids, d: Neighbors(thirds(ids, ids + 1000), d),
    "infinite": lambda ids, d: Neighbors(ids, d + np.inf),
    "some infinite": lambda ids, d: Neighbors(ids, thirds(d, np.inf)),
    "too large": lambda ids, d: Neighbors(ids, d.astype(np.float64) * 1e60),
    "descending": lambda ids, d: Neighbors(ids[:, ::-1], d[:, ::-1]),
    "lists": lambda ids, d: Neighbors(ids.tolist(), d.tolist()),
    "wide": lambda ids, d: Neighbors(ids.astype(object), d.astype(np.float64)),
}
REFUSED = {
    "negative": (
        lambda ids, d: Neighbors(ids, d - 5),
        "the squared distance -.*: it must be 0 or more",
    ),
    "minus infinity": (
        lambda ids, d: Neighbors(ids, thirds(d, -np.inf)),
        "squared distance -inf: it must be 0 or more",
    ),
    "not numbers": (
        lambda ids, d: Neighbors(ids, thirds(d, np.nan)),
        "squared distance nan: it must be 0 or more",
    ),
    "text": (
        lambda ids, d: Neighbors(ids, d.astype(str)),
        "distances of dtype <U.*: they must be numbers",
    ),
    "complex": (
        lambda ids, d: Neighbors(ids, d + 1j),
        "distances of dtype complex.*: they must be numbers",
    ),
    "no distances": (
        lambda ids, d: Neighbors(ids, None),
        r"indices of shape \(\d+, \d+\) and distances of shape \(\)",
    ),
    "no ids": (lambda ids, d: Neighbors(None, d), r"indices of shape \(\) and"),
    "queries missing": (lambda ids, d: Neighbors(ids[:-1], d[:-1]), "shape .* a row for each of"),
    "flat": (lambda ids, d: Neighbors(ids.ravel(), d.ravel()), "both must have a row for each"),
    "deep": (
        lambda ids, d: Neighbors(ids[..., None], d[..., None]),
        "both must have a row for each",
    ),
    "pair": (lambda ids, d: (ids, d), "must return kinrank.Neighbors .*, got tuple"),
    "nothing": (lambda ids, d: None, "must return kinrank.Neighbors .*, got NoneType"),
    "ragged": (
        lambda ids, d: Neighbors([row[: at + 1] for at, row in enumerate(ids.tolist())], d),
        "`indices` must be an array",
    ),
    "fractions as ids": (
        lambda ids, d: Neighbors(ids + 0.5, d),
        "something else than ids of its rows: .* float64",
    ),
    "another kind": (
        lambda ids, d: Neighbors(ids.astype(str), d),
        "ids that are text; those of the index are integers",
    ),
}
FETCHES = {
    "nothing": (lambda rows: None, "`RowStore.fetch` must"),
    "too many": (
        lambda rows: np.tile(rows, (3, 1))[: 3 * len(rows) - 1],
        "it must return one for each",
    ),
    "narrow": (lambda rows: rows[:, :2], "with 2 columns: they must have 24"),
    "flat": (lambda rows: rows.ravel(), "`RowStore.fetch` must be two-dimensional"),
    "text": (lambda rows: rows.astype(str), "`RowStore.fetch` must hold real numbers"),
    "not finite": (lambda rows: rows * np.nan, "must be finite"),
    "ragged": (
        lambda rows: [row[: 1 + at % 2] for at, row in enumerate(rows.tolist() * 2)],
        "must",
    ),
}


@pytest.fixture
def attached(data):
    store = RowStore(data.rows[:200])
    return store, kinrank.attach(store, **PARAMS)


def assert_ranking(ranking, n):
    """In range, each once, ascending; nothing but -1 and infinity where there is none."""
    rows = zip(ranking.indices, ranking.distances, ranking.ids, strict=True)
    for indices, distances, ids in rows:
        count = (indices >= 0).sum()
        assert (indices[:count] >= 0).all()
        assert len(set(indices[:count].tolist())) == count
        assert indices.max() < n
        np.testing.assert_array_equal(ids, indices)
        assert np.isfinite(distances[:count]).all()
        assert (np.diff(distances[:count]) >= 0).all()
        assert np.isinf(distances[count:]).all()


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("base", [False, True])
def test_odd_searches_rank_what_they_found(attached, data, name, base):
    store, index = attached
    wanted = index.search(data.queries, K, base=base)
    store.spoil_search = SEARCHES[name]
    for k in (K, None):
        assert_ranking(index.search(data.queries, k, base=base), 200)
    if name in ("more", "twice", "descending", "lists", "wide"):
        found = index.search(data.queries, K, base=base)
        np.testing.assert_array_equal(found.ids, wanted.ids)
        np.testing.assert_array_equal(found.distances, wanted.distances)
    assert np.isfinite(index.explain(data.queries[0], 7).distance)
    store.spoil_search = None
    np.testing.assert_array_equal(
        index.search(data.queries, K, base=base).distances, wanted.distances
    )


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_searches_are_refused(attached, data, name):
    store, index = attached
    store.spoil_search, said = REFUSED[name]
    for call in (
        lambda: kinrank.attach(store, **PARAMS),
        lambda: index.search(data.queries, K),
        lambda: index.search(data.queries, K, base=True),
    ):
        with pytest.raises(kinrank.InvalidInputError, match=said):
            call()


@pytest.mark.parametrize("name", FETCHES)
def test_wrong_vectors_are_refused(attached, data, name):
    store, index = attached
    store.spoil_fetch, said = FETCHES[name]
    for call in (
        lambda: kinrank.attach(store, **PARAMS),
        lambda: index.explain(data.queries[0], 7),
    ):
        with pytest.raises(kinrank.InvalidInputError, match=said):
            call()


def test_rows_listed_twice_do_not_shorten_the_lists(attached):
    store, _ = attached
    store.spoil_search = lambda ids, d: Neighbors(
        np.repeat(ids, 2, axis=1)[:, :8], np.repeat(d, 2, axis=1)[:, :8]
    )
    with pytest.raises(kinrank.InvalidInputError, match=r"found 3 of the .* rows asked for beside"):
        kinrank.attach(store, lists="store", **PARAMS)


@pytest.mark.parametrize(("name", "value"), [("metric", "hamming"), ("width", "four")])
def test_stores_that_say_nonsense_of_themselves(data, name, value):
    made = type("Odd", (RowStore,), {name: value})(data.rows)
    with pytest.raises(kinrank.KinrankError, match=rf"`store.{name}` must be"):
        kinrank.attach(made, **PARAMS)


@pytest.mark.parametrize("at", ["spoil_search", "spoil_fetch"])
def test_an_error_in_the_middle_is_the_stores_own_and_leaves_no_trace(attached, data, at):
    store, index = attached
    wanted = index.search(data.queries, K)

    def fail(*_):
        raise ConnectionResetError("gone for lunch")

    setattr(store, at, fail)
    for _ in range(20):  # more often than there are seats
        with pytest.raises(ConnectionResetError, match="gone for lunch"):
            index.search(data.queries, K)
    setattr(store, at, None)
    np.testing.assert_array_equal(index.search(data.queries, K).distances, wanted.distances)


def test_all_rows_that_are_asked_for_have_left(attached, data):
    store, index = attached

    def gone(rows):
        raise kinrank.UnknownIdError("gone")

    store.spoil_fetch = gone
    store.spoil_search = lambda ids, d: Neighbors(ids[:, 30:], d[:, 30:])
    for k in (K, None):
        assert_ranking(index.search(data.queries, k), 200)


CLAIMS = {
    "half of it": (lambda d: d / 2, r"returned 1 - cos: .*Let it return 2 - 2 cos, twice"),
    "its root": (np.sqrt, "returned the distance itself: .*return its square"),
    "the cosine": (lambda d: 1 - d / 2, "returned the cosine"),
    "a thousand times": (lambda d: 1000 * d, "Check the metric of the engine"),
    "of other rows": (lambda d: np.full_like(d, 90.0), "Check the metric of the engine"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_distances_that_are_not_those_of_the_vectors_are_refused(data, tmp_path, name):
    claim, said = CLAIMS[name]
    unit = data.unit[:200] if name == "the cosine" else data.rows[:200]
    store = RowStore(unit)
    kinrank.attach(store, **PARAMS).save(tmp_path / "graph")
    store.spoil_search = lambda ids, d: Neighbors(ids, np.maximum(claim(d), 0))
    for lists in ("vectors", "store"):
        with pytest.raises(kinrank.InvalidInputError, match=said):
            kinrank.attach(store, lists=lists, **PARAMS)
    with pytest.raises(kinrank.InvalidInputError, match=said):
        kinrank.open(tmp_path / "graph", store=store)


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_rounding_below_zero_is_clipped(data, factor):
    store = RowStore((factor * data.unit[:200]).astype(np.float32))
    index = kinrank.attach(store, **PARAMS)
    wanted = index.search(store.vectors[:5], K)
    below = np.float32(-1.19e-7 * factor**2)
    store.spoil_search = lambda ids, d: Neighbors(ids, np.where(d == 0, below, d))
    found = index.search(store.vectors[:5], K)
    np.testing.assert_array_equal(found.distances, wanted.distances)
    assert kinrank.attach(store, lists="store", **PARAMS).search(store.vectors[:5], K) is not None


def test_compressed_distances_are_believed(data):
    store = RowStore(data.rows[:200])
    rng = np.random.default_rng(0)
    store.spoil_search = lambda ids, d: Neighbors(ids, d * rng.uniform(0.7, 1.3, d.shape))
    assert len(kinrank.attach(store, **PARAMS)) == 200
