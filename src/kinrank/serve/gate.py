"""What a request must pass before anything is done for it, and what is noted about it.

Pages of other sites can make a browser send requests here. Those are told by their headers: a
`Host` that is not ours (a name that was pointed at this machine), an `Origin` that is not ours, or
`Sec-Fetch-Site` saying so. No header allows other sites to read answers.
"""

from __future__ import annotations

import hmac
import re
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinrank.serve.metrics import Metrics
from kinrank.serve.problems import Problem
from kinrank.serve.settings import Settings

_OURS = ("localhost", "127.0.0.1", "[::1]")
_PORT = re.compile(r":[0-9]{1,5}")
_PAGES = ("/", "/groups")
_OPEN = ("/health", "/static/")  # for everybody, as are the pages themselves: they tell nothing
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    # The page draws by itself and loads from here alone; blobs are pictures that needed the token.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


class Gate:
    """Checks hosts, origins, tokens and sizes; counts and times."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 500
        self._metrics.begin()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            problem = self._refusal(scope)
            answer: Any = self._app if problem is None else problem.response()
            await answer(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - begun
            self._metrics.end(_method(scope), _route(scope), status, seconds)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        path: str = scope["path"]
        if self._settings.token is None and not self._ours(headers.get("host", "").lower()):
            return Problem(
                403, "wrong-host", "`Host` must be that of this machine, such as localhost."
            )
        if _foreign(scope, headers):
            return Problem(403, "cross-site", "Requests must not come from pages of other sites.")
        if path not in _PAGES and not path.startswith(_OPEN) and not self._known(headers):
            return Problem(
                401,
                "unauthorized",
                "`Authorization` must be `Bearer` and the service's token.",
                {"WWW-Authenticate": "Bearer"},
            )
        limit = self._settings.max_body
        length = headers.get("content-length", "0").lstrip("0")
        # What is longer than the limit is larger, and a word is counted while it is read.
        if length.isdecimal() and (len(length) > len(str(limit)) or int(length) > limit):
            return too_large(limit)
        return None

    def _ours(self, host: str) -> bool:
        """Whether a `Host` is this machine's, with or without a port."""
        mine = self._settings.host
        names = (*_OURS, f"[{mine}]" if ":" in mine else mine)
        return any(
            host == name or (host.startswith(name) and _PORT.fullmatch(host, len(name)))
            for name in names
        )

    def _known(self, headers: Headers) -> bool:
        token = self._settings.token
        if token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), token.encode())
        return scheme.lower() == "bearer" and right


def too_large(limit: int) -> Problem:
    """A body with too many bytes; what is left of it is not read."""
    return Problem(
        413, "too-large", f"The body must have at most {limit:,} bytes.", {"Connection": "close"}
    )


def _foreign(scope: Scope, headers: Headers) -> bool:
    origin = headers.get("origin")
    if origin is not None:
        host = headers.get("host", "")
        return origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower())
    # A link from elsewhere may lead to a page, but not to anything else.
    return headers.get("sec-fetch-site") == "cross-site" and scope["path"] not in _PAGES


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    known = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"}
    return method if method in known else "other"  # labels must not grow with what is sent


def _route(scope: Scope) -> str:
    """The pattern that a path matched, so that there are few of them."""
    route = scope.get("route")
    return str(getattr(route, "path_format", None) or getattr(route, "path", None) or "none")
