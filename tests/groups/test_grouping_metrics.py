"""Figures of groupings, by numbers worked by hand and by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank
from kinrank.evaluate import score_grouping


def test_figures_worked_by_hand():
    scores = score_grouping(["a", "a", "b", "b", "c"], [5, 5, 5, 7, 8])
    # Of each row: right ones in its group, over the group's size, over the label's size.
    assert scores.bcubed_precision == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 1 + 1) / 5)
    assert scores.bcubed_recall == pytest.approx((1 + 1 + 1 / 2 + 1 / 2 + 1) / 5)
    assert scores.pair_precision == pytest.approx(1 / 3)
    assert scores.pair_recall == pytest.approx(1 / 2)
    assert scores.singles_found == 1.0
    assert (scores.groups, scores.labels) == (3, 3)


def test_single_items_that_were_merged_are_not_found():
    assert score_grouping([0, 1, 2, 2], [0, 0, 1, 2]).singles_found == 0.0
    assert score_grouping([0, 0], [1, 1]).singles_found is None


def test_ari_and_v_measure_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    labels = random.integers(0, 8, 200)
    groups = np.where(random.random(200) < 0.7, labels, random.integers(0, 12, 200))
    scores = score_grouping(labels, groups)
    assert scores.ari == pytest.approx(metrics.adjusted_rand_score(labels, groups))
    assert scores.v_measure == pytest.approx(metrics.v_measure_score(labels, groups))
    assert scores.homogeneity == pytest.approx(metrics.homogeneity_score(labels, groups))


def test_everything_right_and_everything_merged():
    labels = [0, 0, 1, 1]
    assert score_grouping(labels, [3, 3, 1, 1]).ari == 1.0
    merged = score_grouping(labels, [0, 0, 0, 0])
    assert merged.ari == 0.0
    assert merged.bcubed_recall == 1.0
    assert merged.bcubed_precision == 0.5


def test_other_lengths_are_refused():
    with pytest.raises(kinrank.InvalidInputError, match="each of the 3 rows"):
        score_grouping([0, 1, 2], [0, 1])


def test_figures_can_be_read():
    text = str(score_grouping([0, 0, 1], [0, 0, 1]))
    assert "adjusted Rand index  100.0" in text
    assert "single items found   100.0" in text
