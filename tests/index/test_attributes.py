"""Attributes that change without their vectors."""

import threading

import numpy as np
import pytest

import kinrank
from kinrank import CAS, Index
from kinrank.errors import InvalidInputError, UnknownIdError, UnknownNameError
from kinrank.index import index as index_module
from row_store import RowStore
from struck import rows

N = 80
METHOD = CAS(k1=6, k2=3)


def fitted(**attributes):
    return METHOD.fit(rows(N, 1), attributes=attributes or {"stock": np.arange(N)})


def test_values_change_and_nothing_is_computed(monkeypatch):
    index = fitted(stock=np.arange(N), name=["a"] * N, price=np.zeros(N))
    index.calibrate()
    state, explorer, calibration = index.engine.state, index.explorer(), index.calibration
    before = index.search(rows(3, 2), 5)
    monkeypatch.setattr(index_module, "changed", None)  # what would compute
    index.update([7, 3], attributes={"stock": [-1, -2], "name": ["longer", "b"]})
    index.update([5], attributes={"price": [3]})  # an integer that a number can be
    assert index.attributes["stock"][[3, 5, 7]].tolist() == [-2, 5, -1]
    assert index.attributes["name"][[3, 5, 7]].tolist() == ["b", "a", "longer"]
    assert index.attributes["price"][[3, 5]].tolist() == [0, 3]
    assert index.engine.state is state
    assert index.explorer() is explorer
    assert index.calibration is calibration
    after = index.search(rows(3, 2), 5)
    np.testing.assert_array_equal(after.ids, before.ids)
    np.testing.assert_array_equal(after.distances, before.distances)
    assert index.search(rows(1, 2), None, where={"stock": {"max": -1}}).ids[0, :3].tolist() in (
        [3, 7, -1],
        [7, 3, -1],
    )


def test_they_are_saved(tmp_path):
    fitted().save(tmp_path / "an.index")
    with kinrank.open(tmp_path / "an.index", writable=True) as opened:
        opened.update([4], attributes={"stock": [400]})
        opened.update([5], rows(1, 9), attributes={"stock": [500]})
        opened.save()
    again = kinrank.open(tmp_path / "an.index")
    stock = dict(zip(again.ids.tolist(), again.attributes["stock"].tolist(), strict=True))
    assert (stock[4], stock[5], stock[6]) == (400, 500, 6)
    assert again.ids[-1] == 5
    with pytest.raises(InvalidInputError, match="open for reading only"):
        again.update([4], attributes={"stock": [1]})


@pytest.mark.parametrize(
    ("ids", "attributes", "error", "words"),
    [
        ([4], None, InvalidInputError, "`vectors` or `attributes` must be given"),
        (None, {"stock": [1]}, InvalidInputError, "`ids` is missing"),
        ([4, 5], {"stock": [1]}, InvalidInputError, r"one value per row \(2\), got 1"),
        ([4, 4], {"stock": [1, 2]}, InvalidInputError, "4 more than once"),
        ([N], {"stock": [1]}, UnknownIdError, f"the id {N}"),
        ([4], {"stok": [1]}, UnknownNameError, "Did you mean 'stock'"),
        ([4], {"stock": ["a"]}, InvalidInputError, "must be integers, as in the index, got text"),
        ([4], {"stock": [1.5]}, InvalidInputError, "must be integers, as in the index"),
        ([4], {"stock": 1}, InvalidInputError, "must be a list"),
        ([4], [1], InvalidInputError, "a dict of names"),
        (4, {"stock": [1]}, InvalidInputError, "`ids` must be a list"),
    ],
)
def test_what_is_refused_changes_nothing(ids, attributes, error, words):
    index = fitted()
    with pytest.raises(error, match=words):
        index.update(ids, attributes=attributes)
    np.testing.assert_array_equal(index.attributes["stock"], np.arange(N))


def test_numbers_that_a_column_cannot_hold():
    index = fitted(price=np.zeros(N))
    with pytest.raises(InvalidInputError, match="must be numbers, as in the index, got integers"):
        index.update([4], attributes={"price": [2**53 + 1]})


def test_no_ids_is_no_change():
    index = fitted()
    index.update([], attributes={"stock": []})
    np.testing.assert_array_equal(index.attributes["stock"], np.arange(N))


def test_ids_and_attributes_cannot_be_written_to(tmp_path):
    index = fitted()
    index.save(tmp_path / "an.index")
    for each in (index, kinrank.open(tmp_path / "an.index")):
        with pytest.raises(ValueError, match="read-only"):
            each.ids[0] = 7
        with pytest.raises(ValueError, match="read-only"):
            each.attributes["stock"][0] = 7
        each.attributes["other"] = 3  # a dict of one's own
        assert list(each.attributes) == ["stock"]
        assert each.ids[0] == 0


def test_the_index_over_a_store_has_them_too():
    own = fitted()
    state = own.engine.state
    lists = state.neighbors
    ids = np.arange(N)
    over = Index.from_neighbors(
        METHOD,
        lists.distances[state.position],
        state.order[lists.indices][state.position],
        ids=ids,
        store=RowStore(rows(N, 1), ids), squared=True, farthest=lists.farthest[state.position],
        attributes={"stock": ids},
    )  # fmt: skip
    over.update([3], attributes={"stock": [-1]})
    assert over.search(rows(1, 2), 3, where={"stock": -1}).ids[0].tolist() == [3, -1, -1]


def test_changes_at_the_same_time_are_all_there():
    """Attributes of old rows, while others come and go: every change is in the end there."""
    index = fitted()
    faults = []

    def change(call, count):
        try:
            for step in range(count):
                call(step)
        except Exception as error:  # noqa: BLE001
            faults.append(error)

    def set_stock(step):
        index.update([step], attributes={"stock": [1000 + step]})

    def set_stock_too(step):
        index.update([40 + step], attributes={"stock": [2000 + step]})

    def add(step):
        index.add(rows(1, 50 + step), [500 + step], attributes={"stock": [3000 + step]})

    def look(_):
        found = index.search(rows(1, 3), 5, where={"stock": {"min": 1000}})
        assert len(index.attributes["stock"]) >= N
        assert len(found) == 1

    calls = [(set_stock, 30), (set_stock_too, 30), (add, 4), (look, 20)]
    threads = [threading.Thread(target=change, args=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    stock = dict(zip(index.ids.tolist(), index.attributes["stock"].tolist(), strict=True))
    assert [stock[n] for n in range(30)] == [1000 + n for n in range(30)]
    assert [stock[40 + n] for n in range(30)] == [2000 + n for n in range(30)]
    assert [stock[500 + n] for n in range(4)] == [3000 + n for n in range(4)]
