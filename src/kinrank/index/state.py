"""What an index knows of its rows: every stage of the method, computed once.

Rows are kept in an order in which neighbours are near each other. ``names`` are the numbers they
have for users: gallery rows first, in the order in which they were given, then the context.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import KinrankWarning
from kinrank.index.frame import Frame
from kinrank.index.ids import Ids, IdTable
from kinrank.index.settings import options_of, walk_of
from kinrank.kernels.online import Lists
from kinrank.kernels.online_diffuse import Graph, Walk
from kinrank.kernels.online_encode import Compared, Options, Stored
from kinrank.methods.cas import CAS
from kinrank.stages.diverge import MEASURES
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows


@dataclass(frozen=True, eq=False)
class State:
    """Everything that answers need; never changed, only replaced.

    asked : the method as it was given; method : with sizes that fit the rows
    ids : (n_gallery,) of the gallery rows, by name
    names : (n,) int32; vectors : (n, d), or (0, d) when they are in a store
    xi, half, w : neighbour sets, R(i, k1 / 2), affinity graph
    f, hat, tilde, p : F (None where nothing needs it), smoothed, enhanced, P (None for "transpose")
    columns : F' by columns; entropies : x log2 x of its entries; norms : of the rows of F'
    centres, cell : (c, d) and (n,) the cells of an approximate search; both empty for an exact one
    recall : of the neighbour lists, as measured when they were found; 1 if they are exact
    """

    asked: CAS
    method: CAS
    frame: Frame
    ids: Ids
    names: Ints
    vectors: Floats
    neighbors: Neighbors
    xi: SparseRows
    half: SparseRows
    w: SparseRows
    degree: Floats
    walk_norm: Floats
    f: SparseRows | None
    hat: SparseRows
    tilde: SparseRows
    p: SparseRows | None
    columns: SparseRows
    entropies: Floats
    norms: npt.NDArray[np.float64]
    centres: Floats
    cell: Ints
    recall: float

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_gallery(self) -> int:
        """How many rows can be answers."""
        return len(self.ids)

    @cached_property
    def table(self) -> IdTable:
        """From ids to names."""
        return IdTable(self.ids)

    @cached_property
    def places(self) -> Ints:
        """(n,) the row of each name."""
        places = np.empty_like(self.names)
        places[self.names] = np.arange(len(self.names), dtype=np.int32)
        return places

    @cached_property
    def stored(self) -> Stored:
        """The rows of all stages as kernels take them."""
        known = self.neighbors
        unused = (np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        return Stored(
            lists=Lists(known.indices, known.distances, known.farthest, self.vectors),
            half=(self.half.indptr, self.half.indices),
            xi=(self.xi.indptr, self.xi.indices),
            graph=Graph(*csr(self.w), self.degree),
            walk_norm=self.walk_norm,
            f=unused if self.f is None else csr(self.f),
            hat=csr(self.hat),
            tilde=csr(self.tilde),
            p=csr(self.tilde if self.p is None else self.p),
            order=self.names,
        )

    @cached_property
    def options(self) -> Options:
        """The method as kernels take it."""
        return options_of(self.method, len(self))

    @cached_property
    def compared(self) -> Compared:
        """What answers are made from, as kernels take it."""
        method = self.method
        mixed = (np.float32(method.omega), method.fusion == "euclidean")
        known = (MEASURES[method.divergence], self.by_columns, self.norms)
        return Compared(*known, *mixed, self.names, self.n_gallery)

    @cached_property
    def walk(self) -> Walk | None:
        """The diffusion as kernels take it."""
        return walk_of(self.method)

    @cached_property
    def by_columns(self) -> tuple[Longs, Ints, Floats, Floats]:
        """F' by columns as kernels take it."""
        return (*csr(self.columns), self.entropies)

    def sizes(self) -> dict[str, int]:
        """Bytes of each part."""
        out = {}
        for field in fields(self):
            arrays = list(arrays_of(getattr(self, field.name)).values())
            if arrays:
                out[field.name] = sum(array.nbytes for array in arrays)
        return out


def arrays_of(value: Any) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a part of the state by a name for each; empty if it has none."""
    if isinstance(value, np.ndarray):
        return {"": value}
    if isinstance(value, (SparseRows, Neighbors)):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return {name: array for name, array in named.items() if isinstance(array, np.ndarray)}
    return {}


def csr(rows: SparseRows) -> tuple[Longs, Ints, Floats]:
    """The three arrays of sparse rows."""
    return rows.indptr, rows.indices, rows.values


def fitted_method(asked: CAS, n: int, k: int | None = None) -> CAS:
    """The method with sizes that fit ``n`` rows and lists of ``k``, without a word about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KinrankWarning)
        fitted = asked._fitted(n)
        return fitted if k is None or fitted._list_length() <= k else asked._fitted(k)
