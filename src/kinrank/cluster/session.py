"""Connections to a cluster."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import kinrank
from kinrank import progress
from kinrank.cluster import tasks
from kinrank.cluster.storage import PURPOSE, Storage, make_storage
from kinrank.cluster.traffic import Report
from kinrank.errors import ClusterError, InvalidInputError, KinrankWarning
from kinrank.optional import require
from kinrank.parallel import thread_count
from kinrank.validation import check_choice, check_int

if TYPE_CHECKING:
    from kinrank.cluster.runner import RayRunner
    from kinrank.methods.base import Method
    from kinrank.types import Ranking

REACH_SECONDS = 10  # until a machine that does not answer is given up
GREET_SECONDS = 120  # until the first worker of every node has answered


def connect(
    address: str = "local",
    *,
    storage: str | os.PathLike[str] | None = None,
    retries: int = 3,
    threads: int | None = None,
    shard_rows: int | None = None,
) -> Cluster:
    """Join a Ray cluster, or start one on this machine.

    Parameters
    ----------
    address : "local" starts workers on this machine; "auto" is the cluster that this machine is a
        node of; "HOST:PORT" likewise, by the head's address; "ray://HOST:PORT" reaches a cluster
        from outside, by its client server
    storage : where tasks read arrays from: None for the object store, a folder that all machines
        see under one path, or a URL that fsspec can write to
    retries : how often a block is begun again when its worker or node is lost
    threads : for "local", how many workers; None is one per core
    shard_rows : rows that a task of the neighbour search looks through; None gives every processor
        of the cluster one part of them

    Returns
    -------
    Cluster
        To be closed, or used as a context.
    """
    retries = check_int("retries", retries, 0)
    if shard_rows is not None:
        shard_rows = check_int("shard_rows", shard_rows, 1)
    ray = require("ray", extra="ray", purpose=PURPOSE)
    require("fsspec", extra="ray", purpose=PURPOSE)
    owned = not ray.is_initialized()
    if owned:
        _join(ray, address, thread_count(threads))
    try:
        return Cluster(ray, make_storage(storage, ray.put), retries, shard_rows, owned=owned)
    except BaseException:
        if owned:
            ray.shutdown()
        raise


@contextmanager
def using(
    cluster: str | Cluster, storage: str | os.PathLike[str] | None = None
) -> Iterator[Cluster]:
    """A connection that is there already, or one for as long as the block takes."""
    if isinstance(cluster, Cluster):
        if storage is not None:
            raise InvalidInputError("`storage` must be given to `connect`, got it a second time.")
        yield cluster
        return
    with connect(cluster, storage=storage) as made:
        yield made


class Cluster:
    """A cluster that stages can run on.

    report : what moved in the runs since the connection was made
    """

    def __init__(
        self, ray: Any, storage: Storage, retries: int, shard_rows: int | None, *, owned: bool
    ) -> None:
        self.ray = ray
        self.storage = storage
        self.retries = retries
        self.shard_rows = shard_rows
        self.report = Report()
        self._owned = owned
        self._open = True
        self._remote: dict[Any, Any] = {}
        self._greeted: set[str] = set()
        try:
            self._greet()
        except BaseException:
            storage.close()
            raise

    @property
    def cpus(self) -> int:
        """Processors of the nodes that are there now."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def runner(
        self, block_size: int | None = None, threads: int | None = None, search: str = "exact"
    ) -> RayRunner:
        """What stages are given.

        block_size : rows of a task; None makes a few tasks for each processor of the cluster
        threads : of this process, for the steps between stages
        """
        from kinrank.cluster.runner import RayRunner

        if not self._open:
            raise ClusterError("The connection to the cluster must be open, got a closed one.")
        if block_size is not None:
            block_size = check_int("block_size", block_size, 1)
        check_choice("search", search, ("exact", "approximate"))
        self._greet()
        return RayRunner(self.cpus, block_size, search, cluster=self, here=thread_count(threads))

    def rerank(
        self,
        method: Method,
        queries: Any,
        gallery: Any,
        k: int | None = None,
        *,
        threads: int | None = None,
        block_size: int | None = None,
        search: str = "exact",
    ) -> Ranking:
        """As ``method.rerank``, on this cluster."""
        ranking = method.ranked(queries, gallery, k, self.runner(block_size, threads, search))
        progress.tell("cluster", self.report)
        return ranking

    def remote(self, task: Callable[..., Any]) -> Any:
        """A function of ours as Ray takes it, made known to the cluster once."""
        if task not in self._remote:
            options = {"num_cpus": 1, "max_retries": self.retries}
            self._remote[task] = self.ray.remote(**options)(task)
        return self._remote[task]

    def close(self) -> None:
        """Remove what was stored, and leave."""
        if not self._open:
            return
        self._open = False
        with suppress(Exception):  # what is lost now does not matter
            self._on_every_node(tasks.clear, self.storage.session)
        self.storage.close()
        if self._owned:
            self.ray.shutdown()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _greet(self) -> None:
        """See that every node that is new can do our work, and do it to the same bits."""
        own = tasks.greet()
        try:
            found = self._on_every_node(tasks.greet, new=True)
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ClusterError(
                f"Every node must be able to import kinrank {kinrank.__version__}, got: {reason}"
            ) from error
        for node, theirs in found.items():
            self.report.nodes.append({"node": node, **theirs})
            if theirs["kinrank"] != own["kinrank"]:
                raise ClusterError(
                    f"Every node must have kinrank {own['kinrank']}, got {theirs['kinrank']} on "
                    f"{node}."
                )
            other = [name for name in own if theirs[name] != own[name]]
            if other:
                listed = ", ".join(f"{name} {theirs[name]} (here {own[name]})" for name in other)
                warnings.warn(
                    f"The node {node} has {listed}: the last bits of results may depend on which "
                    "machine computes them.",
                    KinrankWarning,
                    stacklevel=4,
                )

    def _on_every_node(self, function: Any, *args: Any, new: bool = False) -> dict[str, Any]:
        """The answers of all nodes, or of those that were not asked before, by address."""
        nodes = [node for node in self.ray.nodes() if node["Alive"]]
        if new:
            nodes = [node for node in nodes if node["NodeID"] not in self._greeted]
        self._greeted |= {node["NodeID"] for node in nodes}
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Pinned

        task = self.ray.remote(function)
        refs = [
            task.options(num_cpus=0, scheduling_strategy=Pinned(node["NodeID"], soft=False)).remote(
                *args
            )
            for node in nodes
        ]
        answers = self.ray.get(refs, timeout=GREET_SECONDS)
        names = [node["NodeManagerAddress"] for node in nodes]
        return dict(zip(names, answers, strict=True))


def _join(ray: Any, address: str, cpus: int) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        with _environment(_own_token()):
            ray.init(num_cpus=cpus, include_dashboard=False, **_loopback(), **quiet)
        return
    if address != "auto":
        _reach(address)
    try:
        with _environment({}):
            ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ClusterError(f"The cluster {address!r} cannot be joined: {reason}") from error


def _loopback() -> dict[str, str]:
    """The address of workers on this machine, where there is a second one of loopback.

    Ray replaces 127.0.0.1 by an address that other machines can reach.
    """
    return {"_node_ip_address": "127.0.0.2"} if sys.platform == "linux" else {}


def _reach(address: str) -> None:
    """See that somebody listens there, before Ray waits for minutes."""
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if parts.scheme != "ray" or host is None or port is None:
        raise InvalidInputError(
            f"`cluster` must be 'local', 'auto', 'HOST:PORT' or 'ray://HOST:PORT', got {address!r}."
        )
    try:
        socket.create_connection((host, port), REACH_SECONDS).close()
    except OSError as error:
        raise ClusterError(f"The cluster {address!r} cannot be reached: {error}") from error


@cache
def _token() -> str:
    """A secret of this process; one for all its clusters, as Ray reads it once."""
    return secrets.token_hex(32)


def _own_token() -> dict[str, str]:
    """What workers on this machine are asked for; nothing if the user's settings say how.

    Ray turns tokens on by itself for a cluster that it starts; without this it would keep one in
    the user's home.
    """
    if any(name.startswith("RAY_AUTH") for name in os.environ):
        return {}
    return {"RAY_AUTH_TOKEN": _token()}


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
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
