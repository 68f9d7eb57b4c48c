"""The training loop: epochs, early stopping, and a checkpoint to go on from.

What is random follows from the seed and the number of the epoch, so that a training that goes on
from its checkpoint ends with the same bits as one that was never stopped.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import nn

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.io import load_safetensors, save_safetensors
from kinrank.learned.network import from_arrays, to_arrays
from kinrank.learned.recipes import Arrays
from kinrank.reading import reading

if TYPE_CHECKING:
    from kinrank.learned.fitting import ListTask
    from kinrank.learned.gss import GSSTask

    Task: TypeAlias = ListTask | GSSTask

_MAX_NORM = 1.0
_SECONDS = 15.0  # between two checkpoints, which may take as long as a short epoch
_STATE = "kinrank.training"


@dataclass
class Progress:
    """How far a training is.

    Attributes
    ----------
    epoch : epochs done
    history : for each of them its loss and the mAP on the held-out part, None without one
    best : the weights to keep so far
    best_epoch, best_score : when they were found and what they reached
    """

    epoch: int = 0
    history: list[tuple[float, float | None]] = field(default_factory=list)
    best: Arrays = field(default_factory=dict)
    best_epoch: int = 0
    best_score: float | None = None


OnEpoch = Callable[[Progress], None]


@dataclass(frozen=True)
class Checkpoint:
    """A safetensors file for the state, and what it belongs to: ``identity`` names recipe and data.

    It is written after epochs, whole or not at all.
    """

    path: Path
    identity: str

    def save(self, state: Progress, network: nn.Module, optimizer: torch.optim.Adam) -> None:
        """Write everything that the next epoch needs."""
        arrays = {f"network/{name}": array for name, array in to_arrays(network).items()}
        arrays |= {f"best/{name}": array for name, array in state.best.items()}
        for number, moments in optimizer.state_dict()["state"].items():
            for name, value in moments.items():
                arrays[f"adam/{number}/{name}"] = value.detach().cpu().numpy()
        words = {name: value for name, value in vars(state).items() if name != "best"}
        words["identity"] = self.identity
        save_safetensors(self.path, arrays, {_STATE: json.dumps(words)})

    def load(self, network: nn.Module, optimizer: torch.optim.Adam) -> Progress | None:
        """Go on from the file; None if there is none."""
        if not self.path.exists():
            return None
        arrays, metadata = load_safetensors(self.path)
        with reading(self.path, "a checkpoint of `kinrank train`"):
            words = json.loads(metadata[_STATE])
            if words["identity"] == self.identity:
                from_arrays(network, _below("network/", arrays), self.path)
                _restore(optimizer, _below("adam/", arrays))
                return Progress(
                    epoch=int(words["epoch"]),
                    history=[(loss, score) for loss, score in words["history"]],
                    best=_below("best/", arrays),
                    best_epoch=int(words["best_epoch"]),
                    best_score=words["best_score"],
                )
        raise InvalidInputError(
            f"The checkpoint {self.path} must be of the same recipe and data, got that of "
            "another training. Start afresh with --fresh (fresh=True), or name another file."
        )

    def remove(self) -> None:
        """Delete the file once the weights are written."""
        self.path.unlink(missing_ok=True)


def fit(
    task: Task,
    *,
    epochs: int,
    patience: int,
    rate: float,
    checkpoint: Checkpoint | None = None,
    on_epoch: OnEpoch | None = None,
) -> Progress:
    """Train until ``epochs`` are over or ``patience`` of them brought nothing better.

    Without a score the last weights are kept.
    """
    optimizer = torch.optim.Adam(task.network.parameters(), lr=rate)
    state = None if checkpoint is None else checkpoint.load(task.network, optimizer)
    if state is None:  # what was not learned is not lost either
        state = Progress(best=to_arrays(task.network), best_score=task.score())
    due = -math.inf
    with progress.stage("training", epochs * task.steps) as advance:
        advance(state.epoch * task.steps)
        while state.epoch < epochs and state.epoch - state.best_epoch < patience:
            loss = _run_epoch(task, optimizer, state.epoch, advance)
            _record(task, state, loss)
            if checkpoint is not None and time.monotonic() > due:
                checkpoint.save(state, task.network, optimizer)
                due = time.monotonic() + _SECONDS
            if on_epoch is not None:
                on_epoch(state)
    return state


def _run_epoch(
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


def _record(task: Task, state: Progress, loss: float) -> None:
    """Count an epoch, and keep its weights if they are the best so far."""
    task.network.eval()
    score = task.score()
    if not all(bool(torch.isfinite(p).all()) for p in task.network.parameters()):
        raise InvalidInputError(
            f"Training did not stay finite in epoch {state.epoch + 1}: choose a smaller `rate`."
        )
    state.epoch += 1
    state.history.append((loss, score))
    if score is None or state.best_score is None or score > state.best_score:
        state.best_epoch = state.epoch
        state.best_score = score
        state.best = to_arrays(task.network)


def _below(start: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}


def _restore(optimizer: torch.optim.Adam, arrays: Arrays) -> None:
    state: dict[int, dict[str, Any]] = {}
    for path, array in arrays.items():
        number, _, name = path.partition("/")
        state.setdefault(int(number), {})[name] = torch.from_numpy(array)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
