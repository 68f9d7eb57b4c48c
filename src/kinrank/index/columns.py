"""F' as answers take it: by columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.graph.matrix import transposed
from kinrank.index.lists import Change, Mask
from kinrank.index.parts import origin_of, take
from kinrank.kernels.change import column_lengths, exchange_rows
from kinrank.kernels.divergence import entropies, row_norms
from kinrank.parallel import Out, Runner
from kinrank.types import Floats, Ints, Longs, SparseRows


@dataclass(frozen=True, eq=False)
class Columns:
    """F' by columns, x log2 x of its entries, and the norms of its rows."""

    columns: SparseRows
    entropies: Floats
    norms: npt.NDArray[np.float64]

    @classmethod
    def of(cls, prime: SparseRows, run: Runner) -> Columns:
        """All of them, from F' by rows."""
        columns = transposed(prime, run)
        return cls(columns, entropies(columns.values), row_norms(prime.indptr, prime.values))

    def lost(self, change: Change) -> Mask:
        """Which of the rows after a change had an entry in a column that goes."""
        gone = np.flatnonzero(~change.kept).astype(np.int32)
        rows = change.moved[take(self.columns, gone).indices]
        out = np.zeros(len(change.names), np.bool_)
        out[rows[rows >= 0]] = True
        return out

    def exchanged(self, change: Change, where: Ints, part: SparseRows, run: Runner) -> Columns:
        """After a change that gives the rows at ``where`` other entries, those of ``part``.

        where : ascending; all that are ``lost`` are among them
        """
        n, which = len(change.names), np.zeros(len(change.names), np.bool_)
        which[where] = True
        new = transposed(part, run)
        new = SparseRows(new.indptr, where[new.indices], new.data, n)
        places = (change.moved, origin_of(change), which)
        old, own = self.columns.csr, new.csr
        ptr: Longs = column_lengths(*old[:2], *places, new.indptr)
        outs = (Out(np.int32, indptr=ptr), *(Out(np.float32, indptr=ptr) for _ in range(2)))
        args = (*old, self.entropies, *places, *own, entropies(new.values), ptr)
        ids, data, other = run.fill("propagation", exchange_rows, args, n, *outs)
        norms = np.zeros(n)
        norms[: change.n_kept] = self.norms[change.kept]
        norms[where] = row_norms(part.indptr, part.values)
        return Columns(SparseRows(ptr, ids, data, n), other, norms)
