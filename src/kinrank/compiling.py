"""Compile the kernels of a job before it begins, in several processes, into the cache.

``signatures.json`` lists the kernels of every job with the types that they are called with and the
seconds that they take to compile; ``benchmarks/bench_start.py --record`` writes it.
"""

from __future__ import annotations

import gc
import json
import logging
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from numba.core import config, types
from numba.core.errors import NumbaError

from kinrank import progress
from kinrank.kernels import jit
from kinrank.kernels.records import RECORDS
from kinrank.parallel import thread_count
from kinrank.validation import check_choice

logger = logging.getLogger("kinrank.kernels")

# What people do, and the jobs that it takes.
GROUPS = {
    "rerank": ("cas", "cas:whole"),
    "index": ("index", "change"),
    "serve": ("index", "change", "page", "cas:whole"),
}
_KERNELS = Path(jit.__file__).parent
_CALLED = ("kernel", "filling", "summing", "summing_kernel")  # flavours that Python calls
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
        from numba.core.sigutils import normalize_signature

        text = f"({self.types},)"
        kinds = eval(text, {"__builtins__": {}}, {**vars(types), **_records()})  # noqa: S307
        signature: tuple[Any, ...] = normalize_signature(kinds)[0]
        return signature

    def cached(self) -> bool:
        """Whether it needs not be compiled."""
        from numba.core.registry import cpu_target

        kernel = self.kernel
        types = self.signature
        return types in kernel.overloads or kernel._cache.holds(types, cpu_target.target_context)

    def compile(self) -> str | None:
        """Compile it, or load it from the cache; numba's message if that fails."""
        try:
            self.kernel.compile(self.signature)
        except (TypeError, NumbaError) as error:
            return str(error) or type(error).__name__
        return None

    @property
    def place(self) -> str:
        """The file and the line where it begins."""
        code = self.kernel.py_func.__code__
        return f"{code.co_filename}:{code.co_firstlineno}"


@cache
def _records() -> dict[str, Any]:
    """The records of kernels as functions of the types of their fields."""

    def typed(record: type) -> Any:
        base: Any = types.BaseTuple  # type: ignore[attr-defined]
        return lambda *kinds: base.from_types(kinds, record)

    return {name: typed(record) for name, record in RECORDS.items()}


class KernelError(Exception):
    """A kernel that numba does not compile: its name, its place and numba's message."""

    def __init__(self, entry: Entry, message: str) -> None:
        super().__init__(
            f"The kernel {entry.name} ({entry.place}) does not compile:\n{message.strip()}\n"
            "If its arguments changed: run `python benchmarks/bench_start.py --record` first."
        )


@cache
def jobs() -> dict[str, list[Entry]]:
    """The kernels of every job."""
    text = files("kinrank.kernels").joinpath("signatures.json").read_text("utf-8")
    table = json.loads(text)
    entries = [Entry(**entry) for entry in table["kernels"]]
    return {job: [entries[number] for number in numbers] for job, numbers in table["jobs"].items()}


_prepared: set[str] = set()


def prepare(job: str, *, whole: bool = False) -> None:
    """Compile the kernels of a job that the cache lacks, if there are so many that it pays.

    whole : whether a ranking is of the whole gallery, for which other kernels are needed
    """
    job = f"{job}:whole" if whole and f"{job}:whole" in jobs() else job
    if job in _prepared:
        return
    _prepared.add(job)
    if job in jobs() and not config.DISABLE_JIT and jit.keeps_code():
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
    entries_of = jobs()
    jobs_of = {**{job: (job,) for job in entries_of}, **GROUPS, "all": tuple(entries_of)}
    entries: dict[Entry, None] = {}  # each once, in order
    for name in [for_] if isinstance(for_, str) else for_:
        for job in jobs_of[check_choice("for_", name, tuple(jobs_of))]:
            entries |= dict.fromkeys(entries_of[job])
    return list(entries)


def check_kernels(for_: str | Iterable[str], since: float = 0.0) -> dict[str, Any]:
    """As ``warmup``, but the first kernel that does not compile ends it with a ``KernelError``.

    since : time of the last build; kernels in files that changed after it come first, and with them
        those that call what is in these files
    """
    missing = [entry for entry in kernels_of(for_) if not entry.cached()]
    edited = edited_modules(since)
    compile_all(edited_first(missing, edited), strict=True)
    unknown = sorted(name for module in edited for name in _not_recorded(module))
    if unknown:
        logger.info(
            "Not compiled, as their types are not recorded (a test of their option compiles them): "
            "%s",
            ", ".join(unknown),
        )
    return {"folder": jit.kernel_folder(), "compiled": len(missing)}


def edited_modules(since: float) -> set[str]:
    """The modules of kernels that changed after a time; none in a new clone."""
    modules = list(_KERNELS.glob("*.py"))
    edited = {path.stem for path in modules if path.stat().st_mtime > since}
    return set() if len(edited) == len(modules) else edited


def _not_recorded(module: str) -> list[str]:
    """Kernels that Python calls and ``signatures.json`` does not have."""
    recorded = {entry.name for entry in kernels_of("all")}
    text = (_KERNELS / f"{module}.py").read_text("utf-8")
    called = re.findall(rf"^@(?:{'|'.join(_CALLED)})\ndef (\w+)", text, re.MULTILINE)
    return [f"{module}.{name}" for name in called if f"{module}.{name}" not in recorded]


def edited_first(entries: list[Entry], edited: set[str]) -> list[Entry]:
    """Kernels in edited modules, quick ones first; those that import them; then all others."""

    def order(entry: Entry) -> tuple[int, float]:
        module = entry.name.partition(".")[0]
        if module in edited:
            return 0, entry.seconds
        if edited & _imported(module):
            return 1, entry.seconds
        return 2, -entry.seconds

    return sorted(entries, key=order)


@cache
def _imported(module: str) -> frozenset[str]:
    """The modules of kernels that one imports, by others too."""
    text = (_KERNELS / f"{module}.py").read_text("utf-8")
    direct = set(re.findall(r"^from kinrank\.kernels\.(\w+) import", text, re.MULTILINE))
    for names in re.findall(r"^from kinrank\.kernels import (.+)", text, re.MULTILINE):
        direct |= {name.split(" as ")[0].strip() for name in names.split(",")}
    return frozenset(direct.union(*(_imported(name) for name in direct)))


def compile_all(
    entries: list[Entry], processes: int | None = None, *, strict: bool = False
) -> None:
    """Compile kernels here and in other processes, which write them to the cache.

    What another process could not do is done here.

    strict : in the order in which they come, until one does not compile, which is an error; else
        long ones first, and what does not compile is left for its first call
    """
    if not entries:
        return
    count = min(thread_count(processes), len(entries)) if jit.can_keep() else 1
    seconds = sum(entry.seconds for entry in entries) / count
    logger.info("Compiling kernels, once on this machine: about %.0f s", max(seconds, 1))
    if not strict:
        entries = sorted(entries, key=lambda entry: -entry.seconds)
    work = _Work(deque(entries), strict)
    with progress.stage("compiling kernels", len(entries)) as advance:
        threads = [
            threading.Thread(target=_compile_elsewhere, args=(work,), daemon=True)
            for _ in range(count - 1)
        ]
        for thread in threads:
            thread.start()
        reported = 0
        while work.left:
            try:
                entry = work.left.popleft()
            except IndexError:  # another took it
                break
            work.note(entry, entry.compile())
            advance(len(work.done) - reported)
            reported = len(work.done)
        for thread in threads:
            thread.join()
    for entry in entries:
        if entry not in work.done and not work.failed:
            work.note(entry, entry.compile())
    if work.failed:
        raise work.failed[0]


@dataclass
class _Work:
    """Kernels that are left to compile, and what became of the others; deques, for threads.

    strict : whether one that does not compile ends the work
    """

    left: deque[Entry]
    strict: bool
    done: deque[Entry] = field(default_factory=deque)
    failed: deque[KernelError] = field(default_factory=deque)

    def note(self, entry: Entry, message: str | None) -> None:
        """Note what became of a kernel; message : why it does not compile."""
        self.done.append(entry)
        if message is not None and self.strict:
            self.failed.append(KernelError(entry, message))
            self.left.clear()


def _compile_elsewhere(work: _Work) -> None:
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
                entry = work.left.popleft()
            except IndexError:
                break
            _say(to_it, json.dumps(asdict(entry)))
            answer = from_it.readline()
            if not answer:
                break
            work.note(entry, json.loads(answer))
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
        _say(sys.stdout, json.dumps(Entry(**json.loads(line)).compile()))
