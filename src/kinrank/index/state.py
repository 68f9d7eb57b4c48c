"""What an index keeps of its rows: every stage of CAS, computed once.

A *row* is a vector of the gallery or of the context. It has two numbers:

    row      where it lies in the arrays of a ``State``: neighbours lie side by side
    index    where it is for users: gallery rows from 0 on as they were given, then the context

``State.order[row]`` is the index of a row, ``State.position[index]`` the row of an index. All
lists and matrices here hold rows.
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
from kinrank.runs.execution import Execution
from kinrank.stages.diffusion import polynomial_of
from kinrank.stages.distances import Distances, ListDistances, VectorDistances
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

_HERE = Execution(ALONE)
# The options that an index restricts: the values that it can compute online, and why no others.
_ONLINE_VALUES = {
    "symmetric": ((True,), "a query is tied into a symmetric graph"),
    "divergence": (
        tuple(name for name, measure in MEASURES.items() if measure.answers_queries),
        "distances must lie in [0, 1]",
    ),
    "fusion": (("squared", "euclidean"), "a diffusion distance needs the whole graph"),
    "regularizer": (("identity", "graph"), "a matrix knows nothing of a new query"),
}


def check_online(method: CASMethod) -> None:
    """Raise if the method has an option that needs all rows for every query."""
    for name, (allowed, reason) in _ONLINE_VALUES.items():
        value = getattr(method, name)
        if not any(isinstance(value, type(choice)) and value == choice for choice in allowed):
            wanted = " or ".join(repr(choice) for choice in allowed)
            shown = repr(value) if isinstance(value, (str, bool)) else type(value).__name__
            raise InvalidInputError(
                f"`{name}` must be {wanted} for an index ({reason}), got {shown}; "
                "`rerank` takes it."
            )


def list_length(method: CASMethod, n: int) -> int:
    """How long the neighbour lists of an index over ``n`` rows must be, the row itself counted."""
    return method.resolved(n).list_length()


def resolved(method: CASMethod, n: int, longest_list: int | None = None) -> CASMethod:
    """The method with k1, k2 and other sizes no larger than ``n`` rows allow; it warns of nothing.

    longest_list : the length of the neighbour lists, where these are shorter than the method wants
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KinrankWarning)
        for_rows = method.resolved(n)
        if longest_list is None or for_rows.list_length() <= longest_list:
            return for_rows
        return method.resolved(longest_list)


def diffusion_terms(method: CASMethod) -> DiffusionTerms:
    """How the similarity F follows from the graph's normalised affinity S, as kernels take it.

    F is a polynomial of S: its coefficients, and the weight up to which a row is left out.
    """
    return polynomial_of(method.stage_parameters).terms()


@dataclass(frozen=True, eq=False)
class Scaling:
    """How vectors of users become the vectors that are searched, for rows and queries alike.

    With ``cosine`` or a projection each vector is divided by its norm (and then projected).
    Otherwise all are divided by a power of two, so that squares fit into float32, and moved.

    width : columns of the vectors that users give
    cosine : whether vectors are divided by their norms
    exponent : all are divided by 2^exponent; 0 with ``cosine``
    shift : (width,) float32, subtracted after that; None for nothing
    projection : the linear map that follows; None for none
    """

    width: int
    cosine: bool
    exponent: int = 0
    shift: Floats | None = None
    projection: Projection | None = None

    @classmethod
    def fit(
        cls,
        *named_vectors: tuple[str, Any],
        cosine: bool,
        whiten: Whiten = None,
        execution: Execution = _HERE,
    ) -> tuple[Floats, Scaling]:
        """Scale vectors, and return them with the scaling that further vectors need.

        named_vectors : pairs of a name, for messages, and an array (n, d); they are stacked
        whiten : what projection to learn from them, or a fitted one; None for none
        execution : where it is learnt

        Returns the scaled vectors of all, (n, dims) float32, and the scaling.
        """
        matrices = same_width(*named_vectors)
        projection = projection_for(whiten, matrices, execution.runner.threads, execution.arrays)
        cosine = cosine or projection is not None
        exponent = 0 if cosine else common_exponent(matrices)
        vectors = stack_rows(matrices, cosine, exponent, onto=projection)
        shift = None if cosine else origin_shift(vectors)
        if shift is not None:
            vectors -= shift
        return vectors, cls(matrices[0][1].shape[1], cosine, exponent, shift, projection)

    @property
    def dims(self) -> int:
        """Columns of the vectors that are searched."""
        return self.width if self.projection is None else self.projection.dims

    @property
    def after_projection(self) -> Scaling:
        """The scaling of vectors in a store, which were projected before they came there."""
        return replace(self, width=self.dims, projection=None)

    def apply(self, name: str, vectors: Any) -> Floats:
        """Scale further vectors in the same way.

        name : of the parameter, for messages
        vectors : (n, width), of any real dtype

        Returns a copy, (n, dims) float32.
        """
        matrices = same_width((name, vectors))
        if matrices[0][1].shape[1] != self.width:
            raise InvalidInputError(
                f"`{name}` must have as many columns as the index ({self.width}), "
                f"got {matrices[0][1].shape[1]}."
            )
        cosine = self.cosine or self.projection is not None
        if not cosine:
            refuse_too_large(matrices, self.exponent)
        scaled = stack_rows(matrices, cosine, self.exponent, onto=self.projection)
        if self.shift is not None:
            scaled -= self.shift
        return scaled


@dataclass(frozen=True, eq=False, kw_only=True)
class Source:
    """What the stages of an index are computed from: parameters, vectors and neighbour lists.

    unresolved : the method as the user gave it
    method : the same with sizes that are resolved against the number of rows
    scaling : how vectors of users become ``vectors``
    ids : (n_gallery,) int64 or text, the users' names of the gallery rows, by index
    order : (n,) int32, the index of each row
    vectors : (n, d) float32 by row, scaled; (0, d) where a store keeps them
    neighbors : the K nearest of each row, (n, K), the row itself first; squared distances
    centres : (c, d) the centres of the cells of an approximate search; (0, 0) for an exact one
    cell : (n,) int32, the cell of each row; (0,) for an exact search
    recall : the share of true neighbours that the lists hold, as measured; 1 for an exact search
    """

    unresolved: CASMethod
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
        """How many rows can be results: those of the gallery, not those of the context."""
        return len(self.ids)

    def check_vectors(self, consequence: str) -> None:
        """Raise if a store keeps the vectors; consequence : what is not possible, in words."""
        if len(self.vectors) == 0:
            raise InvalidInputError(
                f"This index was built over a store and keeps no vectors, so {consequence}."
            )

    @cached_property
    def id_table(self) -> IdTable:
        """Finds the index of an id."""
        return IdTable(self.ids)

    @cached_property
    def position(self) -> Ints:
        """(n,) int32, the row of each index: the inverse of ``order``."""
        return Layout.of(self.order).position

    @property
    def layout(self) -> Layout:
        """``order`` and ``position`` together, as the stages take them."""
        return Layout(self.order, self.position)

    @property
    def distances(self) -> Distances:
        """The plain distances d between rows: from vectors, or as far as the lists tell them."""
        if len(self.vectors) == 0:
            return ListDistances(self.neighbors)
        return VectorDistances.of(self.neighbors, self.neighbors, self.vectors)


class EncodingColumns(NamedTuple):
    """The encodings F' of all rows, stored by columns, and what the divergence d' needs of them.

    A query finds all rows that share a column with it in that column.

    columns : F' transposed: line j lists the rows with an entry in column j, and these entries
    entropies : x log2 x of each entry x
    norms : (n,) float64, the squared Euclidean norm of each row of F'
    """

    columns: SparseRows
    entropies: Floats
    norms: npt.NDArray[np.float64]

    @classmethod
    def of(cls, encoding: SparseRows, run: Runner) -> EncodingColumns:
        """The same of F' by rows."""
        columns = transposed(encoding, run)
        norms = row_norms(encoding.indptr, encoding.values)
        return cls(columns, entropies(columns.values), norms)


@dataclass(frozen=True, eq=False, kw_only=True)
class State(Source):
    """A source and what the stages made of it: all that queries need.

    It is never changed, only replaced. Matrices are (n, n) and sparse.

    confident : xi, the confident neighbours of each row (a pattern without values)
    half : R(i, k1 / 2), the reciprocal neighbours by which clusters are expanded; empty where
        clusters are not
    affinity : W, the affinity graph
    degree : (n,) float32, the sums of the rows of W
    walk_norm : (n,) float32, the sums of the affinities to the rows of the smoothing walk
    similarity : F on the clusters; None where neither a change nor a query reads it again
    smoothed : F after smoothing; enhanced : that after enhancement
    transition : P; None with propagation "transpose", which makes F' without it
    columns, entropies, norms : the encodings F', as ``EncodingColumns`` says
    paths : the graph of shortest paths: d' on pairs of which one is among the geodesic_k nearest of
        the other, the edges of a row ascending; None without ``geodesic``
    """

    confident: SparseRows
    half: SparseRows
    affinity: SparseRows
    degree: Floats
    walk_norm: Floats
    similarity: SparseRows | None
    smoothed: SparseRows
    enhanced: SparseRows
    transition: SparseRows | None
    columns: SparseRows
    entropies: Floats
    norms: npt.NDArray[np.float64]
    paths: SparseRows | None = None

    @property
    def encoding(self) -> EncodingColumns:
        """The encodings F' by columns, with their entropies and norms."""
        return EncodingColumns(self.columns, self.entropies, self.norms)

    @cached_property
    def normalized(self) -> SparseRows:
        """S = D^-1/2 W D^-1/2, the affinity normalised by the degrees D."""
        return normalized(self.affinity, ALONE)

    @cached_property
    def diffusion(self) -> DiffusionTerms:
        """How F follows from S, as kernels take it."""
        return diffusion_terms(self.method)

    @cached_property
    def answerable(self) -> Answerable:
        """What a ranking reads of the rows: encodings, vectors and omega, as kernels take them.

        Not for the divergence "similarity", which has no code.
        """
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
        """What a ranking by shortest paths reads of the rows, as kernels take it."""
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
        """All arrays by the names of their fields.

        Those of lists and sparse matrices are ``field.array``, such as ``smoothed.indices``; those
        of the projection ``projection.mean`` and ``projection.matrix``.
        """
        values: dict[str, Any] = {}
        for state_field in fields(self):
            value = getattr(self, state_field.name)
            if isinstance(value, (SparseRows, Neighbors)):
                for array_name, array in vars(value).items():
                    values[f"{state_field.name}.{array_name}"] = array
            else:
                values[state_field.name] = value
        if self.scaling.projection is not None:
            values["projection.mean"] = self.scaling.projection.mean
            values["projection.matrix"] = self.scaling.projection.matrix
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def sizes(self) -> dict[str, int]:
        """How many bytes the arrays of each field take."""
        n_bytes: dict[str, int] = {}
        for name, array in self.arrays().items():
            field_name = name.partition(".")[0]
            n_bytes[field_name] = n_bytes.get(field_name, 0) + array.nbytes
        return n_bytes
