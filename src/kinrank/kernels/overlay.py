"""Rows that stand in for stored ones while a query is computed.

A query is a row that is not there. It has the number n, one behind the last, and some rows would be
others if it were there. These few, the query's own among them, lie in an overlay: a stage reads
every row through it, the overlay first, the stored rows behind. Where there is no query there is no
overlay, so that one kernel serves all rows, some rows and rows that are not there.
``records.Rows`` and ``records.Lists`` are stored rows with their overlay.

Many queries are computed in one call. Each has rows of its own in the overlay, its group;
``enter`` puts them in place before the rows of the query are computed, ``leave`` takes them away.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.kernels.jit import helper, inner
from kinrank.kernels.records import Rows, Space
from kinrank.types import Floats, Ints, Longs

# A Space as Python has it: the clock, five rows of marks and two of sums (``named_space``). Three
# arrays take a microsecond less to hand to a kernel than eight, and a query does it fifteen times.
Workspace: TypeAlias = tuple[Ints, Ints, npt.NDArray[np.float64]]

NO_GROUPS = np.empty(0, np.int64)
_NO_REPLACED = np.empty(0, np.int32)
_NO_ROWS = np.zeros(1, np.int64)
_LAST_STAMP = 2_000_000_000
_KEPT = 100_000  # rows; to make a workspace for more takes little beside what is done in it
_idle: dict[int, list[Workspace]] = {}  # for one number of rows


def plain_rows(ptr: Longs, ids: Ints, values: Floats) -> Rows:
    """Sparse rows without an overlay."""
    return Rows(
        ptr=ptr,
        ids=ids,
        values=values,
        groups=NO_GROUPS,
        replaced=_NO_REPLACED,
        over_ptr=_NO_ROWS,
        over_ids=ids[:0],
        over_values=values[:0],
    )


def new_space(n: int) -> Workspace:
    """Arrays for ``n`` rows and two more."""
    marks = np.zeros((5, n + 2), np.int32)
    marks[2:4] = -1
    return np.zeros(1, np.int32), marks, np.empty((2, n + 2), np.float64)


class lent_space:  # noqa: N801
    """A workspace for ``n`` rows that nobody else uses inside ``with``.

    idle : those that are free; None for those of blocks of rows, which follow each other quickly
    """

    __slots__ = ("_idle", "_n", "_space")

    def __init__(self, n: int, idle: list[Workspace] | None = None) -> None:
        if idle is None:
            idle = _idle.get(n, [])
            if n <= _KEPT and n not in _idle:
                _idle.clear()
                _idle[n] = idle
        self._n = n
        self._idle = idle

    def __enter__(self) -> Workspace:
        try:
            self._space = self._idle.pop()  # atomic, as is append
        except IndexError:
            self._space = new_space(self._n)
        return self._space

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None and self._space[0][0] < _LAST_STAMP:  # after an error it may not be clean
            self._idle.append(self._space)


@helper
def named_space(workspace):
    """The arrays of a workspace by name, see ``records.Space``."""
    clock, marks, sums = workspace
    return Space(
        clock=clock,
        seen=marks[0],
        stepped=marks[1],
        overlaid=marks[2],
        slot=marks[3],
        touched=marks[4],
        total=sums[0],
        mass=sums[1],
    )


@inner
def tick(clock):
    """A stamp that no entry of ``seen`` and ``stepped`` has."""
    clock[0] += 1
    return clock[0]


@inner
def enter(query, groups, replaced, overlaid):
    """Put the overlay's rows of a query in place: overlaid[row] tells where a row is there."""
    for t in range(groups[query], groups[query + 1]):
        overlaid[replaced[t]] = t


@inner
def leave(query, groups, replaced, overlaid):
    """Take the overlay's rows of a query away."""
    for t in range(groups[query], groups[query + 1]):
        overlaid[replaced[t]] = -1


@inner
def enter_at(row, query, row_groups, groups, replaced, overlaid):
    """Before a row is computed: change overlays if it is the first row of the next query.

    row_groups : query t has the rows row_groups[t] to row_groups[t + 1] of those that are computed
    groups, replaced : of the overlay
    query : how many queries have begun. Returns how many have now.
    """
    if query < row_groups.shape[0] - 1 and row == row_groups[query]:
        if query > 0:
            leave(query - 1, groups, replaced, overlaid)
        enter(query, groups, replaced, overlaid)
        return query + 1
    return query


@inner
def leave_last(query, groups, replaced, overlaid):
    """After the last row: take the overlay of the last query away; query : of ``enter_at``."""
    if query > 0:
        leave(query - 1, groups, replaced, overlaid)
