"""Files that were damaged, or made to deceive: read as they were, or refused."""

import json
import pickle
import shutil
from functools import cache

import numpy as np

import kinrank
from fuzz import damage
from fuzz.outcome import check_finite, check_ranking, require
from fuzz.values import Draw
from kinrank import CAS, Projection, datasets, features
from kinrank.io import load_array, save_npz, save_safetensors
from kinrank.runs import journal

ROWS = np.random.default_rng(5).normal(size=(40, 6)).astype(np.float32)
QUERIES = ROWS[:3] + 0.1


def run(seed, outcomes, folder):
    """Damage one file as ``seed`` says, and use it."""
    draw = Draw(seed, folder, kind=1)
    draw.pick(KINDS)(draw, outcomes)


@cache
def good(folder):
    """Whole files of every kind, by name, as bytes."""
    base = folder / "good"
    base.mkdir(exist_ok=True)
    cas, text = CAS(k1=6, k2=3), [f"row {i}" for i in range(40)]
    cas.fit(ROWS).save(base / "index 0")
    cas.fit(ROWS, ids=text).save(base / "index 1")
    cas.fit(ROWS, context=ROWS[:7] + 1).save(base / "index 2")
    CAS(k1=6, k2=3, variant="paper", metric="cosine").fit(ROWS[:9]).save(base / "index 3")
    ranking = cas.fit(ROWS, ids=text).search(QUERIES, k=9)
    ranking.save(base / "ranking 0")
    cas.fit(ROWS).search(QUERIES, k=9).save(base / "ranking 1")
    cas.rerank(QUERIES, ROWS[9:], 9).save(base / "ranking 2")
    np.save(base / "array 0.npy", ROWS)
    save_npz(base / "array 1", rows=ROWS)
    save_safetensors(base / "array 2", {"rows": ROWS}, {"about": "these"})
    np.savez_compressed(base / "array 3.npz", rows=ROWS, more=np.arange(9))
    np.save(base / "array 4.npy", np.array(text))
    made = features.pca_whitening(ROWS, 4)
    made.save(base / "projection 0.safetensors")
    Projection.fit(ROWS, kind="views").save(base / "projection 1.safetensors")
    np.save(base / "query.npy", QUERIES)
    lists = [{"easy": [1, 2], "hard": [3], "junk": [0]}] * 3
    (base / "gnd 0.json").write_text(json.dumps(lists))
    (base / "gnd 1.pkl").write_bytes(pickle.dumps({"gnd": lists}))
    arrays = [{name: np.array(rows) for name, rows in entry.items()} for entry in lists]
    (base / "gnd 2.pkl").write_bytes(pickle.dumps({"gnd": arrays}, protocol=2))
    return {file.name: file.read_bytes() for file in base.iterdir() if file.suffix != ".lock"}


def broken(draw, stem):
    """A file of a kind with damage in it: its path, and whether its checksums are right."""
    files = {name: raw for name, raw in good(draw.folder).items() if name.startswith(stem)}
    name = draw.pick(sorted(files))
    other = files[draw.pick(sorted(files))]
    craft = draw.chance(0.5)
    raw = damage.crafted(draw, files[name]) if craft else damage.damaged(draw, files[name], other)
    path = draw.folder / f"damaged {name.partition(' ')[2]}"
    path.write_bytes(raw)
    return name, path, craft


def damaged_index(draw, outcomes):
    name, path, craft = broken(draw, "index")
    whole = _expected(draw.folder, name)
    writable = draw.chance(0.3)
    index = outcomes.attempt("open", kinrank.open, path, writable=writable)
    if index is None:
        return

    def check(ranking):
        check_ranking(ranking, len(index), len(queries), ids=index.ids)
        require(craft or ranking.indices.tobytes() == whole, "another answer from a damaged file")

    queries = QUERIES[:, : index.width]
    outcomes.attempt("search", index.search, queries, 5, threads=1, check=check)
    outcomes.attempt("search", index.search, queries, 5, base=True, threads=1)
    one = index.ids[0].item() if len(index.ids) else 0
    outcomes.attempt("neighbors", index.neighbors, one, 5)
    outcomes.attempt("explain", index.explain, queries[0], one)
    outcomes.attempt("info", index.info)
    outcomes.attempt("calibrate", index.calibrate, sample=3)
    if writable:
        names = None if index.ids.dtype.kind != "U" else ["new"]
        outcomes.attempt("add", index.add, ROWS[:1, : index.width], names, threads=1)
        outcomes.attempt("remove", index.remove, [one], threads=1)
        outcomes.attempt("save", index.save)

        def check_new(ranking):
            check_ranking(ranking, len(index), len(queries), ids=index.ids)

        outcomes.attempt("search", index.search, queries, 5, threads=1, check=check_new)
    index.close()


@cache
def _expected(folder, name):
    index = kinrank.open(folder / "good" / name)
    return index.search(QUERIES, k=5, threads=1).indices.tobytes()


def damaged_ranking(draw, outcomes):
    _, path, craft = broken(draw, "ranking")
    found = outcomes.attempt("Ranking.load", kinrank.Ranking.load, path)
    if found is None or craft:
        return
    # Where two files are mixed, all but a few bytes can be those of the other.
    require(_contents(found) in _whole_rankings(draw.folder), "another ranking")


def _contents(ranking):
    arrays = (ranking.indices, ranking.distances, ranking.ids)
    return tuple(None if array is None else array.tobytes() for array in arrays)


@cache
def _whole_rankings(folder):
    return {_contents(kinrank.Ranking.load(path)) for path in (folder / "good").glob("ranking ?")}


def damaged_array(draw, outcomes):
    _, path, _ = broken(draw, "array")
    key = draw.pick((None, None, "rows", "more"))
    found = outcomes.attempt("load_array", load_array, path, key)
    if found is not None and found.size < 10**7:
        outcomes.attempt("rerank", kinrank.rerank, QUERIES, found, k=3, k1=4, k2=2, threads=1)


def damaged_projection(draw, outcomes):
    _, path, _ = broken(draw, "projection")
    found = outcomes.attempt("Projection.load", Projection.load, path)
    if found is not None:
        outcomes.attempt("apply", found.apply, QUERIES, check=check_finite)


def damaged_gnd(draw, outcomes):
    name, path, _ = broken(draw, "gnd")
    folder = draw.folder / "set"
    folder.mkdir(exist_ok=True)
    for side, rows in (("query", QUERIES), ("gallery", ROWS)):
        np.save(folder / f"{side}.npy", rows)
    path.rename(folder / ("gnd.json" if name.endswith("json") else "gnd_roxford5k.pkl"))
    outcomes.attempt("datasets.load", datasets.load, folder)
    shutil.rmtree(folder)


class Stop(Exception):  # noqa: N818 - how a run ends here before its time
    """Thrown in the middle of a run."""


@cache
def stopped(folder):
    """A work folder of a run that was stopped, and what the whole run gives."""
    work = folder / "stopped"
    whole = kinrank.rerank(QUERIES, ROWS, k=9, k1=6, k2=3, threads=1)
    plain, left = journal.Call.finished, [30]

    def finished(call, block):
        left[0] -= 1
        if left[0] < 0:
            raise Stop
        plain(call, block)

    journal.Call.finished = finished
    try:
        kinrank.rerank(
            QUERIES, ROWS, k=9, k1=6, k2=3, threads=1, run=kinrank.Run(block_size=9, work=work)
        )
    except Stop:
        return work, whole
    finally:
        journal.Call.finished = plain
    raise AssertionError("the run ended before it was stopped")


def damaged_work(draw, outcomes):
    """A run that goes on over damaged parts gives what it would have given, or says so."""
    work, whole = stopped(draw.folder)
    copy = draw.folder / "work"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(work, copy)
    files = sorted(file for file in copy.rglob("*") if file.is_file())
    file, other = draw.pick(files), draw.pick(files)
    raw = file.read_bytes()
    file.write_bytes(damage.damaged(draw, raw, other.read_bytes()) if raw else b"text")

    def check(ranking):
        require(ranking.indices.tobytes() == whole.indices.tobytes(), "another ranking")
        require(ranking.distances.tobytes() == whole.distances.tobytes(), "other distances")

    outcomes.attempt(
        "rerank(work=)", kinrank.rerank, QUERIES, ROWS, k=9, k1=6, k2=3, threads=1,
        run=kinrank.Run(block_size=9, work=copy), check=check,
    )  # fmt: skip


KINDS = (
    *[damaged_index] * 6, *[damaged_ranking] * 3, *[damaged_array] * 4, damaged_projection,
    damaged_gnd, damaged_work,
)  # fmt: skip
