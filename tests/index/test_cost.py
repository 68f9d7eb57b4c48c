"""What a change costs: never more than a fresh build, in processor time."""

import time

import numpy as np
import pytest

from kinrank import CAS


def noisy_groups(n, noise, seed=0):
    """Groups of 20 rows that noise blurs, and more rows of the same kind."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n // 20, 64))
    rows = np.repeat(centres, 20, axis=0) + noise * random.normal(size=(n, 64))
    more = centres[random.integers(0, len(centres), 50)] + noise * random.normal(size=(50, 64))
    return rows.astype(np.float32), more.astype(np.float32)


def seconds(function, *args):
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def costs(n, noise, removed):
    """A fit, one row that comes, and rows that go, each from the same index."""
    rows, more = noisy_groups(n, noise)
    method = CAS(k1=20, k2=5)
    warm = method.fit(rows[:400])  # loads the kernels
    warm.add(more[:1])
    warm.remove([3])
    start = time.process_time()
    index = method.fit(rows)
    fit = time.process_time() - start
    draft = index.draft()
    add = seconds(draft.add, more[:1])
    gone = np.random.default_rng(1).choice(n, removed, replace=False)
    remove = seconds(index.draft().remove, gone)
    return fit, add, remove


@pytest.mark.parametrize("noise", [0.5, 1.5])
def test_small(noise):
    fit, add, remove = costs(4000, noise, 100)
    assert add < 1.6 * fit  # the clock of a busy machine
    assert remove < 1.6 * fit


@pytest.mark.long
@pytest.mark.parametrize("noise", [0.5, 1.0, 1.2, 1.5])
def test_noisy_groups(noise):
    fit, add, remove = costs(20_000, noise, 500)
    assert add < 1.15 * fit
    assert remove < 1.15 * fit


def test_most_rows_go():
    rows, _ = noisy_groups(2000, 0.5)
    method = CAS(k1=10, k2=4)
    index = method.fit(rows)
    kept = np.sort(np.random.default_rng(2).choice(2000, 900, replace=False))
    index.remove(np.setdiff1d(np.arange(2000), kept))
    expected = method.fit(rows[kept]).search(rows[:20], 10)
    ranking = index.search(rows[:20], 10)
    np.testing.assert_array_equal(kept[expected.indices], ranking.ids)
    np.testing.assert_allclose(ranking.distances, expected.distances, atol=1e-6)
