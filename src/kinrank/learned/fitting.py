"""Recipes carried out: networks made, trained, judged on held-out identities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kinrank.io import PathLike
from kinrank.learned.checkpoint import Checkpoint, Progress
from kinrank.learned.csa import CSANetwork
from kinrank.learned.data import Labelled, TrainingLists, queries_and_gallery, split
from kinrank.learned.gss import GalleryGraph, GSSNetwork, GSSTask
from kinrank.learned.lattqe import LAttQENetwork
from kinrank.learned.loop import OnEpoch, fit
from kinrank.learned.network import ListNetwork, from_arrays, size, tensor
from kinrank.learned.recipes import (
    AnyRecipe,
    CSARecipe,
    GSSRecipe,
    LAttQERecipe,
    Recipe,
    SSRRecipe,
    recipe_class,
)
from kinrank.learned.runtime import check_device, torch_threads
from kinrank.learned.ssr import SSRNetwork
from kinrank.learned.weights import (
    Arrays,
    Card,
    check_dimension,
    load_weights,
    recipe_of,
    save_weights,
)
from kinrank.metrics.protocols import reid
from kinrank.parallel import Runner
from kinrank.registry import method_class
from kinrank.search.exact import exact_search
from kinrank.types import Floats

_FEW_NUMBERS = 1 << 18


@dataclass(frozen=True, eq=False)
class Trained:
    """Weights and what is to be said about them."""

    arrays: Arrays
    card: Card

    def save(self, path: PathLike) -> None:
        """Write both to one file."""
        save_weights(path, self.arrays, self.card)


@dataclass(frozen=True)
class Session:
    """Where and how a training runs."""

    run: Runner
    checkpoint: Checkpoint | None = None
    on_epoch: OnEpoch | None = None

    def train(self, recipe: AnyRecipe, data: Labelled | Floats) -> Trained:
        """Train from labelled rows, or for gss from a gallery."""
        if isinstance(recipe, GSSRecipe):
            assert not isinstance(data, Labelled)
            graph = GalleryGraph(data, recipe.k1, self.run)
            return self.train_graph(recipe, graph, self.run.threads)
        assert isinstance(data, Labelled)
        numbers = recipe.batch * recipe.length * data.vectors.shape[1]
        with torch_threads(_threads(self.run.threads, numbers)):
            return self._train_lists(recipe, data)

    def train_graph(
        self, recipe: GSSRecipe, graph: GalleryGraph, threads: int | None = None
    ) -> Trained:
        """Learn from a gallery alone; None leaves the threads to torch."""
        with torch_threads(_threads(threads, graph.smoothed.size)):
            return self._train_graph(recipe, graph)

    def _train_graph(self, recipe: GSSRecipe, graph: GalleryGraph) -> Trained:
        dimension = graph.smoothed.shape[1]
        network = build(recipe, dimension)
        assert isinstance(network, GSSNetwork)
        task = GSSTask(network, graph, recipe)
        state = fit(
            task, epochs=recipe.epochs, patience=recipe.epochs + 1, rate=recipe.rate,
            checkpoint=self.checkpoint, on_epoch=self.on_epoch,
        )  # fmt: skip
        rows = {"rows": len(graph.smoothed)}
        return _trained(recipe, dimension, network, state, rows, {"beta": task.beta})

    def _train_lists(self, recipe: Recipe, data: Labelled) -> Trained:
        """Learn from labelled lists, judged on identities that are held out."""
        learned, held = split(data, recipe.holdout, recipe.seed)
        dimension = data.vectors.shape[1]
        network = build(recipe, dimension)
        assert isinstance(network, ListNetwork)
        judge = Judge(recipe, held, self.run)
        task = ListTask(network, learned, TrainingLists(learned, recipe, self.run), judge)
        state = fit(
            task, epochs=recipe.epochs, patience=recipe.patience, rate=recipe.rate_for(dimension),
            checkpoint=self.checkpoint, on_epoch=self.on_epoch,
        )  # fmt: skip
        rows = {
            "rows": len(learned),
            "identities": learned.identities,
            "held-out rows": len(held),
            "held-out identities": held.identities,
        }
        scores = {"mAP none": judge.plain()}
        if state.best_score is not None:
            scores["mAP"] = state.best_score
        return _trained(recipe, dimension, network, state, rows, scores)


class Judge:
    """Ranks the held-out part."""

    def __init__(self, recipe: Recipe, held: Labelled, run: Runner) -> None:
        self._method, self._run = recipe.method, run
        self._queries, self._gallery = queries_and_gallery(held, recipe.seed)

    def plain(self) -> float:
        """mAP without re-ranking."""
        near = exact_search(
            self._queries.vectors, self._gallery.vectors, len(self._gallery), self._run
        )
        return self._score(near.indices)

    def __call__(self, network: ListNetwork) -> float:
        """mAP of the method with these weights."""
        cls: Any = method_class(self._method)
        method = cls(weights="being trained")
        gallery = self._gallery.vectors
        found = method.rank_with(network, gallery, self._queries.vectors, len(gallery), self._run)
        return self._score(found)

    def _score(self, ranking: Any) -> float:
        queries, gallery = self._queries, self._gallery
        labels = (queries.labels, gallery.labels)
        return float(reid(ranking, *labels, queries.cams, gallery.cams).mAP)


class ListTask:
    """Lists of nearest rows, seen by a network."""

    def __init__(
        self, network: ListNetwork, data: Labelled, lists: TrainingLists, judge: Judge
    ) -> None:
        self.network, self._lists, self._judge = network, lists, judge
        self._device = next(network.parameters()).device
        self._vectors = tensor(data.vectors, self._device)

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        return self._lists.steps

    def losses(self, epoch: int) -> Iterator[Tensor]:
        """The loss of each batch."""
        for batch in self._lists.batches(epoch):
            rows = self._vectors[tensor(batch.ids, self._device).long()]
            right, wrong = tensor(batch.right, self._device), tensor(batch.wrong, self._device)
            yield self.network.loss(rows, right, wrong)

    def score(self) -> float:
        """mAP on the held-out part."""
        self.network.eval()
        return self._judge(self.network)


def _threads(threads: int | None, numbers: int) -> int | None:
    """Threads wait longer for each other than small steps take: these are for one."""
    return 1 if numbers < _FEW_NUMBERS else threads


def build(recipe: AnyRecipe, dimension: int) -> nn.Module:
    """The network of a recipe, at its beginning; the random numbers of torch are left alone."""
    device = check_device(recipe.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network: nn.Module
        if isinstance(recipe, CSARecipe):
            network = CSANetwork(recipe)
        elif isinstance(recipe, SSRRecipe):
            network = SSRNetwork(recipe)
        elif isinstance(recipe, LAttQERecipe):
            network = LAttQENetwork(recipe, dimension)
        else:
            assert isinstance(recipe, GSSRecipe)
            network = GSSNetwork(dimension, recipe.decay)
    return network.to(device)


def load_network(path: PathLike, method: str, dimension: int, device: str) -> tuple[Any, Any]:
    """A trained network for vectors of ``dimension`` columns, and its recipe."""
    arrays, card = load_weights(path, method)
    check_dimension(card, dimension)
    recipe = recipe_of(path, card, recipe_class(method), device)
    network = build(recipe, dimension)
    from_arrays(network, arrays, path)
    return network.eval(), recipe


def _trained(
    recipe: AnyRecipe, dimension: int, network: nn.Module, state: Progress,
    rows: dict[str, int], scores: dict[str, float],
) -> Trained:  # fmt: skip
    losses = {"loss": state.history[state.best_epoch - 1][0]} if state.best_epoch else {}
    counts = {"epochs": float(state.epoch), "best epoch": float(state.best_epoch)}
    card = Card(
        method=recipe.method,
        dimension=dimension,
        parameters=asdict(recipe),
        size=size(network),
        data=rows,
        metrics={**scores, **losses, **counts},
    )
    return Trained(state.best, card)
