"""One query, ranked in two ways, and the cluster that it was ranked by.

The index answers with its own parameters, and with others once its stages have run again with them
(``refit``): over all rows, or first of all over the rows around the query. Where they cannot, and
for other methods, the pool of the query's nearest rows is ranked, which takes a moment however many
rows there are. Behind these rows all others follow by plain distance.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.index.engine import Engine
from kinrank.index.refit import Refit, Refits
from kinrank.methods.base import Method
from kinrank.methods.cas import CAS
from kinrank.neighbors.search import dense_search
from kinrank.parallel import Runner
from kinrank.pool import rerank_pool
from kinrank.serve.service import Service, View, served_method
from kinrank.types import Floats

POOL = 500  # so that sliders answer soon, however many rows there are
PLAIN, INDEX = "plain", "index"


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked: a row of the index, or a vector from outside.

    vector : (1, d), as the index keeps them; name : the place of the row in the ids, -1 for none
    """

    vector: Floats
    name: int


@dataclass(frozen=True, eq=False)
class Ranked:
    """All rows but the query itself, nearest first.

    order : (n,) places in the ids; distances : of the first of them, as many as were ranked
    around : how many rows the stages were made for; 0 for all that were ranked
    """

    order: npt.NDArray[np.int64]
    distances: Floats
    milliseconds: float
    around: int = 0

    @property
    def whole(self) -> bool:
        """Whether all rows were ranked."""
        return not self.around and len(self.distances) == len(self.order)

    @property
    def scope(self) -> str:
        """What was ranked, in words."""
        if self.around:
            return f"{self.around:,} rows around it"
        return "all rows" if self.whole else f"the {len(self.distances):,} nearest rows"

    def ranks(self, n: int) -> npt.NDArray[np.int64]:
        """(n,) the rank of each row, from 1 on; 0 for the query itself."""
        ranks = np.zeros(n, np.int64)
        ranks[self.order] = np.arange(1, len(self.order) + 1)
        return ranks

    def average_precision(self, codes: npt.NDArray[np.int64], code: int) -> float | None:
        """Of the rows with the label ``code``; None if nobody knows, or there are none."""
        if code < 0:
            return None
        positions = np.flatnonzero(codes[self.order] == code)
        if len(positions) == 0:
            return None
        return float(np.mean(np.arange(1, len(positions) + 1) / (positions + 1)))


def query_of(service: Service, view: View, key: str | None, vector: Any) -> Query:
    """The query that a request names."""
    state = view.state
    if key is None:
        return Query(state.scaling.apply("vector", vector), -1)
    name = int(state.table.places([service.typed(key)])[0])
    row = int(state.places[name])
    return Query(state.vectors[row : row + 1], name)


def plain(view: View, query: Query) -> Ranked:
    """By the distance of the vectors."""
    begun, state = time.perf_counter(), view.state
    squared = dense_search(query.vector, state.vectors)[0]
    by_name = np.empty(len(state), np.float32)
    by_name[state.names] = squared / max(float(squared.max()), 1e-30)
    return _ranked(by_name[: state.n_gallery], query.name, begun)


def ranked(
    service: Service, view: View, query: Query, method: str, params: Mapping[str, Any], *,
    whole: bool = False,
) -> Ranked:  # fmt: skip
    """By any setting.

    method : "plain", "index", or a name of ``served_methods``
    whole : rank all rows by parameters that are not those of the index, however long it takes
    """
    if method in (PLAIN, INDEX) and params:
        raise InvalidInputError(f"`params` must be empty for {method!r}, got {sorted(params)}.")
    if method == PLAIN:
        return plain(view, query)
    if method == INDEX:
        return by_index(service, view, query)
    made = setting(view, method, params)
    if isinstance(made, CAS) and (query.name >= 0 or not made.geodesic):
        begun, refits = time.perf_counter(), service.refits(view.state)
        now = whole or len(view.state) <= POOL  # so few rows take no longer than their pool
        run = Runner(int(service.settings.threads or 1))
        outside = query.name < 0
        if now:
            found = refits.make(made, run, outside=outside)
        else:
            found = refits.known(made, outside=outside) or _near(refits, view, query, made, run)
        if found is not None:
            return _by_refit(found, query, begun)
    return by_pool(view, query, made)


def _near(refits: Refits, view: View, query: Query, made: CAS, run: Runner) -> Refit | None:
    """The index with other parameters as it is around the query."""
    outside = query.name < 0
    names = plain(view, query).order[: made.k1] if outside else np.array([query.name])
    return refits.near(made, view.state.places[names], run, outside=outside)


def setting(view: View, method: str, params: Mapping[str, Any]) -> Method:
    """A method; of CAS the options of the index, and the parameters instead of some of them."""
    made = served_method(method, params)
    return view.state.asked.replace(**params) if isinstance(made, CAS) else made


def by_index(service: Service, view: View, query: Query) -> Ranked:
    """As the index answers."""
    return _by_refit(Refit(_engine(service, view), None), query, time.perf_counter())


def _by_refit(made: Refit, query: Query, begun: float) -> Ranked:
    """By an index with any parameters; shortest paths are for queries that are rows of it."""
    state = made.engine.state
    if query.name < 0:
        found = made.engine.answer(query.vector, state.n_gallery, Runner(1))
        known = found.indices[0] >= 0
        order = found.indices[0][known].astype(np.int64)
        return Ranked(order, found.distances[0][known], _since(begun), made.around)
    by_name = np.empty(len(state), np.float32)
    by_name[state.names] = made.distances(int(state.places[query.name]))
    return _ranked(by_name[: state.n_gallery], query.name, begun, made.around)


def by_pool(view: View, query: Query, method: Method) -> Ranked:
    """The nearest rows by ``method``, and all others behind."""
    begun, state = time.perf_counter(), view.state
    first = plain(view, query).order
    pool, rest = first[:POOL], first[POOL:]
    vectors = state.vectors[state.places[pool]]
    found = rerank_pool(query.vector[0], vectors, method, threads=1)
    order = np.concatenate([pool[found.indices[0]], rest])
    return Ranked(order, found.distances[0], _since(begun))


def cluster(
    service: Service, view: View, query: Query, method: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    """The query's local cluster: weights before and after smoothing, and edges of the graph.

    Returns
    -------
    dict
        ``members``: dicts with ``name`` (the place in the ids, -1 for the query), ``confident``,
        ``similarity``, ``smoothed``; ``edges``: triples of two places in ``members`` and a weight
    """
    if method != "cas":
        return _cluster(_engine(service, view), query, view.state.names)
    made = setting(view, method, params)
    assert isinstance(made, CAS)
    made = made.replace(geodesic=False)  # paths come after the cluster
    refits = service.refits(view.state)
    run = Runner(int(service.settings.threads or 1))
    known = refits.known(made) or _near(refits, view, query, made, run)
    if known is not None:
        return _cluster(known.engine, query, known.engine.state.names)
    first = plain(view, query).order[:POOL]
    rows = view.state.vectors[view.state.places[first]]
    engine = made.replace(metric="euclidean").fit(rows, threads=1).engine
    names = first[engine.state.names].astype(np.int32)
    placed = engine.state.scaling.apply("query", query.vector)
    return _cluster(engine, Query(placed, query.name), names)


def _cluster(engine: Engine, query: Query, names: Any) -> dict[str, Any]:
    state = engine.state
    near = engine.near(query.vector, state.neighbors.k - 1, Runner(1))
    with engine.workspace() as space:
        stages = engine.stages(query.vector, near, space)
        stages.encode()
    f, hat = stages.kept["f"].rows.values, stages.kept["smoothed"].rows.values
    rows = stages.kept["f"].rows.indices
    confident = set(stages.kept["xi"].rows.indices.tolist())
    members: list[dict[str, Any]] = []
    places: dict[int, int] = {}
    for at, row in enumerate(rows.tolist()):
        name = -1 if row == len(state) else int(names[row])
        if name == query.name and row != len(state):
            continue  # the query is a row of the index, and stands for itself
        places[row] = len(members)
        members.append(
            {
                "name": name,
                "confident": row in confident,
                "similarity": float(f[at]),
                "smoothed": float(hat[at]),
            }
        )
    edges = []
    for row, here in places.items():
        if row == len(state):
            continue
        part = slice(state.w.indptr[row], state.w.indptr[row + 1])
        for other, weight in zip(
            state.w.indices[part].tolist(), state.w.values[part].tolist(), strict=True
        ):
            if other > row and other in places:
                edges.append((here, places[other], weight))
    return {"members": members, "edges": edges}


def _engine(service: Service, view: View) -> Engine:
    """The engine of the rows that are looked at, even if the index has changed since."""
    engine = service.index.engine
    return engine if engine.state is view.state else Engine(view.state, engine.search)


def _ranked(by_name: Floats, own: int, begun: float, around: int = 0) -> Ranked:
    order = np.argsort(by_name, kind="stable")
    order = order[order != own]
    return Ranked(order, by_name[order], _since(begun), around)


def _since(begun: float) -> float:
    return 1000 * (time.perf_counter() - begun)
