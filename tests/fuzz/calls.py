"""Every public call, drawn by a seed: one function for each, and how often it is drawn.

Other files add to them: ``index_calls``, ``store_calls`` and ``other_calls``.
"""

from dataclasses import fields

import numpy as np

import kinrank
from fuzz import values
from fuzz.options import options
from fuzz.outcome import check_graph, check_ranking, require
from fuzz.values import Draw
from kinrank.registry import method_class, ready_methods, untrained_methods

# One is drawn as often as it stands here.
SCENARIOS = []
SLOW = ("gss", "csa", "lattqe", "ssr")  # torch: seconds to import, milliseconds a call
PLAIN = [name for name in untrained_methods() if name != "cas"]


def scenario(times):
    def register(function):
        SCENARIOS.extend([function] * times)
        return function

    return register


def run(seed, outcomes, folder):
    """Make the calls that ``seed`` names."""
    draw = Draw(seed, folder)
    try:
        draw.pick(SCENARIOS)(draw, outcomes)
    finally:
        draw.clear()


def pair(draw):
    """Queries and a gallery, and how many rows they have."""
    n, n_queries, d = draw.rows_count(), draw.size(1, 6), draw.width()
    gallery = values.vectors(draw, n, d)
    queries = values.vectors(draw, n_queries, d if draw.chance(0.97) else d + 1)
    return queries, gallery, n


def length(array):
    """The number of rows of what was accepted as such."""
    return array.shape[0] if hasattr(array, "shape") else len(np.asarray(array))


def width_of(array):
    """The number of columns; 4 of what has none."""
    shape = getattr(array, "shape", ())
    return shape[1] if len(shape) == 2 and shape[1] else 4


def sized(queries, gallery, k):
    """A check of a ranking of these queries over this gallery."""

    def check(ranking):
        n = length(queries if gallery is None else gallery)
        most = n - 1 if gallery is None else n  # a row is no answer to itself
        wanted = most if k is None else min(int(k), most)
        check_ranking(ranking, n, length(queries), wanted)

    return check  # fmt: skip


def where(draw):
    """Where a call may do its work; rarely, as it costs more than the call itself."""
    if not draw.chance(0.03):
        return {}
    return run_options(draw.pick((
        {"vectors": "float16"}, {"vectors": "float64"}, {"vectors": None}, {"search": "exact"},
        {"search": "approximate"}, {"search": 3}, {"memory_budget": "4GB"}, {"memory_budget": 1},
        {"memory_budget": "many"}, {"memory_budget": -1}, {"memory_budget": np.nan},
        {"work": draw.file("work")}, {"memory_budget": 2**62, "vectors": "float16"},
        {"block_size": 1}, {"block_size": 0}, {"block_size": "a"}, {"cluster": 3}, {"storage": "a"},
        {"params": "auto"}, {"params": "other"},
    )))  # fmt: skip


def run_options(given):
    """What belongs into a Run as one; what it refuses as it is, to be refused by the call."""
    if not given.keys() & {field.name for field in fields(kinrank.Run)}:
        return given
    try:
        return {"run": kinrank.Run(**given)}
    except kinrank.KinrankError:
        return {"run": given}


def call_rerank(draw, outcomes, name, **needed):
    queries, gallery, n = pair(draw)
    k = None if draw.chance(0.4) else values.count(draw, n)
    given = {**options(draw, method_class(name), n), **where(draw), **needed}
    outcomes.attempt(
        f"rerank[{name}]", kinrank.rerank, queries, gallery, name, k,
        threads=values.threads(draw), check=sized(queries, gallery, k), refuse=draw.refuse, **given,
    )  # fmt: skip


@scenario(20)
def rerank_cas(draw, outcomes):
    call_rerank(draw, outcomes, "cas")


@scenario(30)
def rerank_others(draw, outcomes):
    call_rerank(draw, outcomes, draw.pick(PLAIN))


@scenario(1)
def rerank_learned(draw, outcomes):
    if values.SMALL or not set(SLOW) & set(ready_methods()):
        return
    name = draw.pick(SLOW)
    if name == "gss":
        call_rerank(draw, outcomes, name, epochs=draw.size(1, 2))
        return
    from learned_models import untrained

    call_rerank(draw, outcomes, name, **untrained(name, 8))


@scenario(3)
def make_method(draw, outcomes):
    cls = method_class(draw.pick(kinrank.methods()))
    method = outcomes.attempt(cls.__name__, cls, **options(draw, cls, 50, odd=0.3))
    if isinstance(method, kinrank.CAS):
        outcomes.attempt("replace", method.replace, **options(draw, cls, 50, odd=0.3))


@scenario(8)
def fit_and_search(draw, outcomes):
    """Methods other than CAS that prepare a gallery."""
    cls = method_class(draw.pick([n for n in PLAIN if hasattr(method_class(n), "fit")]))
    queries, gallery, n = pair(draw)
    given = options(draw, cls, n)
    method = outcomes.attempt(cls.__name__, cls, **given)
    if method is None:
        return
    refuse, draw.refuse = draw.refuse, None
    fitted = outcomes.attempt("fit", method.fit, gallery, threads=values.threads(draw))
    for _ in range(draw.size(1, 3) if fitted is not None else 0):
        k = None if draw.chance(0.4) else values.count(draw, n)
        check = sized(queries, gallery, k)
        outcomes.attempt(
            "FittedMethod.search", fitted.search, queries, k, check=check, refuse=refuse
        )
        draw.refuse = None
        queries = values.vectors(draw, draw.size(1, 4), width_of(gallery))
        refuse = draw.refuse


@scenario(6)
def rerank_pool(draw, outcomes):
    n_queries, d = draw.size(1, 3), draw.width()
    query = values.vectors(draw, n_queries, d)
    pools = [values.vectors(draw, draw.size(1, 30), d) for _ in range(n_queries)]
    named = [values.ids(draw, draw.size(1, 30)) if draw.chance(0.5) else None for _ in pools]
    if draw.chance(0.7):  # names that fit their pools
        sizes = [getattr(pool, "shape", None) or (1,) for pool in pools]
        named = [values.ids(draw, size[0] or 1, odd=0.02) for size in sizes]
    several = n_queries > 1 or draw.chance(0.3)
    candidates, names = (pools, named) if several else (pools[0], named[0])
    if draw.chance(0.1):
        draw.refuse = None  # the pools that were drawn may not be among these
        candidates = draw.pick(([], pools + pools[:1], np.zeros((n_queries, 4, d)), None, "ab",
                                np.zeros((n_queries, 0, d)), tuple(pools), {}))  # fmt: skip
    method = draw.pick(("cas", "cas", draw.pick(PLAIN), kinrank.CAS(k1=4, k2=2), None, 7, "other"))
    given = options(draw, kinrank.CAS, 20) if method == "cas" else {}
    k = None if draw.chance(0.4) else values.count(draw, 20)

    def check(ranking):
        alone = not several and getattr(candidates, "ndim", 2) == 2
        largest = max(length(one) for one in ([candidates] if alone else candidates))
        check_pool(ranking, largest)

    outcomes.attempt(
        "rerank_pool", kinrank.rerank_pool, query, candidates, method, k, ids=names,
        threads=values.threads(draw), check=check, refuse=draw.refuse, **given,
    )  # fmt: skip


def check_pool(ranking, largest):
    """Positions are those of each query's own pool, so that of ids only pads can be told."""
    check_ranking(kinrank.Ranking(ranking.indices, ranking.distances), largest)
    if ranking.ids is not None:
        none = "" if ranking.ids.dtype.kind == "U" else -1
        require((ranking.ids[ranking.indices < 0] == none).all(), "ids of pads")


@scenario(12)
def rerank_neighbors(draw, outcomes):
    n, d = draw.rows_count(), draw.size(1, 5)
    matrix = values.distances(draw, n, d)
    n_queries = draw.size(1, max(n - 1, 1)) if draw.chance(0.9) else values.count(draw, n, 1.0)
    k = None if draw.chance(0.5) else values.count(draw, n)
    farthest = None if draw.chance(0.05) else float(max(matrix.max(), 1e-6))
    if draw.chance(0.1):
        farthest = draw.pick((np.full(n, 3.0), np.full(n + 1, 3.0), 0.0, -1, np.nan, "a", [3.0] * n,
                              np.zeros(n), np.full((n, 1), 2.0), 1e-38, 1e38, None))  # fmt: skip
    lists = None
    if draw.chance(0.7):
        matrix, lists = neighbor_lists(draw, matrix)
    else:
        farthest = None if draw.chance(0.95) else farthest
        matrix = broken_matrix(draw, matrix)
    cas = outcomes.attempt("CAS", kinrank.CAS, **options(draw, kinrank.CAS, n, odd=0.03))
    if cas is None:
        return
    outcomes.attempt(
        "rerank_neighbors", cas.rerank_neighbors, matrix, lists, n_queries=n_queries, k=k,
        squared=draw.pick((True, True, False)), farthest=farthest, threads=values.threads(draw),
        check=lambda found: check_ranking(found, n - n_queries, n_queries), refuse=draw.refuse,
    )  # fmt: skip


def broken_matrix(draw, matrix):
    """A matrix of distances, perhaps with something in it that is none."""
    if draw.chance(0.3):
        at = (draw.size(0, len(matrix) - 1), draw.size(0, len(matrix) - 1))
        matrix[at] = draw.pick((np.nan, np.inf, -1, 1e38, 1e-38, 1e300, 0))
        if not np.isfinite(matrix).all() or (matrix < 0).any():
            draw.refuse = "a distance that is none"
    return values.wrapped(draw, matrix.astype(np.float32)) if draw.chance(0.1) else matrix


def neighbor_lists(draw, matrix):
    """The nearest of each row, as a search might give them; perhaps broken."""
    n = len(matrix)
    length = draw.size(1, n)
    lists = np.argsort(matrix, axis=1, kind="stable")[:, :length]
    near = np.take_along_axis(matrix, lists, axis=1)
    if draw.chance(0.5):  # shorter ones
        gone = draw.rng.random(lists.shape) < draw.pick((0.1, 0.5, 0.9, 1.0))
        lists, near = np.where(gone, -1, lists), np.where(gone, draw.pick((np.inf, 0, 1)), near)
    if draw.chance(0.2):  # some rows without any
        lists[draw.rng.random(n) < 0.3] = -1
    if draw.chance(0.1):
        lists = draw.rng.integers(-1, n, lists.shape)  # duplicates, in no order
    if draw.chance(0.1):
        lists.flat[draw.size(0, lists.size - 1)] = draw.pick((n, -2, 2**31, 2**40, n + 7))
        draw.refuse = "a row that is not there"
    if draw.chance(0.1):
        near.flat[draw.size(0, near.size - 1)] = draw.pick((np.nan, -1.0))
        draw.refuse = "a distance that is none"
    if draw.chance(0.1):
        small = np.int8 if np.abs(lists).max() < 128 else np.int64  # which would wrap
        kinds = [lists.astype(kind) for kind in (float, np.uint64, small, object)]
        ragged = [list(row[: 1 + i % 3]) for i, row in enumerate(lists)]
        lists = draw.pick((*kinds, lists[:, :-1], lists.tolist(), lists[0], lists.T, ragged))
    return near, lists


@scenario(6)
def jaccard_graph(draw, outcomes):
    n = draw.rows_count()
    rows = values.vectors(draw, n, draw.width())
    given = {}
    for name, choices in (
        ("max_distance", (0.5, 1.0, 1e-6, 0, 2, np.nan)), ("metric", ("euclidean", "cosine", 3)),
        ("dialect", ("spcl", "zhong", "torchreid", "layumi", "other", None)),
        ("connected", (True, False, True, 1, None)),
        ("run", (kinrank.Run(block_size=7), kinrank.Run(work="a"), 0)),
    ):  # fmt: skip
        if draw.chance(0.4):
            given[name] = draw.pick(choices)
    outcomes.attempt(
        "jaccard_graph", kinrank.jaccard_graph, rows, values.count(draw, n // 2),
        values.count(draw, 8), threads=values.threads(draw), refuse=draw.refuse,
        check=lambda graph: check_graph(graph, length(rows)), **given,
    )  # fmt: skip


@scenario(1)
def tune_calls(draw, outcomes):
    if values.SMALL or draw.chance(0.7):
        return
    n = draw.size(50, 120)
    gallery = values.vectors(draw, n, draw.width())
    queries = None if draw.chance(0.5) else values.vectors(draw, 5, width_of(gallery))
    method = draw.pick(("cas", "kreciprocal", "alphaqe", "rdp", "ecn", "gnn", "fsr", "other"))
    budget = draw.pick((1e-9, 0.01, 0.1, 0, -1, np.nan, None, "a"))
    outcomes.attempt(
        "tune",
        kinrank.tune,
        queries,
        gallery,
        method,
        budget,
        seed=values.count(draw, 9, 0.05),
        refuse=draw.refuse,
    )
