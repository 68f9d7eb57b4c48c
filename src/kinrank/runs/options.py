"""Where a method's work is done: in memory or in files, exactly or approximately."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from kinrank.errors import InvalidInputError
from kinrank.io import PathLike
from kinrank.parallel import Runner
from kinrank.validation import check_choice

if TYPE_CHECKING:
    from kinrank.methods.base import Method

SEARCHES = ("exact", "approximate")
VECTORS = ("float32", "float16")


class RunOptions(TypedDict, total=False):
    """Keywords of every ``rerank``, see ``kinrank.rerank``."""

    search: Literal["exact", "approximate"]
    memory_budget: int | str | None
    work: PathLike | None
    vectors: Literal["float32", "float16"]


@contextmanager
def runner_for(
    method: Method, queries: Any, gallery: Any, k: int | None, threads: int | None,
    block_size: int | None, options: RunOptions,
) -> Iterator[Runner]:  # fmt: skip
    """The runner for one call of ``rerank``."""
    for name in options if method.reads_in_blocks else ():
        raise InvalidInputError(f"{type(method).__name__} does not take `{name}`: leave it out.")
    run = Runner.of(threads, block_size)
    search = check_choice("search", options.get("search", "exact"), SEARCHES)
    vectors = check_choice("vectors", options.get("vectors", "float32"), VECTORS)
    run = replace(run, search=search, vectors=vectors)
    budget, work = options.get("memory_budget"), options.get("work")
    if budget is None and work is None:
        yield run
        return
    from kinrank.runs.disk import disk_run

    with disk_run(method, queries, gallery, k, run, budget, work) as on_disk:
        yield on_disk
