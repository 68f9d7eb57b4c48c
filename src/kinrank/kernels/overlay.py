"""Overlays: rows that stand in for stored ones while a query is computed; and scratch arrays.

A query is a row that is not stored. It has the number n, one behind the last of n stored rows, and
some stored rows would differ if it were there (have it in their lists, say). These few rows, the
query's own among them, are computed anew and lie in an overlay. A stage looks every row up in the
overlay first, and takes the stored row where there is none. For stored rows the overlay is empty,
so that one kernel serves all rows, some rows and queries. ``records.Rows`` (a sparse matrix) and
``records.Lists`` (lists of neighbours) are stored rows with their overlay: overlay row t stands in
for the stored row replaced[t].

Many queries are computed in one call. Query t has the overlay rows groups[t] to groups[t + 1];
``apply_overlay`` enters them in ``overlay_row``, an array with an entry for each stored row, before
the rows of the query are computed, ``remove_overlay`` takes them out again.

Functions under ``helper`` and ``inner`` are called by kernels (``kernels/jit.py``).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.kernels.jit import helper, inner
from kinrank.kernels.records import Rows, Space
from kinrank.types import Floats, Ints, Longs

# A ``records.Space`` as Python has it: the last stamp, (1,) int32; five arrays of marks and row
# numbers, (5, n + 2) int32; two of sums, (2, n + 2) float64. ``named_space`` gives them names.
# Three arrays take a microsecond less to hand to a kernel than eight, and a query does it fifteen
# times.
Workspace: TypeAlias = tuple[Ints, Ints, npt.NDArray[np.float64]]

NO_GROUPS = np.empty(0, np.int64)
_NO_REPLACED = np.empty(0, np.int32)
_NO_ROWS = np.zeros(1, np.int64)
_LAST_STAMP = 2_000_000_000
# Workspaces of more rows are not kept: to make one takes little beside what is done in it.
_MOST_ROWS_KEPT = 100_000
_idle: dict[int, list[Workspace]] = {}  # by number of rows; of one number at a time


def plain_rows(ptr: Longs, ids: Ints, values: Floats) -> Rows:
    """``Rows`` without an overlay.

    ptr, ids, values : the matrix, row i with the columns ids[ptr[i]:ptr[i + 1]]
    """
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


def new_workspace(n: int) -> Workspace:
    """A workspace for ``n`` stored rows: two entries more, of which entry n is the query's."""
    marks = np.zeros((5, n + 2), np.int32)
    marks[2:4] = -1
    return np.zeros(1, np.int32), marks, np.empty((2, n + 2), np.float64)


class free_workspace:  # noqa: N801
    """A workspace for ``n`` stored rows that nobody else uses inside ``with``.

    idle : workspaces of a caller that are free, to take one from and to give it back to; None for
        those that blocks of rows share, which follow each other quickly
    """

    __slots__ = ("_idle", "_n", "_workspace")

    def __init__(self, n: int, idle: list[Workspace] | None = None) -> None:
        if idle is None:
            idle = _idle.get(n, [])
            if n <= _MOST_ROWS_KEPT and n not in _idle:
                _idle.clear()
                _idle[n] = idle
        self._n = n
        self._idle = idle

    def __enter__(self) -> Workspace:
        try:
            self._workspace = self._idle.pop()  # atomic, as is append
        except IndexError:
            self._workspace = new_workspace(self._n)
        return self._workspace

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if (
            kind is None and self._workspace[0][0] < _LAST_STAMP
        ):  # after an error it may not be clean
            self._idle.append(self._workspace)


@helper
def named_space(workspace):
    """The arrays of a workspace by name: a ``records.Space``; workspace : of ``new_workspace``."""
    last_stamp, marks, sums = workspace
    return Space(
        last_stamp=last_stamp,
        seen=marks[0],
        stepped=marks[1],
        overlay_row=marks[2],
        slot=marks[3],
        touched=marks[4],
        total=sums[0],
        scratch=sums[1],
    )


@inner
def new_stamp(last_stamp):
    """A number that no entry of ``seen`` and ``stepped`` has: it marks nothing yet."""
    last_stamp[0] += 1
    return last_stamp[0]


@inner
def apply_overlay(query, groups, replaced, overlay_row):
    """Enter the overlay rows of a query: overlay_row[row] becomes the one that stands in for a row.

    query : its number among the queries; groups, replaced : of the overlay, see above
    overlay_row : (n + 2,) int32, -1 where no overlay row stands in
    """
    for t in range(groups[query], groups[query + 1]):
        overlay_row[replaced[t]] = t


@inner
def remove_overlay(query, groups, replaced, overlay_row):
    """Take the overlay rows of a query out of ``overlay_row``; arguments as ``apply_overlay``."""
    for t in range(groups[query], groups[query + 1]):
        overlay_row[replaced[t]] = -1


@inner
def switch_overlay(row, n_begun, row_groups, groups, replaced, overlay_row):
    """Change overlays where the next query begins; called before each row of a loop over rows.

    row : the row of the loop
    n_begun : how many queries have begun; the overlay of the last of them is applied
    row_groups : (m + 1,) query t has the rows row_groups[t] to row_groups[t + 1] of the loop; empty
        without queries, and nothing happens then
    groups, replaced, overlay_row : as in ``apply_overlay``
    Returns how many queries have begun now.
    """
    if n_begun < row_groups.shape[0] - 1 and row == row_groups[n_begun]:
        if n_begun > 0:
            remove_overlay(n_begun - 1, groups, replaced, overlay_row)
        apply_overlay(n_begun, groups, replaced, overlay_row)
        return n_begun + 1
    return n_begun


@inner
def remove_last_overlay(n_begun, groups, replaced, overlay_row):
    """Take the last query's overlay out of ``overlay_row``, after a loop with ``switch_overlay``.

    n_begun : what ``switch_overlay`` returned last; 0 without queries, and nothing happens then
    groups, replaced, overlay_row : as in ``apply_overlay``
    """
    if n_begun > 0:
        remove_overlay(n_begun - 1, groups, replaced, overlay_row)
