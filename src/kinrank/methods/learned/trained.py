"""Methods with trained weights: what they share, and those that give new scores to lists.

CSA: Jianbo Ouyang, Hui Wu, Min Wang, Wengang Zhou, Houqiang Li: Contextual Similarity Aggregation
with Self-attention for Visual Re-ranking, NeurIPS 2021.
SSR: Xi Shen, Yang Xiao, Shell Xu Hu, Othman Sbai, Mathieu Aubry: Re-ranking for Image Retrieval and
Transductive Few-Shot Classification, NeurIPS 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.io import PathLike
from kinrank.learned.recipes import device_option, digest, how_to_train
from kinrank.methods.answer import reorder_first
from kinrank.methods.common import InductiveMethod
from kinrank.optional import require
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.search.exact import exact_search
from kinrank.search.stored import Stored
from kinrank.types import Ints, Ranking

_BATCH = 64  # queries at a time on a device that is not the processor


def refuse_projection(method: InductiveMethod) -> None:
    """Weights know the rows that they were trained on."""
    if method.whiten is not None:
        raise InvalidInputError(
            f"`whiten` must be None with trained weights, got {method.whiten!r}: train on rows "
            "that were projected (Projection.transform), and search such."
        )


@dataclass(frozen=True, kw_only=True)
class TrainedMethod(InductiveMethod):
    """A method whose weights were trained with labels."""

    name: ClassVar[str]

    weights: PathLike | None = option(None, "file of weights that `kinrank train` wrote", cli=str)
    device: str = device_option()

    def __post_init__(self) -> None:
        if self.weights is None:
            raise InvalidInputError(
                f"`weights` must be a file for {self.name}, got None. {how_to_train(self.name)}"
            )
        refuse_projection(self)
        super().__post_init__()

    def fingerprint(self) -> str:
        """What tells results with these weights from those with others."""
        assert self.weights is not None
        return digest(self.weights)

    def state_of(self, network: Any, gallery: Stored, run: Runner) -> Any:
        """What ``search_prepared`` needs, with a network that is already there."""
        raise NotImplementedError

    def rank_with(
        self, network: Any, gallery: Stored, queries: Stored, k: int, run: Runner
    ) -> Ranking:
        """The first ``k`` rows of each query with a network that is being trained."""
        state = self.state_of(network, gallery, run)
        return self.search_prepared(state, gallery, queries, k, Execution(run))

    def prepare_gallery(self, gallery: Stored, execution: Execution) -> Any:
        require("torch", extra="torch", purpose=f"The method {self.name}")
        from kinrank.learned.fitting import load_network

        assert self.weights is not None
        width = gallery.shape[1]
        network, _ = load_network(self.weights, self.name, width, self.device)
        return self.state_of(network, gallery, execution.runner)


@dataclass(frozen=True, kw_only=True)
class ListMethod(TrainedMethod):
    """A method that gives new scores to the first rows of each query."""

    def state_of(self, network: Any, gallery: Stored, run: Runner) -> Any:
        del gallery, run  # a list is made when the query is known
        return network

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
        m = min(getattr(self, "m", None) or state.recipe.m, len(gallery))
        length = min(max(m, state.recipe.length), len(gallery))
        first = exact_search(queries, gallery, max(k, length), run, own_rows=own_rows)
        members = first.indices[:, :length].copy()

        def rescore(lists: Any, batch: slice) -> None:
            for row, scores in enumerate(state.scores(lists, m).cpu().numpy(), batch.start):
                reorder_first(first, row, scores)

        each_list(state, queries, gallery, members, rescore, run)
        return Ranking(first.indices[:, :k], first.distances[:, :k])


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
    metric : "cosine", the only one of this method
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
    metric : "cosine", the only one of this method
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


def each_list(
    network: Any, queries: Stored, gallery: Stored, ids: Any, use: Any, run: Runner
) -> None:
    """Call ``use(lists, batch)`` with the lists of a batch of queries, until all were used.

    lists : (b, 1 + m, d) tensor, each query and its gallery rows ``ids``; batch : which queries

    On the processor every query is a batch of its own and torch works with one thread, so that
    neither the other queries nor the number of threads can change a bit.
    """
    import torch

    from kinrank.learned.network import tensor, torch_threads

    device = next(network.parameters()).device
    size = 1 if device.type == "cpu" else _BATCH

    def use_range(low: int, high: int) -> None:
        # Here too: this may be a thread that torch has not seen yet.
        with torch_threads(1), torch.inference_mode():
            for begin in range(low, high, size):
                batch = slice(begin, min(begin + size, high))
                lists = np.concatenate([queries[batch, None], gallery[ids[batch]]], axis=1)
                use(tensor(lists, device), batch)

    with torch_threads(1):
        run.map("re-ranking", use_range, len(queries))
