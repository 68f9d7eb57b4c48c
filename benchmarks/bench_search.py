"""The exact search of all rows against the bare product of all rows, at 128, 256 and 1,280 columns.

    python benchmarks/bench_search.py [--k 21 100] [--rounds 5] [--threads 2] [FOLDER ...]

The product is `X @ X.T` in blocks of 512 rows and nothing else: no list is made of it. Both take
turns in one process, and the ratio is that of their quickest rounds; so it is the same on a slow
machine. A second ratio is that of processor time, on one thread each, which other work on the
machine disturbs less. Rows are made up, in groups of which seven in ten hold one row and the rest
are long-tailed, or are those of folders with `query.npy` and `gallery.npy`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import results
from kinrank.parallel import Runner, thread_count
from kinrank.search.exact import exact_neighbors

SIZES = {128: 13233, 256: 19281, 1280: 7168}
BLOCK = 512


def made_up(n, width):
    """Overlapping groups of unequal sizes, whose columns differ in variance as real ones do."""
    random = np.random.default_rng(0)
    sizes = np.where(random.random(n) < 0.7, 1, 2 + 2 * random.pareto(1.1, n)).astype(int)
    groups = np.repeat(np.arange(n), np.minimum(sizes, 500))[:n]
    scale = np.linspace(2, 0.3, width)
    centres = random.normal(size=(groups.max() + 1, width))
    rows = (centres[groups] + 0.55 * random.normal(size=(n, width))) * scale
    return unit(rows[random.permutation(n)])


def read(folder):
    return unit(np.concatenate([np.load(Path(folder) / f"{p}.npy") for p in ("query", "gallery")]))


def unit(rows):
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def product(rows):
    for low in range(0, len(rows), BLOCK):
        rows[low : low + BLOCK] @ rows.T


def ratio(rows, k, threads, rounds, clock):
    """Seconds of the search and of the product: the least of some rounds, in turn."""
    calls = (lambda: exact_neighbors(rows, k, Runner(threads)), lambda: product(rows))
    best = [np.inf, np.inf]
    with threadpool_limits(threads, user_api="blas"):
        for _ in range(rounds):
            for at, call in enumerate(calls):
                begun = clock()
                call()
                best[at] = min(best[at], clock() - begun)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--k", type=int, nargs="+", default=[21, 100])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=thread_count())
    args = parser.parse_args()
    sets = {Path(folder).name: read(folder) for folder in args.folders}
    if not sets:
        sets = {f"{width} columns": made_up(n, width) for width, n in SIZES.items()}
    exact_neighbors(made_up(600, 16), 10, Runner(args.threads))  # kernels are compiled
    print("| rows | shape | k | search s | product s | ratio | ratio of processor time |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, rows in sets.items():
        for k in args.k:
            search, bare = ratio(rows, k, args.threads, args.rounds, time.perf_counter)
            alone = ratio(rows, k, 1, args.rounds, time.process_time)
            shape = f"{len(rows):,} x {rows.shape[1]:,}"
            print(
                f"| {name} | {shape} | {k} | {search:.2f} | {bare:.2f} | {search / bare:.2f} | "
                f"{alone[0] / alone[1]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    results.run(main, __doc__)
