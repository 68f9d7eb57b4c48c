"""Parameters chosen without labels, and the verdict, against what labels know.

    python benchmarks/tune.py [table] [paths] [verdict] [cost] [--data FOLDER] [--work FOLDER]
                              [--sets a,b] [--count N]

table    mAP of the default, of what `kinrank.tune` chooses with every threshold found on the other
         sets, with the thresholds of the package, and of the best that the rules could choose
paths    the default with and without shortest paths, and nothing else
verdict  N small collections made from the sets (default 640): how often the verdict is right
cost     seconds of tuning against one ranking, by the clock and of all processors

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
from kinrank.parallel import Runner
from kinrank.tune import rules
from kinrank.tune.diagnosis import LARGEST, expected_gain, judge
from kinrank.tune.look import FAR, FEW, NEAR, SMALL, Look, look
from kinrank.tune.views import Evidence, cross_examine, draw
from small_collections import make

ROOT = Path(__file__).resolve().parents[1]
QUERIES = 400
POWERS = (None, 0.0, rules.HALF)
RUN = Runner.of()
SHAPES = ((1000, 128), (1000, 1280), (2000, 128), (5000, 128), (5000, 1280), (20_000, 128),
          (100_000, 128), (200_000, 128), (1_000_000, 128))  # fmt: skip
STATISTICS = ("hubness", "clearer", "large", "small")


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


def precision(data, **params):
    """mAP in per cent; Medium for Revisited sets."""
    method = kinrank.CAS(**params)
    found = data.evaluate(method.rerank(data.query.features, data.gallery.features))
    return 100 * float(np.nanmean(np.asarray(getattr(found, "medium", found).ap, float)))


def params_of(power, size):
    """What the rules make of a power and a size of neighbourhoods."""
    sizes = dict(rules.SIZES["cas"][size])
    if power and size > 0:
        sizes |= {"k2": 4, "enhance_k": 8}
    return {"whiten": power, "geodesic": power != 0.0, **sizes}


def statistics(data):
    """What the rules look at."""
    vectors = np.vstack([data.query.features, data.gallery.features])
    random = np.random.default_rng(0)
    seen = look(vectors, 250, random, RUN)
    clearer = rules.contrast_gain(vectors, random, RUN)
    return {
        "hubness": seen.hubness if seen.common > rules.COMMON else 0.0,
        "clearer": clearer if seen.rows >= rules.LARGE_ROWS else 0.0,
        "large": seen.together[FAR] / seen.together[NEAR],
        "small": seen.mutual[FEW] - seen.mutual[NEAR],
    }


def decide(seen, limits):
    """The power and the size, as ``rules`` has them, for any limits."""
    power = None
    if seen["hubness"] > limits["hubness"]:
        centred = 0.0 if seen["hubness"] > rules.MANY_HUBS else None
        power = rules.HALF if seen["clearer"] > limits["clearer"] else centred
    size = 0 if seen["small"] > limits["small"] else int(seen["large"] > limits["large"]) + 1
    return f"{power}|{size}"


def limits_from(sets, limits):
    """Thresholds that are best on the sets, each in the middle of the widest gap that is."""
    limits = dict(limits)
    for name in STATISTICS:
        values = sorted(entry["seen"][name] for entry in sets)
        tried = {}
        for low, high in zip([values[0] - 1, *values], [*values, values[-1] + 1], strict=True):
            now = limits | {name: (low + high) / 2}
            mean = np.mean([entry["grid"][decide(entry["seen"], now)] for entry in sets])
            inside = values[0] <= low and high <= values[-1]
            tried[now[name]] = (round(float(mean), 6), inside, high - low)
        limits[name] = max(tried, key=tried.get)
    return limits


def measured(name, place, work):
    """Statistics of a set, and mAP for everything that rules can choose."""
    kept, opened = Kept(work / f"table-{name}.json"), {}

    def data():
        opened.setdefault("data", load(place))
        return opened["data"]

    grid = {
        f"{power}|{size}": kept.get(
            f"{power}|{size}", lambda p=power, s=size: precision(data(), **params_of(p, s))
        )
        for power in POWERS
        for size in range(3)
    }
    return {
        "none": kept.get("none", lambda: precision(data(), omega=1.0, k1=2, k2=1)),
        "default": kept.get("default", lambda: precision(data())),
        "seen": kept.get("seen", lambda: statistics(data())),
        "grid": grid,
    }


def table(places, work, _):
    """Print one line per set, and means."""
    print("| set | none | default | auto, left out | auto | best | chosen |")
    print("| --- " * 7 + "|")
    package = {"hubness": rules.HUBS, "clearer": rules.CLEARER, "large": rules.LARGE}
    package["small"] = SMALL
    found = {name: measured(name, place, work) for name, place in places.items()}
    lines = []
    for name, own in found.items():
        others = [entry for other, entry in found.items() if other != name]
        out = decide(own["seen"], limits_from(others, package))
        now = decide(own["seen"], package)
        line = [own["none"], own["default"], own["grid"][out], own["grid"][now]]
        line.append(max(own["grid"].values()))
        lines.append(line)
        power, size = now.split("|")
        chosen = f"whiten={power}, k1={rules.SIZES['cas'][int(size)]['k1']}"
        print(f"| {name} | " + " | ".join(f"{x:.1f}" for x in line) + f" | {chosen} |", flush=True)
    means = np.mean(lines, axis=0)
    print("| mean | " + " | ".join(f"{x:.1f}" for x in means) + " | |")
    margins = np.array(lines)[:, 2] - np.array(lines)[:, 1]
    print(f"\nLeft out against the default: mean {margins.mean():+.2f}, least {margins.min():+.2f}")


def paths(places, work, _):
    """Print what shortest paths alone change."""
    print("| set | default | with `geodesic=True` | change |\n| --- | --- | --- | --- |")
    lines = []
    for name, place in places.items():
        own = measured(name, place, work)
        lines.append((own["default"], own["grid"]["None|1"]))
        before, after = lines[-1]
        print(f"| {name} | {before:.1f} | {after:.1f} | {after - before:+.1f} |")
    before, after = np.mean(lines, axis=0)
    print(f"| mean | {before:.1f} | {after:.1f} | {after - before:+.1f} |")


def judged(place, seed):
    """The true gain of a collection, and what tuning said."""
    made = make(place, seed)
    if made is None:
        return None
    queries, gallery = made.queries, made.gallery
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        tuning = kinrank.tune(queries, gallery)
        methods = (kinrank.CAS(omega=1.0, k1=2, k2=1), kinrank.CAS(), tuning.make())
        maps = [np.nanmean(made.right(m.rerank(queries, gallery))) for m in methods]
    vectors, random = np.vstack([queries, gallery]), np.random.default_rng(0)
    seen = look(vectors, 250, random, RUN)  # as `tune` does
    sample = draw(vectors, len(queries), random, RUN)
    evidence = cross_examine(vectors[sample.rows], sample.n_asked, random, unit=True)
    said = {name: value for name, value in vars(evidence).items() if name != "sizes"}
    said |= {name: float(getattr(seen, name)) for name in ("common", "contrast", "hubness")}
    said |= {f"together{k}": value for k, value in seen.together.items()}
    said |= {f"mutual{k}": value for k, value in seen.mutual.items()}
    said["size"] = float(np.median(evidence.sizes))
    about = {"maps": [100 * float(x) for x in maps], "chosen": tuning.plain_params()}
    return {**made.about, **about, "columns": gallery.shape[1], "evidence": said}


def said_of(line):
    """Whether the package says that re-ranking will help, and by how many points."""
    said, ranks = line["evidence"], (FEW, NEAR, FAR)
    lists = {
        name: {k: said[f"{name}{k}"] for k in ranks if f"{name}{k}" in said}
        for name in ("together", "mutual")
    }
    shares = {name: said[name] for name in ("common", "contrast", "hubness")}
    seen = Look(rows=line["rows"], columns=line["columns"], **shares, **lists)
    names = ("better", "gained", "before", "agreed", "agreed_error")
    evidence = Evidence(**{name: said[name] for name in names}, sizes=np.array([said["size"]]))
    helps = judge(seen, evidence).helps
    return helps, 100 * expected_gain(seen, evidence)


def verdict(places, work, count):
    """Print how often verdict and expected gain are right, with constants of other sets too."""
    kept, names = Kept(work / "verdict.json"), list(places)
    lines, seed = [], 0
    while len(lines) < count:
        name = names[seed % len(names)]
        line = kept.get(f"{name}|{seed}", lambda n=name, s=seed: judged(places[n], s))
        lines += [] if line is None else [{**line, "set": name}]
        seed += 1
    gains = np.array([line["maps"][2] - line["maps"][0] for line in lines])
    sure = np.abs(gains) > 1
    helps, expected = map(np.array, zip(*map(said_of, lines), strict=True))
    margins = gains - np.array([line["maps"][1] - line["maps"][0] for line in lines])
    print(
        f"{count} collections: {margins.mean():+.2f} against the default, more than a point below "
        f"it in {np.mean(margins < -1):.1%}, above it in {np.mean(margins > 1):.1%}"
    )
    print(f"{sure.sum()} with a gain or loss beyond one point")
    print(f'"will help" for all of them would be right in {np.mean(gains[sure] > 0):.1%}')
    _rates("constants of the package", gains, sure, helps, expected)
    _rates("constants of other sets", gains, sure, *left_out(lines, gains, sure))


def _rates(what, gains, sure, helps, expected):
    right = np.mean((helps == (gains > 0))[sure])
    gained = sure & (gains > 0)
    ratio = np.maximum(expected, 0.1)[gained] / gains[gained]
    near = np.mean((ratio > 0.5) & (ratio < 2))
    losses = sure & (gains < 0)
    print(
        f"{what}: verdict right in {right:.1%}, for {np.mean(~helps[losses]):.0%} of the "
        f"{losses.sum()} losses and {np.mean(helps[gained]):.1%} of the gains, "
        f"gain within a factor of two in {near:.1%}"
    )


def left_out(lines, gains, sure):
    """Verdict and gain of each collection by constants fitted to those of other sets."""
    said = [line["evidence"] for line in lines]
    sets = np.array([line["set"] for line in lines])
    names = ("better", "agreed", "agreed_error", f"together{NEAR}")
    column = {name: np.array([one[name] for one in said]) for name in names}
    sureness = column["agreed"] / np.maximum(column["agreed_error"], 0.002)
    one = np.ones(len(lines))
    votes = np.column_stack([column["better"], np.clip(sureness, -LARGEST, LARGEST), one])
    grown = np.sign(column["agreed"]) * np.log1p(100 * np.abs(column["agreed"]))
    terms = np.column_stack([grown, column[f"together{NEAR}"], one])
    helps, expected = np.zeros(len(lines), bool), np.zeros(len(lines))
    for name in np.unique(sets):
        own, others = sets == name, (sets != name) & sure
        helps[own] = votes[own] @ logistic(votes[others], gains[others] > 0) > 0
        helped = others & (gains > 0)
        weights = np.linalg.lstsq(terms[helped], np.log(gains[helped]), rcond=None)[0]
        expected[own] = np.exp(terms[own] @ weights)
    helped = sure & (gains > 0)
    weights = np.linalg.lstsq(terms[helped], np.log(gains[helped]), rcond=None)[0]
    print("fitted to all:", logistic(votes[sure], gains[sure] > 0).round(2), weights.round(2))
    return helps, expected


def logistic(rows, right, steps=30):
    """Weights of a logistic regression, by Newton's method."""
    weights = np.zeros(rows.shape[1])
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        slope = rows.T @ (right - chance) - 1e-3 * weights
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows + 1e-3 * np.eye(len(weights))
        weights += np.linalg.solve(bend, slope)
    return weights


def clustered(n, width=128, per_cluster=20):
    """Unit rows around n / 20 centres."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((n // per_cluster, width), np.float32)
    rows = centres[random.integers(len(centres), size=n)]
    rows += 0.8 * random.standard_normal((n, width), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def cost(_, work, __):
    """Print seconds of tuning and of one ranking, the best of some turns."""
    kept = Kept(work / "cost.json")
    print("| rows | columns | ranking, s | tuning, s | ratio | ratio of all processors' time |")
    print("| --- " * 6 + "|")
    for n, width in SHAPES:
        (ranking, used), (tuning, more) = kept.get(
            f"{n}|{width}", lambda n=n, w=width: _seconds(n, w)
        )
        print(f"| {n:,} | {width} | {ranking:.3f} | {tuning:.3f} | {tuning / ranking:.2f} "
              f"| {more / used:.2f} |", flush=True)  # fmt: skip


def _seconds(n, width):
    rows = clustered(n, width)
    queries, gallery = rows[: n // 10][:2000], rows[n // 10 :]
    search = "exact" if n < 100_000 else "approximate"

    def timed(call):
        begun, used = time.perf_counter(), time.process_time()
        call()
        return time.perf_counter() - begun, time.process_time() - used

    calls = (
        lambda: kinrank.rerank(queries, gallery, k=100, run=kinrank.Run(search=search)),
        lambda: kinrank.tune(queries, gallery),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        turns = [[timed(call) for call in calls] for _ in range(8 if n <= 5000 else 1)]
    return np.min(turns, axis=0).tolist()


def main():
    """Run what was asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["table", "paths", "verdict", "cost"])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--work", type=Path, default=Path("tune-work"))
    parser.add_argument("--sets", help="some of the sets, with commas between")
    parser.add_argument("--count", type=int, default=640, help="collections for the verdict")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    places = {"digits": "digits"}
    if options.data.is_dir():
        places |= {path.name: path for path in sorted(options.data.iterdir()) if path.is_dir()}
    if options.sets:
        places = {name: places[name] for name in options.sets.split(",")}
    for what in options.what:
        print(f"\n## {what}\n", flush=True)
        steps = {"table": table, "paths": paths, "verdict": verdict, "cost": cost}
        steps[what](places, options.work, options.count)


if __name__ == "__main__":
    results.run(main, __doc__)
