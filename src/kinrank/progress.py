"""Stages report how far they are; whoever listens decides what to show.

Nobody listens by default, and then reporting costs one look at a context variable per block.

    with progress.listen(bar):          # bar(stage, done, total)
        kinrank.rerank(...)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

Listener = Callable[[str, int, int], None]
Advance = Callable[[int], None]

_listener: ContextVar[Listener | None] = ContextVar("kinrank_progress", default=None)
_current: ContextVar[str | None] = ContextVar("kinrank_stage", default=None)
_facts: ContextVar[tuple[dict[str, Any], dict[str, Callable[[Any], None]]] | None] = ContextVar(
    "kinrank_facts", default=None
)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Send the reports of the calls inside to ``listener(stage, done, total)``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class stage:  # noqa: N801
    """Announce a stage of ``total`` steps; call the yielded function with the steps done since.

    A stage inside a stage moves the outer one's bar and is not announced itself.
    """

    __slots__ = ("_done", "_listener", "_name", "_outer", "_token", "_total")

    def __init__(self, name: str, total: int) -> None:
        self._name = name
        self._total = total
        self._done = 0

    def __enter__(self) -> Advance:
        self._listener = _listener.get()
        if self._listener is None:
            return _silent
        self._outer = _current.get()
        self._name = self._outer or self._name
        if self._outer is None:
            self._listener(self._name, 0, self._total)  # may stop us, and then nothing is reset
        self._token = _current.set(self._name)
        return self._advance

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._listener is None:
            return
        try:
            if self._outer is None and kind is None:
                self._listener(self._name, self._total, self._total)
        finally:
            _current.reset(self._token)

    def _advance(self, steps: int) -> None:
        self._done += steps
        if self._done < self._total and self._listener is not None:
            self._listener(self._name, self._done, self._total)


def forward(stage: str, done: int, total: int) -> None:
    """Pass on what another process reports."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


@contextmanager
def gather(**acts: Callable[[Any], None]) -> Iterator[dict[str, Any]]:
    """What the calls inside tell of themselves, such as the recall of an approximate search.

    acts : by the name of a fact, what is called with it as soon as it is told
    """
    facts: dict[str, Any] = {}
    token = _facts.set((facts, acts))
    try:
        yield facts
    finally:
        _facts.reset(token)


def tell(name: str, fact: Any) -> None:
    """Say something to whoever gathers facts."""
    facts, acts = _facts.get() or ({}, {})
    facts[name] = fact
    if name in acts:
        acts[name](fact)


def current() -> str | None:
    """The stage that is shown now; known only while somebody listens."""
    return _current.get()


def _silent(steps: int) -> None:
    pass


class Stopwatch:
    """A listener that keeps the seconds of each stage, in the order in which they ran."""

    def __init__(self, then: Listener | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        self._then = then

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.perf_counter()
        if done == 0 and stage not in self._begun:
            self._begun[stage] = now
            self.seconds.setdefault(stage, 0.0)
        if done >= total and stage in self._begun:
            self.seconds[stage] += now - self._begun.pop(stage)
        if self._then is not None:
            self._then(stage, done, total)


def format_seconds(seconds: float) -> str:
    """``seconds`` for people: 12 ms, 3.4 s, 2 min 5 s."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def format_bytes(size: float) -> str:
    """``size`` for people: 812 kB, 3.4 MB, 1.25 GB."""
    for unit, power in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= power:
            return f"{size / power:,.{2 if unit == 'GB' else 1}f} {unit}"
    return f"{size:.0f} B"


def peak_memory() -> int | None:
    """The largest resident size of this process so far, in bytes; None where it is not known."""
    # Linux: `getrusage` would tell that of the parent, too, from before our program was loaded.
    with suppress(OSError), Path("/proc/self/status").open(encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # Windows
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
