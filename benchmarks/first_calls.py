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


def change():
    search()
    index = kinrank.CAS().fit(rows()[20:])
    index.add(rows()[:1], ids=[1000])
    index.remove([1000])


def jaccard_graph():
    kinrank.jaccard_graph(rows())


def auto():
    kinrank.rerank(rows()[:20], rows()[20:], k=10, params="auto")


def spelled(kind):
    """A type of numba as text that numba reads."""
    from numba import types

    if isinstance(kind, types.Array):
        if not kind.mutable:
            raise ValueError(f"{kind} is read-only: a kernel would be compiled once more")
        last = {"C": "::1", "A": ":"}[kind.layout]
        return f"{spelled(kind.dtype)}[{', '.join([':'] * (kind.ndim - 1) + [last])}]"
    if isinstance(kind, types.BaseTuple):
        inside = "".join(f"{spelled(part)}, " for part in kind)
        return f"Tuple(({inside}))"
    return {"bool": "boolean"}.get(str(kind), str(kind))


CALLS = {
    **{method: ranks(method, 10) for method in kinrank.registry.untrained_methods()},
    **{f"{method}:whole": ranks(method, None) for method in kinrank.registry.untrained_methods()},
    "index": index,
    "change": change,
    "jaccard_graph": jaccard_graph,
    "tune": auto,
}
