"""Re-ranking by synthetic gradients.

Xi Shen, Yang Xiao, Shell Xu Hu, Othman Sbai, Mathieu Aubry: Re-ranking for Image Retrieval and
Transductive Few-Shot Classification, NeurIPS 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kinrank.methods.learned.trained import ListMethod


@dataclass(frozen=True, kw_only=True)
class SSR(ListMethod):
    """Synthetic gradients, made by a trained network, move the query and its nearest.

    For each row i of the list a network turns the similarities around it, (s_iq, s_ij, s_qj), into
    what counts as their gradient; carried back to the vectors, it moves the query, and then the
    nearest rows; score = cosine of the moved vectors.

    Distances are minus the score, in [-1, 1]; rows behind the first m keep their order and follow.
    Vectors are normalised first. Time O(n_queries n d) for the search and, per query,
    O(m^2 (d + hidden) + m hidden^2) per step; memory O(n d + m^2). A new query needs only
    the gallery. m, the length of the list, is that of the training; a smaller gallery is filled up
    with rows of similarity 0.

    Parameters
    ----------
    weights : file of weights, from ``kinrank train ssr``
    device : torch device

    Examples
    --------
    >>> import kinrank
    >>> method = kinrank.SSR(weights="ssr.safetensors")  # of kinrank.learned.train
    >>> method.weights
    'ssr.safetensors'
    """

    name: ClassVar[str] = "ssr"
