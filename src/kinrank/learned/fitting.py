"""Recipes carried out: networks made, trained, judged on held-out identities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from kinrank.io import PathLike
from kinrank.learned.data import Labelled, TrainingLists, queries_and_gallery, split
from kinrank.learned.gss import GalleryGraph, GSSNetwork, GSSTask
from kinrank.learned.loop import Progress, fit
from kinrank.learned.network import check_device, from_arrays, size, tensor, torch_threads
from kinrank.learned.networks import CSANetwork, LAttQENetwork, ListNetwork, SSRNetwork
from kinrank.learned.recipes import (
    AnyRecipe,
    Arrays,
    Card,
    GSSRecipe,
    TrainingRecipe,
    load_weights,
    recipe_class,
)
from kinrank.metrics.protocols import reid
from kinrank.parallel import Runner
from kinrank.reading import reading
from kinrank.registry import method_class
from kinrank.search.exact import exact_search

_FEW_NUMBERS = 1 << 18
_NETWORKS: dict[str, Callable[[Any, int], nn.Module]] = {
    "csa": lambda recipe, _: CSANetwork(recipe),
    "gss": lambda recipe, dimension: GSSNetwork(dimension, recipe.decay),
    "lattqe": LAttQENetwork,
    "ssr": lambda recipe, _: SSRNetwork(recipe),
}


def train_lists(
    recipe: TrainingRecipe, data: Labelled, run: Runner, **how: Any
) -> tuple[Arrays, Card]:
    """Learn from labelled lists, judged on identities that are held out.

    how : ``checkpoint`` and ``on_epoch`` of ``fit``
    """
    dimension = data.vectors.shape[1]
    with torch_threads(_threads(run.threads, recipe.batch * recipe.length * dimension)):
        learned, held = split(data, recipe.holdout, recipe.seed)
        task = ListTask(recipe, learned, held, run)
        rate = recipe.rate_for(dimension)
        state = fit(task, epochs=recipe.epochs, patience=recipe.patience, rate=rate, **how)
        scores = {"mAP none": task.plain_score()}
    if state.best_score is not None:
        scores["mAP"] = state.best_score
    rows = {
        "rows": len(learned),
        "identities": learned.identities,
        "held-out rows": len(held),
        "held-out identities": held.identities,
    }
    return state.best, _card(recipe, dimension, task.network, state, rows, scores)


def train_graph(
    recipe: GSSRecipe, graph: GalleryGraph, threads: int | None = None, **how: Any
) -> tuple[Arrays, Card]:
    """Learn from a gallery alone; None leaves the threads to torch; how : as in ``train_lists``."""
    dimension = graph.smoothed.shape[1]
    with torch_threads(_threads(threads, graph.smoothed.size)):
        task = GSSTask(build(recipe, dimension), graph, recipe)
        epochs = recipe.epochs
        state = fit(task, epochs=epochs, patience=epochs + 1, rate=recipe.rate, **how)
    rows = {"rows": len(graph.smoothed)}
    scores = {"beta": task.beta}
    return state.best, _card(recipe, dimension, task.network, state, rows, scores)


class ListTask:
    """Lists of nearest rows, seen by a network that is judged by how it ranks held-out rows."""

    def __init__(
        self, recipe: TrainingRecipe, learned: Labelled, held: Labelled, run: Runner
    ) -> None:
        self.network: ListNetwork = build(recipe, learned.vectors.shape[1])
        self._run = run
        self._method = recipe.method
        self._queries, self._gallery = queries_and_gallery(held, recipe.seed)
        self._lists = TrainingLists(learned, recipe, run)
        self.steps = self._lists.steps
        self._device = next(self.network.parameters()).device
        self._vectors = tensor(learned.vectors, self._device)

    def losses(self, epoch: int) -> Iterator[Tensor]:
        for batch in self._lists.batches(epoch):
            ids, right, wrong = (tensor(values, self._device) for values in batch)
            yield self.network.loss(self._vectors[ids.long()], right, wrong)

    def score(self) -> float:
        """mAP of the method with these weights."""
        self.network.eval()
        cls: Any = method_class(self._method)
        queries = self._queries.vectors
        gallery = self._gallery.vectors
        method = cls(weights="being trained")
        return self._map(method.rank_with(self.network, gallery, queries, len(gallery), self._run))

    def plain_score(self) -> float:
        queries = self._queries.vectors
        gallery = self._gallery.vectors
        return self._map(exact_search(queries, gallery, len(gallery), self._run).indices)

    def _map(self, ranking: Any) -> float:
        queries = self._queries
        gallery = self._gallery
        labels = (queries.labels, gallery.labels)
        return float(reid(ranking, *labels, queries.cams, gallery.cams).mAP)


def _threads(threads: int | None, numbers: int) -> int | None:
    """Threads wait longer for each other than small steps take: these are for one."""
    return 1 if numbers < _FEW_NUMBERS else threads


def build(recipe: AnyRecipe, dimension: int) -> Any:
    """The network of a recipe, at its beginning; the random numbers of torch are left alone."""
    device = check_device(recipe.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = _NETWORKS[recipe.method](recipe, dimension)
    return network.to(device)


def load_network(path: PathLike, method: str, dimension: int, device: str) -> tuple[Any, Any]:
    """A trained network for vectors of ``dimension`` columns, and its recipe."""
    arrays, card = load_weights(path, method, dimension)
    with reading(path, "weights with a model card that this version of kinrank can use"):
        recipe = recipe_class(method)(**{**card.parameters, "device": device})
    network = build(recipe, dimension)
    from_arrays(network, arrays, path)
    return network.eval(), recipe


def _card(
    recipe: AnyRecipe,
    dimension: int,
    network: nn.Module,
    state: Progress,
    rows: dict[str, int],
    scores: dict[str, float],
) -> Card:
    losses = {"loss": state.history[state.best_epoch - 1][0]} if state.best_epoch else {}
    counts = {"epochs": float(state.epoch), "best epoch": float(state.best_epoch)}
    return Card(
        method=recipe.method,
        dimension=dimension,
        parameters=asdict(recipe),
        size=size(network),
        data=rows,
        metrics={**scores, **losses, **counts},
    )
