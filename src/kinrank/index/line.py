"""Callers of one index: as many at a time as there are cores, the others wait in a line.

A thread that holds the interpreter must not wait for a core. Who leaves hands the seat to the first
in line, with all that ask alike: they are answered together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from kinrank.types import Floats, Ranking

Rank: TypeAlias = Callable[[Floats], Ranking]

_TOGETHER = 64  # queries


class Caller:
    """Somebody with a query, (1, d), or with several.

    alike : callers for whom this is the same can be answered together; None for alone
    batch : whom this caller has to answer, itself first; empty while it waits, or if another does
    """

    __slots__ = ("alike", "batch", "queries", "result", "turn")

    def __init__(self, queries: Floats, alike: int | None) -> None:
        self.queries = queries
        self.alike = alike
        self.batch: list[Caller] = []
        self.result: Ranking | BaseException | None = None
        self.turn = threading.Lock()  # held while it waits for a seat, or for an answer

    def answer_all(self, rank: Rank) -> None:
        """Give everybody of the batch an answer, or the error that there is instead."""
        try:
            ranking = rank(np.concatenate([caller.queries for caller in self.batch]))
        except BaseException as error:  # noqa: BLE001  every caller raises it
            for caller in self.batch:
                caller.result = error
        else:
            for at, caller in enumerate(self.batch):
                row = slice(at, at + 1)
                caller.result = Ranking(ranking.indices[row], ranking.distances[row])
        finally:
            for caller in self.batch[1:]:
                caller.turn.release()


class Line:
    """Seats, and those who wait for one."""

    def __init__(self, seats: int) -> None:
        self.free = seats
        self.waiting: list[Caller] = []
        self._lock = threading.Lock()

    def answer(self, caller: Caller, rank: Rank) -> Ranking:
        """What ``rank`` says of the caller's queries, which may be called with those of others."""
        try:
            self._enter(caller)
            if len(caller.batch) == 1:
                return rank(caller.queries)
            if caller.batch:
                caller.answer_all(rank)
        finally:
            self._leave(caller)
        if isinstance(caller.result, BaseException):
            raise caller.result
        assert caller.result is not None
        return caller.result

    def _enter(self, caller: Caller) -> None:
        """Wait for a seat, or for the answer."""
        with self._lock:
            if self.free > 0:
                self.free -= 1
                caller.batch = [caller]
                return
            caller.turn.acquire()
            self.waiting.append(caller)
        caller.turn.acquire()

    def _leave(self, caller: Caller) -> None:
        """Hand the seat on, if there was one; after an interrupt nobody must wait for it."""
        with self._lock:
            if caller in self.waiting:
                self.waiting.remove(caller)
            if not caller.batch:
                return
            self.waiting[:0] = [other for other in caller.batch[1:] if other.result is None]
            if not self.waiting:
                self.free += 1
                return
            first = self.waiting[0]
            alike = [other for other in self.waiting if other.alike == first.alike]
            first.batch = [first] if first.alike is None else alike[:_TOGETHER]
            self.waiting = [other for other in self.waiting if other not in first.batch]
        first.turn.release()
