"""Stores of anybody's making, which answer nonsense or fail in the middle."""

import numpy as np
import pytest

import kinrank

PARAMS = {"k1": 8, "k2": 4}
K = 12


class Memory:
    """A store of anybody's making; ``found`` and ``fetched`` spoil what it answers."""

    metric = "euclidean"

    def __init__(self, rows):
        self.rows, self.found, self.fetched = rows, None, None

    @property
    def width(self):
        return self.rows.shape[1]

    def __len__(self):
        return len(self.rows)

    def ids(self):
        return np.arange(len(self.rows))

    def search(self, queries, k):
        squared = ((queries[:, None].astype(np.float64) - self.rows) ** 2).sum(axis=2)
        ids = np.argsort(squared, axis=1, kind="stable")[:, :k]
        answer = ids, np.take_along_axis(squared, ids, axis=1).astype(np.float32)
        return answer if self.found is None else self.found(*answer)

    def fetch(self, ids):
        rows = self.rows[np.asarray(ids)]
        return rows if self.fetched is None else self.fetched(rows)


def thirds(values, other):
    """``values`` with every third column of another kind."""
    return np.where(np.arange(values.shape[1]) % 3 == 1, other, values)


# What a search may answer, and then still ranks something.
SEARCHES = {
    "fewer": lambda ids, d: (ids[:, :2], d[:, :2]),
    "none": lambda ids, d: (ids[:, :0], d[:, :0]),
    "more": lambda ids, d: (np.tile(ids, 2), np.tile(d, 2)),
    "twice": lambda ids, d: (np.repeat(ids, 2, axis=1), np.repeat(d, 2, axis=1)),
    "one row only": lambda ids, d: (np.repeat(ids[:, :1], ids.shape[1], axis=1), d),
    "unknown": lambda ids, d: (ids + 1000, d),
    "some unknown": lambda ids, d: (thirds(ids, ids + 1000), d),
    "infinite": lambda ids, d: (ids, d + np.inf),
    "some infinite": lambda ids, d: (ids, thirds(d, np.inf)),
    "too large": lambda ids, d: (ids, d.astype(np.float64) * 1e60),
    "descending": lambda ids, d: (ids[:, ::-1], d[:, ::-1]),
    "lists": lambda ids, d: (ids.tolist(), d.tolist()),
    "wide": lambda ids, d: (ids.astype(object), d.astype(np.float64)),
}
REFUSED = {
    "negative": (lambda ids, d: (ids, d - 5), "the squared distance -.*; it must be 0 or more"),
    "minus infinity": (
        lambda ids, d: (ids, thirds(d, -np.inf)),
        "squared distance -inf; it must be 0 or more",
    ),
    "not numbers": (
        lambda ids, d: (ids, thirds(d, np.nan)),
        "squared distance nan; it must be 0 or more",
    ),
    "text": (lambda ids, d: (ids, d.astype(str)), "distances of dtype <U.*; they must be numbers"),
    "complex": (lambda ids, d: (ids, d + 1j), "distances of dtype complex.*; they must be numbers"),
    "no distances": (lambda ids, d: (ids, None), r"with shapes \(\d+, \d+\) and \(\)"),
    "no ids": (lambda ids, d: (None, d), r"with shapes \(\) and"),
    "queries missing": (lambda ids, d: (ids[:-1], d[:-1]), "shapes .* one row for each of"),
    "flat": (lambda ids, d: (ids.ravel(), d.ravel()), "answered with shapes"),
    "deep": (lambda ids, d: (ids[..., None], d[..., None]), "answered with shapes"),
    "three": (lambda ids, d: (ids, d, d), "must return ids and squared distances, got tuple"),
    "nothing": (lambda ids, d: None, "must return ids and squared distances, got NoneType"),
    "ragged": (
        lambda ids, d: ([row[: at + 1] for at, row in enumerate(ids.tolist())], d),
        "`store.search` must be an array",
    ),
    "fractions as ids": (
        lambda ids, d: (ids + 0.5, d),
        "something else than ids of its rows: .* float64",
    ),
    "another kind": (
        lambda ids, d: (ids.astype(str), d),
        "ids that are text; those of the index are integers",
    ),
}
FETCHES = {
    "nothing": (lambda rows: None, "`store.fetch` must"),
    "too many": (
        lambda rows: np.tile(rows, (3, 1))[: 3 * len(rows) - 1],
        "it must fetch one for each",
    ),
    "narrow": (lambda rows: rows[:, :2], "with 2 columns; the index has 24"),
    "flat": (lambda rows: rows.ravel(), "`store.fetch` must be two-dimensional"),
    "text": (lambda rows: rows.astype(str), "`store.fetch` must hold real numbers"),
    "not finite": (lambda rows: rows * np.nan, "must be finite"),
    "ragged": (
        lambda rows: [row[: 1 + at % 2] for at, row in enumerate(rows.tolist() * 2)],
        "must",
    ),
}


@pytest.fixture
def attached(data):
    store = Memory(data.rows[:200])
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
    store.found = SEARCHES[name]
    for k in (K, None):
        assert_ranking(index.search(data.queries, k, base=base), 200)
    if name in ("more", "twice", "descending", "lists", "wide"):
        found = index.search(data.queries, K, base=base)
        np.testing.assert_array_equal(found.ids, wanted.ids)
        np.testing.assert_array_equal(found.distances, wanted.distances)
    assert np.isfinite(index.explain(data.queries[0], 7).distance)
    store.found = None
    np.testing.assert_array_equal(
        index.search(data.queries, K, base=base).distances, wanted.distances
    )


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_searches_are_refused(attached, data, name):
    store, index = attached
    store.found, said = REFUSED[name]
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
    store.fetched, said = FETCHES[name]
    for call in (
        lambda: kinrank.attach(store, **PARAMS),
        lambda: index.explain(data.queries[0], 7),
    ):
        with pytest.raises(kinrank.InvalidInputError, match=said):
            call()


def test_rows_listed_twice_do_not_shorten_the_lists(attached):
    store, _ = attached
    store.found = lambda ids, d: (np.repeat(ids, 2, axis=1)[:, :8], np.repeat(d, 2, axis=1)[:, :8])
    with pytest.raises(kinrank.InvalidInputError, match=r"found 3 of the .* rows asked for beside"):
        kinrank.attach(store, **PARAMS)


@pytest.mark.parametrize(("name", "value"), [("metric", "hamming"), ("width", "four")])
def test_stores_that_say_nonsense_of_themselves(data, name, value):
    made = type("Odd", (Memory,), {name: value})(data.rows)
    with pytest.raises(kinrank.KinrankError, match=rf"`store.{name}` must be"):
        kinrank.attach(made, **PARAMS)


@pytest.mark.parametrize("at", ["found", "fetched"])
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

    store.fetched, store.found = gone, lambda ids, d: (ids[:, 30:], d[:, 30:])
    for k in (K, None):
        assert_ranking(index.search(data.queries, k), 200)
