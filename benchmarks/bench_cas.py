"""What CAS costs, as ratios within one run.

    python benchmarks/bench_cas.py [speed] [scaling] [naive] [--data FOLDER]

speed    whole runs against the exact k-NN search inside them, and peak memory, on two real sets
scaling  rows doubled from 10,000 to 80,000: how the part after the search grows
naive    against the dense twin of the tests at 2,500, 5,000 and 10,000 rows

FOLDER holds the feature sets; the default is ../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank import progress

ROOT = Path(__file__).resolve().parents[1]
SETS = {
    "market1501-retail-0288": ({"k1": 20, "k2": 5}, 100),
    "roxford5k-efflite2-gem": ({"k1": 60, "k2": 6}, None),
}


def unit(rows):
    """float32 rows of norm 1."""
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def clustered(n, d=128, per_cluster=20, seed=0):
    """Synthetic rows around n / per_cluster centres."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n // per_cluster, d)).astype(np.float32)
    rows = centres[rng.integers(len(centres), size=n)]
    return unit(rows + 0.8 * rng.normal(size=(n, d)).astype(np.float32))


def timed(method, queries, gallery, k, repeat=3):
    """Seconds of the quickest of a few runs: whole, and by stage."""
    best = None
    for _ in range(repeat):
        watch = progress.Stopwatch()
        begin = time.perf_counter()
        with progress.listen(watch):
            method.rerank(queries, gallery, k)
        total = time.perf_counter() - begin
        if best is None or total < best[0]:
            best = (total, watch.seconds)
    return best


def in_child(*args):
    """Run one measurement of this file in its own process and read its JSON."""
    command = [sys.executable, __file__, *map(str, args)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one(folder, name, geodesic):
    """Child: one set, one setting."""
    sizes, k = SETS[name]
    queries, gallery = (
        unit(np.load(Path(folder) / name / f"{p}.npy")) for p in ("query", "gallery")
    )
    method = kinrank.CAS(**sizes, geodesic=geodesic == "True")
    method.rerank(queries[:5], gallery[:500], k=50)
    total, stages = timed(method, queries, gallery, k)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"total": total, "stages": stages, "peak": peak}))


def speed(folder):
    """Print the ratio to the search for both sets, without and with shortest paths."""
    print("| set | geodesic | search s | whole s | ratio | peak GB | stages s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in SETS:
        for geodesic in (False, True):
            found = in_child("one", folder, name, geodesic)
            search = found["stages"]["neighbours"]
            rest = ", ".join(
                f"{k} {v:.2f}" for k, v in found["stages"].items() if k != "neighbours"
            )
            print(
                f"| {name} | {'yes' if geodesic else 'no'} | {search:.2f} | {found['total']:.2f} | "
                f"{found['total'] / search:.2f} | {found['peak']:.2f} | {rest} |",
                flush=True,
            )


SIZES = (10_000, 20_000, 40_000, 80_000)
PER_CLUSTER = (50, 20)


def grown(rounds, per_cluster, *sizes):
    """Child: the search once at each size, the part after it in each round, and peak memory.

    Sizes take turns, and rounds are short as the search is not repeated: a machine that is slow for
    a while is slow for all sizes of a round.
    """
    searcher = importlib.import_module("kinrank.search.exact").ExactSearch
    searcher.neighbors_and_more = remembered(searcher.neighbors_and_more)
    method = kinrank.CAS()
    rows = {int(n): clustered(int(n), per_cluster=int(per_cluster)) for n in sizes}
    times = {n: {"search": 0.0, "after": []} for n in rows}
    for _ in range(int(rounds)):
        for n, own in rows.items():
            total, stages = timed(method, own[: n // 10], own[n // 10 :], 100, repeat=1)
            search = stages.get("neighbours", 0.0)
            times[n]["search"] = max(search, times[n]["search"])
            times[n]["after"].append(total - search)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({n: {**found, "peak": peak} for n, found in times.items()}))


def remembered(search):
    """A search that answers from memory when it is asked again for as many rows."""
    known = {}

    def answer(searcher, *args):
        n = len(searcher.vectors)
        if n not in known:
            known[n] = search(searcher, *args)
        return known[n]

    return answer


def scaling():
    """Print how time and memory grow when the rows double: medians of rounds and of ratios."""
    print(
        "| rows in a cluster | rows | search s | after the search s | growth | peak GB | growth |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for size in PER_CLUSTER:
        before, times = None, in_child("grown", 15, size, *SIZES)
        for n in SIZES:
            now = times[str(n)] | {"peak": in_child("grown", 1, size, n)[str(n)]["peak"]}
            time_growth = peak_growth = ""
            if before:
                time_growth = f"{np.median(np.divide(now['after'], before['after'])):.2f}"
                peak_growth = f"{now['peak'] / before['peak']:.2f}"
            print(
                f"| {size} | {n:,} | {now['search']:.2f} | {np.median(now['after']):.2f} | "
                f"{time_growth} | {now['peak']:.2f} | {peak_growth} |",
                flush=True,
            )
            before = now


def against_naive():
    """Print how much less work than the dense twin it is, in CPU seconds, and that both agree."""
    sys.path.insert(0, str(ROOT / "tests"))
    import naive

    print("| rows | dense twin, CPU s | kinrank, CPU s | times less | largest difference of d* |")
    print("| --- | --- | --- | --- | --- |")
    method = kinrank.CAS()
    for n in (2_500, 5_000, 10_000):
        rows = clustered(n)
        method.rerank(rows[:5], rows[5:500])
        begin = time.process_time()
        ranking = method.rerank(rows[:50], rows[50:])
        middle = time.process_time()
        expected, _ = naive.cas(naive.squared_distances(rows), 50, method)
        end = time.process_time()
        found = np.take_along_axis(expected, ranking.indices.astype(np.int64), axis=1)
        off = np.abs(found - ranking.distances).max()
        fast, slow = middle - begin, end - middle
        print(f"| {n:,} | {slow:.1f} | {fast:.2f} | {slow / fast:.0f} | {off:.1e} |", flush=True)


def main():
    """Run what was asked for, or all."""
    if len(sys.argv) > 1 and sys.argv[1] in ("one", "grown"):
        return {"one": one, "grown": grown}[sys.argv[1]](*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["speed", "scaling", "naive"])
    parser.add_argument("--data", default=ROOT.parent / "shared" / "data")
    options = parser.parse_args()
    steps = {
        "speed": lambda: speed(options.data),
        "scaling": scaling,
        "naive": against_naive,
    }
    for name in options.what:
        print(f"\n## {name}\n", flush=True)
        steps[name]()
    return None


if __name__ == "__main__":
    results.run(main, __doc__)
