"""Parameters chosen without labels, and the verdict, against what labels know.

    python benchmarks/tune.py [table] [left-out] [verdict] [cost] [--data FOLDER] [--work FOLDER]
                              [--sets a,b] [--count N]

table    mAP before re-ranking, of the default and of what `kinrank.tune` chooses, and the evidence
         that it was chosen from
left-out  the same for thresholds that are best on all other sets: three are chosen anew for each
         set, among the midpoints between the sets' evidence
verdict  N small collections made from the sets (default 640), among them couples and galleries
         without any groups: how often the verdict is right, and how often it is silent
cost     processor seconds of tuning, learning included, against one ranking of the gallery among
         itself

FOLDER holds the feature sets (default ../shared/data beside the repository); digits are added.
Every figure is kept in the work folder, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import itertools
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
from kinrank.tune.agreement import ASKED, agreement, confirmed_share, lasting_share
from kinrank.tune.lists import Lists
from kinrank.tune.look import look
from kinrank.tune.rules import LASTING, SIZES
from small_collections import KINDS_OF_COLLECTIONS, make

ROOT = Path(__file__).resolve().parents[1]
QUERIES = 400
LOOKED_AT = 500
SHAPES = (
    (1000, 128),
    (2000, 128),
    (5000, 128),
    (5000, 1280),
    (20_000, 128),
    (100_000, 128),
)


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


class Judged:
    """Queries and gallery of a set, and ``precision(ranking)``: mAP in per cent."""

    def __init__(self, place):
        relevant = Path(place) / "relevant.json"
        if relevant.is_file():
            self._load_judgements(Path(place), relevant)
        else:
            self._load_labels(place)

    def _load_judgements(self, folder, relevant):
        """A set of texts: lists of the right rows of each query."""
        self.queries = _unit(np.load(folder / "query.npy"))
        self.gallery = _unit(np.load(folder / "gallery.npy"))
        lists = json.loads(relevant.read_text())
        right = list(lists.values()) if isinstance(lists, dict) else lists

        def precision(ranking):
            found = zip(ranking.indices, right, strict=True)
            return 100 * float(np.mean([average_precision(row, rows) for row, rows in found]))

        self.precision = precision

    def _load_labels(self, place):
        data = datasets.load(place, unit=True)
        if data.protocol != "revisited" and len(data.query) > QUERIES:
            data = replace(data, query=_some(data.query))
        self.queries = data.query.features
        self.gallery = data.gallery.features

        def precision(ranking):
            evaluation = data.evaluate(ranking)
            medium = getattr(evaluation, "medium", evaluation)
            return 100 * float(np.nanmean(np.asarray(medium.ap, float)))

        self.precision = precision


def _unit(rows):
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _some(part):
    kept = np.sort(np.random.default_rng(0).choice(len(part), QUERIES, replace=False))
    columns = {
        name: getattr(part, name)[kept]
        for name in ("labels", "cams", "features")
        if getattr(part, name) is not None
    }
    return datasets.Part(**columns)


def average_precision(row, right):
    """Of a ranking, where ``right`` are the rows to be found."""
    positions = np.flatnonzero(np.isin(row, right))
    return (np.arange(1, len(positions) + 1) / (positions + 1)).sum() / len(right)


def unchanged():
    """CAS that leaves the ranking as it is."""
    return kinrank.CAS(omega=1.0, k1=2, k2=1)


def chosen_for(data):
    """mAP of what is chosen, and what that is."""
    tuning = kinrank.tune(data.queries, data.gallery)
    ranking = tuning.make().rerank(data.queries, data.gallery)
    return {
        "precision": data.precision(ranking),
        "params": tuning.plain_params(),
        "verdict": tuning.diagnosis.verdict,
    }


def evidence_of(data):
    """What the rules look at where a map can be learnt."""
    random = np.random.default_rng(0)
    vectors = np.vstack([data.queries, data.gallery])
    lists = Lists(vectors, Runner(1))
    seen = look(lists, LOOKED_AT, random)
    mapped = replace(lists, onto=kinrank.Projection.fit(data.gallery, kind="views"))
    asked = np.arange(len(vectors))
    if not lists.few:
        asked = np.sort(random.choice(len(vectors), ASKED, replace=False))
    return {
        "near": seen.near_dimension,
        "wide": seen.wide_dimension,
        "groups": seen.together[40] / seen.together[10],
        "gain": agreement(asked, mapped) / agreement(asked, lists),
        "lasting": lasting_share(asked, mapped),
        "confirmed": confirmed_share(len(data.queries), mapped, random),
    }


def measured(name, place, work):
    """All figures of a set."""
    kept = Kept(work / f"table-{name}.json")
    opened = {}

    def data():
        if "data" not in opened:
            opened["data"] = Judged(place)
        return opened["data"]

    def precision_of(method):
        return data().precision(method.rerank(data().queries, data().gallery))

    return {
        "none": kept.get("none", lambda: precision_of(unchanged())),
        "default": kept.get("default", lambda: precision_of(kinrank.CAS())),
        "auto": kept.get("auto", lambda: chosen_for(data())),
        "evidence": kept.get("evidence", lambda: evidence_of(data())),
    }


def table(places, work, _):
    """Print one line per set, and means."""
    print("| set | none | default | auto | gain | dimensions | lasting | confirmed | chosen |")
    print("| --- " * 9 + "|")
    lines = []
    for name, place in places.items():
        found = measured(name, place, work)
        auto = found["auto"]
        evidence = found["evidence"]
        figures = [found["none"], found["default"], auto["precision"]]
        lines.append(figures)
        chosen = ", ".join(f"{key}={value}" for key, value in auto["params"].items())
        cells = [
            name,
            *(f"{figure:.1f}" for figure in figures),
            f"{evidence['gain']:.2f}",
            f"{evidence['near']:.0f}, {evidence['wide']:.0f}",
            f"{evidence['lasting']:.2f}",
            f"{evidence['confirmed']:.2f}",
            chosen,
        ]
        print("| " + " | ".join(cells) + " |", flush=True)
    means = np.mean(lines, axis=0)
    print("| mean | " + " | ".join(f"{figure:.1f}" for figure in means) + " | | | | | |")
    margins = np.array(lines)[:, 2] - np.array(lines)[:, 1]
    print(f"\nAuto against the default: mean {margins.mean():+.2f}, least {margins.min():+.2f}")


def option(*, learnt, surfaces, large, vast):
    """The parameters that the rules choose for yes and no in answer to each question."""
    if learnt:
        size = "vast" if vast else "surface" if surfaces else "learnt"
        return {"whiten": "views", **SIZES["cas"][size], "geodesic": surfaces}
    size = "large" if large else "usual"
    return {"whiten": None if surfaces else 0.0, **SIZES["cas"][size], "geodesic": surfaces}


def left_out(places, work, _):
    """Print mAP where the thresholds are those that are best on all other sets."""
    names = list(places)
    evidence = {name: measured(name, places[name], work)["evidence"] for name in names}
    facts = {
        "gain": [evidence[name]["gain"] for name in names],
        "surfaces": [evidence[name]["wide"] / evidence[name]["near"] for name in names],
        "groups": [evidence[name]["groups"] for name in names],
    }
    scores = {name: _Scores(name, places[name], work) for name in names}

    def chosen(at, thresholds):
        gain, surfaces, groups = thresholds
        return option(
            learnt=bool(facts["gain"][at] > gain),
            surfaces=bool(facts["surfaces"][at] < surfaces),
            large=bool(facts["groups"][at] > groups),
            vast=evidence[names[at]]["lasting"] >= LASTING,
        )

    def score(at, thresholds):
        return scores[names[at]](chosen(at, thresholds))

    print("| set | default | left out | of all sets | thresholds: gain, surfaces, groups |")
    print("| --- " * 5 + "|")
    every = range(len(names))
    of_all = _best(every, facts, score)
    lines = []
    for left, name in enumerate(names):
        best = _best([at for at in every if at != left], facts, score)
        default = measured(name, places[name], work)["default"]
        figures = [default, score(left, best), score(left, of_all)]
        lines.append(figures)
        limits = ", ".join(f"{limit:.2f}" for limit in best)
        print(
            f"| {name} | " + " | ".join(f"{x:.1f}" for x in figures) + f" | {limits} |", flush=True
        )
    means = np.mean(lines, axis=0)
    print("| mean | " + " | ".join(f"{figure:.1f}" for figure in means) + " | |")


class _Scores:
    """mAP of parameters on a set, computed once."""

    def __init__(self, name, place, work):
        self.kept = Kept(work / f"options-{name}.json")
        self.place = place
        self.data = None

    def __call__(self, params):
        return self.kept.get(json.dumps(params), lambda: self._score(params))

    def _score(self, params):
        if self.data is None:
            self.data = Judged(self.place)
        ranking = kinrank.CAS(**params).rerank(self.data.queries, self.data.gallery)
        return self.data.precision(ranking)


def _best(places, facts, score):
    """The thresholds of the best mean; of equally good ones, the mean of them."""
    grids = []
    for values in facts.values():
        ascending = np.sort([values[at] for at in places])
        grids.append(
            [ascending[0] - 0.1, *(ascending[1:] + ascending[:-1]) / 2, ascending[-1] + 0.1]
        )
    tried = list(itertools.product(*grids))
    means = np.array([np.mean([score(at, limits) for at in places]) for limits in tried])
    return np.mean(np.array(tried)[means > means.max() - 1e-9], axis=0)


def judged(place, seed):
    """The true gain of a collection, and what tuning said."""
    made = make(place, seed)
    if made is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        tuning = kinrank.tune(made.queries, made.gallery)
        maps = []
        for method in (unchanged(), kinrank.CAS(), tuning.make()):
            ranking = method.rerank(made.queries, made.gallery)
            maps.append(100 * float(np.nanmean(made.right(ranking))))
    return {
        **made.about,
        "maps": maps,
        "chosen": tuning.plain_params(),
        "verdict": tuning.diagnosis.verdict,
        "better": tuning.diagnosis.better,
        "gain": 100 * tuning.gain,
    }


def verdict(places, work, count):
    """Print how often the verdict is right, how often silent, and what auto gains."""
    kept = Kept(work / "verdict.json")
    names = [name for name, place in places.items() if not _has_judgements(place)]
    lines = []
    seed = 0
    while len(lines) < count:
        name = names[seed % len(names)]
        line = kept.get(f"{name}|{seed}", lambda n=name, s=seed: judged(places[n], s))
        if line is not None:
            lines.append(line)
        seed += 1
    print(
        "| collections | count | gain or lose a point | right | silent | auto - default | worse |"
    )
    print("| --- " * 7 + "|")
    for kind in ("all", *KINDS_OF_COLLECTIONS):
        some = [line for line in lines if kind in ("all", line["collection"])]
        if some:
            print(_rates(kind, some), flush=True)


def _has_judgements(place):
    return (Path(place) / "relevant.json").is_file()


def _rates(kind, lines):
    """One line of the table of verdicts."""
    maps = np.array([line["maps"] for line in lines])
    said = np.array([line["verdict"] for line in lines])
    gains = maps[:, 2] - maps[:, 0]
    margins = maps[:, 2] - maps[:, 1]
    counted = np.abs(gains) > 1
    spoken = said != "unsure"
    helps = said == "will help"
    right = (helps == (gains > 0))[counted & spoken]
    share = f"{right.mean():.1%}" if len(right) else "-"
    return (
        f"| {kind} | {len(lines)} | {counted.sum()} | {share} | {1 - spoken.mean():.1%} "
        f"| {margins.mean():+.2f} | {np.mean(margins < -1):.1%} |"
    )


def clustered(n, width=128, per_cluster=20):
    """Unit rows around n / 20 centres."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((n // per_cluster, width), np.float32)
    rows = centres[random.integers(len(centres), size=n)]
    rows += 0.8 * random.standard_normal((n, width), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def cost(places, work, _):
    """Print processor seconds of tuning and of ranking the gallery among itself."""
    kept = Kept(work / "cost.json")
    makers = {name: lambda place=place: Judged(place).gallery for name, place in places.items()}
    for n, width in SHAPES:
        makers[f"groups, {n:,} x {width}"] = lambda n=n, w=width: clustered(n, w)
    print("| collection | rows | columns | whiten | ranking, s | tuning, s | ratio |")
    print("| --- " * 7 + "|")
    for name, make_rows in makers.items():
        found = kept.get(name, lambda make_rows=make_rows: _seconds(make_rows()))
        ratio = found["tuning"] / found["ranking"]
        print(
            f"| {name} | {found['rows']:,} | {found['columns']} | {found['whiten']} "
            f"| {found['ranking']:.2f} | {found['tuning']:.2f} | {ratio:.2f} |",
            flush=True,
        )


def _seconds(rows):
    """Processor seconds of both, the least of two calls where rows are few."""
    n, width = rows.shape
    search = "exact" if n < 100_000 else "approximate"
    times = 2 if n < 20_000 else 1

    def timed(call):
        each = []
        for _ in range(times):
            begun = time.process_time()
            call()
            each.append(time.process_time() - begun)
        return min(each)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        kinrank.tune(None, rows[:1000])  # what is loaded once
        kinrank.rerank(rows[:200], k=10)
        tuned = []
        tuning = timed(lambda: tuned.append(kinrank.tune(None, rows)))
        ranking = timed(lambda: kinrank.rerank(rows, k=100, run=kinrank.Run(search=search)))
    whiten = tuned[-1].plain_params()["whiten"]
    return {"rows": n, "columns": width, "whiten": whiten, "ranking": ranking, "tuning": tuning}


def main():
    """Run what was asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = {"table": table, "left-out": left_out, "verdict": verdict, "cost": cost}
    parser.add_argument("what", nargs="*", default=list(steps))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "tune")
    parser.add_argument("--sets", help="names, separated by commas")
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
        steps[what](places, options.work, options.count)


if __name__ == "__main__":
    results.run(main, __doc__)
