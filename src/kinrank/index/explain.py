"""Why a row is where it is: the query's cluster, what smoothing did, what each stage said."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from kinrank.index.engine import Engine
from kinrank.index.parts import take
from kinrank.index.query import Overlay, QueryRows
from kinrank.index.rows import encoding_rows, mixed
from kinrank.kernels.divergence import finish
from kinrank.parallel import Runner
from kinrank.stages.diverge import MEASURES
from kinrank.types import Floats, SparseRows

Role: TypeAlias = Literal["query", "gallery", "context"]


@dataclass(frozen=True)
class Member:
    """A row of the query's local cluster.

    id : None for the query itself and for rows of the context; role : "query", "gallery", "context"
    confident : whether it is in the neighbour set xi
    similarity, smoothed : its weight in the query's row before and after smoothing
    guide : what the neighbours say of it (T), at most ``Explanation.anchor``
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

    distance : (1 - omega) modified + omega plain; plain : the original distance, in [0, 1]
    modified : the divergence of the two rows of F'
    stages : that divergence as it would be after each stage, and after the last
    members : the query's local cluster, heaviest first; shared : what both have in common
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

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, text and lists, as JSON takes them."""
        return asdict(self)

    def __str__(self) -> str:
        share = f"{1 - self.omega:g} x {self.modified:.4f} (modified)"
        rest = f"{self.omega:g} x {self.plain:.4f} (plain)"
        part = "is" if self.in_cluster else "is not"
        stages = ", ".join(f"{name} {value:.4f}" for name, value in self.stages.items())
        lines = [
            f"{self.id!r}: {self.distance:.4f} = {share} + {rest}",
            f"It {part} in the query's cluster of {len(self.members)}.",
            f"Modified distance after {stages}",
            "Cluster (weight before -> after smoothing; * confident neighbour):",
        ]
        for member in self.members:
            mark = "*" if member.confident else " "
            weights = f"{member.similarity:.4f} -> {member.smoothed:.4f}"
            lines.append(f"  {mark} {_named(member)}: {weights}")
        lines.append("Most in common (weight of the query, of the item, and what it gains):")
        for one in self.shared:
            weights = f"{one.query_weight:.4f}, {one.item_weight:.4f}, {one.gain:.4f}"
            lines.append(f"    {_named(one)}: {weights}")
        return "\n".join(lines)


def explain(engine: Engine, query: Floats, name: int, top: int = 10) -> Explanation:
    """query : (1, d), placed; name : of the item."""
    state, run = engine.state, Runner(1)
    row = int(state.places[name])
    squared = engine.distance(query, row)
    near = engine.near(query, state.neighbors.k - 1, run)
    with engine.workspace() as space:
        stages = engine.stages(query, near, space)
        stages.encode()
        encoding = _item(stages.kept["encoding"], row)
        if encoding is None:
            encoding = encoding_rows(engine, np.array([row], np.int32), space)
    divergences = _divergences(engine, stages, encoding, row)
    modified = divergences["propagation"]
    far = float(stages.farthest[0])
    plain, whole = (
        float(mixed(engine, np.array([part], np.float32), squared, far)[0])
        for part in (0.0, modified)
    )
    omega = state.method.omega
    return Explanation(
        state.ids[name].item(),
        whole,
        plain / omega if omega else float(np.minimum(squared[0] / far, 1)),
        modified,
        omega,
        float(stages.anchor[0]) if len(stages.anchor) else 0.0,
        bool((stages.kept["f"].rows.indices == row).any()),
        divergences,
        _members(engine, stages),
        _shared(engine, _dense(stages.kept["encoding"].first()), _dense(encoding), top),
    )


def _divergences(
    engine: Engine, stages: QueryRows, encoding: SparseRows, row: int
) -> dict[str, float]:
    state, kept, rows = engine.state, stages.kept, np.array([row], np.int32)
    pairs = {"smoothing": (kept["smoothed"].rows, take(state.hat, rows))}
    if state.f is not None:
        pairs = {"diffusion": (kept["f"].rows, take(state.f, rows)), **pairs}
    enhanced = _item(kept["enhanced"], row) or take(state.tilde, rows)
    pairs["enhancement"] = (kept["enhanced"].first(), enhanced)
    pairs["propagation"] = (kept["encoding"].first(), encoding)
    measure = state.method.divergence
    return {name: _divergence(_dense(a), _dense(b), measure) for name, (a, b) in pairs.items()}


def _item(made: Overlay, row: int) -> SparseRows | None:
    """The row of an item as it is with the query among those it averages; None if it is not."""
    at = np.flatnonzero(made.names == row).astype(np.int32)
    return take(made.rows, at) if len(at) else None


def _dense(row: SparseRows) -> dict[int, float]:
    return dict(zip(row.indices.tolist(), row.values.tolist(), strict=True))


def _term(u: float, v: float, measure: str) -> float:
    """What a shared column adds to the sum that ``divergence.finish`` takes."""
    if measure == "js":
        return float(u * np.log2(u) + v * np.log2(v) - (u + v) * np.log2(u + v))
    return min(u, v) if measure == "jaccard" else u * v


def _divergence(a: dict[int, float], b: dict[int, float], measure: str) -> float:
    shared = [c for c in a if c in b and a[c] > 0 and b[c] > 0]
    total = sum(_term(a[c], b[c], measure) for c in shared)
    norms = (sum(v * v for v in a.values()), sum(v * v for v in b.values()))
    return float(finish(MEASURES[measure], total, *norms))


def _members(engine: Engine, stages: QueryRows) -> list[Member]:
    kept, rows = stages.kept, stages.kept["f"].rows
    f, hat = _dense(rows), _dense(kept["smoothed"].rows)
    confident = set(kept["xi"].rows.indices.tolist())
    weights = stages.guide if len(stages.guide) else np.zeros(rows.nnz)
    guide = dict(zip(rows.indices.tolist(), weights.tolist(), strict=True))
    out = []
    for row, weight in f.items():
        identity, role = _identity(engine, row)
        smoothed = hat.get(row, 0.0)
        out.append(Member(identity, role, row in confident, weight, guide[row], smoothed))
    return sorted(out, key=lambda member: -member.smoothed)


def _shared(engine: Engine, a: dict[int, float], b: dict[int, float], top: int) -> list[Shared]:
    measure = engine.state.method.divergence
    whole = _divergence(a, b, measure)
    out = []
    for row in (c for c in a if c in b and a[c] > 0 and b[c] > 0):
        less = _divergence({c: v for c, v in a.items() if c != row}, b, measure)
        if measure == "js":  # the sum is a sum: no need to take one out
            less = whole - _term(a[row], b[row], measure) / 2
        identity, role = _identity(engine, row)
        out.append(Shared(identity, role, a[row], b[row], less - whole))
    return sorted(out, key=lambda one: -one.gain)[:top]


def _identity(engine: Engine, row: int) -> tuple[Any, Role]:
    state = engine.state
    if row == len(state):
        return None, "query"
    name = int(state.names[row])
    return (None, "context") if name >= state.n_gallery else (state.ids[name].item(), "gallery")


def _named(one: Member | Shared) -> str:
    return f"the {one.role}" if one.id is None else repr(one.id)
