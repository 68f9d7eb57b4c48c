import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import naive_features as naive
from kinrank import InvalidInputError
from kinrank.features import (
    gem,
    mac,
    multiscale,
    pca_whitening,
    regional,
    rmac,
    rmac_regions,
    spoc,
    unit,
)

SIDES = st.integers(1, 9)
MAPS = st.tuples(st.integers(1, 4), SIDES, SIDES).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 20).map(float))
)


@given(MAPS)
def test_pooling_is_that_of_the_slow_twin(x):
    np.testing.assert_array_equal(mac(x), naive.mac(x))
    np.testing.assert_allclose(spoc(x), naive.spoc(x), rtol=1e-12)
    for p in (1, 2, 3, 4.5):
        np.testing.assert_allclose(gem(x, p), naive.gem(x, p), rtol=1e-9)


@given(MAPS, st.integers(1, 4))
def test_rmac_is_that_of_the_slow_twin(x, levels):
    x = x + 1  # every region has something in it
    np.testing.assert_allclose(rmac(x, levels), naive.rmac(x, levels), rtol=1e-9)


def test_a_worked_example():
    x = np.array([[[1.0, 2.0], [3.0, 6.0]], [[0.0, 0.0], [0.0, 4.0]]])
    np.testing.assert_array_equal(mac(x), [6, 4])
    np.testing.assert_array_equal(spoc(x), [3, 1])
    np.testing.assert_allclose(gem(x, 3), [63 ** (1 / 3), 16 ** (1 / 3)], rtol=1e-12)
    # One square at level 1, four of one position at level 2.
    squares = [(6, 4), (1, 0), (2, 0), (3, 0), (6, 4)]
    total = sum(np.array(v) / math.hypot(*v) for v in squares)
    np.testing.assert_allclose(rmac(x, 2), total / np.linalg.norm(total), rtol=1e-12)


def test_gem_goes_from_spoc_to_mac():
    x = np.random.default_rng(0).random((3, 16, 7, 5))
    np.testing.assert_allclose(gem(x, 1), spoc(x), rtol=1e-12)
    np.testing.assert_array_equal(gem(x, math.inf), mac(x))
    np.testing.assert_allclose(gem(x, 5000), mac(x), rtol=1e-3)
    steps = [gem(x, p) for p in (1, 2, 3, 10, 100)]
    assert all((after >= before).all() for before, after in pairwise(steps))


def test_gem_takes_negative_values_as_zero_and_is_safe_for_any_size():
    x = np.array([[[-5.0, 2.0]]])
    np.testing.assert_allclose(gem(x, 2), [math.sqrt(2)])
    tiny, huge = np.float32(1e-30), np.float32(1e30)
    for size in (tiny, huge):
        np.testing.assert_allclose(gem(np.full((1, 2, 2), size), 7), [size], rtol=1e-6)
    assert gem(np.zeros((1, 2, 2))).tolist() == [0]


def test_many_maps_at_once_and_float32_stays():
    x = np.random.default_rng(1).random((2, 3, 8, 6, 9)).astype(np.float32)
    for pool in (mac, spoc, gem, rmac):
        whole = pool(x)
        assert whole.shape == (2, 3, 8)
        assert whole.dtype == np.float32
        np.testing.assert_allclose(whole[1, 2], pool(x[1, 2]), rtol=1e-5)
    assert regional(x, 2).shape[:2] == (2, 3)


@pytest.mark.parametrize("bad", [np.zeros((3, 4)), np.zeros((0, 2, 2)), 7.0])
def test_what_is_not_a_map_is_refused(bad):
    with pytest.raises(
        InvalidInputError, match=r"`maps` must be \(\.\.\., channels, height, width"
    ):
        mac(bad)


BAD = {
    "NaN": (np.full((1, 2, 2), np.nan), "be finite"),
    "infinity": (np.full((1, 2, 2), np.inf, np.float32), "be finite"),
    "masked": (np.ma.array(np.ones((1, 2, 2)), mask=True), "have no masked entries, got 4"),
    "booleans": (np.ones((1, 2, 2), bool), "hold real numbers, got dtype bool"),
    "complex": (np.ones((1, 2, 2)) * 1j, "hold real numbers, got dtype complex128"),
    "dates": (np.ones((1, 2, 2), "M8[D]"), "hold real numbers, got dtype datetime"),
    "none": (None, "hold real numbers, got dtype object"),
    "text": ("text", "hold real numbers, got dtype <U"),
    "ragged": ([[[1.0]], [[1.0, 2.0]]], "be an array, got rows of different lengths"),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("call", [mac, spoc, gem, rmac, regional, unit, multiscale])
def test_what_holds_no_finite_numbers_is_refused(call, bad, message):
    with pytest.raises(InvalidInputError, match=f"must {message}"):
        call(bad)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_values_of_any_size_give_unit_rows(dtype):
    for size in (np.finfo(dtype).max / 2, np.finfo(dtype).tiny):
        maps = np.full((4, 2, 2), size, dtype)
        for row in (unit(maps[:, 0, 0]), unit(gem(maps)), rmac(maps), multiscale([maps[:, 0, 0]])):
            np.testing.assert_allclose(row, 0.5, rtol=1e-3)
    np.testing.assert_allclose(multiscale([unit(maps[:, 0, 0])] * 2, 3), 0.5, rtol=1e-3)


def test_sums_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInputError, match=r"at most 1\.1e\+15 in size, .*, got 1e\+38"):
        spoc(np.full((1, 2, 2), 1e38, np.float32))


def test_unit_rows_of_integers_are_floats():
    found = unit([[3, 4]])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.6, 0.8]])


@pytest.mark.parametrize("bad", [[], [[]], 3.0, [1.0, 2.0]])
def test_scales_are_arrays(bad):
    with pytest.raises(InvalidInputError, match=r"must be an array \(\.\.\., d\) for each scale"):
        multiscale(bad)


@pytest.mark.parametrize("p", [0, -1.0, 1e-300, 1e300, np.nan, None, "a", np.ones(2)])
def test_p_must_be_positive(p):
    with pytest.raises(InvalidInputError, match="`p` must be"):
        gem(np.ones((1, 2, 2)), p)
    with pytest.raises(InvalidInputError, match="`p` must be"):
        multiscale(np.ones((1, 2)), p)


# Regions


@given(SIDES.map(lambda n: 3 * n), SIDES.map(lambda n: 3 * n), st.integers(1, 5))
def test_regions_are_those_of_the_slow_twin(height, width, levels):
    assert rmac_regions(height, width, levels).tolist() == naive.regions(height, width, levels)


@pytest.mark.parametrize(
    ("height", "width", "along"),
    [(30, 30, 1), (30, 40, 2), (40, 30, 2), (30, 60, 3), (60, 30, 3), (10, 40, 6), (24, 32, 2)],
)
def test_regions_for_several_aspect_ratios(height, width, along):
    """m squares along the longer side, l x (l + m - 1) of side 2 min / (l + 1) at level l."""
    squares = rmac_regions(height, width, 3)
    assert len(squares) == sum(level * (level + along - 1) for level in (1, 2, 3))
    sides = [2 * min(height, width) // (level + 1) for level in (1, 2, 3)]
    assert sorted(set(squares[:, 2].tolist()), reverse=True) == sides
    np.testing.assert_array_equal(squares[:, 2], squares[:, 3])
    ends = squares[:, :2] + squares[:, 2:]
    assert (squares[:, :2] >= 0).all()
    assert (ends <= (height, width)).all()
    for side in sides:  # the first square begins at the corner, the last one ends at the other
        level = squares[squares[:, 2] == side]
        assert level[0, :2].tolist() == [0, 0]
        assert (level[-1, :2] + side).tolist() == [height, width]


def test_overlap_is_as_near_to_forty_per_cent_as_can_be():
    for long in range(11, 100):
        squares = rmac_regions(10, long, 1)
        step = (long - 10) / (len(squares) - 1)
        others = [(long - 10) / (n - 1) for n in range(2, 200)]
        assert abs(step - 6) == min(abs(other - 6) for other in others)


def test_regions_have_an_end():
    for sides in ((10**9, 3), (3, 10**9), (3, 3, 101)):
        with pytest.raises(InvalidInputError, match="must be an integer between 1 and"):
            rmac_regions(*sides)


def test_levels_smaller_than_a_position_are_left_out():
    assert rmac_regions(1, 1, 5).tolist() == [[0, 0, 1, 1]]
    assert len(rmac_regions(2, 2, 9)) == 1 + 4 + 9  # side 2 // 2, then 4 // 4, then nothing


# Regional vectors, scales


def test_regional_rows_add_up_to_rmac():
    x = np.random.default_rng(2).random((4, 16, 7, 10))
    rows = regional(x, 3)
    assert rows.shape == (4, len(rmac_regions(7, 10, 3)), 16)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=-1), 1)
    np.testing.assert_allclose(unit(rows.sum(axis=1)), rmac(x, 3))


def test_regions_are_whitened_one_by_one():
    x = np.random.default_rng(3).random((20, 6, 5, 5)).astype(np.float32)
    whitening = pca_whitening(regional(x, 2).reshape(-1, 6), dims=4)
    rows = regional(x, 2, whitening=whitening)
    assert rows.shape[-1] == 4
    np.testing.assert_allclose(np.linalg.norm(rows, axis=-1), 1, rtol=1e-5)
    expected = unit(whitening.apply(unit(regional(x, 2))).sum(axis=1))
    np.testing.assert_allclose(rmac(x, 2, whitening=whitening), expected, rtol=1e-5)


def test_scales_are_averaged():
    one, two = both = unit(np.array([[[3.0, 4.0]], [[1.0, 0.0]]]))
    np.testing.assert_allclose(multiscale([one, two]), unit(one + two))
    cubes = ((one**3 + two**3) / 2) ** (1 / 3)
    np.testing.assert_allclose(multiscale([one, two], 3), unit(cubes))
    np.testing.assert_allclose(multiscale([one]), one)
    np.testing.assert_array_equal(multiscale(memoryview(both)), multiscale([one, two]))
    with pytest.raises(InvalidInputError, match="has negative values"):
        multiscale([-one, two], 3)


def test_unit_leaves_zeros():
    np.testing.assert_array_equal(unit(np.array([[0.0, 0.0], [0.0, 2.0]])), [[0, 0], [0, 1]])
