"""Guided similarity separation.

Chundi Liu, Guangwei Yu, Maksims Volkovs, Cheng Chang, Himanshu Rai, Junwei Ma, Satya Krishna
Gorti: Guided Similarity Separation for Image Retrieval, NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kinrank.io import PathLike
from kinrank.learned.recipes import GSSRecipe, digest
from kinrank.methods.common import InductiveMethod
from kinrank.methods.learned.trained import refuse_projection
from kinrank.optional import require
from kinrank.options import option
from kinrank.runs.execution import Execution
from kinrank.search.exact import exact_search
from kinrank.search.stored import Stored
from kinrank.types import Ints, Ranking


@dataclass(frozen=True, kw_only=True)
class GSS(GSSRecipe, InductiveMethod):
    """Guided similarity separation: a graph network that learns on the gallery, without labels.

    A = D^-1/2 (W + I) D^-1/2, W the similarities of the k1 nearest, symmetric; z1 = A X W1 + b1;
    z2 = A elu(z1) W2 + b2; h = the unit vector along z1 + decay elu(z2); score = h_q h_g. Adam
    makes -(max(h_i h_j, 0) - beta)^2 / 2 small, the mean over pairs of gallery rows.

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d)
    for the search, O(n^2 d) for the graph and O(m d^2 + batch^2 d) per step to fit, m the rows in a
    batch and those linked to them; memory O(n d + d^2 + batch^2). A new query needs only the fitted
    gallery. Training uses as many threads as torch is set to.

    Open in the publication or its code and taken here: W is the larger of both directions; negative
    similarities count 0; beyond ``batch`` rows a step takes the pairs of a random batch.

    Parameters
    ----------
    metric : "cosine", the only one of this method
    weights : file of weights from ``kinrank train gss``, which also gives k1 and decay; without it
        fitting trains
    k1, kq : nearest gallery rows that a gallery row is linked to, and a query
    decay : weight of the second layer (0.3 on the authors' command line, 0.4 in their class)
    epochs : steps of Adam
    rate : its learning rate
    quantile : beta is this quantile of the similarities at the beginning
    penalty : of the squared weights
    batch : most rows whose pairs are looked at in one step
    seed : the same seed gives the same weights
    device : torch device

    Examples
    --------
    >>> import kinrank
    >>> method = kinrank.GSS(weights="gss.safetensors")  # of kinrank.learned.train
    >>> method.weights
    'gss.safetensors'
    """

    kq: int = option(5, "nearest rows that a query is linked to", spare=0)
    weights: PathLike | None = option(
        None, "file of weights that `kinrank train gss` wrote", cli=str
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None:
            refuse_projection(self)

    def fingerprint(self) -> str | None:
        """What tells results with these weights from those with others."""
        return None if self.weights is None else digest(self.weights)

    def prepare_gallery(self, gallery: Stored, execution: Execution) -> Any:
        """The network, the graph, elu(z1) and h of the gallery."""
        require("torch", extra="torch", purpose="The method gss")
        from kinrank.learned.fitting import build, load_network, train_graph
        from kinrank.learned.gss import GalleryGraph, embed, multiply
        from kinrank.learned.network import from_arrays

        run = execution.runner
        width = gallery.shape[1]
        network: Any
        if self.weights is not None:
            network, recipe = load_network(self.weights, "gss", width, self.device)
            graph = GalleryGraph(gallery, recipe.k1, run)
        else:
            graph = GalleryGraph(gallery, self.k1, run)
            network = build(self, width)
            from_arrays(network, train_graph(self, graph)[0], "training")
        hidden, embedded = embed(network, graph.smoothed, lambda h: multiply(graph.matrix, h, run))
        return network, graph, hidden, embedded

    def search_prepared(
        self,
        state: Any,
        gallery: Stored,
        queries: Stored,
        k: int,
        execution: Execution,
        own_rows: Ints | None = None,
    ) -> Ranking:
        run = execution.runner
        from kinrank.learned.gss import embed, multiply

        network, graph, hidden, embedded = state
        links, itself = graph.queries(queries, gallery, self.kq, run, own_rows)
        smoothed = multiply(links, gallery[:], run) + itself * queries[:]
        moved = embed(network, smoothed, lambda h: multiply(links, hidden, run) + itself * h)[1]
        answers = exact_search(moved, embedded, k, run, "inner")
        return Ranking(answers.indices, answers.distances)
