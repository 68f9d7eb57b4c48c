"""Where the time of CAS goes: CPU microseconds per row of each stage.

    python benchmarks/bench_stages.py [--data FOLDER] [--sets NAME ...] [--rows 13000 100000]
    python benchmarks/bench_stages.py --growth 20000 80000 320000
    python benchmarks/bench_stages.py --k1 60 100 200 --sets cuhk03-retail-0287

Every set of FOLDER, and synthetic faces of as many rows as asked for: seven of ten people with one
image, the others with long-tailed numbers of them, overlapping. k1=20, k2=5 and k1=60, k2=6, k=100.
CPU seconds of all threads, of two calls the quicker one, so that a machine with other work to do
measures much the same.

--growth: how the time after the search grows with the rows, for groups of 20, of 50 and faces, one
row in 20 a query, k1=20, k2=5; approximate search. An exponent of 1 is the same time for each row.

--k1: large k1, k2=6, the first 100 and the whole gallery; seconds by the clock and of CPU.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import kinrank
import results
from kinrank import progress

ROOT = Path(__file__).resolve().parents[1]
SIZES = ((20, 5), (60, 6))
STAGES = (
    "layout",
    "clusters",
    "graph",
    "diffusion",
    "smoothing",
    "enhancement",
    "propagation",
    "ranking",
)


def unit(rows):
    """float32 rows of norm 1."""
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def faces(n, d=128, seed=0):
    """Queries and gallery with group sizes like those of photos in the news."""
    rng = np.random.default_rng(seed)
    several = rng.random(n) < 0.3
    sizes = np.where(several, np.minimum(2 + rng.pareto(1.2, n), 500), 1).astype(int)
    owner = np.repeat(np.arange(n), sizes)[:n]
    scale = (1.0 + np.arange(d)) ** -0.5  # of a falling spectrum, so that groups overlap
    rows = rng.standard_normal((n, d))[owner] + 0.8 * rng.standard_normal((n, d))
    rows = unit(rng.permutation(rows * scale))
    count = min(1000, n // 10)
    return rows[:count], rows[count:]


def groups(n, size, d=64, seed=0):
    """Rows in groups of one size."""
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.arange(n) // size)
    return unit(rng.standard_normal((n, d))[owner] + 0.6 * rng.standard_normal((n, d)))


def load(folder):
    """Queries and gallery of a set."""
    return tuple(unit(np.load(folder / f"{part}.npy")) for part in ("query", "gallery"))


def spent(queries, gallery, k1, k2, k=100, **where):
    """CPU seconds of a call: of the search, after it, and of each stage."""
    watch, begin = progress.Stopwatch(), time.process_time()
    with progress.listen(watch):
        kinrank.CAS(k1=k1, k2=k2).rerank(queries, gallery, k=k, run=kinrank.Run(**where))
    whole, stages = time.process_time() - begin, watch.seconds
    search = stages["neighbours"]
    return [search, whole - search, *(stages.get(stage, 0) for stage in STAGES)]


def measure(name, queries, gallery):
    """Print a line for each setting."""
    n = len(queries) + len(gallery)
    for k1, k2 in SIZES:
        figures = min((spent(queries, gallery, k1, k2) for _ in range(2)), key=lambda some: some[1])
        cells = " | ".join(f"{1e6 * seconds / n:.0f}" for seconds in figures)
        print(f"| {name} | {n:,} | {k1}/{k2} | {cells} |", flush=True)


def measure_large_k1(name, queries, gallery, sizes):
    """Print a line for each k1 and k: seconds of the whole call, and of two stages."""
    for k1 in sizes:
        for k in (100, None):
            begin = time.monotonic()
            search, after, *stages = spent(queries, gallery, k1, 6, k)
            clock = time.monotonic() - begin
            propagation = stages[STAGES.index("propagation")]
            ranking = stages[STAGES.index("ranking")]
            figures = (clock, search + after, propagation, ranking)
            cells = " | ".join(f"{seconds:.1f}" for seconds in figures)
            print(f"| {name} | {k1} | {k or 'all'} | {cells} |", flush=True)


def measure_growth(sizes):
    """Print what is spent after the search on a row of each size, and the exponent of the whole."""
    kinds = {
        "groups of 20": lambda n: groups(n, 20),
        "groups of 50": lambda n: groups(n, 50),
        "faces": lambda n: np.concatenate(faces(n)),
    }
    print("| collection | " + " | ".join(f"{n:,} rows" for n in sizes) + " | exponent |")
    print("| --- " * (2 + len(sizes)) + "|")
    for name, make in kinds.items():
        each = []
        for n in sizes:
            rows = make(n)
            figures = spent(rows[: n // 20], rows[n // 20 :], 20, 5, search="approximate")
            # Of the stages alone: an approximate search does something outside its own.
            each.append(1e6 * sum(figures[2:]) / n)
        exponent = 1 + math.log(each[-1] / each[0]) / math.log(sizes[-1] / sizes[0])
        cells = " | ".join(f"{figure:.0f}" for figure in each)
        print(f"| {name} | {cells} | {exponent:.2f} |", flush=True)


def main():
    """Measure what was asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", nargs="*", help="names of folders; all without it")
    parser.add_argument("--rows", nargs="*", type=int, default=[13_000, 100_000])
    parser.add_argument("--growth", nargs="+", type=int, help="rows; nothing else is measured")
    parser.add_argument("--k1", nargs="+", type=int, help="large k1; nothing else is measured")
    options = parser.parse_args()
    progress.time = SimpleNamespace(perf_counter=time.process_time)
    folders = sorted(path.parent.name for path in options.data.glob("*/gallery.npy"))
    warm = faces(1000)
    for k1, k2 in SIZES:
        kinrank.CAS(k1=k1, k2=k2).rerank(*warm, k=100)
    if options.growth:
        measure_growth(options.growth)
        return
    names = folders if options.sets is None else options.sets
    if options.k1:
        print("| set | k1 | k | by the clock | CPU seconds | propagation | ranking |")
        print("| --- " * 7 + "|")
        for name in names:
            measure_large_k1(name, *load(options.data / name), options.k1)
        return
    print("| set | rows | k1/k2 | search | after it | " + " | ".join(STAGES) + " |")
    print("| --- " * (5 + len(STAGES)) + "|")
    for name in names:
        measure(name, *load(options.data / name))
    for n in options.rows:
        measure("faces, synthetic", *faces(n))


if __name__ == "__main__":
    results.run(main, __doc__)
