"""Rows that stand in for stored ones while a query is computed.

A query is a row that is not there. It has the number n, one behind the last, and some rows would be
others if it were there. These few, the query's own among them, lie in an overlay: a stage reads
every row through it, the overlay first, the stored rows behind. Where there is no query there is no
overlay, so that one kernel serves all rows, some rows and rows that are not there.

Python hands these structures to kernels as plain tuples, and kernels give them their names: numba
takes a microsecond to recognise a named tuple, and a query makes twenty calls.

Many queries are computed in one call. Each has rows of its own in the overlay, its group;
``enter`` puts them in place before the rows of the query are computed, ``leave`` takes them away.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.kernels.jit import helper, inner
from kinrank.types import Floats, Ints, Longs


class Rows(NamedTuple):
    """Sparse rows and their overlay.

    groups : (m + 1,) the overlay's rows of query t are groups[t] to groups[t + 1]; empty for none
    names : whose places they take; n for the query itself
    """

    ptr: Longs
    ids: Ints
    values: Floats
    groups: Longs
    names: Ints
    over_ptr: Longs
    over_ids: Ints
    over_values: Floats


class Lists(NamedTuple):
    """Lists of neighbours, (n, K), ascending, the row itself first, and their overlay.

    d : squared distances; farthest : (n,) the largest of each row
    """

    ids: Ints
    d: Floats
    farthest: Floats
    groups: Longs
    names: Ints
    over_ids: Ints
    over_d: Floats
    over_farthest: Floats


class Space(NamedTuple):
    """Arrays as long as there are rows, and two more; see ``new_space``.

    One is for the query, and one of ``touched`` for what is written before it is known to count.
    clock : (1,) the last stamp; an entry of ``seen`` or ``stepped`` counts if it equals a stamp
    place : where a row is in the overlay, -1 for nowhere; slot : -1 between uses
    """

    clock: Ints
    seen: Ints
    stepped: Ints
    place: Ints
    slot: Ints
    touched: Ints
    total: npt.NDArray[np.float64]
    mass: npt.NDArray[np.float64]


Workspace: TypeAlias = tuple[Ints, Ints, npt.NDArray[np.float64]]  # a Space as Python has it

NO_GROUPS = np.empty(0, np.int64)
_LAST_STAMP = 2_000_000_000
_KEPT = 100_000  # rows; to make a workspace for more takes little beside what is done in it
_idle: dict[int, list[Workspace]] = {}  # for one number of rows
_NO_ROWS = (NO_GROUPS, np.empty(0, np.int32), np.zeros(1, np.int64))


def plain_rows(ptr: Longs, ids: Ints, values: Floats) -> tuple[Any, ...]:
    """Sparse rows without an overlay, as kernels take them."""
    return (ptr, ids, values, *_NO_ROWS, ids[:0], values[:0])


def new_space(n: int) -> Workspace:
    """Arrays for ``n`` rows and two more, in three pieces: fewer to hand over than in eight."""
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
def named_space(space):
    """The pieces of ``new_space`` by name."""
    clock, marks, sums = space
    return Space(clock, marks[0], marks[1], marks[2], marks[3], marks[4], sums[0], sums[1])


@inner
def tick(clock):
    """A stamp that no entry has."""
    clock[0] += 1
    return clock[0]


@inner
def enter(query, groups, names, place):
    """Put the overlay's rows of a query in place."""
    for t in range(groups[query], groups[query + 1]):
        place[names[t]] = t


@inner
def leave(query, groups, names, place):
    """Take the overlay's rows of a query away."""
    for t in range(groups[query], groups[query + 1]):
        place[names[t]] = -1


@inner
def begins(row, query, own_groups, groups, names, place):
    """Change overlays where the rows of the next query begin; returns which that is.

    row : the next of the rows that are computed; own_groups : which of these belong to each query
    """
    if query < own_groups.shape[0] - 1 and row == own_groups[query]:
        if query > 0:
            leave(query - 1, groups, names, place)
        enter(query, groups, names, place)
        return query + 1
    return query


@inner
def ended(query, groups, names, place):
    """Take the last overlay away."""
    if query > 0:
        leave(query - 1, groups, names, place)
