"""The service as a process: it listens, and stops when it has finished what it began.

Connections that wait for their client do not wait for ever, and never keep others out: uvicorn
closes one that is silent between requests, but not one that has sent half a head, or goes on
sending what nobody reads, or never takes its answer.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kinrank.serve.app import create_app
from kinrank.serve.following import FollowedStore
from kinrank.serve.service import Service
from kinrank.serve.settings import Settings

_BACKLOG = 1024  # connections that wait to be taken
_HEAD = 1 << 20  # bytes before the body: vectors may stand in addresses
HEAD_SECONDS = 10.0  # that a head may take to arrive
_TAKE = 30.0  # seconds to read an answer, when there is nothing more to say
_MOST = 1000  # connections
_IDLE = 15  # seconds that a connection may be silent between requests


def serve(
    service: Service, ready: Callable[[str], None], followed: FollowedStore | None = None
) -> int:
    """Serve until a signal says stop (SIGINT or SIGTERM), then finish what was accepted.

    Returns how many requests were answered.

    ready : called with the address as soon as requests are taken
    followed : the store that the index keeps up with
    """
    # Odd pictures are answered or refused; each would have its own line.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    settings = service.settings
    config = uvicorn.Config(
        create_app(service, followed),
        log_level="warning",
        access_log=False,
        http=Connection,
        ws="none",
        # As many are taken at once, and must have their handles.
        backlog=min(_BACKLOG, open_files() // 8),
        server_header=False,
        timeout_keep_alive=_IDLE,
        h11_max_incomplete_event_size=_HEAD,
        # Longer than any answer may take, so that none is cut off.
        timeout_graceful_shutdown=int(2 * settings.timeout) + 1,
    )
    with closing(_listen(settings)) as listening:
        server = uvicorn.Server(config)

        def stop(*_: object) -> None:
            server.should_exit = True

        # Before uvicorn takes signals over, and when it raises them again at its end.
        before = {name: signal.signal(name, stop) for name in (signal.SIGINT, signal.SIGTERM)}
        try:
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            ready(f"http://{host}:{listening.getsockname()[1]}")
            server.run(sockets=[listening])
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)
    return service.metrics.answered


def _listen(settings: Settings) -> socket.socket:
    """A socket that takes connections; an address that is taken is an OSError here."""
    info = socket.getaddrinfo(
        settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = info[0]
    listening = socket.socket(family, kind, protocol)
    try:
        if sys.platform == "win32":  # where the other option lets two programs have one port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, error.strerror, f"{settings.host}:{settings.port}") from error
    return listening


class Connection(H11Protocol):
    """A connection of uvicorn with these limits."""

    _deadline: asyncio.TimerHandle | None = None
    waits_since = 0.0  # when it began to wait for its client

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, and let the one go that has waited longest if there are too many."""
        super().connection_made(transport)
        self.waits_since = time.monotonic()
        self._watch()
        if len(self.connections) > min(_MOST, open_files() // 3):
            every: Any = self.connections
            waiting = [each for each in every if each.waits and not each.transport.is_closing()]
            # Whoever came last has to go where all others are being answered.
            longest = min(waiting, key=lambda each: each.waits_since, default=None)
            if longest is not None:
                longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def data_received(self, data: bytes) -> None:
        """Look whether a head is complete."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """From now on the client has to say what comes next."""
        self.waits_since = time.monotonic()
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
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

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
