"""What an index answers, and what it costs.

    python benchmarks/bench_index.py [quality] [thresholds] [latency] [callers] [build] [add]
        [million] [--data FOLDER] [--queries N]

quality  mAP of all queries in the graph, one at a time (the closed set with that query added),
         online, and online with all other queries as context, on real sets
latency  one query at a time over 20,000 rows, p50 and p99, beside the plain search
callers  eight threads that ask at once, against one
build    fitting an index against the transductive run of the same gallery
add      adding and removing rows against fitting the index
thresholds  the false-match rate foretold without labels, and what it is
million  1,000,000 rows with the approximate search: latency, saving, opening

FOLDER holds the feature sets; the default is ../shared/data beside the repository. Synthetic rows
are clusters of 20 in 128 dimensions, of 50 for `million`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank import evaluate, progress
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors
from kinrank.stages.distances import VectorDistances
from kinrank.types import Neighbors, Ranking

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def unit(rows):
    """float32 rows of norm 1."""
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def clustered(n, d=128, per_cluster=20, seed=0):
    """Synthetic rows around n / 20 centres."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(max(1, n // per_cluster), d)).astype(np.float32)
    rows = centres[rng.integers(len(centres), size=n)]
    return unit(rows + 0.8 * rng.normal(size=(n, d)).astype(np.float32))


def load(folder):
    """Queries, gallery, and a function from a ranking of some queries to its mAP in per cent."""
    query, gallery = (unit(np.load(folder / f"{part}.npy")) for part in ("query", "gallery"))
    if (folder / "gnd.json").exists():
        truth = json.loads((folder / "gnd.json").read_text())
        return (
            query,
            gallery,
            lambda ranking, rows: (
                100 * evaluate.revisited(ranking, [truth[row] for row in rows]).medium.mAP
            ),
        )
    names = ("query_ids", "gallery_ids", "query_cams", "gallery_cams")
    labels = [
        np.load(folder / f"{name}.npy") for name in names if (folder / f"{name}.npy").exists()
    ]
    return (
        query,
        gallery,
        lambda ranking, rows: (
            100
            * evaluate.reid(
                ranking, *(part[rows] if at % 2 == 0 else part for at, part in enumerate(labels))
            ).mAP
        ),
    )


def with_query(known, squared):
    """The lists of [query; gallery] from those of the gallery and the query's distances."""
    k = known.k
    near = np.argsort(squared, kind="stable")[: k - 1]
    ids = np.concatenate([np.empty((1, k), np.int32), known.indices + 1])
    d = np.concatenate([np.empty((1, k), np.float32), known.distances])
    ids[0], d[0] = np.append(0, near + 1), np.append(0, squared[near])
    for row in np.flatnonzero(squared <= known.distances[:, -1]):
        at = 1 + np.searchsorted(known.distances[row, 1:], squared[row])
        ids[row + 1, at:] = np.append(0, ids[row + 1, at:-1])
        d[row + 1, at:] = np.append(squared[row], d[row + 1, at:-1])
    farthest = np.append(squared.max(), np.maximum(known.farthest, squared))
    return Neighbors(ids, d, farthest.astype(np.float32))


def one_at_a_time(method, queries, gallery):
    """The exact counterpart of an online answer: the closed set with that one query added."""
    run = Runner.of()
    known = exact_neighbors(gallery, method.list_length(), run)
    found = []
    for query in queries:
        difference = gallery - query
        lists = with_query(known, np.einsum("ij,ij->i", difference, difference))
        rows = np.concatenate([query[None], gallery])
        encoded = method.compare(VectorDistances.of(lists, lists, rows), 1, run)
        found.append(method.order(encoded, 1, len(gallery), run))
    return joined(found)


def joined(rankings):
    """One ranking of the queries of several."""
    return Ranking(
        np.concatenate([one.indices for one in rankings]),
        np.concatenate([one.distances for one in rankings]),
    )


def with_context(method, queries, gallery, rows):
    """Each of ``rows`` asked of an index that has all other queries as its context."""
    found = []
    for row in rows:
        index = method.fit(gallery, context=np.delete(queries, row, axis=0))
        found.append(index.search(queries[[row]], k=None))
    return joined(found)


def quality(options):
    """Print the table of the docs."""
    print("| set | queries | none | all queries | one at a time | online | online, with context |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    method = kinrank.CAS()
    for folder in sorted(p for p in Path(options.data).iterdir() if p.is_dir()):
        queries, gallery, score = load(folder)
        count = min(len(queries), options.queries)
        rows = np.unique(np.linspace(0, len(queries) - 1, count).astype(int))
        every = method.rerank(queries, gallery)
        index = method.fit(gallery)
        columns = [
            index.search(queries[rows], k=None, base=True),
            Ranking(every.indices[rows], every.distances[rows]),
            one_at_a_time(method, queries[rows], gallery),
            index.search(queries[rows], k=None),
            with_context(method, queries, gallery, rows.tolist()),
        ]
        cells = " | ".join(f"{score(ranking, rows):.1f}" for ranking in columns)
        print(f"| {folder.name} | {len(rows)} | {cells} |", flush=True)


def seconds_of(calls):
    """p50 and p99 in milliseconds of calls without arguments."""
    taken = []
    for call in calls:
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return tuple(1000 * np.percentile(taken, [50, 99]))


def measured_latency(index, queries):
    """Print p50 and p99 of one query at a time, plain and re-ranked."""
    print("| rows | what | p50 ms | p99 ms |")
    print("| --- | --- | --- | --- |")
    for what, base in (("plain search", True), ("online", False)):
        index.search(queries[:1], base=base)
        calls = [
            lambda q=query, b=base: index.search(q[None], base=b, threads=1) for query in queries
        ]
        middle, high = seconds_of(calls)
        print(f"| {len(index):,} | {what} | {middle:.2f} | {high:.2f} |", flush=True)


def latency(_):
    rows = clustered(21_000)
    measured_latency(kinrank.CAS().fit(rows[1_000:]), rows[:1_000])


def callers(_):
    rows = clustered(20_400)
    index = kinrank.CAS().fit(rows[400:])
    index.search(rows[:1])

    def ask(part):
        for query in part:
            index.search(query[None], threads=1)

    def together(count):
        threads = [threading.Thread(target=ask, args=(rows[at:400:count],)) for at in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # Counts take turns: a machine that is slow for a while is slow for all of them.
    taken = {count: [] for count in (1, 2, 8)}
    for _ in range(9):
        for count, times in taken.items():
            times.append(best_of(partial(together, count), 1))
    print("| callers | queries a second | against one |")
    print("| --- | --- | --- |")
    alone = np.median(taken[1])
    for count, times in taken.items():
        print(f"| {count} | {400 / np.median(times):.0f} | {alone / np.median(times):.2f} |")


def best_of(call, repeat=3):
    """Seconds of the quickest of a few runs."""
    taken = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def build(_):
    """Every tenth row as a query, as in bench_cas, for the transductive run of the same rows."""
    print("| rows | transductive s | fit s | ratio |")
    print("| --- | --- | --- | --- |")
    method = kinrank.CAS()
    method.fit(clustered(500))
    for n in (20_000, 50_000):
        rows = clustered(n)
        run = best_of(partial(method.rerank, rows[: n // 10], rows[n // 10 :], k=100))
        fit = best_of(partial(method.fit, rows))
        print(f"| {n:,} | {run:.2f} | {fit:.2f} | {fit / run:.2f} |", flush=True)


def add(_):
    print("| rows | columns | change | fit s | change s | share % |")
    print("| --- | --- | --- | --- | --- | --- |")
    method = kinrank.CAS()
    warm = method.fit(clustered(600))
    warm.add(clustered(6, seed=5))
    warm.remove([0])
    for n, d in ((20_000, 128), (20_000, 1024), (100_000, 128), (200_000, 128), (100_000, 512)):
        rows = clustered(n, d)
        m = n // 100
        fresh = clustered(m, d, seed=1)
        begin = time.perf_counter()
        index = method.fit(rows[:-m])
        fit = time.perf_counter() - begin
        changes = {
            "1% of the rows, from everywhere": lambda i, r=rows[-m:]: i.add(r),
            "1%, new groups of 20": lambda i, r=fresh: i.add(r),
            "1 row": lambda i, r=rows[-1:]: i.add(r),
            "1 row removed": lambda i: i.remove([7]),
        }
        for name, change in changes.items():
            taken = best_of(lambda c=change, i=index: c(kinrank.Index(i.engine)), 2)
            cells = f"{fit:.2f} | {taken:.3f} | {100 * taken / fit:.1f}"
            print(f"| {n:,} | {d:,} | {name} | {cells} |", flush=True)


def million(options):
    """The approximate search: building, latency, saving and opening."""
    n = options.rows
    rows = clustered(n + 1_000, per_cluster=50)  # larger than the lists, which cells can find
    watch = progress.Stopwatch()
    begin = time.perf_counter()
    with progress.listen(watch):
        index = kinrank.CAS().fit(rows[1_000:], run=kinrank.Run(search="approximate"))
    print(f"Built in {time.perf_counter() - begin:.0f} s:")
    print(", ".join(f"{name} {taken:.0f} s" for name, taken in watch.seconds.items()))
    print(f"Recall of the lists: {index.recall:.3f}\n", flush=True)
    measured_latency(index, rows[:1_000])
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "million.index"
        save = best_of(partial(index.save, path), 1)
        answers = index.search(rows[:10]).ids
        del index
        print("\n| file GB | save s | open s | first answer ms | open and verify s |")
        print("| --- | --- | --- | --- | --- |")
        begin = time.perf_counter()
        again = kinrank.open(path)
        middle = time.perf_counter()
        first = again.search(rows[:1])
        end = time.perf_counter()
        assert (first.ids == answers[:1]).all()
        verified = best_of(partial(kinrank.open, path, verify=True), 1)
        cells = [path.stat().st_size / 1e9, save, middle - begin, 1000 * (end - middle), verified]
        print("| " + " | ".join(f"{cell:.2f}" for cell in cells) + " |", flush=True)


def thresholds(options):
    """How well the false-match rate is foretold without labels."""
    print(
        "| set | asked for | threshold | expected without labels | with labels | of real queries |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for folder in sorted(p for p in Path(options.data).iterdir() if p.is_dir()):
        if not (folder / "gallery_ids.npy").exists():
            continue
        queries, gallery, _ = load(folder)
        own, other = (np.load(folder / f"{part}_ids.npy") for part in ("query", "gallery"))
        index = kinrank.CAS().fit(gallery)
        blind, told = index.calibrate(), index.calibrate(other)
        rows = np.unique(np.linspace(0, len(queries) - 1, 300).astype(int))
        found = index.search(queries[rows], k=None)
        wrong = other[found.indices] != own[rows][:, None]
        for rate in (1e-2, 1e-3, 1e-4):
            limit = blind.threshold(rate)
            real = (wrong & (found.distances <= limit)).sum() / wrong.sum()
            cells = [
                limit,
                blind.at(limit)["pair_false_match_rate"],
                told.at(limit)["pair_false_match_rate"],
            ]
            text = " | ".join(f"{cell:.2g}" for cell in (*cells, real))
            print(f"| {folder.name} | {rate:g} | {text} |", flush=True)


STEPS = {
    "quality": quality,
    "thresholds": thresholds,
    "latency": latency,
    "callers": callers,
    "build": build,
    "add": add,
    "million": million,
}


def main():
    """Run what was asked for, or all but the million rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=[name for name in STEPS if name != "million"])
    parser.add_argument("--data", default=SHARED)
    parser.add_argument("--queries", type=int, default=100, help="for quality, of each set")
    parser.add_argument("--rows", type=int, default=1_000_000, help="for million")
    parser.add_argument("--folder", help="where the file of `million` goes for a while")
    options = parser.parse_args()
    warnings.simplefilter("ignore", kinrank.KinrankWarning)
    for name in options.what:
        print(f"\n## {name}\n", flush=True)
        STEPS[name](options)


if __name__ == "__main__":
    results.run(main, __doc__)
