"""A postprocessor for open-metric-learning.

rr = RetrievalResults.from_embeddings(embeddings, dataset, n_items=100)
rr = kinrank.compat.oml.Reranker(embeddings, method="cas").process(rr, dataset=dataset)
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.registry import make_method
from kinrank.validation import as_matrix


class OmlReranker:
    """Re-rank retrieval results by the embeddings they were made from.

    Parameters
    ----------
    embeddings : (n, d) of the whole data set, as given to ``RetrievalResults.from_embeddings``
    method : a name of ``kinrank.methods()``
    **params : parameters of the method
    """

    def __init__(self, embeddings: Any, method: str = "cas", **params: Any) -> None:
        self.embeddings = as_matrix("embeddings", embeddings)
        self.method = make_method(method, **params)

    def process(self, rr: Any, dataset: Any) -> Any:
        """The same items of every query in their new order, with their new distances.

        The method sees the whole gallery, not only what was retrieved.
        """
        if rr.is_empty():
            return rr.deepcopy()
        if len(dataset) != len(self.embeddings):
            raise InvalidInputError(
                f"`dataset` must have one item per embedding ({len(self.embeddings)}), "
                f"got {len(dataset)}."
            )
        queries = self.embeddings[np.asarray(dataset.get_query_ids())]
        gallery = self.embeddings[np.asarray(dataset.get_gallery_ids())]
        ranking = self.method.rerank(queries, gallery)
        distances = []
        ids = []
        for row, retrieved in enumerate(rr.retrieved_ids):
            wanted = np.isin(ranking.indices[row], np.asarray(retrieved))
            ids.append(retrieved.new_tensor(ranking.indices[row][wanted]))
            distances.append(rr.distances[row].new_tensor(ranking.distances[row][wanted]))
        return type(rr)(distances=distances, retrieved_ids=ids, gt_ids=rr.gt_ids)


def __getattr__(name: str) -> Any:
    """``Reranker``: ``OmlReranker`` as the postprocessor that it is, once the package is there."""
    if name != "Reranker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        interface = import_module("oml.interfaces.retrieval").IRetrievalPostprocessor
    except ModuleNotFoundError as error:
        raise ImportError(
            f"kinrank.compat.oml.Reranker needs the package {error.name!r}, which is not "
            "installed. Install it with: pip install open-metric-learning"
        ) from error
    globals()[name] = type(name, (OmlReranker, interface), {"__doc__": OmlReranker.__doc__})
    return globals()[name]
