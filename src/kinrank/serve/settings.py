"""How the service is run: where it listens, who may ask, and how much."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from kinrank.errors import InvalidInputError
from kinrank.parallel import thread_count
from kinrank.validation import check_float, check_int

PORT = 8765
_TOKEN = 16  # the least length of a token that is worth the name


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the service listens, and its limits.

    Parameters
    ----------
    host, port : port 0 takes a free one
    token : what callers must bring as ``Authorization: Bearer``; None asks nobody
    writable : whether items may be added and removed
    max_body : bytes of a request
    max_batch, max_k, max_pool : queries of a request, results of a query, candidates to re-rank
    max_waiting : requests that wait for a thread; further ones are told to come back
    timeout : seconds that a body may take to arrive, and then its answer
    threads : that compute; None is one per core
    """

    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None
    writable: bool = False
    max_body: int = 32_000_000
    max_batch: int = 256
    max_k: int = 1000
    max_pool: int = 5000
    max_waiting: int = 256
    timeout: float = 30.0
    threads: int | None = None

    def __post_init__(self) -> None:
        check_int("port", self.port, 0, 65535)
        for name in ("max_body", "max_batch", "max_k", "max_pool", "max_waiting"):
            check_int(name, getattr(self, name), 1)
        check_float("timeout", self.timeout, 0, low_open=True)
        object.__setattr__(self, "threads", thread_count(self.threads))
        if self.token is not None and (len(self.token) < _TOKEN or not self.token.isascii()):
            raise InvalidInputError(
                f"`token` must be at least {_TOKEN} ASCII characters, got {len(self.token)}."
            )
        if self.token is None and not self.loopback:
            raise InvalidInputError(
                f"`token` must be given for a host that others can reach, got {self.host!r} "
                "without one."
            )

    @property
    def max_numbers(self) -> int:
        """Numbers of a request: as many as a body of float32 has, however they are written."""
        return max(1, self.max_body // 4)

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
