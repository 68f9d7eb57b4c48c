"""With the real open-metric-learning, where it is installed."""

import numpy as np
import pytest

import kinrank

retrieval = pytest.importorskip("oml.retrieval", exc_type=ImportError)
torch = pytest.importorskip("torch", exc_type=ImportError)


class Dataset:
    """Queries and gallery of one set of items, by their numbers."""

    def __init__(self, n_queries, n_gallery):
        self.extra_data = {}
        self.ids = torch.arange(n_queries + n_gallery)
        self.n_queries = n_queries

    def __len__(self):
        return len(self.ids)

    def get_query_ids(self):
        return self.ids[: self.n_queries]

    def get_gallery_ids(self):
        return self.ids[self.n_queries :]


def test_results_are_reordered():
    from oml.interfaces.retrieval import IRetrievalPostprocessor

    from kinrank.compat.oml import Reranker

    rng = np.random.default_rng(0)
    rows = torch.tensor(rng.normal(size=(40, 6)), dtype=torch.float32)
    dataset = Dataset(5, 35)
    first = torch.cdist(rows[:5], rows[5:]).sort(dim=1)
    rr = retrieval.RetrievalResults(list(first.values[:, :20]), list(first.indices[:, :20]))
    reranker = Reranker(rows, "kreciprocal", k1=8, k2=3)
    assert isinstance(reranker, IRetrievalPostprocessor)
    got = reranker.process(rr, dataset=dataset)
    whole = kinrank.rerank(rows[:5], rows[5:], "kreciprocal", k1=8, k2=3)
    for row in range(5):
        kept = [i for i in whole.indices[row] if i in set(first.indices[row, :20].tolist())]
        assert got.retrieved_ids[row].tolist() == kept
    with pytest.raises(kinrank.InvalidInputError, match="one item per embedding"):
        reranker.process(rr, dataset=Dataset(5, 3))
