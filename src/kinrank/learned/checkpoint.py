"""The state of a training in one safetensors file, written after epochs, whole or not at all.

What is random follows from the seed and the number of the epoch, so that a training that goes on
from its file ends with the same bits as one that was never stopped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kinrank.errors import InvalidInputError
from kinrank.io import load_safetensors, save_safetensors
from kinrank.learned.network import from_arrays, to_arrays
from kinrank.learned.weights import Arrays
from kinrank.reading import reading

_STATE = "kinrank.training"
_WHOLE = "a checkpoint of `kinrank train`"


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


@dataclass(frozen=True)
class Checkpoint:
    """Where the state is kept, and what it belongs to: ``identity`` names recipe and data."""

    path: Path
    identity: str

    def save(self, progress: Progress, network: nn.Module, optimizer: torch.optim.Adam) -> None:
        """Write everything that the next epoch needs."""
        arrays = {f"network/{name}": array for name, array in to_arrays(network).items()}
        arrays |= {f"best/{name}": array for name, array in progress.best.items()}
        for number, state in optimizer.state_dict()["state"].items():
            for name, value in state.items():
                arrays[f"adam/{number}/{name}"] = value.detach().cpu().numpy()
        words = {
            "identity": self.identity,
            "epoch": progress.epoch,
            "history": progress.history,
            "best_epoch": progress.best_epoch,
            "best_score": progress.best_score,
        }
        save_safetensors(self.path, arrays, {_STATE: json.dumps(words)})

    def load(self, network: nn.Module, optimizer: torch.optim.Adam) -> Progress | None:
        """Go on from the file; None if there is none."""
        if not self.path.exists():
            return None
        arrays, metadata = load_safetensors(self.path)
        with reading(self.path, _WHOLE):
            words = json.loads(metadata[_STATE])
            identity = words["identity"]
        if identity != self.identity:
            raise InvalidInputError(
                f"The checkpoint {self.path} must be of the same recipe and data, got that of "
                "another training. Start afresh with --fresh (fresh=True), or name another file."
            )
        with reading(self.path, _WHOLE):
            from_arrays(network, _below("network", arrays), self.path)
            _restore(optimizer, _below("adam", arrays))
            return Progress(
                epoch=int(words["epoch"]),
                history=[(loss, score) for loss, score in words["history"]],
                best=_below("best", arrays),
                best_epoch=int(words["best_epoch"]),
                best_score=words["best_score"],
            )

    def remove(self) -> None:
        """Delete the file once the weights are written."""
        self.path.unlink(missing_ok=True)


def _below(prefix: str, arrays: Arrays) -> Arrays:
    start = f"{prefix}/"
    return {name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}


def _restore(optimizer: torch.optim.Adam, arrays: Arrays) -> None:
    state: dict[int, dict[str, Any]] = {}
    for path, array in arrays.items():
        number, _, name = path.partition("/")
        state.setdefault(int(number), {})[name] = torch.from_numpy(array)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
