"""Attack the library with seeds, in processes that may die, and count what became of it.

python tests/fuzz/campaign.py --minutes 30
python tests/fuzz/campaign.py --only 12345            # the calls of one seed, shown
python tests/fuzz/campaign.py --only 12345 --what damaged
python tests/fuzz/campaign.py --only 12345 --what odd
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

TESTS = Path(__file__).resolve().parent.parent
BATCH = 10_000  # seeds of one process, which takes seconds to start
PER_SEED = {"calls": 2.3, "damaged": 1.35, "odd": 1.0}  # calls, or a few more
# Files that are made, synchronised and removed all the time, which takes long on a disk.
MEMORY_DISK = Path("/dev/shm")  # noqa: S108  folders below it have names that nobody knows
QUICK = MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else None
LIMIT = 60  # seconds that the calls of one seed may take
MEMORY = 24 << 30  # of address space: a file that inflates ends in a failure, not in a full machine
_COUNTS = struct.Struct("<5q")  # seed, seeds done, calls, valid, refused


@dataclass
class Report:
    """Counts of a campaign, and its failures by class: the first seed, and how many."""

    seeds: int = 0
    calls: int = 0
    valid: int = 0
    refused: int = 0
    compiled: int = 0
    failures: dict = field(default_factory=dict)

    def add(self, counts):
        self.seeds += counts[1]
        self.calls += counts[2]
        self.valid += counts[3]
        self.refused += counts[4]

    def fail(self, kind, seed, detail):
        first = self.failures.setdefault(kind, {"seed": seed, "detail": detail, "count": 0})
        first["count"] += 1

    def text(self, what, flags=""):
        """A few lines to read; flags : those that seeds are repeated with."""
        failed = sum(one["count"] for one in self.failures.values())
        variant, flags = flags, flags + (f" --what {what}" if what != "calls" else "")
        counts = f"{self.calls:,} calls: {self.valid:,} valid, {self.refused:,} refused"
        classes = f"{failed:,} failures of {len(self.failures)} classes"
        lines = [f"{what}{variant}: {self.seeds:,} seeds, {counts}, {classes}"]
        lines += [f"  {self.compiled:,} kernels were compiled"] if self.compiled else []
        for kind, one in sorted(self.failures.items(), key=lambda item: -item[1]["count"]):
            lines += [
                f"  {one['count']:6,} x {kind}",
                f"           python tests/fuzz/campaign.py --only {one['seed']}{flags}",
                f"           {one['detail']}",
            ]
        return "\n".join(lines)


def worker(what, first, count, folder):
    """Run seeds in this process; its file says at any time which one, and what was counted."""
    from fuzz.outcome import Failure, Outcomes, place

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable()
    run, outcomes, base = runner_of(what), Outcomes(), Path(folder)
    limit = int(os.environ.get("KINRANK_FUZZ_LIMIT", LIMIT))
    counts = os.open(base / "counts", os.O_RDWR | os.O_CREAT)
    with (base / "failures").open("w", encoding="utf-8") as failures:
        for done, seed in enumerate(range(first, first + count)):
            told = (seed, done, outcomes.calls, outcomes.valid, outcomes.refused)
            os.pwrite(counts, _COUNTS.pack(*told), 0)
            faulthandler.dump_traceback_later(limit, exit=True)
            try:
                run(seed, outcomes, base)
            except Failure as failure:
                kind, detail = failure.kind, failure.detail
            except Exception as error:  # noqa: BLE001 - of the harness: to be seen as well
                kind, detail = f"{type(error).__name__} in {place(error)}", f"{error}"
            else:
                continue
            failures.write(json.dumps([kind, seed, detail[:600]]) + "\n")
            failures.flush()
    faulthandler.cancel_dump_traceback_later()
    told = (-1, count, outcomes.calls, outcomes.valid, outcomes.refused)
    os.pwrite(counts, _COUNTS.pack(*told), 0)
    (base / "compiled").write_text(json.dumps(compiled()))


def runner_of(what):
    """The function that runs a seed: of calls, of damaged files, or of odd arguments."""
    if what == "damaged":
        from fuzz.files import run
    elif what == "odd":
        from fuzz.odd_calls import run
    else:
        from fuzz import index_calls, other_calls, store_calls  # noqa: F401 - they add calls
        from fuzz.calls import run
    return run


def compiled():
    """Kernels that this process had to compile, as no other had before."""
    from numba.core.dispatcher import Dispatcher

    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("kinrank."):
            for value in vars(module).values():
                if isinstance(value, Dispatcher) and value.stats.cache_misses:
                    found[value.__qualname__] = sum(value.stats.cache_misses.values())
    return found


def run_batch(what, first, count, env, report, lock):
    """Run a range of seeds; a process that dies is a failure of the seed it was at."""
    end = first + count
    while first < end:
        with tempfile.TemporaryDirectory(prefix="kinrank-fuzz-", dir=QUICK) as folder:
            base = Path(folder)
            command = [sys.executable, __file__, "--worker", what, str(first), str(end - first)]
            with (base / "stderr").open("wb") as stderr:
                done = subprocess.run(
                    [*command, folder], env=env, cwd=folder, stderr=stderr, check=False
                )
            counts = (first, 0, 0, 0, 0)
            if (base / "counts").exists():
                counts = _COUNTS.unpack((base / "counts").read_bytes())
            with lock:
                report.add(counts)
                if (base / "failures").exists():
                    for line in (base / "failures").read_text().splitlines():
                        report.fail(*json.loads(line))
                if counts[0] < 0:
                    made = base / "compiled"
                    report.compiled += sum(json.loads(made.read_text()).values())
                    return
                report.seeds += 1
                report.fail(*died(done.returncode, counts[0], (base / "stderr").read_text()))
            first = counts[0] + 1


def died(code, seed, stderr):
    """The failure of a process that ended before its time."""
    frames = [line.strip().partition("/kinrank/")[2] for line in stderr.splitlines()]
    frames = [frame.replace('", line ', ":") for frame in frames if frame]
    name = signal.Signals(-code).name if code < 0 else f"exit {code}"
    name = "hang" if "Timeout" in stderr else name
    detail = " < ".join(frames[:6]) or stderr[-300:].replace("\n", " | ")
    return f"{name} at {frames[0] if frames else 'an unknown place'}", seed, detail


def attack(what, seed, count, until, workers, env):
    """Seeds from ``seed`` on, until they make so many calls or the time is over."""
    report, lock = Report(), Lock()
    batch = min(BATCH, int(count / workers / PER_SEED[what]) + 1)

    def batches(number):
        first = seed + number * batch
        while time.monotonic() < until and (first - seed) * PER_SEED[what] < count:
            run_batch(what, first, batch, env, report, lock)
            first += workers * batch
            with lock:
                classes = "".join(
                    f", {one['seed']} {kind}" for kind, one in report.failures.items()
                )
                print(f"  {what}: {report.calls:,} calls{classes}", flush=True)

    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(batches, number) for number in range(workers)]:
            future.result()
    return report


def environment(boundscheck=False, nojit=False):
    """Of the workers: this tree's tests, one thread each for other libraries."""
    source = str(TESTS.parent / "src")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(TESTS)])}
    env |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if boundscheck:  # kernels are compiled again, into a cache of their own
        cache = Path(tempfile.gettempdir()) / "kinrank-fuzz-boundscheck"
        env |= {
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": str(cache),
            "KINRANK_FUZZ_LIMIT": "600",
        }
    if nojit:
        env |= {"NUMBA_DISABLE_JIT": "1", "KINRANK_FUZZ_SMALL": "1", "KINRANK_FUZZ_LIMIT": "600"}
    return env


def show(what, seed):
    """Print the calls of one seed."""
    from fuzz.outcome import Outcomes

    with tempfile.TemporaryDirectory(prefix="kinrank-fuzz-") as folder:
        runner_of(what)(seed, Outcomes(verbose=True), folder)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5, help="for all of it together")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--calls", type=int, default=1 << 40, help="at most so many")
    parser.add_argument("--damaged", type=int, default=1 << 40, help="files, at most so many")
    parser.add_argument("--odd", type=int, default=1 << 40, help="arguments, at most so many")
    parser.add_argument("--kills", type=int, default=1 << 40, help="of a writer, at most so many")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--boundscheck", action="store_true", help="kernels check every index")
    parser.add_argument("--nojit", action="store_true", help="kernels as plain Python, slow")
    parser.add_argument("--only", type=int, help="show the calls of this seed")
    parser.add_argument("--what", choices=("calls", "damaged", "odd"), default="calls")
    chosen = parser.parse_args(arguments)
    env = environment(chosen.boundscheck, chosen.nojit)
    if chosen.only is not None:
        command = [sys.executable, __file__, "--show", chosen.what, str(chosen.only)]
        return subprocess.run(command, env=env, check=False).returncode
    return campaign(chosen, env)


def campaign(chosen, env):
    """Damaged files, odd arguments, calls most of the time, then kills; 1 if anything failed."""
    begun = time.monotonic()
    flags = " --boundscheck" * chosen.boundscheck + " --nojit" * chosen.nojit
    failed, seconds = 0, 60 * chosen.minutes
    parts = (
        ("damaged", chosen.damaged, 0.15),
        ("odd", chosen.odd, 0.3),
        ("calls", chosen.calls, 0.9),
    )
    for what, most, share in parts:
        if most:
            until = begun + seconds * share
            report = attack(what, chosen.seed, most, until, chosen.workers, env)
            print(report.text(what, flags), flush=True)
            failed += len(report.failures)
    if chosen.kills:
        from fuzz.kills import check_kills

        with tempfile.TemporaryDirectory(prefix="kinrank-fuzz-") as folder:
            os.environ.update(env)  # the writer is one of this tree
            done = check_kills(Path(folder), chosen.kills, chosen.seed, begun + seconds)
        print(
            f"kills: {done[0]:,} of a writer, the file changed in {done[1]:,} and was whole in all"
        )
    print(f"{time.monotonic() - begun:.0f} seconds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    elif sys.argv[1:2] == ["--show"]:
        show(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main())
