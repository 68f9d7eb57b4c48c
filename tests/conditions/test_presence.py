"""Thresholds, rates of false matches, and whether a thing is in the gallery at all."""

import numpy as np
import pytest

import kinrank
from kinrank import CAS, InvalidInputError, Ranking
from kinrank.errors import FileFormatError
from kinrank.index.state_file import save_state

THINGS, EACH = 60, 12


@pytest.fixture(scope="module")
def made():
    """Rows of things in the gallery, queries of these and of others, and labels."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2 * THINGS, 24))
    labels = np.repeat(np.arange(THINGS), EACH)
    gallery = centres[labels] + 0.7 * rng.normal(size=(len(labels), 24))
    queries = centres + 0.7 * rng.normal(size=centres.shape)  # the first half is in the gallery
    return gallery.astype(np.float32), queries.astype(np.float32), labels


@pytest.fixture(scope="module")
def index(made):
    fitted = CAS(k1=10, k2=4, metric="cosine").fit(made[0])
    fitted.calibrate()
    return fitted


def test_within():
    ranking = Ranking([[3, 1, 2]], [[0.1, 0.4, 0.6]], np.array([["c", "a", "b"]]))
    near = ranking.within(0.4)
    assert near.indices.tolist() == [[3, 1, -1]]
    assert near.distances.tolist()[0][2] == np.inf
    assert near.ids.tolist() == [["c", "a", ""]]
    assert [result.id for result in next(iter(near))] == ["c", "a"]
    numbers = Ranking([[3, 1]], [[0.1, 0.6]], np.array([[30, 10]])).within(0.2)
    assert numbers.ids.tolist() == [[30, -1]]
    with pytest.raises(InvalidInputError, match="`threshold` must be a number"):
        ranking.within("near")


def test_threshold(made, index):
    whole = index.search(made[1], 20)
    near = index.search(made[1], 20, threshold=0.4)
    assert (near.indices == np.where(whole.distances <= 0.4, whole.indices, -1)).all()
    plain = index.search(made[1], 20, threshold=0.3, base=True)
    assert (plain.distances[np.isfinite(plain.distances)] <= 0.3).all()
    assert (index.search(made[1], 5, threshold=0).indices == -1).all()


def test_a_rate_is_a_threshold(made, index):
    got = index.search(made[1], 20, pair_false_match_rate=0.001)
    limit = index.calibration.threshold(0.001)
    expected = index.search(made[1], 20, threshold=limit)
    np.testing.assert_array_equal(got.indices, expected.indices)


def test_presence_tells_things_apart(made, index):
    presence = index.search(made[1], 3).presence
    assert presence.dtype == np.float32
    assert ((presence >= 0) & (presence <= 1)).all()
    assert presence[:THINGS].mean() > 0.7
    assert presence[THINGS:].mean() < 0.3
    with_labels = CAS(k1=10, k2=4, metric="cosine").fit(made[0])
    assert with_labels.search(made[1], 3).presence is None
    with_labels.calibrate(made[2])
    presence = with_labels.search(made[1], 3).presence
    assert presence[:THINGS].mean() > 0.7
    assert presence[THINGS:].mean() < 0.3
    assert with_labels.search(made[1], 3, allowed=[]).presence.max() == 0


def test_presence_does_not_depend_on_others(made, index):
    together = index.search(made[1], 3).presence
    alone = np.concatenate([index.search(query, 3).presence for query in made[1]])
    assert alone.tobytes() == together.tobytes()


def test_presence_stays_with_the_ranking(made, index, tmp_path):
    ranking = index.search(made[1], 3)
    ranking.save(tmp_path / "r.npz")
    loaded = Ranking.load(tmp_path / "r.npz")
    np.testing.assert_array_equal(loaded.presence, ranking.presence)
    np.testing.assert_array_equal(ranking.top(1).presence, ranking.presence)
    with pytest.raises(InvalidInputError, match="one number per query"):
        Ranking(ranking.indices, ranking.distances, presence=np.zeros(2))


def test_kept_in_the_file(made, index, tmp_path):
    index.save(tmp_path / "a.index")
    opened = kinrank.open(tmp_path / "a.index")
    before = index.search(made[1], 5, pair_false_match_rate=0.01)
    after = opened.search(made[1], 5, pair_false_match_rate=0.01)
    np.testing.assert_array_equal(after.indices, before.indices)
    np.testing.assert_array_equal(after.presence, before.presence)
    assert opened.calibration.precision is None
    assert opened.calibration.n_queries == index.calibration.n_queries


def test_a_damaged_calibration(index, tmp_path):
    path = tmp_path / "a.index"
    save_state(
        path,
        index.engine.state,
        recipe=None,
        auto_parameters=None,
        notes={},
        further_arrays={"calibration.presence": np.zeros(4)},
    )
    with pytest.raises(FileFormatError, match="calibration"):
        kinrank.open(path)


def test_a_small_gallery_tells_rates_alone(made):
    fitted = CAS(k1=5, k2=3).fit(made[0][:15])
    assert fitted.calibrate().presence is None
    assert fitted.search(made[1], 3).presence is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threshold": 0.3, "pair_false_match_rate": 0.1}, "got both"),
        ({"threshold": -1}, "`threshold` must be a number in"),
        ({"threshold": "near"}, "`threshold` must be a number in"),
        ({"pair_false_match_rate": 2}, r"`pair_false_match_rate` must be a number in \[0, 1\]"),
    ],
)
def test_bad_thresholds(made, index, given, message):
    with pytest.raises(InvalidInputError, match=message):
        index.search(made[1], 5, **given)


def test_a_rate_needs_a_calibration(made):
    with pytest.raises(InvalidInputError, match="after `calibrate`"):
        CAS(k1=10, k2=4).fit(made[0]).search(made[1], 5, pair_false_match_rate=0.1)


def test_a_threshold_of_rankings_and_pools(made):
    queries, gallery = made[1][:4], made[0]
    whole = kinrank.rerank(queries, gallery, k=8)
    limit = float(np.median(whole.distances))
    for cut, ranking in (
        (kinrank.rerank(queries, gallery, k=8, threshold=limit), whole),
        (
            kinrank.rerank_pool(queries[0], gallery, k=8, threshold=limit),
            kinrank.rerank_pool(queries[0], gallery, k=8),
        ),
        (
            kinrank.rerank(queries, gallery, k=8, items=[0, 0, 1, 1], threshold=limit),
            kinrank.rerank(queries, gallery, k=8, items=[0, 0, 1, 1]),
        ),
    ):
        near = ranking.distances <= limit
        np.testing.assert_array_equal(cut.indices, np.where(near, ranking.indices, -1))
        np.testing.assert_array_equal(cut.distances, np.where(near, ranking.distances, np.inf))
    with pytest.raises(kinrank.InvalidInputError, match="threshold"):
        kinrank.rerank(queries, gallery, threshold="near")


@pytest.fixture(scope="module")
def many():
    """Rows of 150 items, queries of these and of as many others, and labels."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(300, 16))
    labels = np.repeat(np.arange(150), 8)
    gallery = centres[labels] + 0.5 * rng.normal(size=(len(labels), 16))
    queries = np.repeat(centres, 4, axis=0) + 0.5 * rng.normal(size=(1200, 16))
    return gallery.astype(np.float32), queries.astype(np.float32), labels


@pytest.mark.parametrize("with_labels", [False, True])
def test_of_unknown_queries_no_more_than_the_rate_get_an_answer(many, with_labels):
    gallery, queries, labels = many
    index = CAS(k1=10, k2=4, metric="cosine").fit(gallery)
    index.calibrate(labels if with_labels else None)
    shares = []
    for rate in (0.01, 0.05, 0.2, 1):
        answered = index.search(queries, 3, unknown_rate=rate).indices[:, 0] >= 0
        assert answered[600:].mean() <= 2 * rate + 0.01
        shares.append(answered[:600].mean())
    assert shares == sorted(shares)
    assert shares[0] > 0.5
    assert shares[-1] == 1


def test_an_answer_is_whole_or_none(many):
    gallery, queries, _ = many
    index = CAS(k1=10, k2=4, metric="cosine").fit(gallery, ids=[f"r{i}" for i in range(1200)])
    index.calibrate()
    whole = index.search(queries, 5)
    some = index.search(queries, 5, unknown_rate=0.02)
    answered = whole.presence > index.calibration.least_presence(0.02)
    assert 0 < answered.sum() < len(queries)
    np.testing.assert_array_equal(some.indices, np.where(answered[:, None], whole.indices, -1))
    np.testing.assert_array_equal(some.ids, np.where(answered[:, None], whole.ids, ""))
    assert np.isinf(some.distances[~answered]).all()
    np.testing.assert_array_equal(some.presence, whole.presence)
    near = index.search(queries, 5, unknown_rate=0.02, threshold=0.3)
    np.testing.assert_array_equal(near.indices, some.within(0.3).indices)
    items = index.search(queries[:8], 5, items=[0, 0, 1, 1, 2, 2, 3, 3], unknown_rate=0.02)
    assert items.indices.shape == (4, 5)


def test_unknown_rates_are_kept_in_the_file(many, tmp_path):
    gallery, queries, _ = many
    index = CAS(k1=10, k2=4, metric="cosine").fit(gallery)
    index.calibrate()
    index.save(tmp_path / "a.index")
    opened = kinrank.open(tmp_path / "a.index")
    np.testing.assert_array_equal(
        opened.search(queries, 2, unknown_rate=0.05).indices,
        index.search(queries, 2, unknown_rate=0.05).indices,
    )


def test_rates_that_nothing_can_tell(many):
    gallery, queries, labels = many
    index = CAS(k1=10, k2=4).fit(gallery)
    with pytest.raises(InvalidInputError, match="`unknown_rate` must be used after `calibrate`"):
        index.search(queries, 5, unknown_rate=0.1)
    index.calibrate(labels, sample=100)
    with pytest.raises(InvalidInputError, match=r"at least 0\.01.*larger `sample`"):
        index.search(queries, 5, unknown_rate=0.001)
    for odd in (-1, 2, "few", np.nan):
        with pytest.raises(InvalidInputError, match="`unknown_rate` must be a number"):
            index.search(queries, 5, unknown_rate=odd)
    for name in ("unknown_rate", "pair_false_match_rate"):
        with pytest.raises(InvalidInputError, match=f"`{name}` is a rate of re-ranked distances"):
            index.search(queries, 5, base=True, **{name: 0.1})
    index.calibrate(np.arange(len(gallery)))  # no two rows of one item
    with pytest.raises(InvalidInputError, match="too few rows of the same item"):
        index.search(queries, 5, unknown_rate=0.1)
