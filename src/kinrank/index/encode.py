"""The rows that queries would have in every stage, if they were in the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.index.state import State
from kinrank.kernels.online import Block, Space
from kinrank.kernels.online_encode import encode_rows
from kinrank.types import Floats, Ints, Longs, SparseRows


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows of queries, stage by stage; column n is the query itself.

    xi : neighbour sets; f : F on the clusters; guide, anchor : T and r of the smoothing
    hat : smoothed; one row for each query so far
    groups : from here on a query has rows groups[q] to groups[q + 1]: first its own, then those
        of its partners, the rows that would average it, and of others that P leads it to;
        names : whose they are
    tilde, p, prime : enhanced, P, F'
    """

    xi: SparseRows
    f: SparseRows
    guide: Floats
    anchor: Floats
    hat: SparseRows
    groups: Longs
    names: Ints
    tilde: SparseRows
    p: SparseRows
    prime: SparseRows


def encode(state: State, block: Block, space: Space) -> Encoded:
    """All stages for a few queries."""
    none = (len(block.counts), 0)
    nothing = (np.empty(none, np.int32), np.empty(none, np.float32), np.empty(0, np.bool_))
    near = (block.x, block.ids, block.d, block.counts, block.told)
    xi, f, guide, anchor, hat, groups, names, *rest, _ = encode_rows(
        *near, state.stored, state.walk, state.options, state.compared, space, *nothing
    )
    width = len(state) + 1
    members = SparseRows(xi[0], xi[1], None, width)
    f, hat, tilde, p, prime = (
        SparseRows(ptr, ids, data, width) for ptr, ids, data in (f, hat, *rest)
    )
    return Encoded(members, f, guide, anchor, hat, groups, names, tilde, p, prime)
