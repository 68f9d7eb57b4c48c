"""Why a row is where it is: the query's cluster, what smoothing did, what each stage said."""

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

    id : None for the query itself and for rows of the context; role : "query", "gallery", "context"
    confident : whether it is in the neighbour set xi
    similarity, smoothed : its weight in the query's row before and after smoothing
    guide : what the neighbours say of it (T); more than ``Explanation.anchor`` counts as that
    """

    id: int | str | None
    role: Role
    confident: bool
    similarity: float
    guide: float
    smoothed: float


@dataclass(frozen=True)
class Shared:
    """A row that both the query and the item are similar to, and how much that brings them near.

    gain : how much smaller the modified distance is because of it
    """

    id: int | str | None
    role: Role
    query_weight: float
    item_weight: float
    gain: float


@dataclass(frozen=True)
class Explanation:
    """How the distance between a query and an item came about.

    distance : (1 - omega) modified + omega plain, with ``geodesic`` x / (1 + x) of that
    plain : the original distance, in [0, 1]
    modified : the divergence of the two rows of F', or the length of the shortest path
    stages : that divergence as it would be after each stage, and after the last
    path : with ``geodesic`` the ids of the rows that the path leads over, None for one of the
        context, and of the item; empty without it, and where there is no path
    members : the query's local cluster, heaviest first; shared : what both have in common
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
        kind = "path" if self.path else "modified"
        modified = f"{1 - self.omega:g} x {self.modified:.4f} ({kind})"
        plain = f"{self.omega:g} x {self.plain:.4f} (plain)"
        verb = "is" if self.in_cluster else "is not"
        stages = ", ".join(f"{name} {value:.4f}" for name, value in self.stages.items())
        lines = [
            f"{self.id!r}: {self.distance:.4f} = {self._mixed(modified, plain)}",
            f"It {verb} in the query's cluster of {len(self.members)}.",
            f"Modified distance after {stages}",
            *([f"Path: {' -> '.join(map(repr, self.path))}"] if self.path else []),
            "Cluster (weight before -> after smoothing; * confident neighbour):",
        ]
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
        return f"x / (1 + x), x = {modified} + {plain}" if self.path else f"{modified} + {plain}"


def explain(engine: Engine, query: Floats, name: int, top: int = 10) -> Explanation:
    """query : (1, d), scaled; name : of the item."""
    state = engine.state
    row = int(state.position[name])
    squared = engine.squared_distance(query, row)
    near = engine.nearest(query, state.neighbors.k - 1, Runner(1))
    with engine.workspace() as space:
        stages = engine.encode(query, near, space)
        whole = stages.encoding
        edges = None if state.paths is None else engine.first_edges(near, whole, space)[0]
        encoding = _item(whole, row)
        if encoding is None:
            encoding = encoding_rows(engine, np.array([row], np.int32), space)
    divergences = _divergences(state, stages, encoding, row)
    modified, far = divergences["propagation"], float(stages.farthest[0])
    path: list[int] = []
    if edges is not None:
        modified, path = _path(state, near.indices[0, : near.counts[0]], edges, row)
    return Explanation(
        id=state.ids[name].item(),
        distance=float(fused(state, np.array([modified], np.float32), squared, far)[0]),
        plain=float(plain(state, squared, far)[0]),
        modified=modified,
        omega=state.method.omega,
        anchor=float(stages.anchor[0]) if len(stages.anchor) else 0.0,
        in_cluster=bool((stages.similarity.ids == row).any()),
        stages=divergences,
        members=_members(state, stages),
        shared=_shared(state, weights_of(_own(whole)), weights_of(encoding))[:top],
        path=[_identity(state, row)[0] for row in path],
        chosen={},
    )


def _path(state: State, near: Ints, edges: Floats, row: int) -> tuple[float, list[int]]:
    """The length of the shortest path to a row, and the rows on it; 50 and none if there is none.

    A row on it is as far from the item as the next one, and the edge to it: so it is found again.
    """
    lengths, graph = path_lengths(state, row), state.paths
    assert graph is not None
    begins = near[: len(edges)]
    totals = edges[: len(begins)] + lengths[begins]
    if len(begins) == 0 or totals.min() >= UNREACHABLE:
        return float(UNREACHABLE), []
    first = int(begins[totals.argmin()])
    before, line = {first: -1}, [first]
    for at in line:  # which grows; rows that are alike are at distance 0, in any order
        part = slice(graph.indptr[at], graph.indptr[at + 1])
        others, steps = graph.indices[part], graph.values[part]
        for other in others[lengths[others] + steps == lengths[at]].tolist():
            if other not in before and row not in before:
                before[other] = at
                line.append(other)
    path, at = list[int](), row
    while at >= 0:
        path.append(at)
        at = before[at]
    return float(totals.min()), path[::-1]


def _divergences(
    state: State, stages: QueryStages, encoding: SparseRows, row: int
) -> dict[str, float]:
    rows = np.array([row], np.int32)
    pairs = {"smoothing": (stages.smoothed.rows, take(state.smoothed, rows))}
    if state.similarity is not None:
        pairs = {"diffusion": (stages.similarity.rows, take(state.similarity, rows)), **pairs}
    enhanced = _item(stages.enhanced, row) or take(state.enhanced, rows)
    pairs["enhancement"] = (_own(stages.enhanced), enhanced)
    pairs["propagation"] = (_own(stages.encoding), encoding)
    measure = state.method.divergence
    return {
        name: float(_distances([weights_of(a)], weights_of(b), measure)[0])
        for name, (a, b) in pairs.items()
    }


def _own(overlay: Overlay) -> SparseRows:
    """The row of the query."""
    return take(overlay.rows, np.zeros(1, np.int32))


def _item(overlay: Overlay, row: int) -> SparseRows | None:
    """The row of an item as it is with the query among those it averages; None if it is not."""
    at = np.flatnonzero(overlay.replaced == row).astype(np.int32)
    return take(overlay.rows, at) if len(at) else None


def weights_of(row: SparseRows) -> dict[int, float]:
    """The entries of a single row by column."""
    return dict(zip(row.indices.tolist(), row.values.tolist(), strict=True))


def _distances(rows: list[dict[int, float]], item: dict[int, float], measure: str) -> Floats:
    """d' from each of some rows to the item, by the stage that compares rows, (len(rows),)."""
    columns = {column: at for at, column in enumerate(sorted(set(item).union(*rows)))}
    ordered = [sorted(weights.items()) for weights in (*rows, item)]
    lengths = [len(entries) for entries in ordered]
    stacked = SparseRows(
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        indices=np.array([columns[c] for entries in ordered for c, _ in entries], np.int32),
        data=np.array([weight for entries in ordered for _, weight in entries], np.float32),
        n_columns=max(len(columns), 1),
    )
    # The item is listed for every row, so that one with nothing in common has its distance too.
    lists = np.full((len(lengths), 1), len(rows), np.int32)
    return Divergence.of(stacked, measure).near(len(rows), lists, ALONE).values


def _members(state: State, stages: QueryStages) -> list[Member]:
    rows = stages.similarity.rows
    smoothed = weights_of(stages.smoothed.rows)
    confident = set(stages.confident.ids.tolist())
    guide = stages.guide if len(stages.guide) else np.zeros(rows.nnz)
    members = [
        Member(*_identity(state, row), row in confident, weight, say, smoothed.get(row, 0.0))
        for (row, weight), say in zip(weights_of(rows).items(), guide.tolist(), strict=True)
    ]
    return sorted(members, key=lambda member: -member.smoothed)


def _shared(state: State, a: dict[int, float], b: dict[int, float]) -> list[Shared]:
    """What both rows have; the gain of a row is what the distance grows by without it."""
    common = [row for row, weight in a.items() if weight > 0 and b.get(row, 0) > 0]
    without = [{other: w for other, w in a.items() if other != row} for row in common]
    whole, *others = _distances([a, *without], b, state.method.divergence).tolist()
    shared = [
        Shared(*_identity(state, row), a[row], b[row], distance - whole)
        for row, distance in zip(common, others, strict=True)
    ]
    return sorted(shared, key=lambda row: -row.gain)


def _identity(state: State, row: int) -> tuple[Any, Role]:
    if row == len(state):
        return None, "query"
    name = int(state.order[row])
    return (None, "context") if name >= state.n_gallery else (state.ids[name].item(), "gallery")


def _named(row: Member | Shared) -> str:
    return f"the {row.role}" if row.id is None else repr(row.id)
