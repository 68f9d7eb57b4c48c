"""What a cluster costs: bytes, traffic and time, on two nodes of this machine.

    python benchmarks/bench_cluster.py [bytes] [traffic] [overhead] [pieces] [paper] [ROWS ...]

bytes     bytes per row that each stage stores and sends back
traffic   what a block reads outside itself, rows in random order against rows laid out
overhead  seconds on two nodes against two threads of one process, in one run
pieces    processor time and bytes of a row, and seconds with one worker and with two
paper     what 10^8 and 10^9 rows cost, from the saved pieces; runs nothing

ROWS are 20,000 and 80,000 if none are given (20,000 and 40,000 for overhead, 50,000 and 200,000 for
pieces). The nodes are started on loopback with one processor each, as the tests do.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

import kinrank
import results
from kinrank import progress

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import ray_nodes

K = 100
SEARCHES = {"neighbours", "cells", "search"}  # stages of the search
LINK = 1.25e9  # bytes a second, of a network of 10 Gbit/s


def clustered(n, d=128, per_cluster=20, seed=0):
    """Synthetic unit rows around n / 20 centres, in random order."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n // per_cluster, d)).astype(np.float32)
    rows = centres[rng.integers(len(centres), size=n)]
    rows += 0.8 * rng.normal(size=(n, d)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@contextmanager
def two_nodes(memory):
    """A connection to two nodes whose object stores hold ``memory`` bytes each."""
    ray_nodes.MEMORY = memory
    with tempfile.TemporaryDirectory(prefix="kr-") as folder, ray_nodes.running(folder) as nodes:
        os.environ.update(nodes.environment)
        with kinrank.cluster.connect(nodes.address) as cluster:
            ray_nodes.wait_for_nodes(cluster.ray, 2)
            yield cluster


def ranked(cluster, rows, block_size=None, search="exact", then=None):
    """Seconds, seconds by stage, the ranking and the traffic of one run of CAS."""
    count = len(rows) // 10
    watch, begun = progress.Stopwatch(then), time.perf_counter()
    with progress.listen(watch):
        if cluster is None:
            found = kinrank.CAS().rerank(rows[:count], rows[count:], K)
            return time.perf_counter() - begun, watch.seconds, found, None
        cluster.report.stages.clear()
        run = kinrank.Run(cluster=cluster, block_size=block_size, search=search)
        found = kinrank.CAS().rerank(rows[:count], rows[count:], K, run=run)
    return time.perf_counter() - begun, watch.seconds, found, cluster.report.summary()["stages"]


def quick(n):
    """The search for parts that are not about it."""
    return "exact" if n <= 40_000 else "approximate"


def warm_up(cluster):
    """Compile and load what is needed, on every worker."""
    for _ in range(2):
        ranked(cluster, clustered(2000))


def held(storage):
    """Bytes of the arrays that are stored now."""
    arrays = [array() for array, _ in list(storage._known.values())]
    return sum(array.nbytes for array in arrays if array is not None)


def bytes_per_row(sizes=(20_000, 80_000)):
    print("| rows | stage | stored B/row | sent back B/row |")
    print("| --- | --- | --- | --- |")
    with two_nodes(2_000_000_000) as cluster:
        warm_up(cluster)
        for n in sizes:
            most = [0]
            rows = clustered(n)

            def weigh(*_, most=most):
                most[0] = max(most[0], held(cluster.storage))

            stages = ranked(cluster, rows, search=quick(n), then=weigh)[3]
            for name, known in stages.items():
                sent, back = known["sent_bytes"] / n, known["returned_bytes"] / n
                print(f"| {n:,} | {name} | {sent:,.0f} | {back:,.0f} |", flush=True)
            sent = sum(known["sent_bytes"] for known in stages.values()) / n
            back = sum(known["returned_bytes"] for known in stages.values()) / n
            print(f"| {n:,} | all | {sent:,.0f} | {back:,.0f} |", flush=True)
            print(f"\nAt most {most[0] / n:,.0f} bytes per row were stored at a time.\n")


def traffic(sizes=(20_000, 80_000), block_size=2048):
    print("| rows | stage | a block's own MB | outside, random MB | outside, laid out MB | times |")
    print("| --- | --- | --- | --- | --- | --- |")
    with two_nodes(2_000_000_000) as cluster:
        warm_up(cluster)
        for n in sizes:
            rows = clustered(n)
            laid_out = ranked(cluster, rows, block_size, quick(n))
            with mock.patch("kinrank.stages.layout.Layout.near", _as_they_are):
                at_random = ranked(cluster, rows, block_size, quick(n))
            same = (laid_out[2].indices == at_random[2].indices).mean()
            for name, known in laid_out[3].items():
                other = at_random[3].get(name, {})
                if "outside_bytes" not in known or "outside_bytes" not in other:
                    continue
                own, near = known["block_bytes"] / 1e6, known["outside_bytes"] / 1e6
                far = other["outside_bytes"] / 1e6
                times = f"{far / near:.1f}" if near > 0.005 else "-"
                print(
                    f"| {n:,} | {name} | {own:.2f} | {far:.2f} | {near:.2f} | {times} |", flush=True
                )
            # Sums over rows in another order are rounded differently.
            print(f"\n{n:,} rows: {100 * same:.3f}% of the results are in the same place.\n")


def _as_they_are(lists, k, n_queries):  # noqa: ARG001  as Layout.near
    from kinrank.stages.layout import Layout

    return Layout.identity(len(lists))


def overhead(sizes=(20_000, 40_000)):
    print(
        "| rows | one process: search, rest s | two nodes: search, rest s | ratio | tasks | same |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    with two_nodes(2_000_000_000) as cluster:
        warm_up(cluster)
        warm_up(None)
        for n in sizes:
            rows = clustered(n)
            here, there = ranked(None, rows), ranked(cluster, rows)
            search = [run[1]["neighbours"] for run in (here, there)]
            rest = [run[0] - one for run, one in zip((here, there), search, strict=True)]
            same = all(
                getattr(here[2], name).tobytes() == getattr(there[2], name).tobytes()
                for name in ("indices", "distances")
            )
            tasks = sum(stage["tasks"] for stage in there[3].values())
            print(
                f"| {n:,} | {search[0]:.1f}, {rest[0]:.1f} | {search[1]:.1f}, {rest[1]:.1f} | "
                f"{there[0] / here[0]:.2f} | {tasks} | {same} |",
                flush=True,
            )


def pieces(sizes=(50_000, 200_000)):
    """Rows of 128 columns, a tenth of them queries, searched approximately, first 100 of each."""
    print("| rows | workers | seconds | search CPU s | other CPU s | caller CPU s | in B | out B |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for workers in (1, 2):
        with kinrank.cluster.connect("local", threads=workers) as cluster:
            warm_up(cluster)
            for n in sizes:
                rows = clustered(n)
                begun = time.process_time()
                seconds, _, _, stages = ranked(cluster, rows, search="approximate")
                caller = time.process_time() - begun
                cpu = sum(known["cpu_seconds"] for known in stages.values())
                search = sum(stages[name]["cpu_seconds"] for name in SEARCHES & set(stages))
                stored = sum(known["sent_bytes"] for known in stages.values()) / n
                back = sum(known["returned_bytes"] for known in stages.values()) / n
                print(
                    f"| {n} | {workers} | {seconds:.1f} | {search:.2f} | {cpu - search:.2f} | "
                    f"{caller:.2f} | {stored:.0f} | {back:.0f} |",
                    flush=True,
                )


def paper(sizes=(10**8, 10**9)):
    """Tasks of the search grow as a n + b n^1.5, all other work and all bytes with the rows.

    a, b : from the two sizes that were measured with one worker
    """
    (path,) = results.FOLDER.glob("bench_cluster-pieces*.json")
    blocks = json.loads(path.read_text(encoding="utf-8"))["blocks"]
    lines = next(block["rows"] for block in blocks if "rows" in block)
    small, large = (list(map(float, line)) for line in lines if line[1] == "1")
    per_row = [line[3] / line[0] for line in (small, large)]
    roots = [line[0] ** 0.5 for line in (small, large)]
    steep = max(0.0, (per_row[1] - per_row[0]) / (roots[1] - roots[0]))
    flat = per_row[1] - steep * roots[1]
    n, _, _, _, other, caller, stored, back = large
    print(
        "| rows | search, core hours | other stages, core hours | caller, hours | vectors, GB | "
        "through the caller, TB | that takes, hours | 64 cores, hours | 1,024 cores, hours |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for size in sizes:
        search = size * (flat + steep * size**0.5) / 3600
        others = size * other / n / 3600
        alone = size * caller / n / 3600
        moved = size * (stored + back)
        wire = moved / LINK / 3600
        hours = [(search + others) / cores + max(alone, wire) for cores in (64, 1024)]
        print(
            f"| {size:,} | {search:,.0f} | {others:,.0f} | {alone:,.1f} | "
            f"{size * 512 / 1e9:,.0f} | {moved / 1e12:,.1f} | {wire:,.1f} | "
            f"{hours[0]:,.0f} | {hours[1]:,.1f} |"
        )


PARTS = {
    "bytes": bytes_per_row,
    "traffic": traffic,
    "overhead": overhead,
    "pieces": pieces,
    "paper": paper,
}


def main():
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()]
    for name in [word for word in sys.argv[1:] if not word.isdigit()] or PARTS:
        print(f"\n## {name}\n")
        PARTS[name](*([sizes] if sizes else []))


if __name__ == "__main__":
    results.run(main, __doc__)
