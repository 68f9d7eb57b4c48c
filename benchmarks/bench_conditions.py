"""Answers under conditions, measured: unknown things, several pictures, feedback, filters.

    python benchmarks/bench_conditions.py [unknown] [rates] [several] [feedback] [filters]
                                          [--data FOLDER]

unknown   half of the things are taken out of the gallery: of the queries whose thing is left, the
          share with a right first answer above the threshold that lets 1% and 10% of the others
          through, by the cosine of the first, by it and its gap to the second, and by ``presence``
rates     the same halves, sets with labels: of the queries whose thing is not in the gallery, the
          share that ``unknown_rate`` lets through, and of the others the share with a right first
          answer, calibrated without labels and with
several   mAP of one ranking for up to five queries of one thing
feedback  mAP after each of three rounds of five marks, beside Rocchio's formula
filters   milliseconds of a query over 100,000 rows by how many of them are allowed

FOLDER holds the feature sets; the default is ../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank import datasets

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
RATES = (0.01, 0.1)
HELD_RATES = (0.01, 0.05)
DRAWS = 3  # halves of the things
ASKED = 800  # queries of a draw
THINGS, PICTURES = 100, 5
QUERIES, ROUNDS, MARKS, DEPTH = 40, 3, 5, 500
SHARES = (1.0, 0.5, 0.1, 0.01, 0.001)


def codes(data):
    """(n_queries, n_gallery): 1 right, 0 wrong, -1 not counted."""
    return np.stack([data.relevance(query) for query in range(len(data.query))])


def things(data, right):
    """A number for what each query shows: its label, or who shares right answers."""
    if data.query.labels is not None:
        return np.unique(data.query.labels, return_inverse=True)[1]
    numbers = np.arange(len(right))
    for query in range(len(right)):
        shared = np.flatnonzero((right[:query] & right[query]).any(axis=1))
        if len(shared):
            numbers[query] = numbers[shared[0]]
    return np.unique(numbers, return_inverse=True)[1]


def detected(score, right, known, rate):
    """Known queries whose first answer is right, above the threshold of a rate of false alarms."""
    others = np.sort(score[~known])[::-1]
    limit = others[min(int(rate * len(others)), len(others) - 1)]
    return 100 * float(np.mean(right[known] & (score[known] > limit)))


def unknown(data, truth):
    """Rates by three scores, the mean of some draws."""
    rows, found = things(data, truth == 1), []
    labels = data.gallery.labels
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        out = np.isin(rows, rng.choice(rows.max() + 1, (rows.max() + 1) // 2, replace=False))
        gone = (truth[out] == 1).any(axis=0)
        if labels is not None:
            gone |= np.isin(labels, data.query.labels[out])
        kept = truth[:, ~gone]
        known = ~out & (kept == 1).any(axis=1)
        asked = np.flatnonzero(known | out)
        asked = rng.permutation(asked)[:ASKED]
        index = kinrank.CAS().fit(data.gallery.features[~gone])
        index.calibrate()
        queries, gallery = data.query.features[asked], data.gallery.features[~gone]
        junk, right, known = kept[asked] == -1, kept[asked] == 1, known[asked]
        ranking = index.search(queries, 1, exclude=junk)
        cosine = np.where(junk, -2, queries @ gallery.T)
        first, second = np.sort(cosine, axis=1)[:, [-1, -2]].T
        each = np.arange(len(asked))
        plain = right[each, cosine.argmax(axis=1)]
        ours = right[each, ranking.indices[:, 0]]
        scores = ((first, plain), (2 * first - second, plain), (ranking.presence, ours))
        found.append([detected(*score, known, rate) for score in scores for rate in RATES])
    return np.mean(found, axis=0)


def halves(data, seed):
    """The gallery without half of its labels: rows that are left, and queries without any."""
    labels = np.unique(data.query.labels)
    gone = np.random.default_rng(seed).choice(labels, len(labels) // 2, replace=False)
    return ~np.isin(data.gallery.labels, gone), np.isin(data.query.labels, gone)


def held_rates(data, truth):
    """Per cent of unknown queries that are answered and of known ones answered rightly.

    For each rate without labels, then with; the mean of some draws. NaN for a rate that the
    gallery is too small to tell.
    """
    draws = []
    for seed in range(DRAWS):
        left, unknown_queries = halves(data, seed)
        kept = truth[:, left]
        labels = np.unique(data.gallery.labels[left], return_inverse=True)[1]
        nobody = ~np.isin(data.gallery.labels[left], data.query.labels)
        labels[nobody] = labels.max() + 1 + np.arange(nobody.sum())  # each of them another
        index = kinrank.CAS(metric="cosine").fit(data.gallery.features[left])
        found = []
        for given in (None, labels):
            model = index.calibrate(given).presence
            for rate in HELD_RATES:
                if model is None or rate < model.least_rate:
                    found += [np.nan, np.nan]
                    continue
                ranking = index.search(
                    data.query.features, 1, exclude=kept == -1, unknown_rate=rate
                )
                first = ranking.indices[:, 0]
                answered = first >= 0
                right = answered & (kept[np.arange(len(first)), first] == 1)
                findable = ~unknown_queries & (kept == 1).any(axis=1)
                found += [answered[unknown_queries].mean(), right[findable].mean()]
        draws.append(100 * np.array(found))
    return np.mean(draws, axis=0)


def average_precision(order, truth):
    """AP of rows in their order; what is not listed is not found."""
    counted = order[truth[order] >= 0]
    hits = np.flatnonzero(truth[counted] == 1)
    return 100 * float(
        np.sum(np.arange(1, len(hits) + 1) / (hits + 1)) / max((truth == 1).sum(), 1)
    )


def several(data, truth):
    """mAP of single pictures, of the best of them, of the mean vector and of ``items``."""
    numbers, found = things(data, truth == 1), []
    index = kinrank.CAS().fit(data.gallery.features)
    for number in np.random.default_rng(0).permutation(numbers.max() + 1)[:THINGS]:
        pictures = np.flatnonzero(numbers == number)[:PICTURES]
        vectors = data.query.features[pictures]
        together = np.where((truth[pictures] == 1).any(axis=0), 1, 0)
        together[(truth[pictures] == -1).any(axis=0)] = -1
        if not (together == 1).any():  # of two cameras: one query and what else its camera saw
            together = truth[pictures[0]]
            more = np.flatnonzero(together == -1)[: PICTURES - 1]
            vectors = np.concatenate([vectors[:1], data.gallery.features[more]])
        if len(vectors) < 2:
            continue
        singles = index.search(vectors, None).indices
        mean = index.search(vectors.mean(axis=0), None).indices[0]
        joined = index.search(vectors, None, items=[0] * len(vectors)).indices[0]
        each = [average_precision(order, together) for order in singles]
        both = [average_precision(order, together) for order in (mean, joined)]
        found.append([np.mean(each), np.max(each), *both])
    return np.mean(found, axis=0) if found else np.full(4, np.nan)


def rocchio(query, gallery, right, wrong):
    """The formula with its usual weights, 0.75 and 0.15."""
    vector = query.astype(np.float64)
    vector = vector + (0.75 * gallery[right].mean(axis=0) if len(right) else 0)
    vector = vector - (0.15 * gallery[wrong].mean(axis=0) if len(wrong) else 0)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def feedback(data, truth):
    """mAP before and after each round: Rocchio by cosine, Rocchio and re-ranked, and ours."""
    gallery, index = data.gallery.features, kinrank.CAS().fit(data.gallery.features)
    asked = np.random.default_rng(0).permutation(np.flatnonzero((truth == 1).any(axis=1)))[:QUERIES]

    def by_cosine(query, right, wrong, junk):
        cosine = gallery @ rocchio(query, gallery, right, wrong)
        cosine[junk] = -2
        return np.argsort(-cosine, kind="stable")[:DEPTH]

    def by_index(query, right, wrong, junk):
        return index.search(rocchio(query, gallery, right, wrong), DEPTH, exclude=junk).indices[0]

    def by_marks(query, right, wrong, junk):
        marks = {"right": right, "wrong": wrong} if len(right) + len(wrong) else {}
        return index.search(query, DEPTH, exclude=junk, **marks).indices[0]

    table = np.zeros((3, ROUNDS + 1))
    for query in asked:
        junk = np.flatnonzero(truth[query] == -1).tolist()
        for way, rank in enumerate((by_cosine, by_index, by_marks)):
            right, wrong = [], []
            for turn in range(ROUNDS + 1):
                order = rank(data.query.features[query], right, wrong, junk)
                rest = order[(order >= 0) & ~np.isin(order, right + wrong)]
                shown = np.concatenate([np.array(right, np.int64), rest])
                table[way, turn] += average_precision(shown, truth[query])
                new = rest[:MARKS]
                right += new[truth[query][new] == 1].tolist()
                wrong += new[truth[query][new] != 1].tolist()
    return table / len(asked)


def filters():
    """Milliseconds of one query, and of 64 together, by the share of rows that are allowed."""
    rng = np.random.default_rng(0)
    n, centres = 100_000, rng.normal(size=(5000, 128))
    rows = (centres[rng.integers(5000, size=n)] + 0.6 * rng.normal(size=(n, 128))).astype(
        np.float32
    )
    queries = (centres[:64] + 0.6 * rng.normal(size=(64, 128))).astype(np.float32)
    print("\n| allowed | exact, one | exact, each of 64 | cells, one | cells, each of 64 |")
    print("| --- | --- | --- | --- | --- |")
    made = [
        kinrank.CAS(metric="cosine").fit(rows, run=kinrank.Run(search=how))
        for how in ("exact", "approximate")
    ]
    for share in SHARES:
        mask = None if share == 1 else rng.random(n) < share
        cells = [f"{cost:.1f}" for index in made for cost in _costs(index, queries, mask)]
        print(f"| {'all' if mask is None else f'1 in {1 / share:g}'} | {' | '.join(cells)} |")


def _costs(index, queries, mask):
    index.search(queries[:2], allowed=mask)
    times = []
    for query in queries[:30]:
        begun = time.perf_counter()
        index.search(query, allowed=mask)
        times.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    index.search(queries, allowed=mask)
    return 1000 * np.median(times), 1000 * (time.perf_counter() - begun) / len(queries)


def sets(folder):
    """All feature sets of a folder, with what is right."""
    for path in sorted(one for one in folder.iterdir() if one.is_dir()):
        if not any((path / name).exists() for name in ("gnd.json", "query_ids.npy")):
            continue  # right answers by lists alone
        data = datasets.load(path, unit=True)
        yield path.name, data, codes(data)


def main():
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", default=["unknown", "rates", "several", "feedback", "filters"]
    )
    parser.add_argument("--data", type=Path, default=SHARED)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", kinrank.KinrankWarning)
    if "unknown" in asked.parts:
        print("\n| set | cosine, 1% | 10% | with gap, 1% | 10% | presence, 1% | 10% |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name, data, truth in sets(asked.data):
            print(
                f"| {name} | " + " | ".join(f"{x:.1f}" for x in unknown(data, truth)) + " |",
                flush=True,
            )
    if "rates" in asked.parts:
        heads = [f"{who} {rate:g}" for who in ("no labels,", "labels,") for rate in HELD_RATES]
        print("\n| set | " + " | ".join(f"{head} | right" for head in heads) + " |")
        print("| --- |" + " --- |" * 2 * len(heads))
        for name, data, truth in sets(asked.data):
            if data.query.labels is not None:
                cells = ["" if np.isnan(x) else f"{x:.1f}" for x in held_rates(data, truth)]
                print(f"| {name} | {' | '.join(cells)} |", flush=True)
    if "several" in asked.parts:
        print("\n| set | one picture | the best one | mean vector | `items` |")
        print("| --- | --- | --- | --- | --- |")
        for name, data, truth in sets(asked.data):
            print(
                f"| {name} | " + " | ".join(f"{x:.1f}" for x in several(data, truth)) + " |",
                flush=True,
            )
    if "feedback" in asked.parts:
        print("\n| set | before | Rocchio, cosine | Rocchio, re-ranked | `right`, `wrong` |")
        print("| --- | --- | --- | --- | --- |")
        for name, data, truth in sets(asked.data):
            table = feedback(data, truth)
            cells = [" ".join(f"{x:.1f}" for x in row[1:]) for row in table]
            print(f"| {name} | {table[2, 0]:.1f} | {' | '.join(cells)} |", flush=True)
    if "filters" in asked.parts:
        filters()


if __name__ == "__main__":
    results.run(main, __doc__)
