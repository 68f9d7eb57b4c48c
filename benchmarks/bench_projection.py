"""Plain search and re-ranking after the projection that a gallery teaches, without labels.

    python benchmarks/bench_projection.py table|methods|few|cost|sample|million
                                          [--sets a,b] [--save] [--data FOLDER] [--work FOLDER]

table    mAP of plain search in the vectors as they are, centred, half-whitened, and projected
methods  mAP of every method at its defaults, without and with the same map
few      the same where each label has 2, 3 or 4 rows, each of which asks for the others
cost     CPU seconds of learning the map and of ranking the gallery by CAS, k=50 and exact search
sample   plain search after maps that were learnt around fewer rows (Market1501)
million  CPU seconds and memory of learning from a million rows in a file

FOLDER holds the feature sets (default ../shared/data beside the repository); digits are added. Sets
are whole; of queries at most 400 are asked. The figures of methods are kept in the work folder, so
that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank import datasets
from kinrank.evaluate.search import Plain
from kinrank.projection import sample
from kinrank.registry import method_class, untrained_methods

ROOT = Path(__file__).resolve().parents[1]
QUERIES = 400
SHAPES = ((2000, 128), (5000, 1280), (20_000, 128), (100_000, 128))
ONCE = 20_000  # rows from which on a call is measured once
RESULTS = 50  # that a ranking of the gallery has for each row
PER_GROUP = 20  # rows of a group of synthetic rows
MILLION = 1_000_000
WIDTH = 128  # columns of the million
WRITTEN = 10_000  # rows of them at a time


def load(place):
    """Queries, gallery, and what is right and what does not count for each query."""
    if place == "digits":
        from sklearn.datasets import load_digits

        rows, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(rows))
        query, gallery = order[:QUERIES], order[QUERIES:]
        right = labels[query][:, None] == labels[gallery]
        return rows[query], rows[gallery], right, np.zeros_like(right)
    queries = np.load(place / "query.npy").astype(np.float32)
    gallery = np.load(place / "gallery.npy").astype(np.float32)
    right = np.zeros((len(queries), len(gallery)), bool)
    ignored = right.copy()
    if (place / "gnd.json").exists():
        data = datasets.load(place, unit=True)
        truth = json.loads((place / "gnd.json").read_text())
        for query, entry in enumerate(truth if isinstance(truth, list) else truth["gnd"]):
            right[query, entry["easy"]] = True
            right[query, entry["hard"]] = True
            ignored[query, entry["junk"]] = True
        return data.query.features, data.gallery.features, right, ignored
    if (place / "relevant.json").exists():
        for query, rows in enumerate(json.loads((place / "relevant.json").read_text())):
            right[query, rows] = True
    else:
        names = np.load(place / "gallery_ids.npy")
        right = np.load(place / "query_ids.npy")[:, None] == names
        if (place / "query_cams.npy").exists():
            cameras = np.load(place / "gallery_cams.npy")
            ignored = right & (np.load(place / "query_cams.npy")[:, None] == cameras)
            right &= ~ignored
    asked = np.flatnonzero(right.any(axis=1))
    if len(asked) > QUERIES:
        asked = np.sort(np.random.default_rng(0).choice(asked, QUERIES, replace=False))
    return queries[asked], gallery, right[asked], ignored[asked]


def precision(ranking, right, ignored):
    """Mean average precision in per cent."""
    values = []
    for rows, good, junk in zip(ranking.indices, right, ignored, strict=True):
        if not good.any():
            continue
        order = rows[rows >= 0]
        order = order[~junk[order]]
        places = np.flatnonzero(good[order])
        values.append(((np.arange(len(places)) + 1) / (places + 1)).sum() / good.sum())
    return 100 * float(np.mean(values))


def table(places):
    """Plain search before and after."""
    lines = []
    for place in places:
        queries, gallery, right, ignored = load(place)
        learnt = kinrank.Projection.fit(gallery)
        line = {"set": getattr(place, "name", place), "rows": len(gallery)}
        maps = {"plain": None, "centred": 0.0, "half": 0.25, "projected": learnt}
        maps["views"] = kinrank.Projection.fit(gallery, kind="views")
        for name, whiten in maps.items():
            ranking = Plain(metric="cosine", whiten=whiten).rerank(queries, gallery)
            line[name] = round(precision(ranking, right, ignored), 1)
        line["kind"] = learnt.kind
        lines.append(line)
        log(line, learnt.reason)
    mean = {name: round(float(np.mean([line[name] for line in lines])), 1) for name in maps}
    lines.append({"set": "mean", "rows": "", **mean, "kind": ""})
    return lines


def methods(places, work):
    """Which part of the gain is the map's, and which the method's: mAP without > with the map."""
    words = ["none", *untrained_methods()]
    columns = {getattr(place, "name", place): scores_of(place, words, work) for place in places}
    columns["mean"] = {
        word: np.mean([scores[word] for scores in columns.values()], axis=0) for word in words
    }
    order = sorted(words, key=lambda word: -max(columns["mean"][word]))
    return [
        {"method": f"`{word}`"}
        | {name: "{:.1f} → {:.1f}".format(*scores[word]) for name, scores in columns.items()}
        for word in order
    ]


def scores_of(place, words, work):
    """By method, mAP on a set without and with the map; what was measured before is read."""
    file = work / f"methods-{getattr(place, 'name', place)}.json"
    scores = json.loads(file.read_text()) if file.exists() else {}
    if set(words) <= set(scores):
        return scores
    queries, gallery, right, ignored = load(place)
    learnt = kinrank.Projection.fit(gallery)
    for word in words:
        if word in scores:
            continue
        method = Plain if word == "none" else method_class(word)
        scores[word] = [
            precision(
                method(metric="cosine", whiten=whiten).rerank(queries, gallery), right, ignored
            )
            for whiten in (None, learnt)
        ]
        file.write_text(json.dumps(scores))
        log(file.stem, word, scores[word])
    return scores


def few(places):
    """Plain search before and after where items have few rows."""
    lines = []
    for place in places:
        if not (Path(place) / "gallery_cams.npy").exists():
            continue
        line = {"set": place.name}
        for count in (2, 3, 4):
            rows, labels = rows_of_each(place, count)
            learnt = kinrank.Projection.fit(rows)
            right = (labels[:, None] == labels) & ~np.eye(len(labels), dtype=bool)
            for word, whiten in (("plain", None), ("projected", learnt)):
                ranking = Plain(metric="cosine", whiten=whiten).rerank(rows)
                figure = precision(ranking, right, np.zeros_like(right))
                line[f"{count} rows, {word}"] = round(figure, 1)
            line[f"{count} rows, kind"] = learnt.kind
        lines.append(line)
        log(line)
    return lines


def rows_of_each(place, count):
    """As many rows of each label of a set, in random order, at most 3,000 in all."""
    rows = np.concatenate([np.load(place / f"{side}.npy") for side in ("query", "gallery")])
    labels = np.concatenate([np.load(place / f"{side}_ids.npy") for side in ("query", "gallery")])
    random = np.random.default_rng(count)
    order = random.permutation(np.flatnonzero(labels > 0))
    chosen = []
    for label in random.permutation(np.unique(labels[order]))[: 3000 // count]:
        of_label = order[labels[order] == label]
        if len(of_label) >= count:
            chosen.extend(of_label[:count])
    chosen = random.permutation(chosen)
    return rows[chosen].astype(np.float32), labels[chosen]


def spent(call, times):
    """CPU seconds of a call, the least of some."""
    each = []
    for _ in range(times):
        begin = time.process_time()
        call()
        each.append(time.process_time() - begin)
    return min(each)


def groups(n, d, seed=0):
    """Synthetic rows in groups."""
    random = np.random.default_rng(seed)
    kinds = random.normal(size=(n // PER_GROUP, d)).astype(np.float32)
    rows = np.repeat(kinds, PER_GROUP, axis=0)
    rows += random.normal(size=rows.shape).astype(np.float32)
    return rows


def cost(places):
    """CPU seconds of learning each kind, and how many rankings of the gallery that is."""
    collections = [
        (getattr(place, "name", place), lambda place=place: load(place)[1]) for place in places
    ]
    for n, d in SHAPES:
        collections.append((f"groups, {n:,} x {d}", lambda n=n, d=d: groups(n, d)))
    lines = []
    for name, make in collections:
        gallery = make()
        times = 1 if len(gallery) >= ONCE else 2
        line = {"set": name, "rows": len(gallery), "columns": gallery.shape[1]}
        ranking = spent(lambda: kinrank.CAS().rerank(gallery, k=RESULTS), times)  # noqa: B023
        line["ranking"] = f"{ranking:.2f}"
        for kind in ("pairs", "views"):
            learning = spent(lambda: kinrank.Projection.fit(gallery, kind=kind), times)  # noqa: B023
            line[kind] = f"{learning:.2f}"
            line[f"{kind} / ranking"] = f"{learning / ranking:.2f}"
        lines.append(line)
        log(line)
    return lines


def million(_):
    """What it takes to learn from a million rows in a file of float16."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "million.npy"
        with file.open("wb") as stream:
            head = {"descr": "<f2", "fortran_order": False, "shape": (MILLION, WIDTH)}
            np.lib.format.write_array_header_1_0(stream, head)
            for low in range(0, MILLION, WRITTEN):
                stream.write(groups(WRITTEN, WIDTH, seed=low).astype(np.float16).tobytes())
        gallery = np.load(file, mmap_mode="r")
        before = peak_memory()
        seconds = spent(lambda: log(kinrank.Projection.fit(gallery).reason), 1)
        line = {"rows": f"{MILLION:,}", "columns": WIDTH, "CPU seconds": f"{seconds:.1f}"}
        return [line | {"peak memory before, MB": before, "peak memory, MB": peak_memory()}]


def peak_memory():
    """The largest size of the process so far, in megabytes."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)


def by_sample(places):
    """How many rows are enough to learn from."""
    lines = []
    for place in places:
        if not str(place).endswith("retail-0288"):
            continue
        queries, gallery, right, ignored = load(place)
        for drawn, around in ((128, 12), (256, 12), (512, 12), (1024, 6), (1024, 12), (2048, 12)):
            sample.DRAWN = drawn
            sample.AROUND = around
            learnt = kinrank.Projection.fit(gallery)
            ranking = Plain(metric="cosine", whiten=learnt).rerank(queries, gallery)
            line = {"set": place.name, "drawn": drawn, "around": around}
            line["projected"] = round(precision(ranking, right, ignored), 1)
            lines.append(line | {"reason": learnt.reason})
            log(lines[-1])
    return lines


def log(*values):
    """Say what is done, beside the table."""
    print(*values, file=sys.stderr, flush=True)


def markdown(lines):
    """Lines as a table."""
    names = list(lines[0])
    print("| " + " | ".join(names) + " |")
    print("| " + " | ".join("---" for _ in names) + " |")
    for line in lines:
        print("| " + " | ".join(str(line[name]) for name in names) + " |")


def main():
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("table", "methods", "few", "cost", "sample", "million"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "projection")
    given = parser.parse_args()
    places = [place for place in sorted(given.data.iterdir()) if place.is_dir()] + ["digits"]
    if given.sets:
        wanted = given.sets.split(",")
        places = [place for place in places if getattr(place, "name", place) in wanted]
    warnings.simplefilter("ignore", kinrank.KinrankWarning)
    kinrank.CAS().rerank(groups(1000, 24), k=RESULTS)  # kernels
    kinrank.Projection.fit(groups(1000, 24))
    given.work.mkdir(parents=True, exist_ok=True)
    jobs = {
        "table": table,
        "methods": lambda places: methods(places, given.work),
        "cost": cost,
        "sample": by_sample,
    }
    jobs |= {"few": few, "million": million}
    markdown(jobs[given.part](places))


if __name__ == "__main__":
    results.run(main, __doc__)
