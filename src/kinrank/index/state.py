"""What an index knows of its rows: every stage of the method, computed once.

Rows are kept in an order in which neighbours are near each other. ``order`` holds the
indices that they have for users: gallery rows first, as they were given, then the context.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.index.ids import Ids, IdTable
from kinrank.kernels.divergence import row_norms
from kinrank.kernels.measures import MEASURES, entropies
from kinrank.kernels.records import Answerable, Columns, DiffusionTerms, PathGraph
from kinrank.methods.cas import CASMethod
from kinrank.parallel import ALONE, Runner
from kinrank.projection.kinds import Whiten, projection_for
from kinrank.projection.projection import Projection
from kinrank.stages.diffusion import polynomial_of
from kinrank.stages.distances import Distances, ListDistances, VectorDistances
from kinrank.stages.graph import Graph
from kinrank.stages.layout import Layout
from kinrank.stages.ranking import UNREACHABLE
from kinrank.stages.sparse import normalized, transposed
from kinrank.types import Floats, Ints, Neighbors, SparseRows
from kinrank.validation import (
    common_exponent,
    origin_shift,
    refuse_too_large,
    same_width,
    stack_rows,
)

# What an index cannot do, and why.
_ONLINE = {
    "symmetric": ((True,), "a query is tied into a symmetric graph"),
    "divergence": (
        tuple(name for name, measure in MEASURES.items() if measure.answers_queries),
        "distances must lie in [0, 1]",
    ),
    "fusion": (("squared", "euclidean"), "a diffusion distance needs the whole graph"),
    "regularizer": (("identity", "graph"), "a matrix knows nothing of a new query"),
}


def check_online(method: CASMethod) -> None:
    """Refuse options that an index cannot honour."""
    for name, (allowed, reason) in _ONLINE.items():
        value = getattr(method, name)
        if not any(isinstance(value, type(choice)) and value == choice for choice in allowed):
            wanted = " or ".join(repr(choice) for choice in allowed)
            shown = repr(value) if isinstance(value, (str, bool)) else type(value).__name__
            raise InvalidInputError(
                f"`{name}` must be {wanted} for an index ({reason}), got {shown}; "
                "`rerank` takes it."
            )


def list_length(method: CASMethod, n: int) -> int:
    """How many neighbours of each row, the row itself counted, an index over n rows needs."""
    return method.resolved(n).list_length()


def resolved(method: CASMethod, n: int, k: int | None = None) -> CASMethod:
    """The method resolved against ``n`` rows and lists of ``k``, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KinrankWarning)
        by_rows = method.resolved(n)
        return by_rows if k is None or by_rows.list_length() <= k else method.resolved(k)


def diffusion_terms(method: CASMethod, graph: Graph) -> DiffusionTerms:
    """The diffusion over a graph as kernels take it."""
    polynomial = polynomial_of(method.stage_parameters)
    return DiffusionTerms(
        powers=polynomial.powers,
        binomial=polynomial.binomial,
        series=polynomial.series,
        decay=polynomial.decay,
        floor=graph.floor(polynomial.tol),
    )


@dataclass(frozen=True, eq=False)
class Scaling:
    """How vectors are brought into the form that is searched, the same for rows and queries.

    Each row over its norm, or all over a power of two and moved; see ``as_vectors``. With a
    projection each over its norm, and projected.

    width : columns of the vectors that come in
    """

    width: int
    cosine: bool
    exponent: int = 0
    shift: Floats | None = None
    projection: Projection | None = None

    @classmethod
    def fit(
        cls,
        *named: tuple[str, Any],
        cosine: bool,
        whiten: Whiten = None,
        run: Runner = ALONE,
    ) -> tuple[Floats, Scaling]:
        """Named row sets as one scaled float32 array, and the scaling that suits them."""
        matrices = same_width(*named)
        onto = projection_for(whiten, matrices, run.threads)
        cosine = cosine or onto is not None
        exponent = 0 if cosine else common_exponent(matrices)
        rows = stack_rows(matrices, cosine, exponent, onto=onto)
        shift = None if cosine else origin_shift(rows)
        if shift is not None:
            rows -= shift
        return rows, cls(matrices[0][1].shape[1], cosine, exponent, shift, onto)

    @property
    def dims(self) -> int:
        """Columns of the rows that are searched."""
        return self.width if self.projection is None else self.projection.dims

    @property
    def of_stored(self) -> Scaling:
        """Of rows in a store, which were projected before they came there."""
        return replace(self, width=self.dims, projection=None)

    def apply(self, name: str, values: Any) -> Floats:
        """Further rows scaled in the same way, (n, width) float32, a copy."""
        matrices = same_width((name, values))
        if matrices[0][1].shape[1] != self.width:
            raise InvalidInputError(
                f"`{name}` must have as many columns as the index ({self.width}), "
                f"got {matrices[0][1].shape[1]}."
            )
        cosine = self.cosine or self.projection is not None
        if not cosine:
            refuse_too_large(matrices, self.exponent)
        rows = stack_rows(matrices, cosine, self.exponent, onto=self.projection)
        if self.shift is not None:
            rows -= self.shift
        return rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Source:
    """What the stages of an index are computed from.

    asked, method : as given, and resolved against the rows
    ids : (n_gallery,) of the gallery rows, by index
    order : (n,) int32, the index of each row
    vectors : (n, d), or (0, d) when they are in a store
    centres, cell : (c, d) and (n,) the cells of an approximate search; both empty for an exact one
    recall : of the neighbour lists, as measured when they were found; 1 if they are exact
    """

    asked: CASMethod
    method: CASMethod
    scaling: Scaling
    ids: Ids
    order: Ints
    vectors: Floats
    neighbors: Neighbors
    centres: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))
    cell: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    recall: float = 1.0

    def __len__(self) -> int:
        return len(self.order)

    @property
    def n_gallery(self) -> int:
        """How many rows can be answers."""
        return len(self.ids)

    def check_vectors(self, what: str) -> None:
        """Refuse, in words, what an index over a store cannot do."""
        if len(self.vectors) == 0:
            raise InvalidInputError(
                f"This index was built over a store and keeps no vectors, so {what}."
            )

    @cached_property
    def table(self) -> IdTable:
        """From ids to indices."""
        return IdTable(self.ids)

    @cached_property
    def position(self) -> Ints:
        """(n,) the row of each index."""
        return Layout.of(self.order).position

    @property
    def layout(self) -> Layout:
        """Order and position together, as the stages take them."""
        return Layout(self.order, self.position)

    @property
    def distances(self) -> Distances:
        """Between the rows, from their vectors or from the lists alone."""
        if len(self.vectors) == 0:
            return ListDistances(self.neighbors)
        return VectorDistances.of(self.neighbors, self.neighbors, self.vectors)


class EncodingColumns(NamedTuple):
    """F' as answers take it: by columns, x log2 x of its entries, and the norms of its rows."""

    columns: SparseRows
    entropies: Floats
    norms: npt.NDArray[np.float64]

    @classmethod
    def of(cls, encoding: SparseRows, run: Runner) -> EncodingColumns:
        """From F' by rows."""
        columns = transposed(encoding, run)
        norms = row_norms(encoding.indptr, encoding.values)
        return cls(columns, entropies(columns.values), norms)


@dataclass(frozen=True, eq=False, kw_only=True)
class State(Source):
    """Everything that answers need; never changed, only replaced.

    xi, half, w : confident neighbours, R(i, k1 / 2), affinity graph
    f, smoothed, enhanced : F (None where nothing needs it), and what became of it
    transition : P (None for "transpose")
    columns, entropies, norms : of ``EncodingColumns``
    paths : d' on the pairs of which one is among the geodesic_k nearest of the other; None without
        ``geodesic``
    """

    xi: SparseRows
    half: SparseRows
    w: SparseRows
    degree: Floats
    walk_norm: Floats
    f: SparseRows | None
    smoothed: SparseRows
    enhanced: SparseRows
    transition: SparseRows | None
    columns: SparseRows
    entropies: Floats
    norms: npt.NDArray[np.float64]
    paths: SparseRows | None = None

    @property
    def encoding(self) -> EncodingColumns:
        """F' by columns, with what goes with it."""
        return EncodingColumns(self.columns, self.entropies, self.norms)

    @cached_property
    def s(self) -> SparseRows:
        """The normalised graph."""
        return normalized(self.w, ALONE)

    @cached_property
    def diffusion(self) -> DiffusionTerms:
        """The diffusion as kernels take it."""
        return diffusion_terms(self.method, Graph(self.s, self.w))

    @cached_property
    def answerable(self) -> Answerable:
        """The rows that answers are made from, as kernels take them."""
        code = MEASURES[self.method.divergence].code
        assert code is not None
        return Answerable(
            measure=code,
            columns=Columns(*self.columns.csr, self.entropies),
            norms=self.norms,
            omega=np.float32(self.method.omega),
            root=self.method.fusion == "euclidean",
            order=self.order,
            n_gallery=self.n_gallery,
            vectors=self.vectors,
        )

    @cached_property
    def path_graph(self) -> PathGraph:
        """What paths lead through, as kernels take it."""
        assert self.paths is not None
        return PathGraph(
            ptr=self.paths.indptr,
            ids=self.paths.indices,
            weights=self.paths.values,
            limit=UNREACHABLE,
            omega=self.answerable.omega,
            root=self.answerable.root,
            order=self.order,
            n_gallery=self.n_gallery,
            vectors=self.vectors,
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All arrays by name, those of sparse rows and lists as ``field.name``."""
        parts: dict[str, Any] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, (SparseRows, Neighbors)):
                parts |= {f"{part.name}.{name}": array for name, array in vars(value).items()}
            else:
                parts[part.name] = value
        if self.scaling.projection is not None:
            parts["projection.mean"] = self.scaling.projection.mean
            parts["projection.matrix"] = self.scaling.projection.matrix
        return {name: array for name, array in parts.items() if isinstance(array, np.ndarray)}

    def sizes(self) -> dict[str, int]:
        """Bytes of each part."""
        out: dict[str, int] = {}
        for name, array in self.arrays().items():
            part = name.partition(".")[0]
            out[part] = out.get(part, 0) + array.nbytes
        return out
