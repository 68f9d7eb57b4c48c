"""Several pictures of one thing, and what a person said of results."""

import numpy as np
import pytest

import kinrank
from kinrank import CAS, InvalidInputError
from kinrank.errors import UnknownIdError
from row_store import RowStore
from struck import rows

NG = 300
ITEMS = [4, 4, 2, 4, 2, 9]
METHOD = CAS(k1=8, k2=4)


@pytest.fixture(scope="module")
def sets():
    return rows(6, 5), rows(NG, 6)


@pytest.fixture(scope="module")
def index(sets):
    return METHOD.fit(sets[1], attributes={"camera": np.arange(NG) % 3})


def whole(ranking, n=NG):
    """Distances by gallery row, infinite where a row is no answer."""
    out = np.full((len(ranking), n), np.inf)
    for row, (ids, d) in enumerate(zip(ranking.indices, ranking.distances, strict=True)):
        out[row, ids[ids >= 0]] = d[ids >= 0]
    return out


def assert_nearest(got, expected, rtol=1e-6):
    """A ranking is that of distances by row."""
    for row, distances in enumerate(expected):
        order = np.lexsort((np.arange(len(distances)), distances.astype(np.float32)))[: got.k]
        order = order[np.isfinite(distances[order])]
        known = got.indices[row] >= 0
        assert known.sum() == len(order)
        np.testing.assert_allclose(got.distances[row, known], distances[order], rtol, atol=1e-6)
        np.testing.assert_allclose(
            distances[got.indices[row, known]], distances[order], rtol, atol=1e-6
        )


def means(distances):
    return np.stack([distances[np.equal(ITEMS, thing)].mean(axis=0) for thing in (4, 2, 9)])


@pytest.mark.parametrize("k", [1, 7, None])
@pytest.mark.parametrize("base", [False, True])
def test_the_mean_of_all_pictures(sets, index, k, base):
    each = whole(index.search(sets[0], None, base=base))
    assert_nearest(index.search(sets[0], k, items=ITEMS, base=base), means(each))


def test_one_picture_is_a_query(sets, index):
    got = index.search(sets[0], 9, items=np.arange(6))
    np.testing.assert_array_equal(got.indices, index.search(sets[0], 9).indices)


def test_rows_must_be_allowed_for_every_picture(sets, index):
    mask = np.random.default_rng(0).random((6, NG)) < 0.5
    each = np.where(mask, whole(index.search(sets[0], None)), np.inf)
    assert_nearest(index.search(sets[0], 8, items=ITEMS, allowed=mask), means(each))
    cameras, own = np.arange(NG) % 3, np.array([0, 1, 2, 0, 2, 1])
    each = np.where(cameras != own[:, None], whole(index.search(sets[0], None)), np.inf)
    assert_nearest(index.search(sets[0], 8, items=ITEMS, differ={"camera": own}), means(each))


@pytest.mark.parametrize("name", ["cas", "aqe"])
def test_rerank(sets, name):
    queries, gallery = sets
    each = whole(kinrank.rerank(queries, gallery, name))
    assert_nearest(kinrank.rerank(queries, gallery, name, 6, items=ITEMS), means(each))
    mask = np.random.default_rng(0).random(NG) < 0.3
    each = np.where(mask, each, np.inf)
    assert_nearest(
        kinrank.rerank(queries, gallery, name, 6, items=ITEMS, allowed=mask), means(each)
    )


def test_right_and_wrong(sets, index):
    query, vectors = sets[0][:1], sets[1]
    first = index.search(query, 10)
    right, wrong = first.ids[0, [1, 4]].tolist(), first.ids[0, [0, 7]].tolist()
    near = whole(index.search(np.concatenate([query, vectors[right]]), None)).mean(axis=0)
    far = whole(index.search(vectors[wrong], None)).min(axis=0)
    expected = near + 0.6 * (1 - far)
    expected[right], expected[wrong] = 0, np.inf
    for k in (5, None):
        got = index.search(query[0], k, right=right, wrong=wrong)
        assert_nearest(got, expected[None])
        assert sorted(got.ids[0, :2]) == sorted(right)
        assert not np.isin(wrong, got.ids).any()
    only_right = index.search(query, 5, right=right)
    near[right] = 0
    assert_nearest(only_right, near[None])


def test_marks_of_several_queries(sets, index):
    queries = sets[0][:3]
    right, wrong = [[1, 2], [], [3]], [[], [5], [6, 7]]
    together = index.search(queries, 6, right=right, wrong=wrong)
    for row in range(3):
        alone = index.search(queries[row], 6, right=right[row], wrong=wrong[row])
        np.testing.assert_array_equal(together.indices[row], alone.indices[0])
    nothing = index.search(queries, 6, right=[[], [], []])
    np.testing.assert_array_equal(nothing.indices, index.search(queries, 6).indices)


def test_marks_of_things_and_filters(sets, index):
    got = index.search(sets[0], 6, items=ITEMS, right=[[1], [], []], wrong=[[], [2], []],
                       where={"camera": 1})  # fmt: skip
    assert got.indices[0, 0] == 1
    assert (got.indices % 3 == 1).all()


def test_known_of_a_thing(sets, index):
    fitted = METHOD.fit(sets[1])
    fitted.calibrate()
    if fitted.calibration.presence is not None:
        assert fitted.search(sets[0], 3, items=ITEMS).presence.shape == (3,)
        assert fitted.search(sets[0][0], 3, right=[4]).presence.shape == (1,)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"items": [0, 1]}, InvalidInputError, "each of the 6 queries"),
        ({"items": [0.5] * 6}, InvalidInputError, "whole number or text"),
        ({"right": [1]}, InvalidInputError, "for each of the 6 queries, such as"),
        ({"right": [[1]] * 6, "wrong": [[1]] * 6}, InvalidInputError, "no id in common, got 1"),
        ({"wrong": [[NG]] * 6}, UnknownIdError, "300"),
    ],
)
def test_bad_input(sets, index, given, error, message):
    with pytest.raises(error, match=message):
        index.search(sets[0], 5, **given)


def test_what_rerank_refuses(sets):
    with pytest.raises(InvalidInputError, match="`gallery` must be given with `items`"):
        kinrank.rerank(sets[1], items=np.arange(NG))
    with pytest.raises(InvalidInputError, match="`groups` cannot be used with `items`"):
        kinrank.rerank(*sets, items=ITEMS, groups=([0] * 6, [0] * NG))


def test_whitened_rows_can_be_marked(sets):
    fitted = CAS(k1=8, k2=4, whiten=0.5).fit(sets[1])
    got = fitted.search(sets[0][0], 4, right=[3], wrong=[9])
    assert got.indices[0, 0] == 3
    assert 9 not in got.indices
    fitted.calibrate()
    assert fitted.search(sets[0], 4, items=ITEMS).indices.shape == (3, 4)


class Forgetful(RowStore):
    """A store that does not list a row for one query, as one that searches approximately."""

    lost_query = None
    lost_row = None

    def search(self, queries, k):
        neighbors = super().search(queries, k)
        if self.lost_query is not None:
            is_lost = (queries == self.lost_query).all(axis=1)[:, None]
            is_lost = is_lost & (neighbors.indices == self.lost_row)
            order = np.argsort(is_lost, axis=1, kind="stable")
            neighbors.indices[is_lost] = -1
            neighbors.distances[is_lost] = np.inf
            return kinrank.Neighbors(
                np.take_along_axis(neighbors.indices, order, axis=1),
                np.take_along_axis(neighbors.distances, order, axis=1),
            )
        return neighbors


@pytest.mark.parametrize("given", [{}, {"wrong": [7]}, {"right": [9], "wrong": [7, 8]}])
def test_a_row_that_a_store_leaves_out(sets, given):
    queries, gallery = sets[0][:2], sets[1]
    store = Forgetful(gallery)
    index = kinrank.attach(store, k1=8, k2=4)
    expected = whole(index.search(queries, None, items=[0, 0], base=True, **given))
    store.lost_query = queries[0]
    store.lost_row = 5
    got = whole(index.search(queries, None, items=[0, 0], base=True, **given))
    expected[0, 5] = np.inf
    np.testing.assert_allclose(got, expected, atol=1e-5)
    # A row that is not listed for the only wrong row is far from it.
    store.lost_query = gallery[7]
    of_pictures = whole(index.search(queries, None, items=[0, 0], base=True))
    got = whole(index.search(queries, None, items=[0, 0], base=True, wrong=[7]))
    assert got[0, 5] == pytest.approx(of_pictures[0, 5], abs=1e-5)
