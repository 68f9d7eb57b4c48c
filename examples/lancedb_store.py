"""LanceDB twice: a reranker inside a query of its own, and an index over the whole table.

pip install 'kinrank[lancedb]'; python examples/lancedb_store.py
"""

import tempfile

import lancedb
import numpy as np

import kinrank
from kinrank.stores import LanceStore, Reranker

data = kinrank.datasets.load("toy")
rows = [
    {"id": f"image-{row:03d}", "label": int(label), "vector": vector}
    for row, (label, vector) in enumerate(
        zip(data.gallery.labels, data.gallery.features, strict=True)
    )
]

with tempfile.TemporaryDirectory() as folder:
    table = lancedb.connect(folder).create_table("images", rows)

    # `limit` is the pool that is looked at, `k` what comes back.
    right: dict[str, list[float]] = {"LanceDB": [], "with the reranker": [], "with the index": []}
    for query, label in zip(data.query.features, data.query.labels, strict=True):
        search = table.search(query).limit(100)
        plain = search.to_arrow()["label"].to_numpy()[:20]
        found = search.rerank(Reranker(query, k=20), query_string="").to_arrow()
        right["LanceDB"].append(np.mean(plain == label))
        right["with the reranker"].append(np.mean(found["label"].to_numpy() == label))

    # The graph of all rows, built once; queries then come one at a time.
    index = kinrank.attach(LanceStore(table))
    ranking = index.search(data.query.features, 20)

same = data.gallery.labels[ranking.indices] == data.query.labels[:, None]
right["with the index"] = list(same.mean(axis=1))
for title, shares in right.items():
    print(f"{title:<18} {np.mean(shares):6.1%} of the first 20 are right")
print("query 0:", *ranking.ids[0, :5])
