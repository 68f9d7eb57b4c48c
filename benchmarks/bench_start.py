"""How long first calls take, with an empty cache of kernels and with a filled one.

python benchmarks/bench_start.py              every first call in a process of its own
python benchmarks/bench_start.py --kernels    the seconds of each kernel
python benchmarks/bench_start.py --record     write src/kinrank/kernels/signatures.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

TABLE = Path(__file__).parents[1] / "src/kinrank/kernels/signatures.json"


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
    """The seconds of one first call, imports included."""
    begun = time.perf_counter()
    from first_calls import CALLS

    CALLS[name]()
    print(json.dumps(time.perf_counter() - begun))


def in_process(task, name, cache):
    command = [sys.executable, "-W", "ignore", __file__, "--task", task, name]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    environment.pop("KINRANK_CACHE", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def kernels(names):
    """Every kernel's least seconds, and which calls need it."""
    seconds, jobs = {}, {}
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            rows = in_process("compiled", name, cache)
        jobs[name] = [tuple(row[:2]) for row in rows]
        for *key, cost in rows:
            seconds[tuple(key)] = min(cost, seconds.get(tuple(key), cost))
        print(f"{name}: {len(rows)} kernels, {sum(row[2] for row in rows):.1f} s", file=sys.stderr)
    return seconds, jobs


def record(names):
    seconds, jobs = kernels(names)
    order = sorted(seconds)
    table = {
        "kernels": [
            {"name": name, "types": types, "seconds": round(seconds[name, types], 2)}
            for name, types in order
        ],
        "jobs": {job: sorted(map(order.index, keys)) for job, keys in jobs.items()},
    }
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


def show_kernels(names):
    seconds, jobs = kernels(names)
    for (name, _), cost in sorted(seconds.items(), key=lambda item: -item[1]):
        used = sum(any(key[0] == name for key in keys) for keys in jobs.values())
        print(f"{cost:6.2f} s  {name:32} in {used} calls")


def show_times(names, rounds):
    print(f"| first call | empty cache, s | filled cache, s |\n{'| --- ' * 3}|")
    for name in names:
        empty, filled = [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                empty.append(in_process("timed", name, cache))
                filled.append(in_process("timed", name, cache))
        print(f"| {name} | {statistics.median(empty):.1f} | {statistics.median(filled):.2f} |")


def main():
    from first_calls import CALLS

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
    names = options.calls or list(CALLS)
    if options.record:
        record(names)
    elif options.kernels:
        show_kernels(names)
    else:
        show_times(names, options.rounds)


if __name__ == "__main__":
    import results  # here: the first calls of its processes are timed

    results.run(main, __doc__)
