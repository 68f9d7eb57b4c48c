"""What `tol` leaves in the order of CAS: places that change, and what the diffusion costs.

    python benchmarks/bench_tol.py [--data FOLDER] [--sets NAME ...] [--rows 13000 ...]
        [--tols 3e-7 3e-4 ...] [--sizes 20/5 60/6]

Every set of FOLDER, groups of 20 and of 50, and synthetic faces of as many rows as asked for (both
as in `bench_stages.py`). The first 100 of each query with each `tol`, against those with a `tol` of
1e-10: how many places have another row (two rows that change places count two), and CPU
microseconds of the diffusion per row. The neighbours are searched once for each setting.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from types import SimpleNamespace

import kinrank
import results
from bench_stages import ROOT, faces, groups, load
from kinrank import progress
from kinrank.methods.common import begin_ranking
from kinrank.parallel import Runner

STRICT = 1e-10
K = 100


def prepared(method, queries, gallery):
    """The method with sizes that fit the rows, and the neighbours and distances it reads."""
    with kinrank.Run().execution("rerank", (method, queries, gallery, K), None) as execution:
        rows, k = begin_ranking(method, queries, gallery, K, execution)
        method = method.resolved(len(rows))
        return method, rows.distances(method.list_length(), k)


def ranked(method, distances, n_queries):
    """The first K rows of each query, and CPU seconds of the diffusion."""
    watch = progress.Stopwatch()
    run = Runner(2)
    with progress.listen(watch):
        encoded = method.compare(distances, n_queries, run)
        ranking = method.order(encoded, n_queries, K, run)
    return ranking.indices, watch.seconds["diffusion"]


def measure(name, queries, gallery, sizes, tols):
    """Print a line for each setting."""
    n_rows = len(queries) + len(gallery)
    for k1, k2 in sizes:
        method, distances = prepared(kinrank.CAS(k1=k1, k2=k2), queries, gallery)
        strict, _ = ranked(method.replace(tol=STRICT), distances, len(queries))
        cells = []
        for tol in tols:
            indices, seconds = ranked(method.replace(tol=tol), distances, len(queries))
            cells.append(f"{(indices != strict).sum():,} ({1e6 * seconds / n_rows:.0f})")
        cells = " | ".join(cells)
        print(f"| {name} | {n_rows:,} | {k1}/{k2} | {strict.size:,} | {cells} |", flush=True)


def main():
    """Measure what was asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", nargs="*", help="names of folders; all without it")
    parser.add_argument("--rows", nargs="*", type=int, default=[13_000], help="of faces")
    parser.add_argument("--tols", nargs="+", type=float, default=[3e-7, 1e-6, 1e-5, 1e-4, 3e-4])
    parser.add_argument("--sizes", nargs="+", default=["20/5", "60/6"], help="k1/k2")
    options = parser.parse_args()
    progress.time = SimpleNamespace(perf_counter=time.process_time)
    sizes = [tuple(map(int, size.split("/"))) for size in options.sizes]
    folders = sorted(path.parent.name for path in options.data.glob("*/gallery.npy"))
    print("Places that differ from those with `tol=1e-10` (CPU us a row of the diffusion).\n")
    heads = " | ".join(f"tol {tol:.0e}".replace("e-0", "e-") for tol in options.tols)
    print(f"| set | rows | k1/k2 | places | {heads} |")
    print("| --- " * (4 + len(options.tols)) + "|")
    for name in folders if options.sets is None else options.sets:
        measure(name, *load(options.data / name), sizes, options.tols)
    if options.sets is None:
        for size in (20, 50):
            rows = groups(13_000, size)
            measure(f"groups of {size}", rows[:650], rows[650:], sizes, options.tols)
    for n in options.rows:
        measure("faces, synthetic", *faces(n), sizes, options.tols)


if __name__ == "__main__":
    results.run(main, __doc__)
