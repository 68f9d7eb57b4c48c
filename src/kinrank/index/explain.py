"""Why a row has its distance from a query: the query's cluster, what smoothing did, each stage.

The *item* is the gallery row that is explained; ``row`` is its place in the state. A query has the
place behind all rows, n.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from kinrank.index.distances import encoding_rows, fused, path_lengths, plain
from kinrank.index.engine import Engine
from kinrank.index.query import Overlay, QueryStages
from kinrank.index.state import State
from kinrank.parallel import ALONE, Runner
from kinrank.stages.divergence import Divergence
from kinrank.stages.ranking import UNREACHABLE
from kinrank.stages.sparse import take
from kinrank.types import Floats, Ints, SparseRows

Role: TypeAlias = Literal["query", "gallery", "context"]


@dataclass(frozen=True)
class Member:
    """A row of the query's local cluster.

    id : None for the query itself and for rows of the context
    role : "query", "gallery" or "context"
    confident : whether it is one of the query's confident neighbours xi
    similarity, smoothed : its weight in the query's row of F, before and after smoothing
    guide : T, what the neighbours say of it; more than ``Explanation.anchor`` counts as that much
    """

    id: int | str | None
    role: Role
    confident: bool
    similarity: float
    guide: float
    smoothed: float


@dataclass(frozen=True)
class Shared:
    """A row that both the query and the item are similar to: a column that their F' share.

    id, role : as in ``Member``
    query_weight, item_weight : the entries of this column in both rows of F'
    gain : how much larger their divergence is without it
    """

    id: int | str | None
    role: Role
    query_weight: float
    item_weight: float
    gain: float


@dataclass(frozen=True)
class Explanation:
    """How the distance between a query and an item came about.

    id : of the item
    distance : (1 - omega) modified + omega plain, with ``geodesic`` x / (1 + x) of that
    plain : the distance of the vectors, in [0, 1]
    modified : the divergence of the two rows of F', or with ``geodesic`` the length of the shortest
        path
    omega : the share of the plain distance
    anchor : r of the smoothing
    in_cluster : whether the item is in the query's local cluster
    stages : by the name of a stage, the divergence of the rows as they are after it
    path : with ``geodesic`` the ids of the rows that the path leads over, None for one of the
        context, and of the item; empty without it, and where there is no path
    members : the query's local cluster, heaviest first after smoothing
    shared : what both have in common, the largest gain first
    chosen : why parameters are what they are, where ``params="auto"`` chose them
    """

    id: int | str
    distance: float
    plain: float
    modified: float
    omega: float
    anchor: float
    in_cluster: bool
    stages: dict[str, float]
    members: list[Member]
    shared: list[Shared]
    path: list[int | str | None]
    chosen: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, text and lists, as JSON takes them."""
        return asdict(self)

    def __str__(self) -> str:
        """All of it as text of several lines."""
        kind = "path" if self.path else "modified"
        modified = f"{1 - self.omega:g} x {self.modified:.4f} ({kind})"
        plain = f"{self.omega:g} x {self.plain:.4f} (plain)"
        verb = "is" if self.in_cluster else "is not"
        stages = ", ".join(f"{name} {value:.4f}" for name, value in self.stages.items())
        lines = [
            f"{self.id!r}: {self.distance:.4f} = {self._mixed(modified, plain)}",
            f"It {verb} in the query's cluster of {len(self.members)}.",
            f"Modified distance after {stages}",
        ]
        if self.path:
            lines.append(f"Path: {' -> '.join(map(repr, self.path))}")
        lines.append("Cluster (weight before -> after smoothing; * confident neighbour):")
        for member in self.members:
            mark = "*" if member.confident else " "
            weights = f"{member.similarity:.4f} -> {member.smoothed:.4f}"
            lines.append(f"  {mark} {_named(member)}: {weights}")
        lines.append("Most in common (weight of the query, of the item, and what it gains):")
        for row in self.shared:
            weights = f"{row.query_weight:.4f}, {row.item_weight:.4f}, {row.gain:.4f}"
            lines.append(f"    {_named(row)}: {weights}")
        if self.chosen:
            lines.append("Parameters, as chosen for this gallery without labels:")
        lines += [f"    {name}: {reason}" for name, reason in self.chosen.items()]
        return "\n".join(lines)

    def _mixed(self, modified: str, plain: str) -> str:
        """How the distance is made of its two parts, which are given in words."""
        return f"x / (1 + x), x = {modified} + {plain}" if self.path else f"{modified} + {plain}"


def explain(engine: Engine, query: Floats, index: int, most_shared: int = 10) -> Explanation:
    """Compute a query again, and compare it with a gallery row stage by stage.

    query : (1, d) float32, scaled
    index : of the gallery row
    most_shared : rows that both have in common, to be listed
    """
    state = engine.state
    row = int(state.position[index])
    squared = engine.squared_distance(query, row)
    nearest = engine.nearest(query, state.neighbors.k - 1, Runner(1))
    with engine.workspace() as space:
        stages = engine.encode(query, nearest, space)
        edges = None
        if state.paths is not None:
            edges = engine.first_edges(nearest, stages.encoding, space)[0]
        item_encoding = _changed_row(stages.encoding, row)
        if item_encoding is None:
            item_encoding = encoding_rows(engine, np.array([row], np.int32), space)
    divergences = _divergences_after_stages(state, stages, item_encoding, row)
    modified = divergences["propagation"]
    farthest = float(stages.farthest[0])
    path: list[int] = []
    if edges is not None:
        listed = nearest.indices[0, : nearest.counts[0]]
        modified, path = _shortest_path(state, listed, edges, row)
    return Explanation(
        id=state.ids[index].item(),
        distance=float(fused(state, np.array([modified], np.float32), squared, farthest)[0]),
        plain=float(plain(state, squared, farthest)[0]),
        modified=modified,
        omega=state.method.omega,
        anchor=float(stages.anchor[0]) if len(stages.anchor) else 0.0,
        in_cluster=bool((stages.similarity.ids == row).any()),
        stages=divergences,
        members=_members(state, stages),
        shared=_shared(state, weights_of(_query_row(stages.encoding)), weights_of(item_encoding))[
            :most_shared
        ],
        path=[_identity(state, row)[0] for row in path],
        chosen={},
    )


def _shortest_path(state: State, nearest: Ints, edges: Floats, row: int) -> tuple[float, list[int]]:
    """The length of the shortest path from the query to a row, and the rows on it, this one last.

    The lengths from all rows to this one are known; a row's next one on the path is a neighbour
    whose length is less by just the edge between them.

    nearest, edges : the query's nearest rows, and d' to the first of them, with which paths begin

    Returns 50 and no rows if there is no path.
    """
    graph = state.paths
    assert graph is not None
    lengths = path_lengths(state, row)
    first_rows = nearest[: len(edges)]
    totals = edges[: len(first_rows)] + lengths[first_rows]
    if len(first_rows) == 0 or totals.min() >= UNREACHABLE:
        return float(UNREACHABLE), []
    first = int(first_rows[totals.argmin()])
    previous = {first: -1}  # of each row that was reached, the one before it on its path
    queue = [first]
    for reached in queue:  # which grows; equal rows are at distance 0, in any order
        entries = slice(graph.indptr[reached], graph.indptr[reached + 1])
        others = graph.indices[entries]
        leads_on = lengths[others] + graph.values[entries] == lengths[reached]
        for other in others[leads_on].tolist():
            if other not in previous and row not in previous:
                previous[other] = reached
                queue.append(other)
    path: list[int] = []
    on_path = row
    while on_path >= 0:
        path.append(on_path)
        on_path = previous[on_path]
    return float(totals.min()), path[::-1]


def _divergences_after_stages(
    state: State, stages: QueryStages, item_encoding: SparseRows, row: int
) -> dict[str, float]:
    """The divergence of the query's row and the item's after each stage, by the stage's name.

    item_encoding : F' of the item, with the query
    """
    item_row = np.array([row], np.int32)
    pairs: dict[str, tuple[SparseRows, SparseRows]] = {}  # the rows of the query and of the item
    if state.similarity is not None:
        pairs["diffusion"] = (stages.similarity.rows, take(state.similarity, item_row))
    pairs["smoothing"] = (stages.smoothed.rows, take(state.smoothed, item_row))
    item_enhanced = _changed_row(stages.enhanced, row) or take(state.enhanced, item_row)
    pairs["enhancement"] = (_query_row(stages.enhanced), item_enhanced)
    pairs["propagation"] = (_query_row(stages.encoding), item_encoding)
    measure = state.method.divergence
    return {
        name: float(row_divergences([weights_of(of_query)], weights_of(of_item), measure)[0])
        for name, (of_query, of_item) in pairs.items()
    }


def _query_row(overlay: Overlay) -> SparseRows:
    """The row of the query in an overlay of one query, (1, n + 1): its first."""
    return take(overlay.rows, np.zeros(1, np.int32))


def _changed_row(overlay: Overlay, row: int) -> SparseRows | None:
    """A stored row as it is with the query, (1, n + 1); None if the query does not change it."""
    place = np.flatnonzero(overlay.replaced == row).astype(np.int32)
    return take(overlay.rows, place) if len(place) else None


def weights_of(row: SparseRows) -> dict[int, float]:
    """The entries of a matrix with a single row, by column."""
    return dict(zip(row.indices.tolist(), row.values.tolist(), strict=True))


def row_divergences(rows: list[dict[int, float]], item: dict[int, float], measure: str) -> Floats:
    """The divergence of each of some rows and the item's, (len(rows),) float32.

    Computed by the stage that does it for all rows, over a small matrix of these rows, whose
    columns are counted anew: so not for "similarity", which reads a row's column as the number of a
    row.

    rows, item : entries by column, which need not sum to 1; measure : the name of the divergence
    """
    columns = {column: number for number, column in enumerate(sorted(set(item).union(*rows)))}
    ordered = [sorted(weights.items()) for weights in (*rows, item)]
    lengths = [len(entries) for entries in ordered]
    stacked = SparseRows(
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        indices=np.array([columns[c] for entries in ordered for c, _ in entries], np.int32),
        data=np.array([weight for entries in ordered for _, weight in entries], np.float32),
        n_columns=max(len(columns), 1),
    )
    # Row q of ``lists`` belongs to query q. All list the item, the last row: so it is a candidate
    # of every row, also where they have nothing in common.
    lists = np.full((len(lengths), 1), len(rows), np.int32)
    return Divergence.of(stacked, measure).to_candidates(len(rows), lists, ALONE).values


def _members(state: State, stages: QueryStages) -> list[Member]:
    """The local cluster of a query, the largest weight after smoothing first."""
    rows = stages.similarity.rows
    smoothed = weights_of(stages.smoothed.rows)
    confident = set(stages.confident.ids.tolist())
    guide = stages.guide if len(stages.guide) else np.zeros(rows.nnz)
    members = [
        Member(*_identity(state, row), row in confident, weight, guided, smoothed.get(row, 0.0))
        for (row, weight), guided in zip(weights_of(rows).items(), guide.tolist(), strict=True)
    ]
    return sorted(members, key=lambda member: -member.smoothed)


def _shared(state: State, query: dict[int, float], item: dict[int, float]) -> list[Shared]:
    """The columns that two rows of F' share, the largest gain first; query, item : by column.

    The gain of a column is by how much the divergence grows when the query's row loses it.
    """
    common = [row for row, weight in query.items() if weight > 0 and item.get(row, 0) > 0]
    rows_without = [
        {column: weight for column, weight in query.items() if column != row} for row in common
    ]
    measure = state.method.divergence
    with_all, *without_one = row_divergences([query, *rows_without], item, measure).tolist()
    shared = [
        Shared(*_identity(state, row), query[row], item[row], divergence - with_all)
        for row, divergence in zip(common, without_one, strict=True)
    ]
    return sorted(shared, key=lambda row: -row.gain)


def _identity(state: State, row: int) -> tuple[Any, Role]:
    """The id of a row, None for the query and for the context, and its role."""
    if row == len(state):
        return None, "query"
    index = int(state.order[row])
    if index >= state.n_gallery:
        return None, "context"
    return state.ids[index].item(), "gallery"


def _named(row: Member | Shared) -> str:
    """What a row is called in text: its id, or its role where it has none."""
    return f"the {row.role}" if row.id is None else repr(row.id)
