"""Every argument of the public calls, one at a time something that it should not be.

A call must end in a result or in an error of the library. All pairs of an argument and an odd value
are numbered: a seed below ``len(PAIRS)`` is one of them, a later one puts two odd values into one
call.
"""

from dataclasses import fields
from functools import cache, partial
from pathlib import Path

import numpy as np

import kinrank
from fuzz.values import Draw, OnlyArray
from kinrank.registry import method_class, untrained_methods

N, WIDTH = 24, 6


class Unwilling:
    """Raises whatever is asked of it."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array")

    def __len__(self):
        raise RuntimeError("no length")

    def __iter__(self):
        raise RuntimeError("no entries")

    def __repr__(self):
        raise RuntimeError("no text")

    def __bool__(self):
        raise RuntimeError("no truth")


def vectors(n, seed):
    return np.random.default_rng(seed).normal(size=(n, WIDTH)).astype(np.float32)


def sparse():
    from scipy.sparse import csr_array

    return csr_array(np.eye(3, N))


# Made anew for each call: some can be read only once.
ODD = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "zero": lambda: 0,
    "one": lambda: 1,
    "two": lambda: 2,
    "17": lambda: 17,
    "negative": lambda: -1,
    "2^31": lambda: 2**31,
    "2^63": lambda: 2**63,
    "10^30": lambda: 10**30,
    "half": lambda: 0.5,
    "-0.5": lambda: -0.5,
    "1e300": lambda: 1e300,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "complex": lambda: 3j,
    "no text": lambda: "",
    "text": lambda: "abc",
    "digits": lambda: "3",
    "null text": lambda: "a\0",
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"abc",
    "no list": list,
    "list of none": lambda: [None],
    "list in list": lambda: [[]],
    "nested none": lambda: [[0], [], None],
    "list of none and list": lambda: [None, [0], [1]],
    "numbers": lambda: [0, 1, 2],
    "list of lists": lambda: [[0], [1], [2]],
    "deep list": lambda: [[[0]], [[1]], [[2]]],
    "ragged": lambda: [[0, 1], [2], []],
    "mixed": lambda: [0, "a", None],
    "texts": lambda: ["a", "b", "c"],
    "null texts": lambda: ["a", "a\0", "b"],
    "truths": lambda: [True, False, True],
    "floats": lambda: [0.5, 1.5, 2.5],
    "nans": lambda: [float("nan")] * 3,
    "huge": lambda: [2**63, 10**30, 0],
    "negatives": lambda: [-1, -2, -3],
    "bytes list": lambda: [b"a", b"b", b"c"],
    "no tuple": tuple,
    "pair": lambda: (0, 0.5),
    "triple": lambda: (0, 1, 2),
    "no dict": dict,
    "dict": lambda: {"a": 1},
    "dict of lists": lambda: {"stock": [1, 2, 3]},
    "range dict": lambda: {"stock": {"min": 0, "max": 5}},
    "odd range": lambda: {"stock": {"min": [1], "max": None}},
    "dict of none": lambda: {"stock": None, "name": [None]},
    "dict of numbers": lambda: {0: 1, None: 2},
    "set": lambda: {0, 1},
    "no set": set,
    "set of texts": lambda: frozenset({"a"}),
    "range": lambda: range(3),
    "iterator": lambda: iter([0, 1, 2]),
    "generator": lambda: (number for number in (0, 1, 2)),
    "object": object,
    "function": lambda: len,
    "class": lambda: int,
    "unwilling": Unwilling,
    "only array": lambda: OnlyArray([0, 1, 2]),
    "0-d": lambda: np.array(3),
    "0-d text": lambda: np.array("abc"),
    "0-d object": lambda: np.array(None),
    "0-d truth": lambda: np.array(True),
    "empty": lambda: np.empty(0),
    "empty rows": lambda: np.empty((0, WIDTH)),
    "empty columns": lambda: np.empty((3, 0)),
    "integers": lambda: np.arange(3),
    "row": lambda: np.arange(3)[None],
    "column": lambda: np.arange(3)[:, None],
    "cube": lambda: np.zeros((2, 3, WIDTH)),
    "uint64": lambda: np.array([2**63, 1, 2], np.uint64),
    "array of none": lambda: np.array([None, 1, "a"], object),
    "array of lists": lambda: np.array([[0], None, [1, 2]], object),
    "array of texts": lambda: np.array(["a", "b", "c"]),
    "array of bytes": lambda: np.array([b"a", b"b", b"c"]),
    "mask": lambda: np.ones(N, bool),
    "short mask": lambda: np.ones(3, bool),
    "dates": lambda: np.arange(3).astype("datetime64[D]"),
    "records": lambda: np.zeros(3, [("a", "f4")]),
    "masked": lambda: np.ma.masked_array([0, 1, 2], [True, False, False]),
    "vectors": partial(vectors, 3, 5),
    "nan vectors": lambda: np.full((3, WIDTH), np.nan),
    "np.float32": lambda: np.float32(0.5),
    "np.int8": lambda: np.int8(3),
    "np.str_": lambda: np.str_("abc"),
    "np.bool_": lambda: np.bool_(True),
    "sparse": sparse,
    "path": lambda: Path("here"),
    "no path": Path,
    "folder": lambda: Path("/"),
}  # fmt: skip


@cache
def index():
    """One that no call changes: changes are made in drafts."""
    attributes = {"stock": np.arange(N), "name": [f"n{n}" for n in range(N)]}
    made = kinrank.CAS(k1=4, k2=2).fit(vectors(N, 1), attributes=attributes)
    made.calibrate()
    return made


@cache
def ranking():
    return index().search(vectors(3, 2), 5)


@cache
def toy():
    rows = vectors(N, 3)
    labels = np.arange(N) % 4
    part = kinrank.datasets.Part
    return kinrank.datasets.Dataset(
        name="small", protocol="retrieval", query=part(labels=labels[:6], features=rows[:6]),
        gallery=part(labels=labels, features=rows),
    )  # fmt: skip


def labels():
    return {"query_labels": [0, 1, 2], "gallery_labels": np.arange(N) % 3}


def cameras():
    return {"query_cams": [0, 1, 0], "gallery_cams": np.arange(N) % 2}


def persons():
    return {"query_ids": [0, 1, 2], "gallery_ids": np.arange(N) % 3}


def on_index(name, draft=False):
    """A method of an index; one that changes it is called on a copy."""

    def call(**given):
        one = index().draft() if draft else index()
        return getattr(one, name)(**given)

    return call


def on_ranking(name):
    """A method of a ranking, which is made when it is first called."""

    def call(**given):
        return getattr(ranking(), name)(**given)

    return call


def on_fitted(**given):
    return kinrank.KReciprocal(k1=4, k2=2).fit(vectors(N, 1), threads=1).search(**given)


def opened(**given):
    """Save an index somewhere, and open it from there."""
    path = given.pop("path")
    index().draft().save(path)
    kinrank.open(path, **given).close()


ROWS = {"queries": lambda: vectors(3, 2), "gallery": lambda: vectors(N, 1)}
LISTS = lambda: np.argsort(np.random.default_rng(0).random((N, N)), axis=1)[:, :5]  # noqa: E731
SEARCH = {
    "queries": lambda: vectors(3, 2), "k": lambda: 4, "allowed": None, "exclude": None,
    "where": None, "differ": None, "threshold": None, "pair_false_match_rate": None,
    "unknown_rate": None, "items": None,
    "right": None, "wrong": None, "base": None, "threads": lambda: 1,
}  # fmt: skip
CONDITIONS = ("allowed", "exclude", "groups", "items", "threshold", "params", "run")

# Name, function, and its arguments: how to make a right one, None for one that is left out.
CALLS = {
    "rerank": (
        kinrank.rerank,
        {
            **ROWS, "method": lambda: "cas", "k": lambda: 4, **dict.fromkeys(CONDITIONS),
            "threads": lambda: 1,
        },
    ),
    "rerank with a Run": (
        lambda **given: kinrank.rerank(
            vectors(3, 2), vectors(N, 1), k=4, threads=1, k1=4, k2=2, run=kinrank.Run(**given)
        ),
        dict.fromkeys(
            ("search", "memory_budget", "work", "vectors", "cluster", "storage", "block_size")
        ),
    ),
    "rerank itself": (
        lambda **given: kinrank.rerank(threads=1, k1=4, k2=2, **given),
        {"queries": lambda: vectors(N, 1), "k": None, "groups": None, "allowed": None},
    ),
    "rerank in groups": (
        lambda **given: kinrank.rerank(
            vectors(3, 2), vectors(N, 1), threads=1, k1=4, k2=2,
            groups=(given["of_queries"], given["of_rows"]), k=given["k"],
        ),
        {"of_queries": lambda: [0, 1, 0], "of_rows": lambda: np.arange(N) % 2, "k": lambda: 3},
    ),
    "rerank_pool": (
        kinrank.rerank_pool,
        {
            "query": lambda: vectors(1, 2)[0], "candidates": lambda: vectors(N, 1),
            "method": lambda: "cas", "k": lambda: 4, "ids": None, "allowed": None, "exclude": None,
            "threshold": None, "threads": lambda: 1,
        },
    ),
    "rerank_pool of several": (
        kinrank.rerank_pool,
        {
            "query": lambda: vectors(3, 2), "candidates": lambda: [vectors(9, n) for n in range(3)],
            "ids": None, "allowed": None, "exclude": None, "threads": lambda: 1,
        },
    ),
    "tune": (
        kinrank.tune,
        {
            **ROWS, "method": lambda: "cas", "budget": lambda: 0.1, "seed": None,
            "threads": lambda: 1,
        },
    ),
    "jaccard_graph": (
        kinrank.jaccard_graph,
        {
            "features": lambda: vectors(N, 1), "k1": lambda: 4, "k2": lambda: 2,
            "max_distance": None, "metric": None, "dialect": None, "connected": None,
            "whiten": None, "threads": lambda: 1,
        },
    ),
    "CAS.fit": (
        lambda **given: kinrank.CAS(k1=4, k2=2).fit(**given),
        {
            "gallery": lambda: vectors(N, 1), "ids": None, "context": None, "attributes": None,
            "run": None, "params": None, "threads": lambda: 1,
        },
    ),
    "FittedMethod.search": (on_fitted, {"queries": lambda: vectors(3, 2), "k": lambda: 4}),
    "CAS.rerank_neighbors": (
        lambda **given: kinrank.CAS(k1=4, k2=2).rerank_neighbors(**given),
        {
            "distances": lambda: np.sort(np.random.default_rng(1).random((N, 5)), axis=1),
            "indices": LISTS, "n_queries": lambda: 3, "k": None, "squared": None, "farthest": None,
            "threads": lambda: 1,
        },
    ),
    "Index.search": (on_index("search"), SEARCH),
    "Index.search of one": (
        on_index("search"), {**SEARCH, "queries": lambda: vectors(1, 2)[0], "threads": lambda: 1}
    ),
    "Index.neighbors": (on_index("neighbors"), {"item": lambda: 3, "k": None}),
    "Index.vectors": (on_index("vectors"), {"ids": lambda: [3, 4]}),
    "Index.explain": (on_index("explain"), {"query": lambda: vectors(1, 2), "item": lambda: 3}),
    "Index.contains": (lambda item: item in index(), {"item": lambda: 3}),
    "Index.calibrate": (
        on_index("calibrate", draft=True), {"labels": None, "sample": lambda: 8}
    ),
    "Index.add": (
        on_index("add", draft=True),
        {
            "vectors": lambda: vectors(3, 4), "ids": None, "threads": lambda: 1,
            "attributes": lambda: {"stock": [1, 2, 3], "name": ["a", "b", "c"]},
        },
    ),
    "Index.upsert": (
        on_index("upsert", draft=True),
        {
            "vectors": lambda: vectors(3, 4), "ids": lambda: [3, 4, 900],
            "removed": lambda: [5, 6], "threads": lambda: 1,
            "attributes": lambda: {"stock": [1, 2, 3], "name": ["a", "b", "c"]},
        },
    ),
    "Index.remove": (
        on_index("remove", draft=True), {"ids": lambda: [3, 4], "threads": lambda: 1}
    ),
    "Index.update": (
        on_index("update", draft=True),
        {
            "ids": lambda: [3, 4, 5], "vectors": lambda: vectors(3, 4), "attributes": None,
            "threads": lambda: 1,
        },
    ),
    "Index.update of attributes": (
        on_index("update", draft=True),
        {
            "ids": lambda: [3, 4, 5], "attributes": lambda: {"stock": [1, 2, 3]},
        },
    ),
    "Index.save": (on_index("save", draft=True), {"path": lambda: "an.index"}),
    "open": (
        opened, {"path": lambda: "an.index", "writable": None, "verify": None, "refine": None}
    ),
    "open a file": (kinrank.open, {"path": lambda: "nobody.index"}),
    "Ranking": (
        kinrank.Ranking,
        {
            "indices": lambda: [[0, 1], [1, 2]], "distances": lambda: [[0.0, 1.0], [0.5, 1.0]],
            "ids": None, "presence": None,
        },
    ),
    "Ranking.top": (on_ranking("top"), {"k": lambda: 2}),
    "Ranking.within": (on_ranking("within"), {"threshold": lambda: 0.5}),
    "Ranking.to_records": (on_ranking("to_records"), {"queries": None, "columns": None}),
    "Ranking.to_trec": (
        on_ranking("to_trec"), {"path": lambda: "run.txt", "queries": None, "run": None}
    ),
    "Ranking.save": (on_ranking("save"), {"path": lambda: "a.npz"}),
    "Ranking.load": (kinrank.Ranking.load, {"path": lambda: "nobody.npz"}),
    "Projection": (
        kinrank.Projection,
        {"mean": lambda: np.zeros(WIDTH), "matrix": lambda: np.eye(WIDTH)},
    ),
    "Projection.fit": (
        kinrank.Projection.fit, {"vectors": lambda: vectors(N, 1), "kind": lambda: "pairs"}
    ),
    "Projection.load": (kinrank.Projection.load, {"path": lambda: "nobody.npz"}),
    "evaluate.reid": (
        kinrank.evaluate.reid,
        {
            "ranking": ranking, **{name: (lambda name=name: persons()[name]) for name in persons()},
            **{name: (lambda name=name: cameras()[name]) for name in cameras()},
        },
    ),
    "evaluate.retrieval": (
        kinrank.evaluate.retrieval,
        {
            "ranking": ranking, **{name: (lambda name=name: labels()[name]) for name in labels()},
        },
    ),
    "evaluate.revisited": (
        kinrank.evaluate.revisited,
        {"ranking": ranking, "gnd": lambda: [{"easy": [0], "hard": [1], "junk": []}] * 3},
    ),
    "evaluate.confidence_intervals": (
        kinrank.evaluate.confidence_intervals,
        {"columns": lambda: vectors(9, 1), "level": None, "draws": lambda: 20},
    ),
    "evaluate.compare": (
        lambda **given: kinrank.evaluate.compare(isolate=False, threads=1, **given),
        {
            "methods": lambda: ["none"], "sets": lambda: [toy()], "metrics": None, "work": None,
            "on_cell": None,
        },
    ),
    "evaluate.ablate": (
        lambda **given: kinrank.evaluate.ablate(threads=1, **given),
        {
            "sets": lambda: [toy()], "method": lambda: "cas(k1=4,k2=2)",
            "studies": lambda: ["nss"], "values": None, "metrics": None, "work": None,
        },
    ),
    "Client": (
        lambda **given: kinrank.Client(**given).close(),
        {"url": lambda: "http://127.0.0.1:9", "token": None, "timeout": None},
    ),
    "datasets.load": (
        kinrank.datasets.load,
        {
            "path": lambda: "toy", "format": None, "query": None, "gallery": None, "images": None,
            "distractors": None, "name": None, "unit": None,
        },
    ),
    **{
        name: (method_class(name), {field.name: None for field in fields(method_class(name))})
        for name in untrained_methods()
    },
}  # fmt: skip
# As many threads are started as are asked for, folders are gone through, all studies take minutes.
LEFT_OUT = {("threads", odd) for odd in ("2^31", "2^63", "10^30")} | {
    ("path", "folder"), ("path", "no path"), ("work", "folder"), ("work", "no path"),
    ("images", "folder"), ("studies", "None"), ("on_cell", "function"), ("on_cell", "class"),
}  # fmt: skip
PAIRS = [
    (call, argument, odd)
    for call, (_, arguments) in CALLS.items()
    for argument in arguments
    for odd in ODD
    if (argument, odd) not in LEFT_OUT
]
PAIRS = PAIRS[::2] + PAIRS[1::2]  # the first half, too, has every argument of every call


def attempt(outcomes, call, odd):
    """One call; odd : what goes where, by argument."""
    function, arguments = CALLS[call]
    given = {name: make() for name, make in arguments.items() if make is not None}
    given |= {name: ODD[value]() for name, value in odd.items()}
    try:
        outcomes.attempt(call, partial(function, **given))
    except Exception as error:
        # A file that is not there, or is none, stays the system's own error: it has its name.
        if not isinstance(error.__cause__, OSError) or error.__cause__.filename is None:
            raise
        outcomes.refused += 1


def run(seed, outcomes, folder):
    """The call that ``seed`` names."""
    if seed < len(PAIRS):
        call, argument, odd = PAIRS[seed]
        attempt(outcomes, call, {argument: odd})
        return
    draw = Draw(seed, folder)
    call, argument, odd = draw.pick(PAIRS)
    others = [pair for pair in PAIRS if pair[0] == call and pair[1] != argument]
    _, other, second = draw.pick(others) if others else (call, argument, odd)
    attempt(outcomes, call, {argument: odd, other: second})
