"""A gallery that lives: build an index, search it, change it, save it, set a threshold.

pip install kinrank; python examples/living_gallery.py
"""

import tempfile
from pathlib import Path

import numpy as np

import kinrank

data = kinrank.datasets.load("toy")
queries, gallery = data.query.features, data.gallery.features
names = [f"image-{row:03d}.jpg" for row in range(len(gallery))]

index = kinrank.CAS(k1=20, k2=5).fit(gallery, ids=names)
print(index)
print(index.search(queries[0], k=3))

# Items come and go; the result is that of a fresh build.
index.add(queries[:2], ids=["new-1.jpg", "new-2.jpg"])
index.remove(["image-000.jpg"])
print("now", len(index), "items; nearest to new-1.jpg:", *index.neighbors("new-1.jpg", k=3).ids[0])

# What a threshold would let through, with the labels that you have.
labels = {name: str(label) for name, label in zip(names, data.gallery.labels, strict=True)}
labels |= {"new-1.jpg": str(data.query.labels[0]), "new-2.jpg": str(data.query.labels[1])}
calibration = index.calibrate({name: labels[name] for name in index.ids.tolist()})
limit = calibration.threshold(pair_false_match_rate=0.01)
found = calibration.at(limit)
print(f"below {limit:.2f}: precision {found['precision']:.2f}, recall {found['recall']:.2f}")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "gallery.index"
    index.save(path)
    reopened = kinrank.open(path)  # mapped, in another process just as well
    ranking = reopened.search(queries, k=5)
    assert np.array_equal(ranking.ids, index.search(queries, k=5).ids)
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    print(reopened.explain(queries[0], ranking.ids[0, 0]).as_dict()["distance"])
    reopened.close()
