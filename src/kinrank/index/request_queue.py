"""Requests to one index: as many are computed at a time as there are cores, the others wait.

Each request belongs to the thread that made it. One that is finished wakes the first that waits,
and hands it all others that can be computed with it, a *batch*: one call of the kernels then serves
them together, on the thread of the first.
"""

from __future__ import annotations

import threading

import numpy as np

from kinrank.types import Floats, Ranking

_LARGEST_BATCH = 64  # requests


class Request:
    """One call of a search that waits for its turn.

    queries : (n_queries, d) float32, scaled
    batch_key : requests of one query each with the same key can be computed together; None for a
        request that cannot be
    batch : the requests that this one has to compute, itself first; empty while it waits, and if
        another one computes it
    ranking, error : what came of it; both None until then
    waiting : a lock that the request's thread waits for; released when it may run, or is computed
    """

    __slots__ = ("batch", "batch_key", "error", "queries", "ranking", "waiting")

    def __init__(self, queries: Floats, batch_key: int | None) -> None:
        self.queries = queries
        self.batch_key = batch_key
        self.batch: list[Request] = []
        self.ranking: Ranking | None = None
        self.error: BaseException | None = None
        self.waiting = threading.Lock()

    @property
    def is_done(self) -> bool:
        """Whether it has a ranking or an error."""
        return self.ranking is not None or self.error is not None

    def result(self) -> Ranking:
        """The ranking of a request that is done; raises the error if there is one."""
        if self.error is not None:
            raise self.error
        assert self.ranking is not None
        return self.ranking


class RequestQueue:
    """Requests that run, and those that wait.

    n_free : how many more may run at once; waiting : requests in the order in which they came
    """

    def __init__(self, n_free: int) -> None:
        self.n_free = n_free
        self.waiting: list[Request] = []
        self._lock = threading.Lock()

    def wait(self, request: Request) -> None:
        """Return when the request may run, or when another one has computed it."""
        with self._lock:
            if self.n_free > 0:
                self.n_free -= 1
                request.batch = [request]
                return
            request.waiting.acquire()
            self.waiting.append(request)
        request.waiting.acquire()

    def finish(self, request: Request) -> None:
        """Let the next request run; also after an interrupt, so that nobody waits for ever."""
        with self._lock:
            if request in self.waiting:
                self.waiting.remove(request)
            if not request.batch:
                return
            # After an interrupt the rest of a batch is not computed: it waits again, before others.
            self.waiting[:0] = [other for other in request.batch[1:] if not other.is_done]
            if not self.waiting:
                self.n_free += 1
                return
            first = self.waiting[0]
            first.batch = [first]
            if first.batch_key is not None:
                same_key = [other for other in self.waiting if other.batch_key == first.batch_key]
                first.batch = same_key[:_LARGEST_BATCH]
            self.waiting = [other for other in self.waiting if other not in first.batch]
        first.waiting.release()


def joined_queries(batch: list[Request]) -> Floats:
    """The queries of all requests of a batch, (len(batch), d): each request has one."""
    return np.concatenate([request.queries for request in batch])


def hand_out(batch: list[Request], ranking: Ranking) -> None:
    """Give each request of a batch its line of the ranking, and wake those that wait for it."""
    for number, request in enumerate(batch):
        line = slice(number, number + 1)
        request.ranking = Ranking(ranking.indices[line], ranking.distances[line])
    for request in batch[1:]:
        request.waiting.release()


def hand_out_error(batch: list[Request], error: BaseException) -> None:
    """Give each request of a batch the error, and wake those that wait."""
    for request in batch:
        request.error = error
    for request in batch[1:]:
        request.waiting.release()
