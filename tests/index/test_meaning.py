"""What distances mean: explanations and thresholds."""

import json

import numpy as np
import pytest

import naive
from engine_data import digits
from index_data import QUERIES, ROWS
from kinrank import CAS
from kinrank.errors import InvalidInputError
from kinrank.index import explain as explain_module


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"variant": "paper"},
        {"divergence": "jaccard"},
        {"divergence": "cosine", "omega": 0.0},
        {"smoothing": "aqe"},
    ],
)
def test_an_explanation_adds_up(options):
    index = CAS(k1=10, k2=4).replace(**options).fit(ROWS)
    found = index.search(QUERIES, k=30)
    for query in (0, 5):
        for rank in (0, 3, 29):
            why = index.explain(QUERIES[query], int(found.ids[query, rank]))
            expected = found.distances[query, rank]
            assert why.distance == pytest.approx(expected, abs=2e-5)
            mixed = (1 - why.omega) * why.modified + why.omega * why.plain
            assert mixed == pytest.approx(expected, abs=2e-5)
            assert why.stages["propagation"] == why.modified
            assert sum(m.similarity for m in why.members) == pytest.approx(1, abs=1e-5)
            assert [m.role for m in why.members].count("query") == 1


@pytest.mark.parametrize("measure", ["js", "jaccard", "cosine", "euclidean"])
def test_explained_distances_are_those_of_the_stage(measure):
    """Against the slow twin of the stage, and each gain by leaving a column out."""
    rng = np.random.default_rng(0)
    weights = rng.random((2, 12)) * (rng.random((2, 12)) < 0.7)
    weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    query, item = ({int(c): float(row[c]) for c in np.flatnonzero(row)} for row in weights)
    without = [{c: w for c, w in query.items() if c != left_out} for left_out in query]
    found = explain_module.row_divergences([query, *without], item, measure)
    for row, distance in zip([query, *without], found, strict=True):
        dense = np.zeros((2, 12))
        dense[0, list(row)] = list(row.values())
        dense[1] = weights[1]
        if measure == "jaccard" and row is not query:
            continue  # the stage takes rows for such that add up to 1
        assert distance == pytest.approx(naive.divergence(dense, measure, 1)[0, 1], abs=1e-6)


@pytest.mark.parametrize("measure", ["js", "cosine"])
def test_what_has_nothing_in_common(measure):
    assert explain_module.row_divergences([{0: 1.0}, {}], {3: 1.0}, measure).tolist() == [1, 1]


@pytest.mark.parametrize("sigma", [0.01, 0.02])
def test_what_neighbours_say_is_a_share_however_small_the_weights(sigma):
    """Nearly all weights of a walk underflow beside the largest."""
    rng = np.random.default_rng(0)
    index = CAS(k1=10, k2=4, sigma=sigma).fit(rng.normal(size=(57, 6)), threads=1)
    for query in rng.normal(size=(8, 6)):
        why = index.explain(query, 0)
        assert 0 <= why.anchor <= 1
        assert all(0 <= member.guide <= 1 for member in why.members)
        assert sum(member.smoothed for member in why.members) == pytest.approx(1, abs=1e-4)


def test_an_explanation_can_be_read_and_sent():
    ids = [f"r{n}" for n in range(400)]
    index = CAS(k1=10, k2=4).fit(ROWS[:400], ids=ids, context=ROWS[400:])
    first = index.search(QUERIES[:1], k=1).ids[0, 0]
    why = index.explain(QUERIES[0], first)
    text = str(why)
    assert text.startswith(f"{str(first)!r}: {why.distance:.4f} = 0.7 x")
    assert "the query" in text
    assert json.loads(json.dumps(why.as_dict()))["id"] == first
    gains = [one.gain for one in why.shared]
    assert gains == sorted(gains, reverse=True)
    assert {m.role for m in why.members} <= {"query", "gallery", "context"}
    with pytest.raises(InvalidInputError, match="`query` must be one vector, got 2"):
        index.explain(QUERIES[:2], first)


def test_rates_rise_with_the_threshold():
    _, gallery, _, labels = digits()
    index = CAS(k1=15, k2=5).fit(gallery[:800])
    blind = index.calibrate(sample=200)
    told = index.calibrate(labels[:800], sample=200)
    for calibration in (blind, told):
        assert (np.diff(calibration.pair_false_match_rate) >= 0).all()
        assert calibration.pair_false_match_rate[-1] == 1
        assert calibration.threshold(0.0) <= calibration.threshold(0.01)
    assert (np.diff(told.recall) >= 0).all()
    assert told.recall[-1] == 1
    assert blind.precision is None
    limit = told.threshold(0.001)
    assert told.at(limit)["precision"] > 0.9
    by_id = index.calibrate(dict(enumerate(labels[:800].tolist())), sample=200)
    np.testing.assert_array_equal(by_id.recall, told.recall)


def test_the_rate_foretold_is_that_of_queries():
    """Without labels, never much too good: real queries let no more through than twice that."""
    queries, gallery, own, labels = digits()
    index = CAS(k1=15, k2=5).fit(gallery)
    blind = index.calibrate()
    found = index.search(queries, k=None)
    wrong = labels[found.indices] != own[:, None]
    for rate in (0.05, 0.02, 0.01):
        limit = blind.threshold(rate)
        assert (wrong & (found.distances <= limit)).sum() / wrong.sum() < 2 * rate


def test_by_hand():
    """Two groups far apart, three rows each: every distance inside is below every one between."""
    rows = np.array([[0, 0], [0, 1], [1, 0], [90, 90], [90, 91], [91, 90]], float)
    index = CAS(k1=2, k2=2).fit(rows)
    told = index.calibrate([0, 0, 0, 1, 1, 1])
    assert told.at(0.5) == {
        "threshold": 0.5,
        "pair_false_match_rate": 0,
        "false_matches": 0,
        "precision": 1,
        "recall": 1,
    }
    assert told.false_matches[-1] == 3


def test_bad_labels():
    index = CAS(k1=10, k2=4).fit(ROWS[:60])
    with pytest.raises(InvalidInputError, match=r"each of the 60 rows of the index, got shape \(3"):
        index.calibrate([1, 2, 3])
    with pytest.raises(InvalidInputError, match="every id of the index, got none for 1"):
        index.calibrate({0: "a"})
