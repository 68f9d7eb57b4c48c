"""Changes that come together are made together, and saved once."""

import asyncio
import threading

import numpy as np
import pytest

import kinrank
from kinrank.errors import InvalidInputError, UnknownIdError
from kinrank.serve.changes import ItemsChange
from kinrank.serve.service import Service
from kinrank.serve.settings import Settings
from kinrank.serve.work import Workers

METHOD = kinrank.CAS(k1=8, k2=4)
ROWS = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
NEW = np.random.default_rng(1).normal(size=(6, 8)).astype(np.float32)


def service(**given):
    index = METHOD.fit(ROWS, ids=np.arange(80), **given)
    return Service(index, Settings(writable=True))


def saves(served, tmp_path, monkeypatch):
    """The service over a file, and how often it is saved."""
    path = tmp_path / "rows.index"
    served.index.save(path)
    served.index = kinrank.open(path, writable=True)
    counts = []
    save = kinrank.Index.save
    monkeypatch.setattr(
        kinrank.Index, "save", lambda self, *args: (counts.append(1), save(self, *args))[1]
    )
    return counts


def test_adds_are_one_change_and_one_save(tmp_path, monkeypatch):
    served = service()
    counts = saves(served, tmp_path, monkeypatch)
    changes = [
        ItemsChange(vectors=NEW[:2], ids=[100, 101], labels=["a", "b"]),
        ItemsChange(vectors=NEW[2:3], ids=[102]),
        ItemsChange(vectors=NEW[3:], ids=[103, 104, 105], labels=["c", "d", "e"]),
    ]
    assert served.apply(changes) == [86] * 3
    assert len(counts) == 1
    assert served.index.ids[80:].tolist() == [100, 101, 102, 103, 104, 105]
    assert served.labels.words == {100: "a", 101: "b", 103: "c", 104: "d", 105: "e"}
    served.index.close()
    fresh = METHOD.fit(np.concatenate([ROWS, NEW]))
    ranking = kinrank.open(tmp_path / "rows.index").search(ROWS[:9], 5)
    np.testing.assert_array_equal(ranking.indices, fresh.search(ROWS[:9], 5).indices)


def test_one_that_fails_leaves_the_others(tmp_path, monkeypatch):
    served = service()
    counts = saves(served, tmp_path, monkeypatch)
    taken, misfit, gone, *made = served.apply(
        [
            ItemsChange(vectors=NEW[:1], ids=[5]),
            ItemsChange(vectors=NEW[:2], ids=[100, 101], labels=["a"]),
            ItemsChange(removed=999),
            ItemsChange(vectors=NEW[:1], ids=[100]),
            ItemsChange(vectors=NEW[1:2], ids=[101]),
            ItemsChange(removed=7),
            ItemsChange(vectors=NEW[2:3], ids=[101], update=True),
        ]
    )
    assert isinstance(taken, InvalidInputError)
    assert "labels" in str(misfit)
    assert isinstance(gone, UnknownIdError)
    assert made == [81] * 4
    assert len(counts) == 1
    assert 7 not in served.index
    assert served.index.ids[-2:].tolist() == [100, 101]
    served.index.close()


def test_nothing_is_saved_where_nothing_was_done(tmp_path, monkeypatch):
    served = service()
    counts = saves(served, tmp_path, monkeypatch)
    outcomes = served.apply([ItemsChange(removed=999), ItemsChange(vectors=NEW[:1], ids=[5])])
    assert all(isinstance(outcome, Exception) for outcome in outcomes)
    assert not counts
    served.index.close()


def test_attributes_are_joined():
    served = service(attributes={"camera": np.arange(80) % 3})
    outcomes = served.apply(
        [
            ItemsChange(vectors=NEW[:2], ids=[100, 101], attributes={"camera": [7, 8]}),
            ItemsChange(vectors=NEW[2:3], ids=[102], attributes={"camera": [9]}),
            ItemsChange(vectors=NEW[3:5], ids=[103, 104], attributes={"camera": [1]}),
        ]
    )
    assert outcomes[:2] == [83, 83]
    assert "camera" in str(outcomes[2])
    assert served.index.attributes["camera"][80:].tolist() == [7, 8, 9]


def test_changes_that_wait_are_made_together():
    begun = threading.Event()
    go_on = threading.Event()
    batches = []

    def apply(changes):
        begun.set()
        go_on.wait(60)
        batches.append(list(changes))
        return [ValueError("no") if change == 3 else 10 * change for change in changes]

    async def write():
        workers = Workers(threads=1, waiting=1, timeout=60)
        first = asyncio.ensure_future(workers.write(apply, 1))
        await asyncio.to_thread(begun.wait, 60)
        others = [asyncio.ensure_future(workers.write(apply, change)) for change in (2, 3, 4)]
        await asyncio.sleep(0)
        go_on.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        workers.close()
        return results

    results = asyncio.run(write())
    assert batches == [[1], [2, 3, 4]]
    assert results[0] == 10
    assert (results[1], results[3]) == (20, 40)
    with pytest.raises(ValueError, match="no"):
        raise results[2]
