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
from kinrank.graph.build import Graph
from kinrank.graph.matrix import normalized
from kinrank.index.frame import Frame
from kinrank.index.ids import Ids, IdTable
from kinrank.kernels.diffuse import Walk
from kinrank.kernels.ranking import Compared
from kinrank.methods.cas import CAS
from kinrank.parallel import ALONE
from kinrank.stages.diverge import MEASURES
from kinrank.stages.pipeline import polynomial_of
from kinrank.types import Floats, Ints, Neighbors, SparseRows


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
    def s(self) -> SparseRows:
        """The normalised graph."""
        return normalized(self.w, ALONE)

    @cached_property
    def walk(self) -> Walk:
        """The diffusion as kernels take it."""
        polynomial = polynomial_of(self.method)
        coefficients = (polynomial.powers, polynomial.binomial, polynomial.series)
        floor = Graph(self.s, self.w).floor(polynomial.tol)
        return Walk(*coefficients, polynomial.decay, floor)

    @cached_property
    def compared(self) -> Compared:
        """What answers are made from, as kernels take it."""
        method = self.method
        columns = (*self.columns.csr, self.entropies)
        known = (MEASURES[method.divergence], columns, self.norms)
        mixed = (np.float32(method.omega), method.fusion == "euclidean")
        return Compared(*known, *mixed, self.names, self.n_gallery, self.vectors)

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


def fitted_method(asked: CAS, n: int, k: int | None = None) -> CAS:
    """The method with sizes that fit ``n`` rows and lists of ``k``, without a word about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KinrankWarning)
        fitted = asked.resolved(n)
        return fitted if k is None or fitted.list_length() <= k else asked.resolved(k)
