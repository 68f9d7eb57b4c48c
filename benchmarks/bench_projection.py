"""Plain search and re-ranking after the projection that a gallery teaches, without labels.

    python benchmarks/bench_projection.py table|methods|cost|sample [--sets a,b] [--save]
                                          [--data FOLDER]

table    mAP of plain search in the vectors as they are, centred, half-whitened, and projected
methods  mAP of CAS, k-reciprocal and ECN at their defaults, without and with the same map
cost     processor seconds of learning the map and of one ranking of the gallery
sample   plain search after maps that were learnt around fewer rows (Market1501)

FOLDER holds the feature sets (default ../shared/data beside the repository); digits are added. Sets
are whole; of queries at most 400 are asked.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank import datasets
from kinrank.evaluate.search import Plain
from kinrank.projection import sample

ROOT = Path(__file__).resolve().parents[1]
QUERIES = 400
METHODS = ("cas", "kreciprocal", "ecn")
SHAPES = ((2000, 128), (5000, 128), (5000, 1280), (20_000, 128), (100_000, 128))


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


def methods(places):
    """Which part of the gain is the map's, and which the method's."""
    lines = []
    for place in places:
        queries, gallery, right, ignored = load(place)
        learnt = kinrank.Projection.fit(gallery)
        line = {"set": getattr(place, "name", place)}
        for name in METHODS:
            for suffix, whiten in (("", None), (", projected", learnt)):
                ranking = kinrank.rerank(queries, gallery, name, metric="cosine", whiten=whiten)
                line[f"{name}{suffix}"] = round(precision(ranking, right, ignored), 1)
        lines.append(line)
        log(line)
    names = [name for name in lines[0] if name != "set"]
    mean = {name: round(float(np.mean([line[name] for line in lines])), 1) for name in names}
    lines.append({"set": "mean", **mean})
    return lines


def cost(places):
    """Processor seconds of learning, and of one ranking of the gallery, k=50, by CAS."""
    lines = []
    random = np.random.default_rng(0)
    made = []
    for n, d in SHAPES:
        kinds = random.normal(size=(n // 20, d)).astype(np.float32)
        made.append((f"{n:,} x {d}", np.repeat(kinds, 20, axis=0)))
    real = [(getattr(place, "name", place), load(place)[1]) for place in places]
    for name, rows in [*real, *made]:
        gallery = rows
        if " x " in name:
            gallery = rows + random.normal(size=rows.shape).astype(np.float32)
        line = {"set": name}
        for what, call in (
            ("learning", lambda g=gallery: kinrank.Projection.fit(g)),
            ("ranking", lambda g=gallery: kinrank.CAS().rerank(g, k=50)),
        ):
            begin = time.process_time()
            call()
            line[what] = round(time.process_time() - begin, 2)
        line["rankings"] = round(line["learning"] / line["ranking"], 2)
        lines.append(line)
        log(line)
    return lines


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
    parser.add_argument("part", choices=("table", "methods", "cost", "sample"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets")
    given = parser.parse_args()
    places = [place for place in sorted(given.data.iterdir()) if place.is_dir()] + ["digits"]
    if given.sets:
        wanted = given.sets.split(",")
        places = [place for place in places if getattr(place, "name", place) in wanted]
    kinrank.CAS().rerank(np.random.default_rng(0).normal(size=(900, 8)), k=50)  # kernels
    kinrank.Projection.fit(np.random.default_rng(0).normal(size=(900, 8)))
    jobs = {"table": table, "methods": methods, "cost": cost, "sample": by_sample}
    markdown(jobs[given.part](places))


if __name__ == "__main__":
    results.run(main, __doc__)
