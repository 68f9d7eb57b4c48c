"""How a process joins a cluster, and what went wrong on another machine, in our own words."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from kinrank.errors import ClusterError, InvalidInputError, shown
from kinrank.parallel import Range

REACH_SECONDS = 10  # until a machine that does not answer is given up
ATTEMPTS = 3  # to join a cluster that is too busy
_LOST = (
    "WorkerCrashedError",
    "NodeDiedError",
    "ObjectLostError",
    "ObjectFetchTimedOutError",
    "LocalRayletDiedError",
)


def join(ray: Any, address: object, cpus: int) -> None:
    """Connect this process; see ``session.connect``."""
    if not isinstance(address, str):
        raise _no_address(address)
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        # Ray replaces 127.0.0.1 by an address that other machines can reach, a second one of
        # loopback it leaves alone.
        loopback = {"_node_ip_address": "127.0.0.2"} if sys.platform == "linux" else {}
        # Ray turns tokens on by itself for a cluster that it starts; without one of ours, unless
        # the user's settings say how, it would keep one in the user's home.
        with _environment({} if _user_has_token() else {"RAY_AUTH_TOKEN": _token()}):
            ray.init(num_cpus=cpus, include_dashboard=False, **loopback, **quiet)
        return
    if address != "auto":
        reach(address)
    try:
        with _environment({}):
            _join_patiently(ray, address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        hint = " (If it wants a token, set RAY_AUTH_MODE and RAY_AUTH_TOKEN_PATH.)"
        raise ClusterError(
            f"The cluster {address!r} cannot be joined: {first_line(error)}"
            f"{'' if _user_has_token() else hint}"
        ) from error


def _join_patiently(ray: Any, address: str, **options: Any) -> None:
    """Try again where the cluster was too busy to start a server for this client in time."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init(address, **options)
            return
        except ConnectionError as error:
            if "Initialization failure" not in str(error) or attempt == ATTEMPTS:
                raise


def reach(address: str) -> None:
    """See that somebody listens there, before Ray waits for minutes."""
    try:
        url = urlsplit(address if "://" in address else f"ray://{address}")
        if url.scheme != "ray" or url.hostname is None or url.port is None:
            raise ValueError(address)
    except ValueError as error:
        raise _no_address(address) from error
    try:
        socket.create_connection((url.hostname, url.port), REACH_SECONDS).close()
    except (OSError, UnicodeError) as error:
        raise ClusterError(f"The cluster {address!r} cannot be reached: {error}") from error


def _no_address(given: object) -> InvalidInputError:
    return InvalidInputError(
        f"`cluster` must be 'local', 'auto', 'HOST:PORT' or 'ray://HOST:PORT', got {shown(given)}."
    )


@cache
def _token() -> str:
    """A secret of this process; one for all its clusters, as Ray reads it once."""
    return secrets.token_hex(32)


def _user_has_token() -> bool:
    return any(name.startswith("RAY_AUTH") for name in os.environ)


@contextmanager
def _environment(more: dict[str, str]) -> Iterator[None]:
    """Settings that Ray takes from the environment when it begins, and then as before."""
    fixed = {
        "RAY_USAGE_STATS_ENABLED": "0",
        # A worker that ran out of memory would do so again: say so instead.
        "RAY_task_oom_retries": "0",
        **more,
    }
    # Ray leaves two of its own there.
    before = {name: os.environ.get(name) for name in (*fixed, "RAY_AUTH_MODE", "PYTHONBREAKPOINT")}
    os.environ.update({name: os.environ.get(name, value) for name, value in fixed.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def is_lost(error: BaseException, ray: Any) -> bool:
    """Whether a worker, a node or what it held in memory is gone, so that the block can go on."""
    return isinstance(_cause(error, ray), tuple(getattr(ray.exceptions, name) for name in _LOST))


def explained(
    error: BaseException, ray: Any, name: str, block: Range, attempts: int
) -> BaseException:
    """The error to raise for a block that cannot be finished."""
    cause = _cause(error, ray)
    (low, high) = block
    place = f"the stage {name!r}, rows {low} to {high}"
    smaller = max(1, (high - low) // 2)
    if isinstance(cause, (MemoryError, ray.exceptions.OutOfMemoryError)):
        return ClusterError(
            f"A worker ran out of memory in {place}: blocks must be smaller than {high - low} "
            f"rows, use block_size={smaller} (or give workers more memory)."
        )
    if is_lost(cause, ray):
        return ClusterError(
            f"Workers were lost {attempts} times in {place}; the last time: {first_line(cause)} "
            f"If their machines ran out of memory, use block_size={smaller}."
        )
    if isinstance(cause, OSError):
        return ClusterError(f"A worker could not read or write in {place}: {cause}")
    if isinstance(cause, ray.exceptions.RayError):
        return ClusterError(f"The cluster failed in {place}: {first_line(cause)}")
    return cause


def _cause(error: BaseException, ray: Any) -> BaseException:
    """What a task raised, without Ray's wrapping."""
    while isinstance(error, ray.exceptions.RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def first_line(error: BaseException) -> str:
    """What an error says, without what follows."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].strip()
