"""Connections that wait for their client do not wait for ever, and never keep others out.

uvicorn closes one that is silent between requests, but not one that has sent half a head, or goes
on sending what nobody reads, or never takes its answer.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 10.0  # seconds that a head may take to arrive
_TAKE = 30.0  # and that a client may take to read an answer, when there is nothing more to say
_MOST = 1000  # connections


class Connection(H11Protocol):
    """A connection of uvicorn with these limits."""

    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0  # when it began to wait for its client

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, and let the one go that has waited longest if there are too many."""
        super().connection_made(transport)
        self._since = time.monotonic()
        self._watch()
        if len(self.connections) > min(_MOST, open_files() // 3):
            _leave_longest(self.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        super().connection_lost(exc)
        self._stop()

    def data_received(self, data: bytes) -> None:
        """Look whether a head is complete."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """From now on the client has to say what comes next."""
        self._since = time.monotonic()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close what was silent; a client that does not take its answer either is cut off."""
        super().timeout_keep_alive_handler()
        self.loop.call_later(_TAKE, self.transport.abort)

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn: no request has come whole."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _watch(self) -> None:
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        if cycle is not None and not cycle.response_complete:
            self._stop()  # the service has a deadline of its own for the body
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD, self.transport.abort)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def open_files() -> int:
    """How many files this process may have open."""
    try:
        import resource
    except ImportError:  # there is no such limit on Windows
        return 8 * _MOST
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 8 * _MOST if soft == resource.RLIM_INFINITY else int(soft)


def _leave_longest(connections: Any) -> None:
    waiting = [one for one in connections if one.waits and not one.transport.is_closing()]
    # Whoever came last has to go where all others are being answered.
    longest = min(waiting, key=lambda one: one._since, default=None)
    if longest is not None:
        longest.transport.abort()
