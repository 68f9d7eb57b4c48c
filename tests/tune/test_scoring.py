"""From agreements to a choice: facts that can be worked out by hand."""

import numpy as np
import pytest

from kinrank.tune.scoring import (
    TOLERANCE,
    agreement,
    best_size,
    expected_gain,
    option_curve,
    size_curve,
)

SIZES = (5, 10, 20, 40, 80)


def naive_agreement(one, other, depths):
    rows = zip(one.tolist(), other.tolist(), strict=True)
    return [np.mean([len({*a[:t]} & {*b[:t]}) / t for t in depths]) for a, b in rows]


def test_agreement_against_sets():
    random = np.random.default_rng(0)
    one, other = (np.array([random.permutation(30)[:12] for _ in range(40)]) for _ in range(2))
    found = agreement(one, other, (3, 7, 12))
    np.testing.assert_allclose(found, naive_agreement(one, other, (3, 7, 12)))


def test_agreement_of_equal_and_of_disjoint_lists():
    one = np.arange(20).reshape(2, 10)
    np.testing.assert_array_equal(agreement(one, one[:, ::-1], (10,)), [1, 1])
    np.testing.assert_array_equal(agreement(one, one[::-1]), [0, 0])


def test_a_clear_peak_is_chosen():
    assert best_size(SIZES, np.array([0.1, 0.3, 0.9, 0.3, 0.1])) == pytest.approx(20, rel=1e-6)


def test_a_flat_curve_gives_its_middle():
    assert best_size(SIZES, np.full(5, 0.5)) == pytest.approx(20)
    assert best_size(SIZES, np.array([0.0, 0.5, 0.5, 0.5, 0.0])) == pytest.approx(20)


def test_what_lacks_a_tolerance_weighs_less_by_e():
    found = best_size((10, 40), np.array([0.5, 0.5 - TOLERANCE]))
    assert np.log(found) == pytest.approx(np.log(10) + np.log(4) / (1 + np.e))


def test_groups_count_as_much_as_agreement():
    scores = np.array([0.1, 0.3, 0.9, 0.3, 0.1])[:, None] * np.ones(6)
    assert size_curve("k1", SIZES, scores, None).chosen == 20
    assert size_curve("k1", SIZES, scores, 45.0).chosen == 30
    assert size_curve("k1", SIZES, scores, 1000.0).chosen == 80
    assert size_curve("k1", SIZES, scores, 0.5).chosen == 5


def test_errors_are_those_of_differences_to_the_best():
    scores = np.array([[0.0, 0.2, 0.4, 0.6], [0.5, 0.7, 0.9, 1.1]])
    curve = size_curve("k1", (5, 10), scores, None)
    assert curve.agreement == pytest.approx((0.3, 0.8))
    assert curve.error == pytest.approx((0, 0))


@pytest.mark.parametrize(("few", "many", "chosen"), [(1, 1, "new"), (1, -1, "old"), (-1, 1, "old")])
def test_a_default_is_left_only_if_few_and_many_results_say_so(few, many, chosen):
    noise = np.random.default_rng(0).normal(scale=0.02, size=(2, 100))
    scores = np.full((2, 2, 100), 0.5)
    scores[:, 1] += 0.1 * np.array([few, many])[:, None] + noise
    assert option_curve("x", ("old", "new"), scores, "old").chosen == chosen


def test_a_default_is_not_left_for_noise():
    random = np.random.default_rng(0)
    scores = 0.5 + random.normal(scale=0.1, size=(2, 3, 100))
    assert option_curve("x", (1, 2, 3), scores, 2).chosen == 2


def test_expected_gain_by_hand():
    one, other = np.array([[1, 2, 3], [7, 8, 9]]), np.array([[3, 4, 1], [4, 5, 6]])
    before, after = np.array([[5, 1, 6, 3]] * 2), np.array([[1, 3, 5, 6]] * 2)
    # Right are 1 and 3 for the first row, nothing for the second.
    gain, error = expected_gain(before, after, one, other)
    assert gain == pytest.approx(1 - (1 / 2 + 2 / 4) / 2)
    assert error == 0


def test_no_gain_where_halves_have_nothing_in_common():
    one, other = np.array([[1, 2]]), np.array([[3, 4]])
    assert expected_gain(one, other, one, other) == (0.0, 0.0)
