"""Latency of rerank_pool: one query, and batches that share the cores.

    python benchmarks/bench_pool.py [--sizes 100,1000,5000] [--width 512] [--rounds 200]

Random clusters of twenty, unit norm. Kernels are compiled before the clock starts. A batch holds
pools of the same size; its figure is the time of the batch over the number of queries. CPU: of one
query, and the ratio of it to the bare product of the pool's vectors with themselves.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import kinrank
import results
from kinrank.parallel import thread_count
from kinrank.search.blas import one_blas_thread

BATCH = 16
METHODS = ("cas", "kreciprocal", "alphaqe")


def pools(count, size, width):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(max(1, size // 20), width))
    owners = rng.integers(0, len(centres), (count, size + 1))
    rows = centres[owners] + rng.normal(size=(count, size + 1, width))
    rows = (rows / np.linalg.norm(rows, axis=2, keepdims=True)).astype(np.float32)
    return rows[:, 0], rows[:, 1:]


def seconds(call, rounds, clock=time.perf_counter):
    took = []
    for _ in range(rounds):
        begun = clock()
        call()
        took.append(clock() - begun)
    return np.array(took)


def measure(method, size, width, rounds):
    queries, candidates = pools(BATCH, size, width)
    kinrank.rerank_pool(queries[:2], candidates[:2], method, 100)
    rounds = max(5, min(rounds, 200_000 // size))
    numbers = iter(range(10**9))

    def one():
        at = next(numbers) % BATCH
        kinrank.rerank_pool(queries[at], candidates[at], method, min(100, size))

    alone = 1e3 * seconds(one, rounds)

    def batch():
        kinrank.rerank_pool(queries, candidates, method, min(100, size))

    cpu = 1e3 * np.median(seconds(one, rounds, time.process_time))
    rows = candidates[0]
    with one_blas_thread():
        bare = 1e3 * np.median(seconds(lambda: rows @ rows.T, rounds, time.process_time))
    shared = 1e3 * seconds(batch, max(3, rounds // BATCH)) / BATCH
    print(
        f"{method:<12} {size:>6} {np.median(alone):>8.1f} {np.quantile(alone, 0.99):>8.1f} "
        f"{np.median(shared):>10.1f} {np.median(alone) / np.median(shared):>8.2f} "
        f"{cpu:>8.1f} {cpu / bare:>8.2f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,1000,5000")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    print(f"d = {args.width}, {thread_count()} cores, first 100 results, milliseconds a query")
    print(
        f"{'method':<12} {'M':>6} {'p50':>8} {'p99':>8} {'in batch':>10} {'gain':>8} "
        f"{'CPU':>8} {'product':>8}"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        for method in METHODS:
            for size in args.sizes.split(","):
                measure(method, int(size), args.width, args.rounds)


if __name__ == "__main__":
    results.run(main, __doc__)
