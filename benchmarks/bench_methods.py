"""Latency and peak memory of every method, beside the exact k-NN search in the same process.

    python benchmarks/bench_methods.py [--k 100] [--methods rdp,dfs] [FOLDER ...]

A folder holds query.npy and gallery.npy. Without folders, the Revisited Oxford (n = 5,063) and
Market1501 (n = 19,281) sets of ../shared/data beside the repository are used, or random clusters of
these sizes where they are not there.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank.parallel import Runner
from kinrank.progress import Stopwatch, listen
from kinrank.registry import method_class, ready_methods
from kinrank.search.exact import exact_neighbors

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = {"roxford5k-efflite2-gem": (70, 4993, 1280), "market1501-retail-0288": (3368, 15913, 256)}
SEARCH_K = 50


def load(name):
    folder = Path(name)
    if not (folder / "query.npy").exists():
        return random_set(*SETS[folder.name])
    parts = (np.load(folder / f"{part}.npy").astype(np.float32) for part in ("query", "gallery"))
    return tuple(part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts)


def random_set(n_queries, n_gallery, width):
    rng = np.random.default_rng(0)
    n = n_queries + n_gallery
    centres = rng.normal(size=(n // 20, width))
    rows = centres[rng.integers(0, len(centres), n)] + rng.normal(size=(n, width))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return rows[:n_queries], rows[n_queries:]


def measure(name, method, k):
    """Run one method in this process and print its figures as JSON."""
    queries, gallery = load(name)
    rows, run = np.concatenate([queries, gallery]), Runner.of()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        for head in (40, 700):  # both ways to search are compiled before the clock starts
            kinrank.rerank(queries[:8], gallery[:head], method, min(k, 10))
    exact_neighbors(rows[:600], SEARCH_K, run)
    del rows
    before = search_seconds(queries, gallery, run)
    watch, begun = Stopwatch(), time.perf_counter()
    with listen(watch):
        kinrank.rerank(queries, gallery, method, k)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    after = search_seconds(queries, gallery, run)
    search = (before + after) / 2
    inside = watch.seconds.get("neighbours")
    print(json.dumps({"seconds": seconds, "search": search, "inside": inside, "peak": peak}))


def search_seconds(queries, gallery, run):
    rows = np.concatenate([queries, gallery])
    begun = time.perf_counter()
    exact_neighbors(rows, SEARCH_K, run)
    return time.perf_counter() - begun


def table(name, methods, k):
    queries, gallery = load(name)
    n, width = len(queries) + len(gallery), queries.shape[1]
    print(f"\n{Path(name).name}: n = {n:,} ({len(queries):,} queries), d = {width}, k = {k}")
    print(
        f"{'method':<12} {'seconds':>8} {'k-NN':>7} {'ratio':>6} {'own k-NN':>9} {'ratio':>6} "
        f"{'peak GB':>8}"
    )
    del queries, gallery
    for method in methods:
        command = [sys.executable, __file__, "--one", method, "--k", str(k), str(name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{method:<12} failed: {done.stderr.strip().splitlines()[-1]}")
            continue
        got = json.loads(done.stdout)
        own = got["inside"]
        shown = f"{own:>9.2f} {got['seconds'] / own:>6.2f}" if own else f"{'-':>9} {'-':>6}"
        ratio = got["seconds"] / got["search"]
        print(
            f"{method:<12} {got['seconds']:>8.2f} {got['search']:>7.2f} {ratio:>6.2f} {shown} "
            f"{got['peak']:>8.2f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", default=[str(SHARED / name) for name in SETS])
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--methods", default=",".join(ready_methods()))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        measure(args.folders[0], args.one, args.k)
        return
    names = args.methods.split(",")
    for name in names:
        method_class(name)  # an unknown one ends here
    print(f"k-NN: exact search of the {SEARCH_K} nearest of all rows, before and after the method")
    print("own k-NN: the search inside the method; both ratios are of the whole method to it")
    for folder in args.folders:
        table(folder, names, args.k)


if __name__ == "__main__":
    results.run(main, __doc__)
