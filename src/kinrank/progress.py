"""Stages report how far they are; whoever listens decides what to show.

Nobody listens by default, and then reporting costs one look at a context variable per block.

    with progress.listen(bar):          # bar(stage, done, total)
        kinrank.rerank(...)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Listener = Callable[[str, int, int], None]
Advance = Callable[[int], None]

_listener: ContextVar[Listener | None] = ContextVar("kinrank_progress", default=None)
_current: ContextVar[str | None] = ContextVar("kinrank_stage", default=None)
_facts: ContextVar[Facts | None] = ContextVar("kinrank_facts", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Send the reports of the calls inside to ``listener(stage, done, total)``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def stage(name: str, total: int) -> Iterator[Advance]:
    """Announce a stage of ``total`` steps; call the yielded function with the steps done since.

    A stage inside a stage moves the outer one's bar and is not announced itself.
    """
    listener = _listener.get()
    if listener is None:
        yield _silent
        return
    outer = _current.get()
    shown = outer or name
    done = 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        if done < total:
            listener(shown, done, total)

    token = _current.set(shown)
    try:
        if outer is None:
            listener(shown, 0, total)
        yield advance
        if outer is None:
            listener(shown, total, total)
    finally:
        _current.reset(token)


class Facts(dict[str, Any]):
    """What a run told of itself; ``on(name, act)`` acts as soon as a fact is told."""

    def __init__(self) -> None:
        super().__init__()
        self._acts: dict[str, Callable[[Any], None]] = {}

    def on(self, name: str, act: Callable[[Any], None]) -> None:
        """Call ``act(fact)`` when it is told."""
        self._acts[name] = act

    def tell(self, name: str, fact: Any) -> None:
        """Keep a fact."""
        self[name] = fact
        if name in self._acts:
            self._acts[name](fact)


@contextmanager
def gather() -> Iterator[Facts]:
    """What the calls inside tell of themselves, such as the recall of an approximate search."""
    facts = Facts()
    token = _facts.set(facts)
    try:
        yield facts
    finally:
        _facts.reset(token)


def tell(name: str, fact: Any) -> None:
    """Say something to whoever gathers facts."""
    facts = _facts.get()
    if facts is not None:
        facts.tell(name, fact)


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
