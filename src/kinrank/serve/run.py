"""The service as a process: it listens, and stops when it has finished what it began."""

from __future__ import annotations

import signal
import socket
import warnings
from collections.abc import Callable
from contextlib import closing
from typing import Any

from kinrank.optional import require
from kinrank.serve.app import create_app
from kinrank.serve.service import Service
from kinrank.serve.settings import Settings

_BACKLOG = 1024  # connections that wait to be taken
_HEAD = 1 << 20  # bytes before the body: vectors may stand in addresses
_IDLE = 15  # seconds that a connection may be silent between requests


def serve(service: Service, ready: Callable[[str], None]) -> int:
    """Serve until a signal says stop (SIGINT or SIGTERM), then finish what was accepted.

    ready : called with the address as soon as requests are taken

    Returns
    -------
    int
        How many requests were answered.
    """
    uvicorn: Any = require("uvicorn", extra="serve", purpose="The service")
    from kinrank.serve.connections import Connection, open_files

    # Odd pictures are answered or refused; each would have its own line.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    settings = service.settings
    config = uvicorn.Config(
        create_app(service),
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
        before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            ready(_address(settings, listening))
            server.run(sockets=[listening])
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
    return service.metrics.answered


def _listen(settings: Settings) -> socket.socket:
    """A socket that takes connections; an address that is taken is an OSError here."""
    info = socket.getaddrinfo(
        settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = info[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, error.strerror, f"{settings.host}:{settings.port}") from error
    return listening


def _address(settings: Settings, listening: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listening.getsockname()[1]}"
