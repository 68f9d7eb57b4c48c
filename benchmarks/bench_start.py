"""How long first calls take: as installed, compiled at the first call, and with a filled cache.

python benchmarks/bench_start.py              first calls, each in a process of its own
python benchmarks/bench_start.py --kernels    the seconds of each kernel
python benchmarks/bench_start.py --record     write src/kinrank/kernels/signatures.json;
                                              with names, the part of these calls
"""

from __future__ import annotations

import argparse
import atexit
import compileall
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "kinrank"
SERVE = "kinrank serve --demo"
TABLE = PACKAGE / "kernels" / "signatures.json"


class Compiled:
    """Listens to numba: which kernels are compiled for Python, for what, and how long it takes."""

    def __init__(self):
        self.stack, self.rows = [], {}

    def on_start(self, _):
        self.stack.append(time.process_time())

    def on_end(self, event):
        seconds = time.process_time() - self.stack.pop()
        function = event.data["dispatcher"].py_func
        room, _, module = function.__module__.rpartition(".")
        if not self.stack and room == "kinrank.kernels":
            from first_calls import spelled

            types = ", ".join(spelled(kind) for kind in event.data["args"])
            self.rows[f"{module}.{function.__name__}", types] = seconds


def compiled(name):
    """What one first call compiles."""
    from numba.core import event

    import kinrank.compiling
    from first_calls import CALLS

    kinrank.compiling.compile_all = lambda _: None  # in this process, one kernel after the other
    listener = type("Listener", (Compiled, event.Listener), {})()
    event.register("numba:compile", listener)
    CALLS[name]()
    print(json.dumps([[*key, seconds] for key, seconds in listener.rows.items()]))


def timed(name):
    """The seconds of one first call, imports included unless another call comes before it."""
    begun = time.perf_counter()
    from first_calls import SHOWN

    before, call = SHOWN[name]
    if before:
        before()
        begun = time.perf_counter()
    call()
    print(json.dumps(time.perf_counter() - begun))


def served(cache, sources):
    """The seconds from the command `kinrank serve --demo` to the first answer of /health."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "kinrank", "serve", "--demo", "--port", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    begun = time.perf_counter()
    with subprocess.Popen(command, env=environment(cache, sources), **quiet) as process:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60).close()
                break
            except OSError:
                if process.poll() is not None:
                    sys.exit(f"{' '.join(command)} failed")
                time.sleep(0.01)
        seconds = time.perf_counter() - begun
        process.terminate()
    return seconds


@cache
def without_code():
    """Sources without the machine code of their installation."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    copy = f"{folder.name}/kinrank"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("machine", "__pycache__"))
    compileall.compile_dir(copy, quiet=1)
    return folder.name


def environment(cache, sources):
    known = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(sources)}
    known.pop("KINRANK_CACHE", None)
    return known


def in_process(task, name, cache, sources):
    command = [sys.executable, "-W", "ignore", __file__, "--task", task, name]
    done = subprocess.run(
        command, env=environment(cache, sources), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def kernels(names):
    """Every kernel's least seconds, and which calls need it."""
    seconds, jobs = {}, {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            rows = in_process("compiled", name, folder, without_code())
        jobs[name] = [tuple(row[:2]) for row in rows]
        for *key, cost in rows:
            seconds[tuple(key)] = min(cost, seconds.get(tuple(key), cost))
        print(f"{name}: {len(rows)} kernels, {sum(row[2] for row in rows):.1f} s", file=sys.stderr)
    return seconds, jobs


def record(names):
    seconds, jobs = kernels(names)
    from first_calls import CALLS

    before = json.loads(TABLE.read_text())
    for job in before["jobs"].keys() & (CALLS.keys() - jobs.keys()):
        entries = [before["kernels"][place] for place in before["jobs"][job]]
        jobs[job] = [(entry["name"], entry["types"]) for entry in entries]
        for entry in entries:
            seconds.setdefault((entry["name"], entry["types"]), entry["seconds"])
    order = sorted(seconds)
    table = {
        "kernels": [
            {"name": name, "types": types, "seconds": round(seconds[name, types], 2)}
            for name, types in order
        ],
        "jobs": {job: sorted(map(order.index, jobs[job])) for job in CALLS},
    }
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


def show_kernels(names):
    seconds, jobs = kernels(names)
    for (name, _), cost in sorted(seconds.items(), key=lambda item: -item[1]):
        used = sum(any(key[0] == name for key in keys) for keys in jobs.values())
        print(f"{cost:6.2f} s  {name:32} in {used} calls")


def show_times(names, rounds):
    columns = ("as installed", "compiled at the first call", "filled cache")
    print(f"| seconds | {' | '.join(columns)} |\n{'| --- ' * 4}|")
    for name in names:
        times = [first_times(name) for _ in range(rounds)]
        cells = [f"{statistics.median(column):.2f}" for column in zip(*times, strict=True)]
        print(f"| {name} | {' | '.join(cells)} |")


def first_times(name):
    """One first call: as installed; without the installation's code; and once more."""

    def call(cache, sources):
        if name == SERVE:
            return served(cache, sources)
        return in_process("timed", name, cache, sources)

    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as other:
        places = [(other, PACKAGE.parent), *2 * [(cache, without_code())]]
        return [call(*place) for place in places]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", nargs="*", help="names of first calls; all of them if none")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--task", choices=("timed", "compiled"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        warnings.simplefilter("ignore")
        globals()[options.task](options.calls[0])
        return
    from first_calls import CALLS, SHOWN

    if options.record:
        record(options.calls or list(CALLS))
    elif options.kernels:
        show_kernels(options.calls or list(CALLS))
    else:
        show_times(options.calls or [*SHOWN, SERVE], options.rounds)


if __name__ == "__main__":
    import results  # here: the first calls of its processes are timed

    results.run(main, __doc__)
