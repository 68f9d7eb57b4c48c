"""An index that was changed equals one that is built afresh."""

import numpy as np
import pytest

from index_data import QUERIES, ROWS, assert_same
from kinrank import CAS
from kinrank.errors import InvalidInputError, UnknownIdError

METHODS = [
    CAS(k1=10, k2=4),
    CAS(k1=10, k2=4, variant="paper"),
    CAS(k1=8, k2=3, clusters="knn", smoothing="aqe"),
    CAS(k1=8, k2=3, clusters="reciprocal", similarity="original", smoothing=None),
    CAS(k1=8, k2=3, similarity="smoothed", divergence="cosine", enhancement=False),
]


@pytest.mark.parametrize("method", METHODS, ids=range(len(METHODS)))
def test_add_remove_update(method):
    index = method.fit(ROWS[:450])
    index.add(ROWS[450:])
    assert_same(index, method.fit(ROWS))
    gone = np.arange(100, 112)
    index.remove(gone)
    left = np.delete(np.arange(len(ROWS)), gone)
    assert_same(index, method.fit(ROWS[left], ids=left))
    index.update([200, 201, 202], ROWS[200:203] + 0.1)
    order = np.concatenate([np.setdiff1d(left, [200, 201, 202]), [200, 201, 202]])
    rows = ROWS.copy()
    rows[200:203] += 0.1
    assert_same(index, method.fit(rows[order], ids=order))


@pytest.mark.parametrize("solver", ["dense", "cg"])
def test_rows_that_a_full_matrix_diffuses(solver):
    method = CAS(k1=10, k2=4, solver=solver)
    index = method.fit(ROWS[:-1])
    index.add(ROWS[-1:])
    assert_same(index, method.fit(ROWS))


def test_one_by_one():
    method = CAS(k1=10, k2=4)
    index = method.fit(ROWS[:440])
    for row in range(440, 450):
        index.add(ROWS[row : row + 1])
    for row in (3, 17, 444):
        index.remove([row])
    left = np.delete(np.arange(450), [3, 17, 444])
    assert_same(index, method.fit(ROWS[left], ids=left))


def test_few_rows_are_computed_again():
    """One new row far from most leaves most of them as they were, bit for bit."""
    rng = np.random.default_rng(0)
    centres = 40 * rng.normal(size=(60, 6))
    rows = np.repeat(centres, 30, axis=0) + rng.normal(size=(1800, 6))
    method = CAS(k1=10, k2=4)
    index = method.fit(rows[:-1])
    before = index.engine.state
    index.add(rows[-1:])
    after = index.engine.state
    old = before.smoothed.to_scipy()
    same = (
        abs(after.smoothed.to_scipy()[: len(before), : len(before)] - old).max(axis=1).toarray()
        == 0
    )
    assert same.mean() > 0.9
    assert_same(index, method.fit(rows), rows[:20] + 0.1)


def test_with_context():
    method = CAS(k1=10, k2=4)
    index = method.fit(ROWS[:300], context=ROWS[400:])
    index.add(ROWS[300:310])
    index.remove([5])
    left = np.delete(np.arange(310), 5)
    assert_same(index, method.fit(ROWS[left], ids=left, context=ROWS[400:]))
    assert index.search(QUERIES, k=None).k == 309


def test_duplicates_keep_their_order():
    rows = np.concatenate([ROWS[:100], ROWS[:6], ROWS[:6]])
    method = CAS(k1=8, k2=3)
    index = method.fit(rows[:106])
    index.add(rows[106:])
    assert_same(index, method.fit(rows))
    index.remove([0, 101])
    left = np.delete(np.arange(112), [0, 101])
    assert_same(index, method.fit(rows[left], ids=left))


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_from_very_few_rows_to_many_and_back():
    method = CAS(k1=10, k2=4)
    index = method.fit(ROWS[:3])
    index.add(ROWS[3:40])
    assert_same(index, method.fit(ROWS[:40]))
    index.remove(np.arange(2, 40))
    assert_same(index, method.fit(ROWS[:2]), k=2)
    for gone in ([0], [0, 1]):
        with pytest.raises(InvalidInputError, match="must keep at least two rows"):
            index.remove(gone)
    assert len(index) == 2
    with pytest.raises(InvalidInputError, match="must have at least two rows, got one"):
        method.fit(ROWS[:1])


def test_a_change_that_is_refused_changes_nothing():
    index = CAS(k1=10, k2=4).fit(ROWS[:100])
    before = index.engine
    with pytest.raises(UnknownIdError, match="There is no row with the id 100 and 1 more"):
        index.remove([3, 100, 101])
    with pytest.raises(InvalidInputError, match="got 7 more than once"):
        index.remove([7, 7])
    with pytest.raises(InvalidInputError, match="got 99 more than once"):
        index.add(ROWS[:2], ids=[99, 200])
    with pytest.raises(InvalidInputError, match="must be finite"):
        index.add([[np.inf] * 8])
    with pytest.raises(InvalidInputError, match=r"one per row \(2\), got 1"):
        index.add(ROWS[:2], ids=[500])
    with pytest.raises(InvalidInputError, match="The ids of this index are integers"):
        index.add(ROWS[:1], ids=["a"])
    with pytest.raises(UnknownIdError):
        index.update([1000], ROWS[:1])
    assert index.engine is before


def test_a_draft_changes_alone_until_it_is_adopted():
    index = CAS(k1=10, k2=4).fit(ROWS[:100])
    index.notes = {"a": 1}
    draft = index.draft()
    draft.add(ROWS[100:110])
    draft.notes["a"] = 2
    assert (len(index), index.notes, index.path) == (100, {"a": 1}, None)
    index.adopt(draft)
    assert (len(index), index.notes) == (110, {"a": 2})
    assert_same(index, CAS(k1=10, k2=4).fit(ROWS[:110]))


def test_searching_goes_on_while_the_index_changes():
    import threading

    index = CAS(k1=10, k2=4).fit(ROWS[:400])
    seen, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            seen.append(index.search(QUERIES[:2], k=5, threads=1).ids.shape)

    thread = threading.Thread(target=ask)
    thread.start()
    for row in range(400, 406):
        index.add(ROWS[row : row + 1])
    stop.set()
    thread.join()
    assert set(seen) == {(2, 5)}
    assert len(index) == 406
