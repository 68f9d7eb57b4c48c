"""An index through its life: fitted, asked, changed, saved and opened, in any order."""

import numpy as np

import kinrank
from fuzz import values
from fuzz.calls import length, neighbor_lists, scenario
from fuzz.options import options
from fuzz.outcome import Failure, check_ranking, require
from kinrank import CAS, Index
from storm_data import (
    KINDS,
    by_item,
    changed_and_fresh,
    different_rows_tie,
    is_decided,
    permuted_order,
    tied_rows,
)

CHANGED = (
    {},
    {"variant": "paper"},
    {"clusters": "knn", "smoothing": "aqe"},
    {"geodesic": True},
    {"propagation": "transpose"},
    {"metric": "cosine"},
)


def method(draw, outcomes, n):
    given = options(draw, CAS, n, odd=0.03)
    for name in ("regularizer", "symmetric", "fusion", "divergence"):
        if draw.chance(0.8):  # an index takes few of these
            given.pop(name, None)
    return outcomes.attempt("CAS", CAS, **given)


@scenario(16)
def index_life(draw, outcomes):
    n, d = max(draw.rows_count(), 2), draw.width()
    cas = method(draw, outcomes, n)
    if cas is None:
        return
    gallery = values.vectors(draw, n, d, 0.05)
    names = values.ids(draw, n) if draw.chance(0.6) else None
    context = values.vectors(draw, draw.size(1, 9), d) if draw.chance(0.1) else None
    run = draw.pick((kinrank.Run(search="approximate"), "other")) if draw.chance(0.04) else None
    index = outcomes.attempt(
        "CAS.fit", cas.fit, gallery, names, context, run=run, threads=values.threads(draw),
        refuse=draw.refuse,
    )  # fmt: skip
    if index is not None:
        live(draw, outcomes, index, draw.size(2, 24))


@scenario(2)
def changed_index(draw, outcomes):
    """A storm of changes ends as a fresh fit, whatever ties."""
    kind, n, d = draw.pick(KINDS), draw.size(8, 60), draw.size(2, 12)
    k1 = draw.size(2, 12)
    cas = CAS(k1=k1, k2=draw.size(1, k1), **draw.pick(CHANGED))
    rows = tied_rows(draw.rng, kind, n + 60, d)
    queries = tied_rows(draw.rng, kind, 3, d)
    both = outcomes.attempt("changes", changed_and_fresh, draw.rng, cas, rows, n, draw.size(1, 10))
    require(both is not None, "changes refused")
    changed, fresh = both
    apart = np.abs(by_item(changed, queries, base=True) - by_item(fresh, queries, base=True)).max()
    require(apart <= 1e-5, "plain distances after changes")
    if is_decided(fresh):  # else rounding decides who is kept in P
        apart = np.abs(by_item(changed, queries) - by_item(fresh, queries)).max()
        require(apart <= 1e-5, "distances after changes")


@scenario(1)
def permuted_gallery(draw, outcomes):
    """A permuted gallery gives the permuted result."""
    kind, n, d = draw.pick(("copies", "random")), draw.size(8, 60), draw.size(2, 12)
    k1 = draw.size(2, 12)
    cas = CAS(k1=k1, k2=draw.size(1, k1), **draw.pick(CHANGED))
    rows = tied_rows(draw.rng, kind, n, d)
    queries = tied_rows(draw.rng, "random", 3, d)
    order = permuted_order(draw.rng, rows)
    index = outcomes.attempt("CAS.fit", cas.fit, rows)
    permuted = outcomes.attempt("CAS.fit", cas.fit, rows[order])
    if not different_rows_tie(index, rows):
        apart = np.abs(by_item(index, queries)[:, order] - by_item(permuted, queries)).max()
        require(apart <= 1e-5, "distances after permuting")


def live(draw, outcomes, index, steps):
    """Ask and change an index some times; what is refused must leave it as it was."""
    for _ in range(steps):
        draw.refuse = None
        before = index.ids
        step = draw.pick(STEPS)
        refused = outcomes.refused
        step(draw, outcomes, index)
        if outcomes.refused > refused:
            require(np.array_equal(index.ids, before), f"{step.__name__}: changed though refused")
        require(len(index.ids) == len(index), "as many ids as rows")


def some_id(draw, index):
    """An id of a row, or what is none."""
    known = index.ids[draw.size(0, len(index) - 1)].item()
    if draw.chance(0.85):
        return known
    return draw.pick((*values.ODD_NUMBERS, "nobody", "", "a\0"))


def some_ids(draw, index):
    if draw.chance(0.1):
        return values.ids(draw, draw.size(1, 3), 1.0)
    picked = draw.rng.permutation(len(index))[: draw.size(1, max(len(index) // 4, 1))]
    if draw.chance(0.04):
        picked = np.arange(len(index))
    elif draw.chance(0.05):
        picked = picked[[0, 0]] if len(picked) else picked
    return draw.pick((index.ids[picked], index.ids[picked].tolist()))


def search(draw, outcomes, index):
    queries = values.vectors(draw, draw.size(1, 4), index.width)
    k = draw.pick((100, None, 5)) if draw.chance(0.6) else values.count(draw, len(index))

    def check(ranking):
        n = len(index)
        wanted = n if k is None else min(int(k), n)
        check_ranking(
            ranking,
            n,
            1 if getattr(queries, "ndim", 2) == 1 else length(queries),
            wanted,
            index.ids,
        )

    outcomes.attempt(
        "Index.search", index.search, queries, k, base=draw.chance(0.2),
        threads=values.threads(draw), check=check, refuse=draw.refuse,
    )  # fmt: skip


def neighbors(draw, outcomes, index):
    k = values.count(draw, len(index))
    outcomes.attempt(
        "Index.neighbors", index.neighbors, some_id(draw, index), k,
        check=lambda found: check_ranking(found, len(index), 1, ids=index.ids),
    )  # fmt: skip


def explain(draw, outcomes, index):
    query = values.vectors(draw, 1, index.width)
    if isinstance(query, np.ndarray) and query.ndim == 2 and len(query) and draw.chance(0.5):
        query = query[0]

    def check(told):
        numbers = [told.distance, told.plain, told.modified, told.anchor, *told.stages.values()]
        numbers += [value for member in told.members
                    for value in (member.similarity, member.guide, member.smoothed)]  # fmt: skip
        numbers += [one.gain for one in told.shared]
        require(np.isfinite(numbers).all(), "NaN or infinity")
        require("nan" not in str(told), "NaN in words")

    outcomes.attempt(
        "Index.explain", index.explain, query, some_id(draw, index), check=check, refuse=draw.refuse
    )


def calibrate(draw, outcomes, index):
    labels = values.labels(draw, len(index)) if draw.chance(0.5) else None
    if draw.chance(0.1):
        labels = dict.fromkeys(index.ids.tolist(), 1)

    def check(found):
        require(np.isfinite(found.pair_false_match_rate).all(), "NaN in rates")
        found.at(draw.rng.random()), found.threshold(0.01)

    sample = values.count(draw, 10, 0.05)
    if draw.chance(0.2):
        outcomes.attempt("calibrate", index.calibrate, labels, sample=sample, check=check)


def read(draw, outcomes, index):
    """What changes nothing."""
    outcomes.attempt("Index.info", index.info)
    outcomes.attempt("in", index.__contains__, some_id(draw, index))
    outcomes.attempt("Index.vectors", index.vectors, some_ids(draw, index),
                     check=lambda rows: require(np.isfinite(rows).all(), "NaN"))  # fmt: skip


def add(draw, outcomes, index):
    count = draw.size(1, 4)
    rows = values.vectors(draw, count, index.width)
    text, names = index.ids.dtype.kind == "U", None
    if text or draw.chance(0.3):
        fresh = draw.rng.integers(10**6, 10**9, count)
        names = [f"new {one}" for one in fresh] if text else fresh
    if draw.chance(0.1):
        names = values.ids(draw, count, 0.7)
    outcomes.attempt(
        "Index.add", index.add, rows, names, threads=values.threads(draw), refuse=draw.refuse
    )


def remove(draw, outcomes, index):
    outcomes.attempt(
        "Index.remove", index.remove, some_ids(draw, index), threads=values.threads(draw)
    )


def update(draw, outcomes, index):
    names = some_ids(draw, index)
    count = len(names) if hasattr(names, "__len__") else 1
    rows = values.vectors(draw, max(count, 1), index.width)
    outcomes.attempt(
        "Index.update", index.update, names, rows, threads=values.threads(draw), refuse=draw.refuse
    )


NOTES = (
    {"a": 1}, {"a": np.nan}, {1: "b"}, {"a": object()}, {"a": np.int64(1)}, {"a": ["\ud800"]}, None,
    7, {"a": b"b"}, {"a": {(1, 2): 3}},
)  # fmt: skip


def save_and_open(draw, outcomes, index):
    """The same ids and answers from the file."""
    path = draw.file(draw.pick(("a.index", "b [1].index", "*.index", "é", "a")))
    if draw.chance(0.1):
        index.notes = draw.pick(NOTES)
    if draw.chance(0.05):
        index.recipe = draw.pick(("text", None, 7, object()))
    refused = outcomes.refused
    outcomes.attempt("Index.save", index.save, path)
    if outcomes.refused > refused:  # an older file may be there
        return
    writable = draw.chance(0.5)
    other = outcomes.attempt("open", kinrank.open, path, writable=writable)
    if other is None:
        raise Failure("open refused what save wrote", str(path))
    with other:
        require(np.array_equal(other.ids, index.ids), "other ids from the file")
        rows = np.random.default_rng(1).normal(size=(2, index.width))
        one, two = (outcomes.attempt("Index.search", each.search, rows, 9, threads=1)
                    for each in (index, other))  # fmt: skip
        require((one is None) == (two is None), "another answer from the file")
        same = one is None or one.indices.tobytes() == two.indices.tobytes()
        require(same, "other answers from the file")


STEPS = (
    search, search, search, search, neighbors, explain, explain, calibrate, read, add, add, remove,
    remove, update, save_and_open,
)  # fmt: skip


@scenario(6)
def from_neighbors(draw, outcomes):
    n, d = max(draw.rows_count(), 2), draw.size(1, 6)
    cas = method(draw, outcomes, n)
    if cas is None:
        return
    rows = values.plain_rows(draw, n, d).astype(np.float32)
    matrix = ((rows[:, None].astype(float) - rows) ** 2).sum(axis=2)
    matrix, lists = neighbor_lists(draw, matrix)
    refuse = draw.refuse
    vectors = rows if draw.chance(0.85) else values.vectors(draw, draw.size(1, n), d, 0.3)
    index = outcomes.attempt(
        "Index.from_neighbors", Index.from_neighbors, cas, matrix, lists, vectors=vectors,
        ids=values.ids(draw, n, 0.05) if draw.chance(0.3) else None, refuse=refuse,
        farthest=None if draw.chance(0.7) else values.count(draw, 9, 0.2),
        squared=draw.pick((True, True, False)), threads=values.threads(draw),
    )  # fmt: skip
    if index is not None:
        live(draw, outcomes, index, draw.size(1, 5))
