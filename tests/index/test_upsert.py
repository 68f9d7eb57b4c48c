"""Rows that are added, changed and removed in one step, against a fresh build."""

import numpy as np
import pytest

import kinrank

ROWS = np.random.default_rng(4).normal(size=(120, 8)).astype(np.float32)
METHOD = kinrank.CAS(k1=8, k2=4)
KINDS = np.array(["fox", "lynx"])[np.arange(120) % 2]


@pytest.fixture
def index():
    return METHOD.fit(ROWS[:100], np.arange(100), attributes={"kind": KINDS[:100]})


def test_it_is_a_fresh_build(index):
    before = index.engine
    arriving = [7, 200, 9, 201]
    index.upsert(
        ROWS[100:104], arriving, removed=[3, 50], attributes={"kind": ["cat", "cat", "cat", "fox"]}
    )
    assert len(index) == 100
    assert index.ids[-4:].tolist() == arriving
    assert index.attributes["kind"][-4:].tolist() == ["cat", "cat", "cat", "fox"]
    assert before.state.n_gallery == 100  # what others search in meanwhile is whole
    order = index.ids.tolist()
    rows = {**dict(enumerate(ROWS[:100])), **dict(zip(arriving, ROWS[100:104], strict=True))}
    fresh = METHOD.fit(np.array([rows[item] for item in order]), order)
    found = index.search(ROWS[104:], 10)
    wanted = fresh.search(ROWS[104:], 10)
    np.testing.assert_allclose(found.distances, wanted.distances, atol=1e-5)
    np.testing.assert_array_equal(found.ids, wanted.ids)


def test_each_part_may_be_missing(index):
    index.upsert([], [], removed=[4])
    assert 4 not in index
    index.upsert(ROWS[100:101], [5])  # one that is there keeps its attributes
    assert index.attributes["kind"][-1] == "lynx"
    index.upsert([], [])
    assert len(index) == 99


def test_what_is_refused_leaves_the_index(index):
    with pytest.raises(kinrank.InvalidInputError, match="must have 'kind' for rows that are added"):
        index.upsert(ROWS[100:102], [5, 200])
    with pytest.raises(kinrank.UnknownIdError, match="no row with the id 300"):
        index.upsert(ROWS[100:101], [5], removed=[300])
    with pytest.raises(kinrank.InvalidInputError, match="got 5 more than once"):
        index.upsert(ROWS[100:101], [5], removed=[5])
    with pytest.raises(kinrank.InvalidInputError, match="got 5 more than once"):
        index.upsert(ROWS[100:102], [5, 5])
    with pytest.raises(kinrank.InvalidInputError, match=r"one per row \(2\), got 1"):
        index.upsert(ROWS[100:102], [5])
    with pytest.raises(kinrank.InvalidInputError, match="`ids` is missing"):
        index.upsert(ROWS[100:101], None)
    with pytest.raises(kinrank.InvalidInputError, match="at least two rows"):
        index.upsert([], [], removed=list(range(99)))
    assert index.ids.tolist() == list(range(100))
