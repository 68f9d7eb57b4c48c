"""Where the work of a call is done: in memory, in files under a budget, or on other machines."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from kinrank.errors import InvalidInputError, shown
from kinrank.io import PathLike
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution, RankingMethod
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
        the ranking is there. None is a temporary one.
    vectors : "float32"; or "float16", to which values are rounded once and in which they are kept,
        in memory and in files; everything is computed in float32 from them
    cluster : other machines to do the work: "local", an address, or what
        ``kinrank.cluster.connect`` returned (extra ``ray``)
    storage : for ``cluster``, a folder that all machines see or a URL to exchange arrays by; None
        is their memory
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
        if self.cluster is not None:
            self._refuse_others("with `cluster`", ("cluster", "storage", "search", "block_size"))

    def in_memory(self, threads: int | None, call: str, *more_fields: str) -> Execution:
        """The execution of a call that works in memory.

        call : its name for messages; more_fields : what it takes beside ``block_size``
        """
        self._refuse_others(f"with `{call}`", ("block_size", *more_fields))
        return Execution(Runner.of(threads, self.block_size), self.search)

    def execution(
        self, method: RankingMethod, queries: Any, gallery: Any, k: int | None, threads: int | None
    ) -> AbstractContextManager[Execution]:
        """The execution of one call of ``method.rerank`` on this machine."""
        if method.reads_in_blocks:
            self._refuse_others(f"with {type(method).__name__}", ("block_size",))
        execution = Execution(Runner.of(threads, self.block_size), self.search, self.vectors)
        if self.memory_budget is None and self.work is None:
            return nullcontext(execution)
        from kinrank.runs.disk import disk_run

        return disk_run(method, queries, gallery, k, execution, self.memory_budget, self.work)

    def _refuse_others(self, beside: str, allowed: tuple[str, ...]) -> None:
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
