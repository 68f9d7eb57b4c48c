"""Groups beside what people use today, questions beside random ones, and many rows.

    python benchmarks/bench_groups.py table|questions|singles [--sets "a;b"] [--draw 0]
    python benchmarks/bench_groups.py large [--rows N] [--search approximate] [--memory-budget 4GB]
                                      [--save] [--data FOLDER]

table      ARI, B-cubed precision, recall and F, V-measure and the share of single items found:
           ours, HDBSCAN, DBSCAN on the k-reciprocal Jaccard distance, Chinese whispers on cosines
           above 0.5, and average link on cosines with the threshold that the labels like best
questions  ARI after 40 questions that are worth asking, and after 40 random ones of a thousand;
           of all sets but the one of 13,000 rows
singles    what the constants that tell single items cost on a set, if they are chosen on all others
large      processor seconds of `group` and of one ranking of the same rows, and the peak of memory

FOLDER holds the feature sets (default ../shared/data beside the repository); of larger ones whole
labels are drawn, about 2,500 rows. Digits and made sets are added: faces (one person with 500
photos, 150 with 2 to 30, 1,000 with one; of 13,000 rows 530, 2,000 and 4,000), sets of which half
of the labels have one row (`singles`), and two rows of each label (`pairs`). --sets takes
`faces, harder` with more noise too.
The environment variable BENCH_KEPT names a folder that keeps the lines of finished sets of the
table, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank.evaluate import score_grouping
from kinrank.evaluate.groupings import compare_groupings
from kinrank.groups.tree import cut_tree
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution

ROOT = Path(__file__).resolve().parents[1]
ROWS = 2500
QUESTIONS = 40
BELOWS = (0.65, 0.7, 0.75, 0.8, 0.85)
SAMES = (0.45, 0.5, 0.55, 0.6, 0.65)
STRONG = 0.5  # cosine of an edge of Chinese whispers
WHISPERS = 20  # rounds
REAL = (
    "coil100-efflite0-gem",
    "cuhk03-retail-0287",
    "grocery-efflite0-rmac",
    "market1501-retail-0287",
    "market1501-retail-0288",
    "banking77-minilm",
)
LARGEST = "faces, 13,000"
SETS = (
    *REAL,
    "digits",
    "bbcnews-minilm",
    "faces",
    LARGEST,
    "coil100-efflite0-gem, singles",
    "market1501-retail-0287, singles",
    "market1501-retail-0288, singles",
    "cuhk03-retail-0287, pairs",
    "market1501-retail-0287, pairs",
    "market1501-retail-0288, pairs",
)


def unit(rows):
    """float32 rows of norm 1."""
    rows = np.asarray(rows, np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def faces(n_singles, n_groups, largest=500, width=128, noise=0.6, seed=0):
    """Vectors and who they show: group sizes of photos in the news, directions that overlap."""
    random = np.random.default_rng(seed)
    several = np.minimum(2 + random.pareto(1.2, n_groups), 30).astype(int)
    sizes = np.concatenate([[largest], several, np.ones(n_singles, int)])
    owners = np.repeat(np.arange(len(sizes)), sizes)
    people = random.standard_normal((len(sizes), width))[owners]
    rows = people + noise * random.standard_normal((len(owners), width))
    scale = (1.0 + np.arange(width)) ** -0.5
    order = random.permutation(len(owners))
    return unit(rows * scale)[order], owners[order]


def load(name, folder, draw):
    """The vectors and labels of a set."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    if name == LARGEST:
        return faces(4000, 2000, largest=530, seed=draw)
    if name.startswith("faces"):
        return faces(1000, 150, noise=0.8 if "harder" in name else 0.6, seed=draw)
    place, _, kind = name.partition(", ")
    files = [folder / place / f"{part}.npy" for part in ("query", "gallery")]
    rows = unit(np.concatenate([np.load(file).astype(np.float32) for file in files]))
    files = [folder / place / f"{part}_ids.npy" for part in ("query", "gallery")]
    labels = np.concatenate([np.load(file) for file in files])
    if "market" in place:  # 0 and -1 are nobody in particular
        rows = rows[labels > 0]
        labels = labels[labels > 0]
    kept = drawn(labels, kind, np.random.default_rng(draw))
    return rows[kept], np.unique(labels[kept], return_inverse=True)[1]


def drawn(labels, kind, random):
    """Row numbers: whole labels, two of each, or half of the labels with one row each."""
    names = random.permutation(np.unique(labels))
    whole = {name: np.flatnonzero(labels == name) for name in names.tolist()}
    if kind == "pairs":
        parts = [random.permutation(rows)[:2] for rows in whole.values() if len(rows) > 1]
        return np.sort(np.concatenate(parts))
    parts = list(whole.values())
    singles = []
    if kind == "singles":
        half = len(parts) // 2
        singles = [random.choice(rows, 1) for rows in parts[half:]]
        parts = parts[:half]
    if len(labels) > 1.25 * ROWS:
        sizes = np.cumsum([len(rows) for rows in parts])
        parts = parts[: int(np.searchsorted(sizes, ROWS)) + 1]
    return np.sort(np.concatenate([*parts, *singles]))


def whispers(rows, seed=0):
    """Chinese whispers: each row takes the label with most weight among its neighbors."""
    random = np.random.default_rng(seed)
    labels = np.arange(len(rows))
    neighbors = []
    for row in range(len(rows)):
        cosines = rows @ rows[row]
        cosines[row] = 0
        near = np.flatnonzero(cosines > STRONG)
        neighbors.append((near, cosines[near]))
    for _ in range(WHISPERS):
        before = labels.copy()
        for row in random.permutation(len(rows)):
            near, weights = neighbors[row]
            if len(near):
                totals = np.bincount(labels[near], weights)
                labels[row] = int(np.argmax(totals))
        if (labels == before).all():
            break
    return labels


def table(given):
    """Every set and every way, and the mean of the first six."""
    lines = [line for name in given.sets for line in lines_of(name, given)]
    averaged = [line for line in lines if line["set"] in REAL]
    for way in dict.fromkeys(line["way"] for line in averaged):
        mean = {"set": "mean of the first six", "way": way}
        for head in HEADS:
            cells = [float(line[head]) for line in averaged if line["way"] == way]
            mean[head] = f"{np.mean(cells):.1f}"
        lines.append({**mean, "singles found": "", "groups": ""})
    markdown(lines)


def lines_of(name, given):
    """The lines of a set, computed or kept."""
    kept = os.environ.get("BENCH_KEPT")
    file = None if kept is None else Path(kept) / f"{name}, draw {given.draw}.json"
    if file is not None and file.exists():
        return json.loads(file.read_text())
    rows, labels = load(name, given.data, given.draw)
    scores = compare_groupings(rows, labels)
    scores["Chinese whispers, 0.5"] = score_grouping(labels, whispers(unit(rows)))
    lines = [{"set": name, "way": way, **figures(score)} for way, score in scores.items()]
    log(*lines)
    if file is not None:
        file.write_text(json.dumps(lines))
    return lines


FIELDS = ("ari", "bcubed_precision", "bcubed_recall", "bcubed_f", "v_measure")
HEADS = ("ARI", "B-cubed P", "R", "F", "V")


def figures(score):
    """The columns of a grouping."""
    cells = {
        head: f"{100 * getattr(score, field):.1f}"
        for head, field in zip(HEADS, FIELDS, strict=True)
    }
    found = score.singles_found
    cells["singles found"] = "" if found is None else f"{100 * found:.0f}"
    cells["groups"] = f"{score.groups:,} of {score.labels:,}"
    return cells


def questions(given):
    """What answers are worth."""
    lines = []
    for name in given.sets:
        if name == LARGEST:
            continue
        rows, labels = load(name, given.data, given.draw)
        groups = kinrank.group(rows)
        line = {"set": name, "before": f"{100 * score_grouping(labels, groups.labels).ari:.1f}"}
        for head, asked in (("worth asking", worth_asking), ("random", at_random)):
            after = answered(groups, labels, asked)
            line[head] = f"{100 * score_grouping(labels, after.labels).ari:.1f}"
        lines.append(line)
        log(line)
    markdown(lines)


def singles(given):
    """B-cubed F and single items found by the constants as they are, and by those of other sets."""
    settings = [(below, same) for below in BELOWS for same in SAMES]
    usual = kinrank.groups.singles.BELOW, kinrank.groups.singles.SAME
    scores = {}
    for name in given.sets:
        if name == LARGEST or "pairs" in name:
            continue
        rows, labels = load(name, given.data, given.draw)
        found = kinrank.group(rows).found
        scores[name] = {setting: by_constants(found, labels, *setting) for setting in settings}
        log(name)
    lines = []
    for name, own in scores.items():
        others = [score for other, score in scores.items() if other != name]
        means = {at: sum(score[at].bcubed_f for score in others) for at in settings}
        left_out = max(settings, key=lambda at: (means[at], at == usual))
        line = {"set": name}
        for head, setting in (("as they are", usual), ("left out", left_out)):
            line[head] = "BELOW {}, SAME {}".format(*setting)
            line |= {f"{key}, {head}": value for key, value in figures(own[setting]).items()}
        lines.append(line)
    kept = ("ARI", "F", "singles found")
    heads = ("as they are", "left out")
    columns = ["set", "left out", *(f"{key}, {head}" for key in kept for head in heads)]
    markdown([{column: line[column] for column in columns} for line in lines])


def by_constants(found, labels, below, same):
    """The figures of what was found, with other constants for single items."""
    module = kinrank.groups.singles
    before = module.BELOW, module.SAME
    module.BELOW, module.SAME = below, same
    try:
        tree, _ = module.grow_without_singles(found.links, found.level, Execution(Runner.of(2)))
    finally:
        module.BELOW, module.SAME = before
    return score_grouping(labels, cut_tree(tree, found.level))


def answered(groups, labels, asked):
    """The groups after all questions, answered by the labels."""
    groups = kinrank.groups.Groups(
        groups.found, groups.tree, kinrank.Corrections(), groups.labels, groups.strictness
    )
    random = np.random.default_rng(0)
    for _ in range(QUESTIONS):
        question = asked(groups, random)
        if question is None:
            break
        same = labels[question.one_id] == labels[question.other_id]
        groups = groups.answer(question, bool(same))
    return groups


def worth_asking(groups, _):
    """The first question."""
    first = groups.questions(1)
    return first[0] if first else None


def at_random(groups, random):
    """Any of a thousand questions."""
    every = groups.questions(1000)
    return every[int(random.integers(len(every)))] if every else None


def large(given):
    """Time and memory of many rows, each call in a process of its own."""
    calls = ("ranking", "group") if given.search == "exact" else ("group",)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        owners = write_groups(Path(folder) / "rows.npy", given.rows)
        for call in calls:
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                arguments = (call, folder, given.search, given.memory_budget)
                spent, peak, labels = process.submit(measured, *arguments).result()
            ari = "" if labels is None else f"{100 * score_grouping(owners, labels).ari:.1f}"
            lines.append(
                {
                    "rows": f"{given.rows:,}",
                    "search": given.search,
                    "budget": given.memory_budget or "none",
                    "call": call,
                    "CPU s": f"{spent:.0f}",
                    "peak of the process, MB": f"{peak:,.0f}",
                    "ARI": ari,
                }
            )
            log(lines[-1])
    markdown(lines)


def write_groups(path, n, size=20, width=64, noise=0.6):
    """A file of rows in groups of one size, a block at a time; returns whose each row is."""
    random = np.random.default_rng(0)
    owners = random.permutation(np.arange(n) // size)
    centres = random.standard_normal((n // size + 1, width)).astype(np.float32)
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n, width))
    for low in range(0, n, 65536):
        block = centres[owners[low : low + 65536]]
        rows[low : low + 65536] = unit(block + noise * random.standard_normal(block.shape))
    rows.flush()
    return owners


def measured(call, folder, search, memory_budget):
    """Processor seconds and the peak in MB of a call over mapped rows, and the labels it found."""
    rows = np.load(Path(folder) / "rows.npy", mmap_mode="r")
    kinrank.group(rows[:2000])  # loads the kernels
    run = kinrank.Run(search=search, memory_budget=memory_budget, work=Path(folder) / "work")
    if memory_budget is None:
        run = kinrank.Run(search=search)
    labels = None
    begin = time.process_time()
    if call == "ranking":
        kinrank.CAS().rerank(rows, k=100, run=run)
    else:
        labels = kinrank.group(rows, run=run).labels
    spent = time.process_time() - begin
    return spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, labels


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
    """Run the part that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("table", "questions", "singles", "large"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", default=";".join(SETS), help="names with ; between them")
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--search", choices=("exact", "approximate"), default="exact")
    parser.add_argument("--memory-budget")
    given = parser.parse_args()
    given.sets = given.sets.split(";")
    parts = {"table": table, "questions": questions, "singles": singles, "large": large}
    parts[given.part](given)


if __name__ == "__main__":
    results.run(main, __doc__)
