"""A wheel in an empty environment: it ranks, keeps an index, and compiles nothing."""

from numba.core import event

import kinrank

recorder = event.RecordingListener()
event.register("numba:compile", recorder)

data = kinrank.datasets.load("toy")
ranking = kinrank.rerank(data.query.features, data.gallery.features, k=5)
assert ranking.indices.shape == (30, 5)
index = kinrank.CAS().fit(data.gallery.features)
index.save("gallery.index")
found = kinrank.open("gallery.index").search(data.query.features[:1], k=5)
assert found.ids.shape == (1, 5)
assert not recorder.buffer, "the machine code of the wheel was not found"
print("kinrank", kinrank.__version__, "works, and compiles nothing")
