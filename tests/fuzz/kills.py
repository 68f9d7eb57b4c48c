"""A writer of an index that is killed at any moment: its file holds what it said, or one step more.

One process stays: it has loaded and compiled everything, and forks a writer each time it is asked.
"""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from os import kill

import numpy as np

import kinrank
from index_data import QUERIES, ROWS
from kinrank import CAS

METHOD = CAS(k1=10, k2=4)
# The writer adds and removes rows for ever, and says what was committed after each save.
NURSERY = """
import os, sys, numpy as np, kinrank
path, rows = sys.argv[1], np.load(sys.argv[2])
warm = kinrank.CAS(k1=10, k2=4).fit(rows[:130], threads=1)
warm.add(rows[:1], threads=1)
warm.remove([3], threads=1)

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def write():
    say("ready", os.getpid())
    while True:
        with kinrank.open(path, writable=True) as index:
            n = int(index.ids.max()) + 1
            index.add(rows[[n % len(rows)]], ids=[n], threads=1)
            index.save()
            say("added", n)
            if len(index) > 130:
                gone = int(index.ids.min())
                index.remove([gone], threads=1)
                index.save()
                say("removed", gone)

for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        write()
    os.waitpid(child, 0)
    say("end")
"""


@contextmanager
def nursery(path, rows):
    """A function that has a writer work for so many seconds, kills it, and returns its words."""
    process = subprocess.Popen(
        [sys.executable, "-c", NURSERY, path, rows],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def killed(delay):
        process.stdin.write("\n")
        process.stdin.flush()
        writer = int(process.stdout.readline().split()[1])
        time.sleep(delay)
        kill(writer, signal.SIGKILL)
        return list(iter(process.stdout.readline, "end\n"))

    try:
        yield killed
    finally:
        process.kill()
        process.communicate()


def committed(lines, before):
    """The ids that must be there."""
    ids = set(before)
    for line in lines:
        word, _, number = line.partition(" ")
        if word == "added":
            ids.add(int(number))
        elif word == "removed":
            ids.discard(int(number))
    return ids


def check_kills(folder, count, seed, until=float("inf")):
    """Kill a writer ``count`` times; how often that was, and how often the file had changed."""
    path, rows = folder / "an.index", folder / "rows.npy"
    np.save(rows, ROWS)
    METHOD.fit(ROWS[:120]).save(path)
    rng = np.random.default_rng(seed)
    kills = changed = 0
    with nursery(path, rows) as killed:
        while kills < count and time.monotonic() < until:
            before = set(kinrank.open(path, verify=True).ids.tolist())
            known = committed(killed(rng.uniform(0.0, 0.5)), before)
            index = kinrank.open(path, verify=True)
            found = set(index.ids.tolist())
            # The last save may have been finished without a word of it.
            assert len(found ^ known) <= 1
            assert known - found <= {min(known)}
            assert index.search(QUERIES[:2], k=5).ids.shape == (2, 5)
            changed += found != before
            kinrank.open(path, writable=True).close()
            kills += 1
    return kills, changed
