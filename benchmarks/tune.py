"""Parameters chosen without labels, against the best that labels know of.

    python benchmarks/tune.py [table] [signals] [verdict] [cost] [--data FOLDER] [--work FOLDER]
                              [--sets a,b]

table    mAP by k1, what `kinrank.tune` chooses with two seeds, what that loses, and the margin
         over the defaults with its bootstrap interval
signals  what other signals, and parts of ours, would choose
verdict  few images of each identity: what CAS does to them, and whether the verdict says so
cost     seconds of tuning against one run at 20,000 rows, and at 1,000,000

FOLDER holds the feature sets (default ../shared/data beside the repository); digits are added.
Every figure is kept in the work folder, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank import datasets
from kinrank.graph import clusters
from kinrank.parallel import Runner
from kinrank.tune.diagnosis import look
from kinrank.tune.param_grid import PARAM_GRIDS, SIZES
from kinrank.tune.scoring import agreement, best_size
from kinrank.tune.split import MAX_ROWS, Pair, draw, split, view
from kinrank.tune.tuner import MOST_PAIRS

ROOT = Path(__file__).resolve().parents[1]
QUERIES = 500
DRAWS = 10_000
IDENTITIES = 300
LENGTH = 110  # of neighbour lists, enough for the largest k1
RUN = Runner.of()


class Kept:
    """Values in a JSON file, computed once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key, compute):
        """The value under ``key``."""
        if key not in self.values:
            self.values[key] = compute()
            self.path.write_text(json.dumps(self.values))
        return self.values[key]


def load(place):
    """A set with unit rows and at most QUERIES queries."""
    data = datasets.load(place, unit=True)
    part = data.query
    if data.protocol == "revisited" or len(part) <= QUERIES:
        return data
    kept = np.sort(np.random.default_rng(0).choice(len(part), QUERIES, replace=False))
    columns = {
        name: getattr(part, name)[kept]
        for name in ("labels", "cams", "features")
        if getattr(part, name) is not None
    }
    return replace(data, query=datasets.Part(**columns))


def precisions(data, method):
    """AP of every query; Medium for Revisited sets."""
    ranking = method.rerank(data.query.features, data.gallery.features)
    found = data.evaluate(ranking)
    return np.asarray(getattr(found, "medium", found).ap, float).tolist()


def tuned(data, seed):
    """What is chosen, and what was found on the way."""
    found = kinrank.tune(data.query.features, data.gallery.features, seed=seed)
    keys = ("params", "gain", "gain_error", "seconds", "n_sampled")
    plain = found.to_dict()
    return {key: plain[key] for key in keys} | {"verdict": found.diagnosis.verdict}


def mean(values):
    """In per cent, queries that do not count left out."""
    return 100 * float(np.nanmean(values))


def measured(place, kept):
    """mAP by k1, the choices of two seeds, and what they bring: APs of all queries."""
    data = load(place)

    def by(key, **params):
        return kept.get(key, lambda: precisions(data, kinrank.CAS(**params)))

    choices = [kept.get(f"seed={seed}", lambda seed=seed: tuned(data, seed)) for seed in (0, 1)]
    return {
        "none": by("none", omega=1.0, k1=2, k2=1),
        "grid": {k: by(f"k1={k}", k1=k) for k in SIZES},
        "choices": choices,
        "chosen": [by(json.dumps(one["params"]), **one["params"]) for one in choices],
    }


def table(places, work):
    """Print one line per set, and the margin over the defaults."""
    names = "set|none|default (20)|best k1|its mAP|chosen k1|mAP|loss|gain expected|gain"
    print(f"| {names.replace('|', ' | ')} |")
    print("| --- " * (names.count("|") + 1) + "|")
    losses, margins, ratios = [], [], []
    for name, place in places.items():
        found = measured(place, Kept(work / f"table-{name}.json"))
        grid = {k: mean(values) for k, values in found["grid"].items()}
        best = max(grid, key=grid.get)
        scores = [mean(values) for values in found["chosen"]]
        sizes = [one["params"]["k1"] for one in found["choices"]]
        losses.append([grid[best] - score for score in scores])
        ratios.append(max(sizes) / min(sizes))
        margins.append(np.array(found["chosen"][0]) - np.array(found["grid"][20]))
        first = found["choices"][0]
        cells = [
            name, f"{mean(found['none']):.1f}", f"{grid[20]:.1f}", best, f"{grid[best]:.1f}",
            _both(sizes, "d"), _both(scores, ".1f"), _both(losses[-1], ".1f"),
            f"{100 * first['gain']:.0f}", f"{scores[0] - mean(found['none']):.0f}",
        ]  # fmt: skip
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    low, high = interval(margins)
    print(
        f"\nMean loss {np.mean(losses):.2f}, largest {np.max(losses):.2f}; two seeds differ by a "
        f"factor of at most {max(ratios):.2f}; better than the default by {margin(margins):.2f} on "
        f"average, [{low:.2f}, {high:.2f}] in 95% of {DRAWS:,} draws of sets and queries."
    )


def _both(values, form):
    return " / ".join(format(value, form) for value in values)


def margin(margins):
    """Mean over sets of the mean over queries, in points."""
    return float(np.mean([mean(values) for values in margins]))


def interval(margins):
    """The middle 95% of the margin, sets and the queries of each drawn with replacement."""
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(DRAWS):
        sets = random.integers(len(margins), size=len(margins))
        drawn.append(margin([random.choice(margins[at], len(margins[at])) for at in sets]))
    return np.percentile(drawn, [2.5, 97.5])


def trial(k1):
    """CAS as tuning runs it."""
    return kinrank.CAS(k1=k1, **PARAM_GRIDS["cas"].quick)


def curves_of(rows, asked, random):
    """Signals by k1 on one sample: turned halves, plain halves, parts of the rows, reciprocity."""
    order = random.permutation(rows.shape[1])
    plain = [rows[:, part] for part in np.array_split(order, 2)]
    plain = [half / np.linalg.norm(half, axis=1, keepdims=True) for half in plain]
    pairs = {
        "turned": split(rows, asked, LENGTH, random, RUN, unit=True),
        "plain": Pair(*(view(half, asked, LENGTH, RUN) for half in plain)),
    }
    curves = {
        kind: np.array([agreement(*pair.first(trial(k), 10, RUN)).mean() for k in SIZES])
        for kind, pair in pairs.items()
    }
    lists = pairs["turned"].one.rows.known.neighbors.indices
    mutual = [
        clusters.reciprocal(lists, k + 1, RUN).lengths[:asked].mean() / (k + 1) for k in SIZES
    ]
    rest = {"rows": resampled(rows, asked, random), "reciprocity": np.array(mutual)}
    return curves | rest


def resampled(rows, asked, random):
    """Agreement of two random three quarters of the other rows, by k1, on rows of both."""
    found = []
    for _ in range(2):
        others = asked + np.sort(
            random.choice(len(rows) - asked, 3 * (len(rows) - asked) // 4, replace=False)
        )
        part = view(np.vstack([rows[:asked], rows[others]]), asked, LENGTH, RUN)
        found.append([others[part.first(trial(k), 10, RUN)] for k in SIZES])
    return np.array([agreement(one, other).mean() for one, other in zip(*found, strict=True)])


def signals(places, work):
    """Print what each signal would choose and what that loses."""
    names = ["argmax", "turned", "plain", "rows", "reciprocity", "groups", "both"]
    print("| set | " + " | ".join(names) + " |")
    print("| --- " * (len(names) + 1) + "|")
    total = {name: [] for name in names}
    for name, place in places.items():
        kept, grid = Kept(work / f"signals-{name}.json"), Kept(work / f"table-{name}.json").values
        data = load(place)
        chosen = kept.get("chosen", lambda data=data: choices_of(data))
        scores = [mean(grid[f"k1={k}"]) for k in SIZES]
        cells = []
        for signal in names:
            lost = max(scores) - np.interp(np.log(chosen[signal]), np.log(SIZES), scores)
            total[signal].append(lost)
            cells.append(f"{chosen[signal]:.0f} ({lost:.1f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    ends = [f"{np.mean(total[n]):.2f}, {np.max(total[n]):.1f}" for n in names]
    print("| mean loss, largest | " + " | ".join(ends) + " |")


def choices_of(data):
    """k1 by each signal alone."""
    random = np.random.default_rng(0)
    vectors = np.vstack([data.query.features, data.gallery.features])
    count = 1 if len(vectors) <= MAX_ROWS else MOST_PAIRS
    found = [
        curves_of(vectors[sample.rows], sample.n_asked, random)
        for sample in draw(vectors, len(data.query), count, random, RUN)
    ]
    curves = {kind: np.mean([one[kind] for one in found], axis=0) for kind in found[0]}
    groups, _ = look(vectors, random, RUN)
    chosen = {kind: best_size(SIZES, curve) for kind, curve in curves.items()}
    chosen["argmax"] = SIZES[int(np.argmax(curves["turned"]))]
    chosen["reciprocity"] = SIZES[int(np.argmax(curves["reciprocity"]))]
    chosen["groups"] = float(np.clip(groups.size, SIZES[0], SIZES[-1]))
    chosen["both"] = float(np.clip(np.sqrt(chosen["turned"] * groups.size), SIZES[0], SIZES[-1]))
    return {name: float(value) for name, value in chosen.items()}


def few_images(data, images, random):
    """One query of each identity, and as many gallery images of it from other cameras."""
    query, gallery, rows = data.query, data.gallery, ([], [])
    for label in np.unique(query.labels[query.labels > 0])[:IDENTITIES]:
        own = random.choice(np.flatnonzero(query.labels == label))
        other = (gallery.labels == label) & (gallery.cams != query.cams[own])
        if other.sum() >= max(images, 1):
            rows[0].append(own)
            rows[1].extend(random.choice(np.flatnonzero(other), images, replace=False))
    return (
        datasets.Part(labels=p.labels[r], cams=p.cams[r], features=p.features[r])
        for p, r in ((query, rows[0]), (gallery, rows[1]))
    )


def verdict(places, work):
    """Print mAP before, the best of small k1 after, and the verdict."""
    print("| set | images in the gallery | in groups | mAP before | best CAS | verdict |")
    print("| --- " * 6 + "|")
    for name, place in places.items():
        data = datasets.load(place, unit=True)
        if data.query.cams is None:
            continue
        kept = Kept(work / f"verdict-{name}.json")
        for images in range(4):
            cells = kept.get(str(images), lambda d=data, i=images: judged(d, i))
            print(f"| {name} | {images} | " + " | ".join(cells) + " |", flush=True)


def judged(data, images):
    """The cells of one line; with no image in the gallery the queries are all there is."""
    query, gallery = few_images(data, images, np.random.default_rng(0))
    rows = np.vstack([query.features, gallery.features]) if images else query.features
    groups, _ = look(rows, np.random.default_rng(0), RUN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        found = kinrank.tune(None, rows).diagnosis.verdict
    if not images:
        return [f"{groups.grouped:.1%}", "", "", found]
    part = replace(data, query=query, gallery=gallery)
    none = mean(precisions(part, kinrank.CAS(omega=1.0, k1=2, k2=1)))
    best = max(mean(precisions(part, kinrank.CAS(k1=k))) for k in (5, 8, 12, 20))
    return [f"{groups.grouped:.1%}", f"{none:.1f}", f"{best:.1f}", found]


def clustered(n, d=128, per_cluster=20):
    """Unit rows around n / 20 centres."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((n // per_cluster, d), np.float32)
    rows = centres[random.integers(len(centres), size=n)]
    rows += 0.8 * random.standard_normal((n, d), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def cost(_, work):
    """Print seconds of one run and of tuning."""
    kept = Kept(work / "cost.json")
    rows = clustered(2000)
    kinrank.CAS().rerank(rows[:50], rows[50:], k=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        kinrank.tune(rows[:50], rows[50:])
    one = kept.get(
        "run", lambda: _seconds(lambda r: kinrank.CAS().rerank(r[:2000], r[2000:], k=100), 20_000)
    )
    print("| rows | one run s | tuning s | ratio to the run at 20,000 |\n| --- | --- | --- | --- |")
    for n in (20_000, 100_000, 1_000_000):
        spent = kept.get(
            f"tune-{n}", lambda n=n: _seconds(lambda r: kinrank.tune(r[:2000], r[2000:]), n)
        )
        run = f"{one:.1f}" if n == 20_000 else ""
        print(f"| {n:,} | {run} | {spent:.1f} | {spent / one:.1f} |", flush=True)


def _seconds(work, n):
    rows = clustered(n)
    begin = time.perf_counter()
    work(rows)
    return time.perf_counter() - begin


def main():
    """Run what was asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["table", "signals", "verdict", "cost"])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--work", type=Path, default=Path("tune-work"))
    parser.add_argument("--sets", help="some of the sets, with commas between")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    places = {"digits": "digits"}
    if options.data.is_dir():
        places |= {path.name: path for path in sorted(options.data.iterdir()) if path.is_dir()}
    if options.sets:
        places = {name: places[name] for name in options.sets.split(",")}
    for what in options.what:
        print(f"\n## {what}\n", flush=True)
        steps = {"table": table, "signals": signals, "verdict": verdict, "cost": cost}
        steps[what](places, options.work)


if __name__ == "__main__":
    results.run(main, __doc__)
