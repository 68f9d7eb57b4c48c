"""Sums of rows in vectors equal their Python twins."""

import numba
import numpy as np

from kinrank.kernels import gather


@numba.njit
def summed(begin, end, ids, weights, x, out):
    gather.add_rows(8, begin, end, ids, weights, x, out, 1)


@numba.njit
def walked(begin, end, ids, w, b, now, then):
    gather.diffusion_step(
        4, begin, end, ids, w, b, np.float32(0.3), np.float32(0.2), np.float32(0.1), now, then, 1
    )


def entries(count, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 20, 30).astype(np.int32)
    w, b = rng.random((2, 30), np.float32)
    return (
        (3, 3 + count, ids),
        w,
        b,
        rng.random((20, 8), np.float32),
        rng.random((3, 8), np.float32),
    )


def test_rows_are_added_to_a_row():
    for count in (0, 1, 2, 7, 20):
        (begin, end, ids), w, _, x, out = entries(count)
        expected = out.copy()
        expected[1] += (w[begin:end, None] * x[ids[begin:end]]).sum(0)
        summed(begin, end, ids, w, x, out)
        np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_a_walk_takes_a_step_and_pulls():
    for count in (0, 1, 2, 7, 20):
        (begin, end, ids), w, b, now, then = entries(count)
        expected, near = then.copy(), now[ids[begin:end]]
        expected[1] = (w[begin:end, None] * near).sum(0) + np.float32(0.2) * then[1]
        expected[1, 4:] += np.float32(0.3) * (b[begin:end, None] * near[:, :4]).sum(0)
        expected[1, 4:] += np.float32(0.1) * then[1, :4]
        walked(begin, end, ids, w, b, now, then)
        np.testing.assert_allclose(then, expected, rtol=1e-6)
