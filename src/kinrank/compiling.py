"""Compile the kernels of a job before it begins, in several processes, into the cache.

``signatures.json`` lists the kernels of every job with the types that they are called with and the
seconds that they take to compile; ``benchmarks/bench_start.py --record`` writes it.
"""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from numba.core import config, sigutils
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target

from kinrank import progress
from kinrank.kernels import jit
from kinrank.parallel import thread_count
from kinrank.validation import check_choice

logger = logging.getLogger("kinrank.kernels")

# What people do, and the jobs that it takes.
GROUPS = {
    "rerank": ("cas", "cas:whole"),
    "index": ("index", "change"),
    "serve": ("index", "change", "page", "cas:whole"),
}
_WORTH = 1.5  # seconds of compiling from which a process pays: to start one takes about a second
_CODE = "import json, sys; sys.path[:] = json.loads(sys.stdin.readline()); "
_CODE += "from kinrank.compiling import work; work()"


@dataclass(frozen=True)
class Entry:
    """A kernel with the types of its arguments."""

    name: str  # module.function
    types: str
    seconds: float

    @property
    def kernel(self) -> Any:
        """Its dispatcher."""
        module, _, function = self.name.partition(".")
        return getattr(import_module(f"kinrank.kernels.{module}"), function)

    @property
    def signature(self) -> tuple[Any, ...]:
        """The types as numba has them."""
        types: tuple[Any, ...] = sigutils.normalize_signature(f"({self.types},)")[0]
        return types

    def cached(self) -> bool:
        """Whether it needs not be compiled."""
        kernel, types = self.kernel, self.signature
        return types in kernel.overloads or kernel._cache.holds(types, cpu_target.target_context)

    def compile(self) -> None:
        """Compile it, or load it from the cache; nothing if numba does not take these types."""
        with suppress(TypeError, NumbaError):
            self.kernel.compile(self.signature)


@cache
def jobs() -> dict[str, list[Entry]]:
    """The kernels of every job."""
    text = files("kinrank.kernels").joinpath("signatures.json").read_text("utf-8")
    table = json.loads(text)
    every = [Entry(**entry) for entry in table["kernels"]]
    return {job: [every[at] for at in places] for job, places in table["jobs"].items()}


_prepared: set[str] = set()


def prepare(job: str, *, whole: bool = False) -> None:
    """Compile the kernels of a job that the cache lacks, if there are so many that it pays.

    whole : whether a ranking is of the whole gallery, for which other kernels are needed
    """
    job = f"{job}:whole" if whole and f"{job}:whole" in jobs() else job
    if job in _prepared:
        return
    _prepared.add(job)
    if job in jobs() and not config.DISABLE_JIT:
        missing = [entry for entry in jobs()[job] if not entry.cached()]
        if sum(entry.seconds for entry in missing) > _WORTH:
            compile_all(missing)


def warmup(for_: str | Iterable[str] = "all", *, processes: int | None = None) -> dict[str, Any]:
    """Fill the cache of compiled kernels, so that no later process waits for them.

    Parameters
    ----------
    for_ : "all"; or some of "rerank", "index", "serve", "jaccard_graph", "tune" and the names of
        methods
    processes : how many compile at once; None is one per core

    Returns
    -------
    dict
        ``folder``, how many kernels were ``compiled``, and the folder's size in ``bytes``.

    Examples
    --------
    >>> import kinrank
    >>> kinrank.warmup("cas")["compiled"] >= 0
    True
    """
    missing = [entry for entry in kernels_of(for_) if not entry.cached()]
    compile_all(missing, processes)
    folder = jit.kernel_folder()
    size = sum(path.stat().st_size for path in folder.iterdir()) if folder.exists() else 0
    return {"folder": folder, "compiled": len(missing), "bytes": size}


def kernels_of(for_: str | Iterable[str]) -> list[Entry]:
    """The kernels of jobs and of what people do."""
    known = jobs()
    parts = {**{job: (job,) for job in known}, **GROUPS, "all": tuple(known)}
    every: dict[Entry, None] = {}
    for name in [for_] if isinstance(for_, str) else for_:
        for job in parts[check_choice("for_", name, tuple(parts))]:
            every |= dict.fromkeys(known[job])
    return list(every)


def compile_all(entries: list[Entry], processes: int | None = None) -> None:
    """Compile kernels here and in other processes, which write them to the cache; long ones first.

    What another process could not do is done here.
    """
    if not entries:
        return
    count = min(thread_count(processes), len(entries)) if jit.can_keep() else 1
    seconds = sum(entry.seconds for entry in entries) / count
    logger.info("Compiling kernels, once on this machine: about %.0f s", max(seconds, 1))
    left = deque(sorted(entries, key=lambda entry: -entry.seconds))
    done: deque[Entry] = deque()
    with progress.stage("compiling kernels", len(entries)) as advance:
        threads = [
            threading.Thread(target=_ask, args=(left, done), daemon=True) for _ in range(count - 1)
        ]
        for thread in threads:
            thread.start()
        told = 0
        while left:
            try:
                entry = left.popleft()
            except IndexError:  # another took it
                break
            entry.compile()
            done.append(entry)
            advance(len(done) - told)
            told = len(done)
        for thread in threads:
            thread.join()
    for entry in entries:
        if entry not in done:
            entry.compile()


def _ask(left: deque[Entry], done: deque[Entry]) -> None:
    """Let another process compile, one kernel after the other."""
    command = [sys.executable, "-c", _CODE]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    pipes["stderr"] = subprocess.DEVNULL
    with suppress(OSError), subprocess.Popen(command, **pipes) as other:  # noqa: S603
        to_it: Any = other.stdin
        from_it: Any = other.stdout
        _say(to_it, json.dumps(sys.path))
        while from_it.readline():  # it is ready
            try:
                entry = left.popleft()
            except IndexError:
                break
            _say(to_it, json.dumps(asdict(entry)))
            if not from_it.readline():
                break
            done.append(entry)
        to_it.close()


def _say(stream: Any, line: str) -> None:
    stream.write(line + "\n")
    stream.flush()


def work() -> None:
    """Compile what comes in on standard input, in a process of its own."""
    gc.disable()  # it would take a sixth of the time
    while True:
        _say(sys.stdout, "ready")
        line = sys.stdin.readline()
        if not line:
            return
        Entry(**json.loads(line)).compile()
        _say(sys.stdout, "done")
