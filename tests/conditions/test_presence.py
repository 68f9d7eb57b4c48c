"""Thresholds, rates of false matches, and whether a thing is in the gallery at all."""

import numpy as np
import pytest

import kinrank
from kinrank import CAS, InvalidInputError, Ranking
from kinrank.errors import FileFormatError
from kinrank.index.contents import save_state

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
    got = index.search(made[1], 20, false_match_rate=0.001)
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
    before = index.search(made[1], 5, false_match_rate=0.01)
    after = opened.search(made[1], 5, false_match_rate=0.01)
    np.testing.assert_array_equal(after.indices, before.indices)
    np.testing.assert_array_equal(after.presence, before.presence)
    assert opened.calibration.precision is None
    assert opened.calibration.n_queries == index.calibration.n_queries


def test_a_damaged_calibration(index, tmp_path):
    path = tmp_path / "a.index"
    save_state(path, index.engine.state, None, None, {}, {"calibration.presence": np.zeros(3)})
    with pytest.raises(FileFormatError, match="calibration"):
        kinrank.open(path)


def test_a_small_gallery_tells_rates_alone(made):
    fitted = CAS(k1=5, k2=3).fit(made[0][:15])
    assert fitted.calibrate().presence is None
    assert fitted.search(made[1], 3).presence is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threshold": 0.3, "false_match_rate": 0.1}, "got both"),
        ({"threshold": -1}, "`threshold` must be a number in"),
        ({"threshold": "near"}, "`threshold` must be a number in"),
        ({"false_match_rate": 2}, r"`false_match_rate` must be a number in \[0, 1\]"),
    ],
)
def test_bad_thresholds(made, index, given, message):
    with pytest.raises(InvalidInputError, match=message):
        index.search(made[1], 5, **given)


def test_a_rate_needs_a_calibration(made):
    with pytest.raises(InvalidInputError, match="after `calibrate`"):
        CAS(k1=10, k2=4).fit(made[0]).search(made[1], 5, false_match_rate=0.1)


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
            kinrank.rerank(queries, gallery, k=8, of=[0, 0, 1, 1], threshold=limit),
            kinrank.rerank(queries, gallery, k=8, of=[0, 0, 1, 1]),
        ),
    ):
        near = ranking.distances <= limit
        np.testing.assert_array_equal(cut.indices, np.where(near, ranking.indices, -1))
        np.testing.assert_array_equal(cut.distances, np.where(near, ranking.distances, np.inf))
    with pytest.raises(kinrank.InvalidInputError, match="threshold"):
        kinrank.rerank(queries, gallery, threshold="near")
