"""Inputs of the tests of large runs, and a run that another process is asked for."""

import hashlib

import numpy as np

from kinrank.runs import journal
from kinrank.search import cells, find

# Runs a method with a work folder, and says how many blocks it did itself.
RUN = """
import sys, json, numpy as np
sys.path.insert(0, sys.argv[1])
import kinrank, large_data
queries, gallery = large_data.rows(int(sys.argv[4]))
method, search = sys.argv[3], sys.argv[5]
with large_data.counted() as done:
    print("ready", flush=True)
    found = kinrank.rerank(queries, gallery, method, 20, run=kinrank.Run(
        work=sys.argv[2], search=search, block_size=64))
print(json.dumps({"digest": large_data.digest(found), "blocks": len(done)}), flush=True)
"""


def rows(n=3000, d=16, seed=0):
    """Queries and gallery around n / 20 centres."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n // 20, d))
    every = centres[random.integers(len(centres), size=n)] + 0.5 * random.normal(size=(n, d))
    every /= np.linalg.norm(every, axis=1, keepdims=True)
    return every[:40].astype(np.float32), every[40:].astype(np.float32)


def digest(ranking):
    """What two rankings share if every bit of them is the same."""
    return hashlib.sha256(ranking.indices.tobytes() + ranking.distances.tobytes()).hexdigest()


class counted:  # noqa: N801 - used as a function
    """The blocks that were finished inside."""

    def __enter__(self):
        self._before, done = journal.Call.finished, []

        def finished(call, block):
            self._before(call, block)
            done.append((call.folder.name, block.low, block.high))

        journal.Call.finished = finished
        return done

    def __exit__(self, *error):
        journal.Call.finished = self._before


def searched_in_cells(monkeypatch, probes=16):
    """Approximate even where an exact search would be quicker; ``probes`` cells, and no fewer."""
    monkeypatch.setattr(find, "FEW", 100)
    monkeypatch.setattr(cells, "PROBES", probes)
    monkeypatch.setattr(cells, "_FEWER", ())
