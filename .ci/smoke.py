"""A wheel in an empty environment: it ranks, keeps an index, and compiles nothing.

Prints how long the first answer with `params="auto"` takes, imports included, and the time of the
processor in it, by which a test judges.
"""

import tempfile
import time
from pathlib import Path

began = time.perf_counter()

from numba.core import event  # noqa: E402 - kinrank loads it too: its time counts

recorder = event.RecordingListener()
event.register("numba:compile", recorder)

import kinrank  # noqa: E402

data = kinrank.datasets.load("toy")
queries = data.query.features
gallery = data.gallery.features
ranking = kinrank.rerank(queries, gallery, k=5, params="auto")
seconds = time.perf_counter() - began
processor = time.process_time()
assert ranking.indices.shape == (30, 5)
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    file = Path(folder) / "gallery.index"
    kinrank.CAS().fit(gallery).save(file)
    found = kinrank.open(file).search(queries[:1], k=5)
    assert found.ids.shape == (1, 5)
assert not recorder.buffer, f"{len(recorder.buffer) // 2} functions were compiled"
print(
    f"kinrank {kinrank.__version__} works and compiles nothing; "
    f"the first answer with params='auto' took {seconds:.2f} s, "
    f"{processor:.2f} s of a processor"
)
