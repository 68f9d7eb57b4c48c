import numpy as np
import pytest

from kinrank import InvalidInputError
from kinrank.metrics.results import confidence_intervals, paired_difference


def test_two_queries_by_hand() -> None:
    # Drawing two of {0, 1}: means 0, 1/2, 1 with 1/4, 1/2, 1/4.
    (wide,) = confidence_intervals(np.array([[0.0], [1.0]]))
    assert (wide.mean, wide.low, wide.high) == (0.5, 0.0, 1.0)
    (narrow,) = confidence_intervals(np.array([[0.0], [1.0]]), level=0.4)
    assert (narrow.low, narrow.high) == (0.5, 0.5)


def test_like_the_normal_interval_for_many_queries() -> None:
    values = np.random.default_rng(0).uniform(size=(500, 1))
    (found,) = confidence_intervals(values)
    half = 1.96 * values.std() / np.sqrt(500)
    assert found.low == pytest.approx(values.mean() - half, abs=0.002)
    assert found.high == pytest.approx(values.mean() + half, abs=0.002)


def test_pairs_are_compared_query_by_query() -> None:
    random = np.random.default_rng(1)
    before = random.uniform(size=200)
    after = before + 0.01  # a small gain for everybody, far below the spread of the queries
    change = paired_difference(after, before)
    assert (change.low, change.high) == pytest.approx((0.01, 0.01))
    assert change.excludes_zero
    assert not paired_difference(random.permutation(before), before).excludes_zero


def test_queries_that_do_not_count() -> None:
    values = np.array([[np.nan], [1.0], [1.0]])
    assert confidence_intervals(values)[0].mean == 1.0
    assert np.isnan(confidence_intervals(values[:1])[0].mean)
    assert not confidence_intervals(values[:1])[0].excludes_zero


def test_the_seed_fixes_the_draws() -> None:
    values = np.random.default_rng(2).uniform(size=(30, 3))
    assert confidence_intervals(values, draws=300) == confidence_intervals(values, draws=300)
    assert confidence_intervals(values, draws=300) != confidence_intervals(
        values, draws=300, seed=1
    )


def test_errors() -> None:
    with pytest.raises(InvalidInputError, match="must be of the same queries"):
        paired_difference(np.zeros(3), np.zeros(4))
    with pytest.raises(InvalidInputError, match="two-dimensional"):
        confidence_intervals(np.zeros(3))
    with pytest.raises(InvalidInputError, match="`level`"):
        confidence_intervals(np.zeros((3, 1)), level=1)
    with pytest.raises(InvalidInputError, match=r"`draws` must be .* between 1 and 1000000"):
        confidence_intervals(np.zeros((3, 1)), draws=10**12)
    with pytest.raises(InvalidInputError, match="`seed` must be"):
        confidence_intervals(np.zeros((3, 1)), seed=-1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[np.inf], [1.0]], "must hold values of at most 1e.150"),
        ([[1e308], [1e308]], "must hold values of at most 1e.150"),
        ("text", "must hold real numbers, got dtype <U4"),
        ((value for value in [1.0]), "must hold real numbers, got dtype object"),
        ([[1j]], "must hold real numbers, got dtype complex"),
        ([[1.0], [1.0, 2.0]], "must be an array, got rows of different lengths"),
        (np.ma.array([[1.0]], mask=True), "must have no masked entries"),
    ],
)
def test_values_that_cannot_be(values, message) -> None:
    with pytest.raises(InvalidInputError, match=f"`columns` {message}"):
        confidence_intervals(values)
    with pytest.raises(InvalidInputError, match=f"`before` {message}"):
        paired_difference([0.5], values)
