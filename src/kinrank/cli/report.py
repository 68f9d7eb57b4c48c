"""What a run shows: bars and times on a terminal, warnings in one line, peak memory."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

import click

from kinrank import progress
from kinrank.errors import KinrankWarning
from kinrank.optional import require

_PURPOSE = "Progress on a terminal"
_BAR = "{desc} {percentage:3.0f}% |{bar:30}| {remaining} left"


@dataclass(frozen=True)
class Run:
    """What a command knows of its work: when it began, the time of its stages, its warnings."""

    begun: float
    watch: progress.Stopwatch
    warned: list[str]

    def facts(self, **more: Any) -> dict[str, Any]:
        """What the summary of every run holds."""
        seconds = time.perf_counter() - self.begun
        return {"seconds": seconds, "stages": self.watch.seconds, **more, "warnings": self.warned}

    def summary(self, out: object) -> dict[str, Any]:
        """The same with the memory that it took, and where the result is."""
        return {**self.facts(peak_memory_bytes=progress.peak_memory()), "output": str(out)}


@contextmanager
def running(*, show: bool = True) -> Iterator[Run]:
    """Time the stages of the calls inside, and show these and warnings on a terminal."""
    bars = Bars(sys.stderr) if show and sys.stderr.isatty() else None
    watch = progress.Stopwatch(then=bars)
    try:
        with shown_warnings() as warned, progress.listen(watch):
            yield Run(time.perf_counter(), watch, warned)
    except BaseException:
        if bars is not None:
            bars.close(finished=False)
        raise
    if bars is not None:
        bars.close()


class Bars:
    """A listener that draws a bar for the running stage and leaves one line for each past one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._tqdm = require("tqdm", extra="cli", purpose=_PURPOSE).tqdm
        self._stage: str | None = None
        self._begun = 0.0
        self._bar: Any = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self.close()
            self._stage = stage
            self._begun = time.perf_counter()
            # Stages that are over before the eye sees them draw no bar.
            shown = {"desc": f"  {stage:<16}", "bar_format": _BAR, "leave": False, "delay": 0.2}
            self._bar = self._tqdm(total=total, file=self._stream, **shown)
        self._bar.total = total  # the parts of a stage may differ in length
        self._bar.update(done - self._bar.n)

    def close(self, *, finished: bool = True) -> None:
        if self._stage is None:
            return
        self._bar.close()
        if finished:
            took = progress.format_seconds(time.perf_counter() - self._begun)
            click.echo(f"  {self._stage:<16} {took:>9}", file=self._stream)
        self._stage = None


@contextmanager
def shown_warnings() -> Iterator[list[str]]:
    """Show each KinrankWarning as one line on stderr, and collect their texts."""
    texts: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", KinrankWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if not issubclass(category, KinrankWarning):
                others(message, category, *rest)
            elif str(message) not in texts:
                texts.append(str(message))
                say(f"Warning: {message}")

        warnings.showwarning = show  # type: ignore[assignment]
        yield texts


def say(line: str) -> None:
    """A line on stderr that leaves a running bar whole."""
    if sys.stderr.isatty():
        require("tqdm", extra="cli", purpose=_PURPOSE).tqdm.write(line, file=sys.stderr)
    else:
        click.echo(line, err=True)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def show_log(name: str) -> None:
    """Show what a logger says as lines on stderr, once however often this is called."""
    logger = logging.getLogger(name)
    if not any(isinstance(handler, _Lines) for handler in logger.handlers):
        logger.addHandler(_Lines())
        logger.setLevel(logging.INFO)
