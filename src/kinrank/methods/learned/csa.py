"""Contextual similarity aggregation.

Jianbo Ouyang, Hui Wu, Min Wang, Wengang Zhou, Houqiang Li: Contextual Similarity Aggregation with
Self-attention for Visual Re-ranking, NeurIPS 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kinrank.methods.learned.trained import ListMethod
from kinrank.options import option


@dataclass(frozen=True, kw_only=True)
class CSA(ListMethod):
    """Contextual similarity aggregation: affinities compared by a trained transformer.

    a_i = similarities of row i to the anchors, the query and its nearest; tokens = transformer of
    the linear map of all a_i, without positions; score = cosine of the tokens of query and row

    Distances are minus the score, in [-1, 1]; rows behind the first m keep their order and follow.
    Vectors are normalised first. Time O(n_queries n d) for the search and, per query,
    O(m anchors (d + width) + m^2 width + m width^2); memory O(n d + m^2). A new query
    needs only the gallery. Anchors beyond a small gallery have affinity 0.

    Parameters
    ----------
    weights : file of weights, from ``kinrank train csa``
    m : nearest rows that are re-ranked; None is as many as in training
    device : torch device

    Examples
    --------
    >>> import kinrank
    >>> method = kinrank.CSA(weights="csa.safetensors")  # of kinrank.learned.train
    >>> method.weights
    'csa.safetensors'
    """

    name: ClassVar[str] = "csa"

    m: int | None = option(
        None, "nearest rows that are re-ranked; as in training if left out", spare=0
    )
