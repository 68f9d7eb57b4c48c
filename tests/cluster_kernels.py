"""Kernels that fail, for the tests of the cluster; workers import them."""

import os
import signal
import time
from pathlib import Path

import numpy as np


def doubled_the_second_time(low, high, folder, values, out):
    """What it reads is not there the first time, as if the node that held it had gone."""
    from ray.exceptions import ObjectLostError

    mark = Path(folder) / str(low)
    if not mark.exists():
        mark.touch()
        raise ObjectLostError("00", b"", "")
    out[low:high] = 2 * values[low:high]


def only_small_blocks(low, high, limit, out):
    if high - low > limit:
        raise MemoryError("Allocation failed (probably too large).")
    out[low:high] = 1


def die_once(low, high, folder, out):
    """The worker that comes first to a block is killed in the middle of it."""
    mark = Path(folder) / str(low)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    out[low:high] = np.arange(low, high)


def die_always(low, high, out):
    os.kill(os.getpid(), signal.SIGKILL)


def hungry(low, high, size, out):
    """A block that takes ``size`` bytes, and holds them until somebody minds, or nobody does."""
    held = np.ones(size, np.uint8)
    time.sleep(20)
    out[low:high] = held[0]


def refuse(low, high, out):
    raise ValueError(f"rows {low} to {high}")


def doubled(low, high, values, out):
    out[low:high] = 2 * values[low:high]


def some_rows(low, high):
    """Two entries for each row."""
    n = high - low
    return np.full(n, 2, np.int64), np.zeros(2 * n, np.int32), np.ones(2 * n, np.float32)


def short_rows(low, high):
    """Fewer entries than it says."""
    n = high - low
    return np.full(n, 2, np.int64), np.zeros(n, np.int32), np.ones(n, np.float32)
