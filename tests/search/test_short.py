"""Rows in 16 bits: scores against whole numbers, candidates against all distances."""

import numpy as np
import pytest

from kinrank.kernels import short_products
from kinrank.kernels.short_products import LANES, NO_LIMIT, TILE
from kinrank.parallel import Runner
from kinrank.search.short import Panels, Scale
from kinrank.search.stored import HalfRows

ONE = Runner(1)


def of_parts(rows, sizes):
    starts = np.concatenate([[0], np.cumsum(sizes)])
    scale = Scale.of(rows, ONE)
    return scale, Panels.of(rows, starts, scale, ONE)


def scores_of(scale, rows, queries):
    """The scores by their formula, in 64 bits."""
    x = scale.shorten(queries).astype(np.int64)
    y = scale.shorten(rows).astype(np.int64)
    return x @ y.T - ((y * y).sum(axis=1) + 1) // 2


@pytest.mark.parametrize("width", [1, 2, 7, 64, 129])
def test_candidates_have_the_best_scores(width):
    random = np.random.default_rng(width)
    rows = (random.normal(size=(500, width)) + 3).astype(np.float32)
    scale, panels = of_parts(rows, [3, 0, 200, 16, 1, 280])
    queries = rows[::7]
    x = scale.shorten(queries)
    scores = scores_of(scale, rows, queries)
    for count in (1, 5, 40):
        found = panels.nearest(x, count)
        for row, places in enumerate(found):
            held = scores[row, places[places >= 0]]
            assert held[0] == scores[row].max()
            assert sorted(held)[::-1] == sorted(scores[row])[::-1][: len(held)]


def test_some_parts_for_each_query():
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 6)).astype(np.float32)
    sizes = [50, 20, 130, 100]
    scale, panels = of_parts(rows, sizes)
    part = np.repeat(np.arange(4), sizes)
    queries = rows[::3]
    parts = np.stack([random.permutation(4)[:3] for _ in queries]).astype(np.int32)
    parts[::4, 2] = -1
    found = panels.nearest_in(scale.shorten(queries), 60, parts)
    scores = scores_of(scale, rows, queries)
    for row, places in enumerate(found):
        inside = np.flatnonzero(np.isin(part, parts[row]))
        held = places[places >= 0]
        assert len(held) == min(60, len(inside))
        assert np.isin(held, inside).all()
        best = sorted(scores[row, inside])[::-1]
        assert sorted(scores[row, held])[::-1] == best[: len(held)]


def test_the_compiled_scores_are_those_of_the_formula():
    random = np.random.default_rng(1)
    x = random.integers(-3000, 3000, (40, 10)).astype(np.int16)
    panels = random.integers(-3000, 3000, (3, LANES * 10)).astype(np.int16)
    halves = random.integers(-(10**8), 0, (3, LANES)).astype(np.int32)
    y = panels.reshape(3, 5, LANES, 2).transpose(0, 2, 1, 3).reshape(3 * LANES, 10)
    keys = np.empty((40, 3 * LANES + LANES), np.int64)
    sizes = np.zeros(40, np.int32)
    limits = np.full(40, NO_LIMIT, np.int32)
    short_products.scan_all(x, panels, halves, 3 * LANES, limits, sizes, keys)
    assert (sizes == 3 * LANES).all()
    order = np.argsort(keys[:, : 3 * LANES] & 0xFFFFFFFF, axis=1)
    got = -(np.take_along_axis(keys[:, : 3 * LANES], order, axis=1) >> 32)
    np.testing.assert_array_equal(got, x.astype(int) @ y.astype(int).T + halves.reshape(-1))


def test_the_longest_rows_leave_no_sum_of_32_bits():
    rows = np.zeros((400, 64), np.float32)
    rows[::2, 0] = 1e6
    rows[1::2, 0] = -1e6
    scale, panels = of_parts(rows, [400])
    scores = scores_of(scale, rows, rows)
    assert np.abs(scores).max() < 2**31
    found = panels.nearest(scale.shorten(rows), 1)[:, 0]
    np.testing.assert_array_equal(found % 2, np.arange(400) % 2)


def test_one_row_far_away_takes_no_precision_of_the_others():
    random = np.random.default_rng(2)
    rows = random.normal(size=(2000, 32)).astype(np.float32)
    near = ((rows[:, None, :] - rows[None, :50]) ** 2).sum(axis=2)
    rows[1999] *= 1e6
    near[1999] = np.inf
    scale, panels = of_parts(rows, [2000])
    found = panels.nearest(scale.shorten(rows[:50]), 12)
    exact = np.argsort(near.T, axis=1)[:, :8]
    assert np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)]) > 0.99


def test_rows_that_are_all_the_same():
    rows = np.ones((100, 5), np.float32)
    scale, panels = of_parts(rows, [60, 40])
    assert (panels.nearest(scale.shorten(rows), 1) >= 0).all()


def test_most_rows_are_the_same():
    random = np.random.default_rng(6)
    rows = np.full((300, 8), 5, np.float32)
    rows[:100] += 1000 * random.normal(size=(100, 8)).astype(np.float32)
    scale, panels = of_parts(rows, [300])
    found = panels.nearest(scale.shorten(rows[:100]), 1)[:, 0]
    np.testing.assert_array_equal(found, np.arange(100))


def test_float16_is_the_same_as_the_values_it_has():
    random = np.random.default_rng(3)
    bits = random.normal(size=(300, 9)).astype(np.float16)
    values = bits.astype(np.float32)
    half = HalfRows(bits.view(np.uint16))
    starts = np.array([0, 100, 300])
    scales = Scale.of(values, ONE), Scale.of(half, ONE)
    np.testing.assert_array_equal(scales[0].origin, scales[1].origin)
    assert scales[0].longest == scales[1].longest
    a = Panels.of(values, starts, scales[0], ONE)
    b = Panels.of(half, starts, scales[1], ONE)
    np.testing.assert_array_equal(a.numbers, b.numbers)
    np.testing.assert_array_equal(a.halves, b.halves)


def test_neither_blocks_nor_tiles_change_a_candidate():
    random = np.random.default_rng(4)
    rows = random.integers(-2, 3, (600, 4)).astype(np.float32)  # many ties
    scale, panels = of_parts(rows, [30] * 20)
    x = scale.shorten(rows)
    parts = random.integers(0, 20, (600, 3)).astype(np.int32)
    parts[:, 1] = (parts[:, 0] + 1) % 20
    parts[:, 2] = (parts[:, 0] + 2) % 20
    whole = panels.nearest_in(x, 9, parts)
    for size in (1, TILE - 1, 100):
        for low in range(0, 600, size):
            some = slice(low, low + size)
            np.testing.assert_array_equal(panels.nearest_in(x[some], 9, parts[some]), whole[some])
    every = panels.nearest(x, 20)
    np.testing.assert_array_equal(panels.nearest(x[100:200], 20), every[100:200])
