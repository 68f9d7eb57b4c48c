"""An index over a faiss index on disk: its vectors stay there.

pip install 'kinrank[ann]'; python examples/faiss_store.py
"""

import tempfile
from pathlib import Path

import faiss
import numpy as np

import kinrank
from kinrank.stores import FaissStore

data = kinrank.datasets.load("toy")
queries, gallery = data.query.features, data.gallery.features
labels = 1000 + np.arange(len(gallery))

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "gallery.faiss"
    inner = faiss.index_factory(gallery.shape[1], "IVF8,Flat")
    inner.train(gallery)
    inner.add_with_ids(gallery, labels)
    faiss.write_index(inner, str(path))

    store = FaissStore.open(path)
    store.index.nprobe = 8  # lists that a search looks into

    index = kinrank.attach(store)
    plain, ranking = index.search(queries, 20, base=True), index.search(queries, 20)

for title, found in (("faiss", plain), ("kinrank", ranking)):
    right = data.gallery.labels[found.ids - 1000] == data.query.labels[:, None]
    print(f"{title:<8} {right.mean():6.1%} of the first 20 are right")
print("query 0:", *ranking.ids[0, :5])
