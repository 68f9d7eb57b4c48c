"""The first calls that people make, one function each: what they compile is what they wait for."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import kinrank


@cache
def rows():
    """300 rows in 30 groups, 16 columns."""
    random = np.random.default_rng(0)
    centres = np.repeat(random.normal(size=(30, 16)), 10, axis=0)
    return (centres + 0.3 * random.normal(size=(300, 16))).astype(np.float32)


def ranks(method, k):
    def call():
        kinrank.rerank(rows()[:20], rows()[20:], method=method, k=k)

    return call


@cache
def fitted():
    return kinrank.CAS().fit(rows()[20:])


def search():
    fitted().search(rows()[:1], k=10)
    fitted().search(rows()[:8], k=10)


def reopened():
    """A saved index answers as the one in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.index"
        fitted().save(path)
        kinrank.open(path).search(rows()[:1], k=10)


def index():
    search()
    reopened()
    fitted().explain(rows()[0], int(fitted().ids[0]))


def add():
    fitted().add(rows()[:1], ids=[1000])


def change():
    search()
    index = kinrank.CAS().fit(rows()[20:])
    index.add(rows()[:1], ids=[1000])
    index.remove([1000])


def page():
    """What the page of `kinrank serve` asks."""
    explorer, method = fitted().explorer(), kinrank.CAS(k1=12, k2=3)
    fitted().search(rows()[:1], k=10, base=True)
    fitted().neighbors(fitted().ids[0], 10)
    for query in (explorer.row_query(0), explorer.vector_query(rows()[:1])):
        explorer.rank(query)
        explorer.cluster(query)
        explorer.cluster_by(query, method)
        for whole in (False, True):
            explorer.rank_by(query, method, whole=whole)
    explorer.rank_marked(explorer.row_query(0), [fitted().ids[1]], [fitted().ids[-1]])
    fitted().calibrate()
    pool()


def long_rows():
    """Encodings are long where rows have no groups."""
    alone = np.random.default_rng(1).normal(size=(300, 16)).astype(np.float32)
    kinrank.rerank(alone[:20], alone[20:], k=10)


def long_whole():
    """So are they with a large k1, where whole rankings compare queries side by side."""
    alone = np.random.default_rng(1).normal(size=(1000, 16)).astype(np.float32)
    kinrank.CAS(k1=150, k2=6).rerank(alone[:200], alone[200:])


def geodesic():
    method = kinrank.CAS(geodesic=True)
    for k in (10, None):
        method.rerank(rows()[:20], rows()[20:], k=k)
    index = method.fit(rows()[20:])
    index.search(rows()[:1], k=10)
    index.add(rows()[:1], ids=[1000])


def evaluate():
    data = kinrank.datasets.load("toy")
    data.evaluate(kinrank.rerank(data.query.features, data.gallery.features))


def jaccard_graph():
    kinrank.jaccard_graph(rows(), metric="cosine")


def pool():
    kinrank.rerank_pool(rows()[0], rows()[1:100], k=10)


def auto():
    kinrank.rerank(rows()[:20], rows()[20:], k=10, params="auto")


def group():
    kinrank.group(rows())


def spelled(kind):
    """A type of numba as text that numba reads."""
    from numba import types

    if isinstance(kind, types.Array):
        if not kind.mutable:
            raise ValueError(f"{kind} is read-only: a kernel would be compiled once more")
        last = {"C": "::1", "A": ":"}[kind.layout]
        return f"{spelled(kind.dtype)}[{', '.join([':'] * (kind.ndim - 1) + [last])}]"
    if isinstance(kind, types.BaseNamedTuple):
        return f"{kind.instance_class.__name__}({', '.join(map(spelled, kind))})"
    if isinstance(kind, types.BaseTuple):
        inside = "".join(f"{spelled(part)}, " for part in kind)
        return f"Tuple(({inside}))"
    return {"bool": "boolean"}.get(str(kind), str(kind))


CALLS = {
    **{method: ranks(method, 10) for method in kinrank.registry.untrained_methods()},
    **{f"{method}:whole": ranks(method, None) for method in kinrank.registry.untrained_methods()},
    "index": index,
    "change": change,
    "page": page,
    "long": long_rows,
    "long:whole": long_whole,
    "geodesic": geodesic,
    "evaluate": evaluate,
    "jaccard_graph": jaccard_graph,
    "tune": auto,
    "group": group,
}

# Those whose times are shown: what is called before, and what is timed.
SHOWN = {
    "rerank": (None, CALLS["cas"]),
    "rerank, all rows": (None, CALLS["cas:whole"]),
    "kreciprocal": (None, CALLS["kreciprocal"]),
    "rerank_pool": (None, pool),
    "fit and search": (None, search),
    "add, after these": (search, add),
    "jaccard_graph": (None, jaccard_graph),
    'params="auto"': (None, auto),
}
