"""Latency and peak memory of every method, beside the exact k-NN search in the same process.

    python benchmarks/bench_methods.py [--k 100] [--methods rdp,dfs] [FOLDER ...]

The ratio of CPU seconds holds on a busy machine too; its search finds lists as long as those that
the method asks for. Where "cas" is among the methods, what shortest paths and whole galleries cost
beside it is printed too.

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
LISTS = {"sg": 400, "eir": 1000}  # of the methods that ask for longer ones
CAS_SIZES = ({"k1": 20, "k2": 5}, {"k1": 60, "k2": 6})


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
    length = min(LISTS.get(method, SEARCH_K), len(queries) + len(gallery))
    before = search_seconds(queries, gallery, length, run)
    watch = Stopwatch()
    with listen(watch):
        seconds, cpu = timed(lambda: kinrank.rerank(queries, gallery, method, k))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    after = search_seconds(queries, gallery, length, run)
    search, search_cpu = (before + after) / 2
    got = {"seconds": seconds, "search": search, "cpu": cpu / search_cpu, "peak": peak}
    print(json.dumps({**got, "inside": watch.seconds.get("neighbours")}))


def search_seconds(queries, gallery, k, run):
    rows = np.concatenate([queries, gallery])
    return np.array(timed(lambda: exact_neighbors(rows, k, run)))


def timed(call):
    """Seconds, and those of all cores."""
    begun, worked = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begun, time.process_time() - worked


def cas_ratios(name, k):
    """CPU seconds of shortest paths and of whole galleries, over those of the first k."""
    queries, gallery = load(name)
    for sizes in CAS_SIZES:
        plain, paths = kinrank.CAS(**sizes), kinrank.CAS(**sizes, geodesic=True)
        for method, count in ((plain, 10), (paths, 10), (plain, None)):
            method.rerank(queries[:8], gallery[:700], count)
        base = timed(lambda: plain.rerank(queries, gallery, k))[1]  # noqa: B023
        longer = timed(lambda: paths.rerank(queries, gallery, k))[1]  # noqa: B023
        whole = timed(lambda: plain.rerank(queries, gallery))[1]  # noqa: B023
        print(f"cas {sizes}: geodesic {longer / base:.2f}, k=None {whole / base:.2f} (CPU ratios)")


def table(name, methods, k):
    queries, gallery = load(name)
    n, width = len(queries) + len(gallery), queries.shape[1]
    print(f"\n{Path(name).name}: n = {n:,} ({len(queries):,} queries), d = {width}, k = {k}")
    print(
        f"{'method':<12} {'seconds':>8} {'k-NN':>7} {'ratio':>6} {'CPU':>6} {'own k-NN':>9} "
        f"{'ratio':>6} {'peak GB':>8}"
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
            f"{method:<12} {got['seconds']:>8.2f} {got['search']:>7.2f} {ratio:>6.2f} "
            f"{got['cpu']:>6.2f} {shown} {got['peak']:>8.2f}",
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
    print("CPU: the ratio of CPU seconds. own k-NN: the search inside the method; ratios are to it")
    for folder in args.folders:
        table(folder, names, args.k)
        if "cas" in names:
            cas_ratios(folder, args.k)


if __name__ == "__main__":
    results.run(main, __doc__)
