"""The training loop: epochs, early stopping, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.learned.checkpoint import Checkpoint, Progress
from kinrank.learned.network import to_arrays
from kinrank.learned.weights import Arrays

_MAX_NORM = 1.0
_SECONDS = 15.0  # between two checkpoints, which may take as long as a short epoch

OnEpoch = Callable[[Progress], None]


class Task(Protocol):
    """What is learned, and how well that went."""

    @property
    def network(self) -> nn.Module:
        """What learns."""

    @property
    def steps(self) -> int:
        """How many losses an epoch has."""

    def losses(self, epoch: int) -> Iterator[Tensor]:
        """The loss of each step of an epoch, one after another."""

    def score(self) -> float | None:
        """The figure that should rise, measured on what is held out; None if there is nothing."""


def fit(
    task: Task, *, epochs: int, patience: int, rate: float, checkpoint: Checkpoint | None,
    on_epoch: OnEpoch | None = None,
) -> Progress:  # fmt: skip
    """Train until ``epochs`` are over or ``patience`` of them brought nothing better.

    Without a score the last weights are kept.
    """
    optimizer = torch.optim.Adam(task.network.parameters(), lr=rate)
    state = None if checkpoint is None else checkpoint.load(task.network, optimizer)
    state = _begin(task) if state is None else state
    due = -math.inf
    with progress.stage("training", epochs * task.steps) as advance:
        advance(state.epoch * task.steps)
        while state.epoch < epochs and state.epoch - state.best_epoch < patience:
            loss = _one_epoch(task, optimizer, state.epoch, advance)
            _take_in(task, state, loss)
            if checkpoint is not None and time.monotonic() > due:
                checkpoint.save(state, task.network, optimizer)
                due = time.monotonic() + _SECONDS
            if on_epoch is not None:
                on_epoch(state)
    return state


def _begin(task: Task) -> Progress:
    """Before the first epoch: what was not learned is not lost either."""
    return Progress(best=_copy(task.network), best_score=task.score())


def _one_epoch(
    task: Task, optimizer: torch.optim.Adam, epoch: int, advance: progress.Advance
) -> float:
    task.network.train()
    total = 0.0
    for loss in task.losses(epoch):
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(task.network.parameters(), _MAX_NORM)
        optimizer.step()
        total += float(loss.detach())
        advance(1)
    return total / task.steps


def _take_in(task: Task, state: Progress, loss: float) -> None:
    """Count an epoch, and keep its weights if they are the best so far."""
    task.network.eval()
    score = task.score()
    if not all(bool(torch.isfinite(p).all()) for p in task.network.parameters()):
        raise InvalidInputError(
            f"`rate` must be small enough for training to stay finite, but epoch "
            f"{state.epoch + 1} did not."
        )
    state.epoch += 1
    state.history.append((loss, score))
    if score is None or state.best_score is None or score > state.best_score:
        state.best, state.best_epoch, state.best_score = _copy(task.network), state.epoch, score


def _copy(network: nn.Module) -> Arrays:
    return {name: array.copy() for name, array in to_arrays(network).items()}
