"""Stores that list the neighbours of their own rows: no vectors are moved."""

from dataclasses import replace

import numpy as np
import pytest

import kinrank
import store_makers
from kinrank import Neighbors
from kinrank.stores import ListingStore
from row_store import RowStore

PARAMS = {"k1": 8, "k2": 4}
K = 12
N = 150
PACKAGES = {
    "qdrant_numbers": "qdrant_client",
    "qdrant_payload": "qdrant_client",
    "qdrant_cosine": "qdrant_client",
    "pg_exact": "psycopg",
    "pg_cosine": "psycopg",
    "pg_inner": "psycopg",
}


@pytest.fixture(scope="module")
def few(data):
    """Fewer rows: Qdrant's local mode takes its time."""
    return replace(data, rows=data.rows[:N], numbers=data.numbers[:N], names=data.names[:N])


@pytest.fixture(scope="module", params=PACKAGES)
def made(request, few, tmp_path_factory):
    pytest.importorskip(PACKAGES[request.param])
    maker = getattr(store_makers, request.param)
    if maker in store_makers.SERVED:
        made = maker(few, request.getfixturevalue("postgres"))
        yield made
        made.store.close()
    else:
        yield maker(few, tmp_path_factory.mktemp("store"))


def test_lists_against_the_exact_ones(made):
    assert isinstance(made.store, ListingStore)
    place = {name: row for row, name in enumerate(made.ids.tolist())}
    rows = made.rows.astype(np.float64)
    if made.store.metric != "euclidean":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    truth = ((rows[:, None] - rows) ** 2).sum(axis=2)
    np.fill_diagonal(truth, np.inf)
    hits = []
    listed = 0
    for ids, lists in made.store.neighbors(K):
        listed += len(ids)
        for name, others, squared in zip(
            ids.tolist(), lists.indices.tolist(), lists.distances, strict=True
        ):
            own = place[name]
            found = [place[other] for other, d in zip(others, squared, strict=True) if d < np.inf]
            assert own not in found
            assert (np.diff(squared) >= 0).all()
            np.testing.assert_allclose(
                squared[: len(found)], truth[own, found], rtol=1e-4, atol=1e-4
            )
            hits.append(len(set(found[:K]) & set(np.argsort(truth[own])[:K].tolist())) / K)
    assert listed == len(made.rows)
    assert np.mean(hits) >= made.recall


def test_an_index_over_them(made, data, monkeypatch):
    twin = kinrank.attach(made.store, **PARAMS)
    fetched = []
    fetch = type(made.store).fetch
    monkeypatch.setattr(
        type(made.store), "fetch", lambda self, ids: (fetched.append(len(ids)), fetch(self, ids))[1]
    )
    monkeypatch.setattr("kinrank.index.build._SAMPLE", 32)
    index = kinrank.attach(made.store, lists="neighbors", **PARAMS)
    # What checks take: norms of 64 rows, distances of some, and a sample.
    assert sum(fetched) < 64 + 2 * 4 * 16 + 2 * 32
    found = index.search(data.queries, 10)
    wanted = twin.search(data.queries, 10)
    shared = [len(set(a) & set(b)) / 10 for a, b in zip(found.ids, wanted.ids, strict=True)]
    assert np.mean(shared) >= (0.97 if made.recall == 1 else 0.85)


class Listing(RowStore):
    """A store whose lists a test may spoil."""

    spoil = None

    def neighbors(self, k):
        listed = self.search(self.vectors, k + 1)
        others = listed.indices[:, 1:]
        yield self.spoil(self.row_ids, Neighbors(others, listed.distances[:, 1:]))


def test_lists_that_cannot_be_used(data):
    store = Listing(data.rows, data.names)
    store.spoil = lambda ids, lists: (ids, lists)
    index = kinrank.attach(store, lists="neighbors", **PARAMS)
    assert index.fingerprints is None  # vectors were not seen, so that following attaches again
    assert kinrank.follow(index, store).rows == 0
    assert index.fingerprints is not None
    store.spoil = lambda ids, lists: (ids[1:], lists[1:])
    with pytest.raises(kinrank.InvalidInputError, match="neighbours of 599 of its 600 rows"):
        kinrank.attach(store, lists="neighbors", **PARAMS)
    store.spoil = lambda ids, lists: (ids, Neighbors(lists.indices[:, :3], lists.distances[:, :3]))
    with pytest.raises(kinrank.InvalidInputError, match="The store found 3 of the"):
        kinrank.attach(store, lists="neighbors", **PARAMS)
    with pytest.raises(kinrank.InvalidInputError, match="such as QdrantStore and PgVectorStore"):
        kinrank.attach(RowStore(data.rows), lists="neighbors", **PARAMS)
