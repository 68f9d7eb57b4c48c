"""A process that computes one cell and ends, so that its peak of memory is the cell's.

    python -m kinrank.evaluate.worker < job.json

The job names the data set as ``kinrank.datasets.load`` takes it, the method, and the file for the
result. Standard output has one JSON object per line: how far the stages are, or what went wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from kinrank import progress
from kinrank.datasets import load
from kinrank.evaluate.cells import Measured, measure
from kinrank.evaluate.spec import NONE, MethodSpec
from kinrank.registry import import_path, register

EVERY_SECONDS = 0.1


class WorkerError(Exception):
    """What a worker said before it ended."""


def run_worker(
    spec: MethodSpec, source: dict[str, Any], result: Path, *, threads: int | None = None
) -> Measured:
    """Compute one cell in a process of its own."""
    job = {
        "method": asdict(spec),
        "source": source,
        "result": str(result),
        "threads": threads,
        "import": None if spec.name == NONE else import_path(spec.name),
        "path": sys.path,
    }
    command = [sys.executable, "-m", "kinrank.evaluate.worker"]
    with subprocess.Popen(  # noqa: S603 - our own module, no words of the user
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job))
            process.stdin.close()
            reason = None
            for line in process.stdout:  # its stages are reported as if they were ours
                message = json.loads(line)
                if "error" in message:
                    reason = str(message["error"])
                else:
                    progress.forward(**message)
        except BaseException:
            process.kill()
            raise
    if reason is not None or process.returncode != 0:
        raise WorkerError(reason or exit_reason(process.returncode))
    return Measured.load(result)


def main() -> int:
    """Read a job, do it, write its result."""
    job = json.load(sys.stdin)
    try:
        spec = MethodSpec(**job["method"])
        if job["import"] is not None:
            _import_method(spec.name, job["import"], job["path"])
        with progress.listen(_ProgressTeller()):
            cell = measure(spec, load(**job["source"]), threads=job["threads"])
        replace(cell, peak_bytes=progress.peak_memory()).save(Path(job["result"]))
    except Exception as error:  # noqa: BLE001 - whatever it was, the table goes on without it
        name = type(error).__name__
        _tell(error=f"{name}: {error}" if str(error) else name)
        return 1
    return 0


def _import_method(name: str, place: str, path: list[str]) -> None:
    """Register a method as the process that asks has it; path : where it finds modules."""
    sys.path += [folder for folder in path if folder not in sys.path]
    module, _, attribute = place.partition(":")
    register(name, getattr(import_module(module), attribute))


def _tell(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class _ProgressTeller:
    """A listener that writes what it hears, not too often."""

    last = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done in (0, total) or now - self.last > EVERY_SECONDS:
            self.last = now
            _tell(stage=stage, done=done, total=total)


def exit_reason(code: int) -> str:
    """How a process ended that left no words; code : as ``subprocess`` gives it."""
    if code == -9:
        return "ended by the system, most likely for want of memory"
    return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


if __name__ == "__main__":
    sys.exit(main())
