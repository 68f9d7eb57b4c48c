"""An index over neighbour lists that somebody else found, and over a store."""

import numpy as np
import pytest

import kinrank
from index_data import IDS, QUERIES, ROWS, SQUARED, lists
from kinrank import CAS, Index
from kinrank.errors import InvalidInputError
from kinrank.index import list_length
from row_store import RowStore

METHOD = CAS(k1=10, k2=4)


def known(k):
    order = np.argsort(SQUARED, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(SQUARED, order, axis=1), order


def test_with_vectors_it_is_as_if_fitted():
    k = list_length(METHOD, len(ROWS))
    index = Index.from_neighbors(
        METHOD, *known(k), ids=IDS, vectors=ROWS, squared=True, farthest=SQUARED.max(axis=1)
    )
    fitted = METHOD.fit(ROWS, ids=IDS)
    np.testing.assert_array_equal(lists(index), lists(fitted))
    a, b = index.search(QUERIES, k=20), fitted.search(QUERIES, k=20)
    np.testing.assert_allclose(a.distances, b.distances, atol=1e-5)
    assert np.mean(a.ids == b.ids) > 0.99
    guessed = Index.from_neighbors(METHOD, *known(k), ids=IDS, vectors=ROWS, squared=True)
    pairs = zip(guessed.search(QUERIES, k=10).ids, b.ids[:, :10], strict=True)
    shared = [len(np.intersect1d(*pair)) for pair in pairs]
    assert np.mean(shared) > 9


def test_over_a_store(tmp_path):
    k = list_length(METHOD, len(ROWS))
    far = SQUARED.max(axis=1)
    index = Index.from_neighbors(
        METHOD, *known(k), ids=IDS, store=RowStore(ROWS, IDS), squared=True, farthest=far
    )
    a, b = index.search(QUERIES, k=10), METHOD.fit(ROWS, ids=IDS).search(QUERIES, k=10)
    np.testing.assert_allclose(a.distances, b.distances, atol=1e-5)
    one = index.search(QUERIES[4:5], k=10)
    np.testing.assert_array_equal(one.distances[0], a.distances[4])
    index.save(tmp_path / "an.index")
    again = kinrank.open(tmp_path / "an.index", store=RowStore(ROWS, IDS))
    np.testing.assert_array_equal(again.search(QUERIES, k=10).distances, a.distances)
    alone = kinrank.open(tmp_path / "an.index")
    assert alone.info()["rows"] == len(ROWS)
    for call in (
        lambda: alone.search(QUERIES),
        lambda: index.add(ROWS[:1], ids=["x"]),
        lambda: alone.explain(QUERIES[0], "r0"),
        index.calibrate,
    ):
        with pytest.raises(InvalidInputError, match=r"store|vectors"):
            call()


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_short_lists_shorten_the_method(tmp_path):
    index = Index.from_neighbors(METHOD, *known(8), vectors=ROWS, squared=True)
    assert index.method.k1 == 7
    index.save(tmp_path / "an.index")
    again = kinrank.open(tmp_path / "an.index")
    assert again.method == index.method
    np.testing.assert_array_equal(
        again.search(QUERIES, k=9).distances, index.search(QUERIES, k=9).distances
    )


def test_vectors_or_a_store():
    for given in ({}, {"vectors": ROWS, "store": RowStore(ROWS, IDS)}):
        with pytest.raises(InvalidInputError, match="Give either `vectors` or `store`"):
            Index.from_neighbors(METHOD, *known(15), squared=True, **given)
