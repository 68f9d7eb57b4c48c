"""What methods with trained weights share: where the weights are, and on which device they work."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.learned.recipes import device_option
from kinrank.learned.weights import digest, how_to_train
from kinrank.methods.common import InductiveMethod
from kinrank.optional import require
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.search.stored import Stored
from kinrank.types import Ranking

_BATCH = 64  # queries at a time on a device that is not the processor


def refuse_whitening(method: InductiveMethod) -> None:
    """Weights know the rows that they were trained on."""
    if method.whiten is not None:
        raise InvalidInputError(
            f"`whiten` must be None with trained weights, got {method.whiten!r}: train on rows "
            "that were whitened (Whitening.apply), and search such."
        )


@dataclass(frozen=True, kw_only=True)
class TrainedMethod(InductiveMethod):
    """A method whose weights were trained with labels."""

    name: ClassVar[str]

    weights: str | os.PathLike[str] | None = option(
        None, "file of weights that `kinrank train` wrote", cli=str
    )
    device: str = device_option()

    def __post_init__(self) -> None:
        if self.weights is None:
            raise InvalidInputError(
                f"`weights` must be a file for {self.name}, got None. {how_to_train(self.name)}"
            )
        refuse_whitening(self)
        super().__post_init__()

    def fingerprint(self) -> str:
        """What tells results with these weights from those with others."""
        assert self.weights is not None
        return digest(self.weights)

    def state_of(self, network: Any, gallery: Stored, run: Runner) -> Any:
        """What ``_search`` needs, with a network that is already there."""
        raise NotImplementedError

    def rank_with(
        self, network: Any, gallery: Stored, queries: Stored, k: int, run: Runner
    ) -> Ranking:
        """The first ``k`` rows of each query with a network that is being trained."""
        return self._search(self.state_of(network, gallery, run), gallery, queries, k, run)

    def _prepare(self, gallery: Stored, run: Runner) -> Any:
        require("torch", extra="torch", purpose=f"The method {self.name}")
        from kinrank.learned.fitting import load_network

        assert self.weights is not None
        width = gallery.shape[1]
        network, _ = load_network(self.weights, self.name, width, self.device)
        return self.state_of(network, gallery, run)


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
