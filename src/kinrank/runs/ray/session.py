"""Connections to a cluster."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinrank._version import __version__
from kinrank.errors import ClusterError, InvalidInputError, KinrankWarning
from kinrank.optional import require
from kinrank.parallel import thread_count
from kinrank.runs.ray import tasks
from kinrank.runs.ray.handles import PURPOSE
from kinrank.runs.ray.join import join
from kinrank.runs.ray.report import Report
from kinrank.runs.ray.storage import FolderStorage, Storage, UrlStorage, make_storage
from kinrank.validation import check_int

if TYPE_CHECKING:
    from kinrank.runs.disk import ArrayFiles
    from kinrank.runs.ray.workers import RayWorkers

GREET_SECONDS = 120  # until the first worker of every node has answered


def connect(
    address: str = "local",
    *,
    storage: str | os.PathLike[str] | None = None,
    retries: int = 3,
    threads: int | None = None,
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

    Returns
    -------
    Cluster
        To be closed, or used as a context.
    """
    retries = check_int("retries", retries, 0)
    ray = require("ray", extra="ray", purpose=PURPOSE)
    require("fsspec", extra="ray", purpose=PURPOSE)
    owned = not ray.is_initialized()
    if owned:
        join(ray, address, thread_count(threads))
    try:
        return Cluster(ray, make_storage(storage, ray.put), retries, owned=owned)
    except BaseException:
        if owned:
            ray.shutdown()
        raise


@contextmanager
def using(
    cluster: str | Cluster,
    storage: str | os.PathLike[str] | None = None,
    threads: int | None = None,
) -> Iterator[Cluster]:
    """A connection that is there already, or one for as long as the block takes."""
    if not isinstance(cluster, Cluster):
        with connect(cluster, storage=storage, threads=threads) as connection:
            yield connection
    elif storage is not None:
        raise InvalidInputError(
            "This connection has its storage already: give `storage` to `connect` only."
        )
    else:
        yield cluster


class Cluster:
    """A cluster that stages can run on.

    report : what moved in the runs since the connection was made
    """

    def __init__(self, ray: Any, storage: Storage, retries: int, *, owned: bool) -> None:
        self.ray = ray
        self.storage = storage
        self.report = Report()
        self.retries = retries
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

    @property
    def folder(self) -> Path | None:
        """The folder that all machines see, in which runs are kept; None for other storage."""
        if isinstance(self.storage, FolderStorage):
            return self.storage.folder.parent
        return None

    def workers(self, files: ArrayFiles | None = None) -> RayWorkers:
        """Who computes the blocks of a run.

        files : those of the run, if all machines see them
        """
        from kinrank.runs.ray.workers import RayWorkers

        if not (self._open and self.ray.is_initialized()):
            raise ClusterError("This connection to the cluster is closed: connect again.")
        self._greet()
        storage = self.storage
        if files is not None and files.seen_by_others:
            storage = FolderStorage(files.journal.folder, files.memory)
        return RayWorkers(self, storage, self.cpus)

    def begin(self, task: Callable[..., Any], *args: Any) -> Any:
        """Hand a task to the cluster, which is told what it does once."""
        if task not in self._remote:
            options = {"num_cpus": 1, "max_retries": self.retries}
            self._remote[task] = self.ray.remote(**options)(task)
        return self._remote[task].remote(*args)

    def close(self) -> None:
        """Remove what was stored, and leave."""
        if not self._open:
            return
        self._open = False
        try:
            if isinstance(self.storage, UrlStorage) and self.ray.is_initialized():
                # A node that is lost keeps nothing.
                with suppress(self.ray.exceptions.RayError, ConnectionError):
                    self._on_every_node(tasks.clear, self.storage.session)
            self.storage.close()
        finally:
            if self._owned:
                self.ray.shutdown()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _greet(self) -> None:
        """See that every node that is new can do our work, and do it to the same bits."""
        try:
            greetings = self._on_every_node(tasks.greet, new=True)
        except self.ray.exceptions.OutOfMemoryError as error:
            raise ClusterError(
                "A node ended a worker before it began, as it has too little memory left. Free "
                "memory there, or raise RAY_memory_usage_threshold."
            ) from error
        except self.ray.exceptions.RayError as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise ClusterError(f"A node cannot import kinrank {__version__}: {reason}") from error
        here = tasks.greet()
        for node, there in greetings.items():
            self.report.nodes.append({"node": node, **there})
            if there["kinrank"] != __version__:
                raise ClusterError(
                    f"{node} has kinrank {there['kinrank']}, and the caller {__version__}: "
                    "install the same version everywhere."
                )
            differ = [
                f"{name} {there[name]} (here {here[name]})"
                for name in here
                if there[name] != here[name]
            ]
            if differ:
                warnings.warn(
                    f"The node {node} has {', '.join(differ)}: the last bits of results may depend "
                    "on which machine computes them.",
                    KinrankWarning,
                    stacklevel=4,
                )

    def _on_every_node(self, task: Any, *args: Any, new: bool = False) -> dict[str, Any]:
        """The answers of all nodes, or of those that were not asked before, by address."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Pinned

        nodes = {
            node["NodeID"]: node["NodeManagerAddress"]
            for node in self.ray.nodes()
            if node["Alive"] and not (new and node["NodeID"] in self._greeted)
        }
        self._greeted |= set(nodes)
        remote = self.ray.remote(task)
        places = [Pinned(node, soft=False) for node in nodes]
        workers = [remote.options(num_cpus=0, scheduling_strategy=place) for place in places]
        answers = self.ray.get([w.remote(*args) for w in workers], timeout=GREET_SECONDS)
        return dict(zip(nodes.values(), answers, strict=True))
