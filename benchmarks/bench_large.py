"""Large collections: time, memory and recall, and how good is good enough.

    python benchmarks/bench_large.py million [--budget 4GB] [--vectors float16] [--per-cluster 0]
    python benchmarks/bench_large.py growth [--method cas] [--rows 100000,200000,400000]
    python benchmarks/bench_large.py methods [--method kreciprocal,ecn] [--budget 8GB] [--queries N]
    python benchmarks/bench_large.py recall [--data FOLDER]
    python benchmarks/bench_large.py distractors [--data FOLDER] [--count 100000] [--tol 3e-7]
    python benchmarks/bench_large.py vectors [--n 200000] [--width 512] [--data FOLDER]

million      1,000,000 x 128 clustered rows, 1,000 of them queries: seconds by stage, recall, peak;
             groups of --per-cluster rows on average, 0 for long-tailed ones (`bench_search.py`)
growth       the part after the search at several sizes, and the exponent of its growth; --svg FILE
methods      what other methods do after the search at a million rows; they share its lists
recall       recall of the neighbours against mAP on a real set
distractors  a real set among synthetic distractors: the whole graph, and the paper's protocol;
             --tol is how exact the diffusion must be, --budget what the whole graph may take
vectors      float32 against float16: files, time and memory of clustered rows, mAP of real sets

--work FOLDER keeps the rows and lets a run that was stopped go on; --data holds the feature sets,
by default ../shared/data beside the repository. CPU seconds are those of all threads of the
process, kernels loaded before.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank import evaluate, progress, registry

ROOT = Path(__file__).resolve().parents[1]
SEARCH = ("cells", "neighbours", "search")
DONE = "bench-large.json"


def clustered(folder, n, per_cluster, d=128, seed=0):
    """A file of unit rows around n / per_cluster centres, written a piece at a time."""
    path = Path(folder) / f"rows-{n}-{per_cluster}{'' if d == 128 else f'-{d}'}.npy"
    if path.exists():
        return path
    random = np.random.default_rng(seed)
    part = path.with_suffix(".part")
    out = np.lib.format.open_memmap(part, "w+", np.float32, (n, d))
    groups = random.integers(n // per_cluster, size=n) if per_cluster else long_tailed(random, n)
    scale = np.linspace(2, 0.3, d, dtype=np.float32) if not per_cluster else np.float32(1)
    noise = np.float32(0.8 if per_cluster else 0.55)
    centres = random.standard_normal((int(groups.max()) + 1, d), np.float32)
    for low in range(0, n, 65536):
        m = min(65536, n - low)
        rows = centres[groups[low : low + m]]
        rows = (rows + noise * random.standard_normal((m, d), np.float32)) * scale
        out[low : low + m] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    out.flush()
    part.rename(path)
    return path


def long_tailed(random, n):
    """The group of each row: seven groups in ten hold one row, the others 2 to 500."""
    sizes = np.where(random.random(n) < 0.7, 1, 2 + 2 * random.pareto(1.1, n)).astype(int)
    groups = np.repeat(np.arange(n, dtype=np.int32), np.minimum(sizes, 500))[:n]
    return groups[random.permutation(n)]


class Watch:
    """Seconds of each stage, on the clock and of the processor."""

    def __init__(self):
        self.wall, self.cpu, self._begun = {}, {}, {}

    def __call__(self, stage, done, total):
        now = time.perf_counter(), time.process_time()
        if done == 0:
            self._begun.setdefault(stage, now)
        if done >= total and stage in self._begun:
            before = self._begun.pop(stage)
            for kept, a, b in zip((self.wall, self.cpu), now, before, strict=True):
                kept[stage] = kept.get(stage, 0.0) + a - b


def measured(run):
    """What ``run()`` took: by stage, whole, recall, and the peak of the process so far."""
    watch = Watch()
    begun = time.perf_counter(), time.process_time()
    with progress.listen(watch), progress.gather() as facts:
        found = run()
    now = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    after = [sum(s for name, s in kind.items() if name not in SEARCH)
             for kind in (watch.wall, watch.cpu)]  # fmt: skip
    return found, {
        "wall": watch.wall, "cpu": watch.cpu, "after": after[0], "after_cpu": after[1],
        "total": now[0] - begun[0], "total_cpu": now[1] - begun[1],
        "recall": facts.get("recall"), "peak": peak, "plan": str(facts.get("plan", "")),
    }  # fmt: skip


def shared_lists(folder, per_cluster, least=52):
    """Let the approximate search read lists that it found before, of ``least`` rows and more."""
    from kinrank.search import find
    from kinrank.types import Neighbors

    search = find.ApproximateSearch.neighbors_and_more
    names = ("indices", "distances", "farthest")

    def known(searcher, k, n_first, first_k):
        long, first_long = max(k, least), max(first_k, least)
        stem = f"{folder}/lists-{len(searcher.vectors)}-{per_cluster}-{n_first}-{long}-{first_long}"
        files = [[Path(f"{stem}-{at}-{name}.npy") for name in names] for at in range(2)]
        if not files[1][2].exists():
            parts = search(searcher, long, n_first, first_long)
            for some, part in zip(files, parts, strict=True):
                for file, name in zip(some, names, strict=True):
                    np.save(file, getattr(part, name))
        for some, width in zip(files, (k, first_k), strict=True):
            ids, values, far = (np.load(file, mmap_mode="c").view(np.ndarray) for file in some)
            cut = (np.ascontiguousarray(part[:, :width]) for part in (ids, values))
            yield Neighbors(*cut, far)

    find.ApproximateSearch.neighbors_and_more = lambda *args: tuple(known(*args))


def child(
    folder, n, method, budget, per_cluster, width=128, vectors="float32", shared="alone",
    queries=1000,
):  # fmt: skip
    """One run in a process of its own, so that its peak is its own."""
    if shared == "shared":
        shared_lists(folder, per_cluster)
    rows = np.load(clustered(folder, int(n), int(per_cluster), int(width)), mmap_mode="r")
    name, _, params = method.partition(":")
    pairs = (pair.partition("=") for pair in params.split(";") if pair)
    made = registry.method_class(name)(**{key: json.loads(value) for key, _, value in pairs})
    made.rerank(rows[:5], rows[5:600], 50, run=kinrank.Run(vectors=vectors))
    work = Path(f"{folder}/{method}-{n}")
    where = {} if budget == "none" else {"memory_budget": budget, "work": work}
    where.update(search="approximate", vectors=vectors)
    most = min(1000, len(rows) // 100)
    query, gallery = rows[: min(int(queries), most)], rows[most:]
    with Largest(work) as files:
        found = measured(lambda: made.rerank(query, gallery, 100, run=kinrank.Run(**where)))[1]
    print(json.dumps({**found, "files": files.bytes}))


class Largest:
    """The most that the files of a folder occupy, those that are open and removed as well."""

    def __init__(self, folder):
        self._folder, self._over, self.bytes = folder.absolute(), threading.Event(), 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._thread.join()

    def _watch(self):
        while not self._over.wait(0.2):
            with suppress(OSError):  # a folder that is removed just now
                paths = [*self._folder.rglob("*"), *Path("/proc/self/fd").glob("*")]
                sizes = dict(filter(None, map(self._size, paths)))
                self.bytes = max(self.bytes, sum(sizes.values()))

    def _size(self, path):
        try:
            inside = str(path.readlink() if "/proc" in str(path) else path)
            known = path.stat()
            return (known.st_ino, known.st_blocks * 512) if str(self._folder) in inside else None
        except OSError:  # closed or removed just now
            return None


def in_child(*args):
    """Its answer; one that was there before is not measured again."""
    folder = Path(args[0])
    known = json.loads((folder / DONE).read_text()) if (folder / DONE).exists() else {}
    key = " ".join(map(str, args[1:]))
    if key not in known:
        command = [sys.executable, __file__, "child", *map(str, args)]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        known[key] = json.loads(out)
        (folder / DONE).write_text(json.dumps(known))
    return known[key]


def million(options):
    """Print the stages of a million rows under a budget."""
    own = () if options.vectors == "float32" else (128, options.vectors)
    found = in_child(
        options.work, options.n, options.method, options.budget, options.per_cluster, *own
    )
    print(found["plan"])
    print("\n| stage | s | CPU s |\n| --- | --- | --- |")
    for stage, seconds in found["wall"].items():
        print(f"| {stage} | {seconds:.1f} | {found['cpu'][stage]:.1f} |")
    print(f"| after the search | {found['after']:.1f} | {found['after_cpu']:.1f} |")
    print(f"| whole | {found['total']:.1f} | {found['total_cpu']:.1f} |")
    print(f"\nrecall {found['recall']:.3f}, peak {found['peak'] / 1e9:.2f} GB")


def growth(options):
    """Print the part after the search at several sizes, and its exponent."""
    sizes = [int(n) for n in options.rows.split(",")]
    print("| method | rows | search CPU s | after it, CPU s | after it, s | recall | peak GB |")
    print("| --- " * 7 + "|")
    curves = {}
    for method in options.method.split(","):
        curves[method] = []
        for n in sizes:
            found = in_child(options.work, n, method, options.budget, options.per_cluster)
            curves[method].append((n, found["after_cpu"]))
            search = sum(found["cpu"].get(name, 0) for name in SEARCH)
            print(
                f"| {method} | {n:,} | {search:.1f} | {found['after_cpu']:.1f} | "
                f"{found['after']:.1f} | {found['recall']:.3f} | {found['peak'] / 1e9:.2f} |",
                flush=True,
            )
        (x0, y0), (x1, y1) = curves[method][0], curves[method][-1]
        if x0 == x1:
            continue
        print(f"{method}: exponent {math.log(y1 / y0) / math.log(x1 / x0):.3f}", flush=True)
    if options.svg:
        Path(options.svg).write_text(drawn(curves))


def methods(options):
    """Print what other methods do after the search, each in a process of its own."""
    print("| method | after the search, CPU s | s | peak GB | stages, CPU s |")
    print("| --- " * 5 + "|")
    for method in options.method.split(","):
        own = (options.budget, options.per_cluster, 128, "float32", "shared")
        own += () if options.queries == 1000 else (options.queries,)
        found = in_child(options.work, options.n, method, *own)
        stages = [(s, t) for t, s in found["cpu"].items() if t not in SEARCH and s >= 0.05]
        told = ", ".join(f"{t} {s:.1f}" for s, t in sorted(stages, reverse=True))
        print(f"| {method} | {found['after_cpu']:.1f} | {found['after']:.1f} | "
              f"{found['peak'] / 1e9:.2f} | {told} |", flush=True)  # fmt: skip


def drawn(curves):
    """An SVG of CPU seconds against rows, both axes by powers of ten, with a line of slope 1."""
    points = [p for curve in curves.values() for p in curve]
    x0, x1 = (math.log10(f(p[0] for p in points)) for f in (min, max))
    y0, y1 = (math.log10(f(p[1] for p in points)) for f in (min, max))
    y0, y1 = y0 - 0.1, max(y1, y0 + x1 - x0) + 0.1

    def place(x, y):
        return 60 + 400 * (math.log10(x) - x0) / (x1 - x0 or 1), 260 - 230 * (
            math.log10(y) - y0
        ) / (y1 - y0)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 310" font-size="12">',
        '<rect width="560" height="310" fill="#fff"/><g font-family="sans-serif">',
    ]
    for n in sorted({p[0] for p in points}):
        x = place(n, 10**y0)[0]
        parts.append(f'<line x1="{x:.1f}" y1="30" x2="{x:.1f}" y2="260" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="278" text-anchor="middle">{n:,}</text>')
    for at, (name, curve) in enumerate(curves.items()):
        color = ("#1f5fa8", "#b5432a", "#2d7d46", "#7a4fa3", "#8a6d1b", "#444")[at % 6]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*p) for p in curve))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        for p in curve:
            x, y = place(*p)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>')
            label = f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle" fill="{color}">'
            parts.append(f"{label}{p[1]:.0f} s</text>")
        parts.append(f'<text x="470" y="{40 + 18 * at}" fill="{color}">{name}</text>')
        (n, seconds), last = curve[0], curve[-1][0]
        a, b = place(n, seconds), place(last, seconds * last / n)
        parts.append(f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" '
                     f'stroke="{color}" stroke-dasharray="3 4"/>')  # fmt: skip
    parts.append('<text x="260" y="300" text-anchor="middle">rows</text>')
    parts.append(
        '<text x="60" y="20">CPU seconds after the search; dashed: slope 1</text></g></svg>'
    )
    return "\n".join(parts) + "\n"


def load(folder):
    """Queries, gallery and a function from a ranking to its mAP, as bench_variants has it."""
    sys.path.insert(0, str(Path(__file__).parent))
    from bench_variants import load as load_set

    return load_set(Path(folder))


def recall(options):
    """Print recall of the graph against mAP of CAS and of k-reciprocal on a real set."""
    from kinrank.search import cells, find

    find.FEW = 0
    query, gallery, score = load(Path(options.data) / options.set)
    print(
        "| cells looked into | recall | mAP, cas | mAP, kreciprocal |\n| --- " + "| --- " * 3 + "|"
    )
    for probes in (2, 4, 8, 16, 24, 48, 96, None):
        cells.PROBES = probes or cells.PROBES
        where = {} if probes is None else {"search": "approximate"}
        row, share = [], 1.0
        for method in ("cas", "kreciprocal"):
            with progress.gather() as facts:
                ranking = kinrank.rerank(query, gallery, method, 200, run=kinrank.Run(**where))
            share = facts.get("recall", 1.0) if method == "cas" else share
            row.append(score(ranking))
        name = "all (exact)" if probes is None else str(probes)
        print(f"| {name} | {share:.3f} | {row[0]:.2f} | {row[1]:.2f} |", flush=True)


def drawn_from(gallery, count, kind="mixed", components=128, seed=0):
    """Rows of the gallery's own distribution that show nothing in particular, of unit norm.

    mixed : in the space of the gallery's leading principal components, a step of a share u, uniform
        in [0.2, 0.8], from a random row to another, and noise of half the standard deviation of
        each component: near rows of the gallery, and so a hard case
    normal : of a normal distribution with the gallery's mean and covariance there
    """
    random = np.random.default_rng(seed)
    mean = gallery.mean(axis=0)
    _, scale, axes = np.linalg.svd(gallery - mean, full_matrices=False)
    axes, deviation = axes[:components], scale[:components] / math.sqrt(len(gallery))
    coordinates = (gallery - mean) @ axes.T
    out = np.empty((count, gallery.shape[1]), np.float32)
    for low in range(0, count, 8192):
        m = min(8192, count - low)
        if kind == "normal":
            made = deviation * random.normal(size=(m, len(axes)))
        else:
            a, b = coordinates[random.integers(len(gallery), size=(2, m))]
            share = random.uniform(0.2, 0.8, size=(m, 1))
            made = a + share * (b - a) + 0.5 * deviation * random.normal(size=a.shape)
        rows = made @ axes + mean
        out[low : low + m] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return out


def narrowed(query, gallery, width):
    """Both on the leading principal components of the gallery, of unit norm again."""
    mean = gallery.mean(axis=0)
    axes = np.linalg.svd(gallery - mean, full_matrices=False)[2][:width]
    for rows in (query, gallery):
        turned = (rows - mean) @ axes.T
        yield (turned / np.linalg.norm(turned, axis=1, keepdims=True)).astype(np.float32)


def distractors(options):
    """Print quality and cost of the whole graph, the paper's protocol and the plain search."""
    query, gallery, score = load(Path(options.data) / options.set)
    if options.width:
        query, gallery = narrowed(query, gallery, options.width)
    whole = np.concatenate([gallery, drawn_from(gallery, options.count, options.draw)])
    cas = kinrank.CAS(k1=60, k2=6, tol=options.tol)
    where = {"search": "approximate", "memory_budget": options.budget, "work": options.work}
    runs = {
        "no re-ranking": lambda: evaluate.Plain().rerank(query, whole),
        "CAS, whole graph, approximate": lambda: cas.rerank(query, whole, run=kinrank.Run(**where)),
        "CAS, first 5,000 of each query": lambda: evaluate.Pooled(method=cas).rerank(query, whole),
    }
    print(f"{options.set}, {len(query)} queries, {len(gallery):,} rows + {options.count:,}, "
          f"{gallery.shape[1]} columns, tol {options.tol:g}\n")  # fmt: skip
    print("| what | mAP | s | CPU s | recall |\n| --- | --- | --- | --- | --- |")
    small = {"no distractors, no re-ranking": lambda: evaluate.Plain().rerank(query, gallery),
             "no distractors, CAS": lambda: cas.rerank(query, gallery)}  # fmt: skip
    for name, run in {**small, **runs}.items():
        ranking, found = measured(run)
        share = "" if found["recall"] is None else f"{found['recall']:.3f}"
        print(f"| {name} | {score(ranking):.2f} | {found['total']:.1f} | "
              f"{found['total_cpu']:.1f} | {share} |", flush=True)  # fmt: skip
        stages = ", ".join(f"{stage} {s:.1f}" for stage, s in found["cpu"].items() if s >= 1)
        print(f"{name}: CPU s {stages}; peak {found['peak'] / 1e9:.2f} GB", file=sys.stderr)


def vectors(options):
    """Print cost and quality with vectors in float32 and in float16."""
    print("| kept as | budget | files GB | s | CPU s | peak GB | recall |\n" + "| --- " * 7 + "|")
    for budget in options.budget.split(","):
        for kind in ("float32", "float16"):
            size = (options.per_cluster, options.width or 512, kind)
            found = in_child(options.work, options.n, "cas", budget, *size)
            print(
                f"| {kind} | {budget} | {found['files'] / 1e9:.2f} | {found['total']:.1f} | "
                f"{found['total_cpu']:.1f} | {found['peak'] / 1e9:.2f} | {found['recall']:.3f} |",
                flush=True,
            )
            print(found["plan"], file=sys.stderr)
    print(
        "\n| set | method | mAP, float32 | mAP, float16 | same first row |\n" + "| --- " * 5 + "|"
    )
    for name in options.set.split(","):
        query, gallery, score = load(Path(options.data) / name)
        for method in ("cas", "kreciprocal"):
            one, other = (
                kinrank.rerank(query, gallery, method, 200, run=kinrank.Run(vectors=kind))
                for kind in ("float32", "float16")
            )
            same = np.mean(one.indices[:, 0] == other.indices[:, 0])
            row = f"| {name} | {method} | {score(one):.3f} | {score(other):.3f} | {same:.4f} |"
            print(row, flush=True)


def main():
    """Run what was asked for."""
    if len(sys.argv) > 1 and sys.argv[1] == "child":
        return child(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = {f.__name__: f for f in (million, growth, methods, recall, distractors, vectors)}
    parser.add_argument("what", nargs="?", default="recall", choices=steps)
    parser.add_argument("--data", default=ROOT.parent / "shared" / "data")
    parser.add_argument("--set")
    parser.add_argument("--work")
    parser.add_argument("--budget", default="4GB")
    parser.add_argument("--n", type=int)
    parser.add_argument("--method", default="cas", help="one or more, as in kreciprocal,ecn:k=10")
    parser.add_argument("--rows", default="100000,200000,400000")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--draw", default="mixed", choices=("mixed", "normal"))
    parser.add_argument("--width", type=int, help="columns to make, or to keep")
    parser.add_argument("--per-cluster", type=int, default=20, help="synthetic rows of a group")
    parser.add_argument("--tol", type=float, default=kinrank.CAS().tol, help="of the distractors")
    parser.add_argument("--queries", type=int, default=1000, help="of the other methods")
    parser.add_argument("--vectors", default="float32", help="as which a million rows are kept")
    parser.add_argument("--svg")
    options = parser.parse_args()
    options.n = options.n or (200_000 if options.what == "vectors" else 1_000_000)
    sets = {"recall": "market1501-retail-0288", "distractors": "roxford5k-efflite2-gem"}
    sets["vectors"] = ",".join(sets.values())
    options.set = options.set or sets.get(options.what)
    with tempfile.TemporaryDirectory() as folder:
        options.work = options.work or folder
        Path(options.work).mkdir(parents=True, exist_ok=True)
        steps[options.what](options)
    return None


if __name__ == "__main__":
    results.run(main, __doc__)
