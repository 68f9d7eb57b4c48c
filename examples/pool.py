"""Re-rank what a search returned: no index, no database, only the vectors of the candidates.

python examples/pool.py
"""

import numpy as np

import kinrank

POOL, SHOWN = 100, 20

data = kinrank.datasets.load("toy")
queries, gallery = data.query.features, data.gallery.features
names = np.array([f"image-{row:03d}" for row in range(len(gallery))])

# The search that you have: usually a vector database, here all distances.
distances = np.linalg.norm(queries[:, None] - gallery[None], axis=2)
found = np.argsort(distances, axis=1)[:, :POOL]

# Each query with its own candidates; pools may have different sizes.
ranking = kinrank.rerank_pool(
    queries, [gallery[rows] for rows in found], k=SHOWN, ids=[names[rows] for rows in found]
)

rows = np.take_along_axis(found, ranking.indices, axis=1)  # positions in a pool to gallery rows
for title, first in (("before", found[:, :SHOWN]), ("after", rows)):
    right = data.gallery.labels[first] == data.query.labels[:, None]
    print(f"{title:<7} {right.mean():6.1%} of the first {SHOWN} are right")
print("query 0:", *ranking.ids[0, :5])
