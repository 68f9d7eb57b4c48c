"""Where the work of a call is done: in memory, in files under a budget, or on other machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kinrank import progress
from kinrank.errors import InvalidInputError, shown
from kinrank.io import PathLike
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.search.searcher import Search, Searcher
from kinrank.validation import check_choice, check_int, check_path

if TYPE_CHECKING:
    from kinrank.runs.ray.session import Cluster

SEARCHES = ("exact", "approximate")
VECTORS = ("float32", "float16")


@dataclass(frozen=True, kw_only=True)
class Run:
    """Where and how work is done. Only ``search`` and ``vectors`` can change a result.

    Parameters
    ----------
    search : "exact"; "approximate" for many rows; or a ``kinrank.stores.Searcher`` over the
        gallery's rows, such as a ``FaissStore``, that chooses neighbours by their row numbers.
        Distances are computed from the vectors. It is asked for the vectors as they are given, or
        over their norms where the metric is the cosine.
    memory_budget : bytes, or a size such as "4GB", that the process may occupy; stages are then
        kept in files, and arrays that are mapped from files are never copied into memory
    work : the folder of these files, in which a run that was stopped goes on; it is emptied when
        the result is there. None is a temporary one.
    vectors : "float32"; or "float16", to which values are rounded once and in which they are kept,
        in memory and in files; everything is computed in float32 from them
    cluster : other machines to do the work: "local", an address, or what
        ``kinrank.cluster.connect`` returned (extra ``ray``)
    storage : for ``cluster``, a folder that all machines see or a URL to exchange arrays by; None
        is their memory. In a folder a run that was stopped goes on, as in ``work``.
    block_size : how many rows a thread takes at a time

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> points = np.random.default_rng(0).normal(size=(100, 8))
    >>> half = kinrank.Run(vectors="float16")
    >>> kinrank.rerank(points[:3], points[3:], k=5, k1=6, k2=3, run=half).indices.shape
    (3, 5)
    """

    search: Search = "exact"
    memory_budget: int | str | None = None
    work: PathLike | None = None
    vectors: Literal["float32", "float16"] = "float32"
    cluster: str | Cluster | None = None
    storage: PathLike | None = None
    block_size: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.search, str) or not isinstance(self.search, Searcher):
            check_choice("search", self.search, SEARCHES)
        else:
            for name in ("memory_budget", "work", "cluster"):
                if getattr(self, name) is not None:
                    raise InvalidInputError(
                        f"`{name}` needs search='exact' or 'approximate', got a "
                        f"{type(self.search).__name__}."
                    )
        check_choice("vectors", self.vectors, VECTORS)
        if self.work is not None:
            check_path("work", self.work)
        if self.block_size is not None:
            check_int("block_size", self.block_size, 1)
        if self.cluster is None and self.storage is not None:
            raise InvalidInputError(
                f"`storage` is for work on a cluster: give `cluster` too, "
                f"got {shown(self.storage)}."
            )

    def in_memory(self, threads: int | None, call: str, *more_fields: str) -> Execution:
        """The execution of a call that works in memory.

        call : its name for messages; more_fields : what it takes beside ``block_size``
        """
        self.refuse_others(f"with `{call}`", ("block_size", *more_fields))
        return Execution(Runner.of(threads, self.block_size), self.search)

    def keeping(
        self, call: str, inputs: Any, threads: int | None
    ) -> AbstractContextManager[Execution]:
        """As ``execution``, of a call that keeps what it makes, float32 and in memory."""
        self.refuse_others(
            f"with `{call}`, which keeps float32 in memory",
            ("search", "work", "cluster", "storage", "block_size"),
        )
        return self.execution(call, inputs, threads)

    @contextmanager
    def before_the_plan(self, threads: int | None) -> Iterator[Execution]:
        """An execution here, for what is looked at before a call is planned.

        Under a budget long arrays are in files, which go when the block ends.
        """
        execution = Execution(Runner.of(threads, self.block_size))
        if self.memory_budget is None:
            yield execution
            return
        from kinrank.runs.disk import run_files
        from kinrank.runs.plan import parse_bytes

        limit = parse_bytes("memory_budget", self.memory_budget)
        with run_files(None, "before the plan", limit) as files:
            yield replace(execution, arrays=files)

    @contextmanager
    def execution(self, call: str, inputs: Any, threads: int | None) -> Iterator[Execution]:
        """Where the stages of one call are computed, for as long as the block takes.

        call : its name
        inputs : what its results follow from: arrays, numbers, text and records of such, of a
            ranking its ``RankingInputs``. They tell one run that was stopped from others.
        """
        execution = Execution(Runner.of(threads, self.block_size), self.search, self.vectors)
        with ExitStack() as stack:
            cluster = None
            if self.cluster is not None:
                from kinrank.runs.ray.session import using

                cluster = stack.enter_context(using(self.cluster, self.storage, threads))
            shared = None if cluster is None else cluster.folder
            if shared is not None and self.work is not None:
                raise InvalidInputError(
                    f"`work` cannot be used with a folder as `storage`, which keeps the run, got "
                    f"{shown(self.work)}: leave it out."
                )
            if shared is None and self.memory_budget is None and self.work is None:
                if cluster is not None:
                    runner = replace(execution.runner, workers=cluster.workers())
                    execution = replace(execution, runner=runner)
            else:
                execution = stack.enter_context(
                    self._in_files(execution, call, inputs, cluster, shared)
                )
            yield execution
            if cluster is not None:
                progress.tell("cluster", cluster.report)

    @contextmanager
    def _in_files(
        self,
        execution: Execution,
        call: str,
        inputs: Any,
        cluster: Cluster | None,
        shared: Path | None,
    ) -> Iterator[Execution]:
        """The same execution with all arrays in files.

        shared : the folder that the machines of the cluster see, if the files are to lie there
        """
        from kinrank.runs.disk import DiskRunner, planned_limit, run_files, run_key
        from kinrank.search.tiles import BLOCK

        limit = None
        if self.memory_budget is not None:
            limit = planned_limit(inputs, execution, self.memory_budget, shared or self.work)
        key = run_key(call, inputs, execution)
        folder = None if self.work is None else Path(self.work)
        parameter = "work"
        if shared is not None:
            folder = shared / f"kinrank-{key}"
            parameter = "storage"
        seen = shared is not None
        with run_files(folder, key, limit, parameter, seen_by_others=seen) as files:
            runner = DiskRunner(
                execution.runner.threads,
                execution.runner.block_size,
                None if cluster is None else cluster.workers(files),
                files=files,
            )
            # A finished block of a search is kept.
            yield replace(execution, runner=runner, arrays=files, search_block=BLOCK)

    def refuse_others(self, beside: str, allowed: tuple[str, ...]) -> None:
        """Refuse fields that are set and are not allowed beside something else."""
        for field in fields(self):
            value = getattr(self, field.name)
            is_default = isinstance(value, type(field.default)) and value == field.default
            if field.name not in allowed and not is_default:
                raise InvalidInputError(
                    f"`{field.name}` cannot be used {beside}, got {shown(value)}: leave it out."
                )


def as_run(run: Run | None) -> Run:
    """The value of a parameter ``run``; None is ``Run()``."""
    if run is None:
        return Run()
    if not isinstance(run, Run):
        raise InvalidInputError(
            f"`run` must be a kinrank.Run, such as Run(memory_budget='4GB'), got {shown(run)}."
        )
    return run
