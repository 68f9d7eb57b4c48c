"""A store of the plainest kind, whose answers a test may spoil."""

import numpy as np

from kinrank import Neighbors


class RowStore:
    """Vectors that somebody else keeps.

    ids : (n,) integers or text; None numbers the rows
    spoil_search : makes something else of the ids and squared distances that a search found
    spoil_fetch : makes something else of the vectors that are fetched
    fetched : how many vectors were fetched
    """

    metric = "euclidean"

    def __init__(self, vectors, ids=None):
        self.vectors = vectors
        self.row_ids = np.arange(len(vectors)) if ids is None else np.array(ids)
        self.positions = {name: row for row, name in enumerate(self.row_ids.tolist())}
        self.spoil_search = None
        self.spoil_fetch = None
        self.fetched = 0

    @property
    def width(self):
        return self.vectors.shape[1]

    def __len__(self):
        return len(self.vectors)

    def ids(self):
        return self.row_ids

    def search(self, queries, k):
        squared = ((queries[:, None].astype(np.float64) - self.vectors) ** 2).sum(axis=2)
        order = np.argsort(squared, axis=1, kind="stable")[:, :k]
        ids = self.row_ids[order]
        distances = np.take_along_axis(squared, order, axis=1).astype(np.float32)
        if self.spoil_search is not None:
            return self.spoil_search(ids, distances)
        return Neighbors(ids, distances)

    def fetch(self, ids):
        self.fetched += len(ids)
        vectors = self.vectors[[self.positions[name] for name in np.asarray(ids).tolist()]]
        return vectors if self.spoil_fetch is None else self.spoil_fetch(vectors)
