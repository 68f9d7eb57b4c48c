"""What the networks share: blocks, the contrastive loss, weights in and out, devices, threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from kinrank.errors import FileFormatError, InvalidInputError
from kinrank.io import PathLike
from kinrank.learned.weights import Arrays

_LOCK = threading.Lock()
_local = threading.local()
_inside: list[int] = []
_before: list[int] = []


class ListNetwork(nn.Module):
    """A network that learns from lists: a query and its nearest rows."""

    def loss(self, rows: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        rows : (b, 1 + m, d) unit vectors, the query first, then its nearest
        right, wrong : (b, 1 + m) bool, rows that belong to the query and rows that do not; those
            that are neither do not count, and the query itself is neither
        """
        raise NotImplementedError


class TransformerBlock(nn.Module):
    """A transformer block with the norms in front: attention, then a perceptron, both added.

    x <- x + P softmax(Q K^T / sqrt(w / heads)) V; x <- x + U gelu(D x), on normalised x

    The outer layers begin at zero, so that a block changes nothing before it has learned.
    """

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_inner = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width)
        self.widen = nn.Linear(width, ratio * width)
        self.narrow = nn.Linear(ratio * width, width)
        for layer in (self.join, self.narrow):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(b, tokens, width) to the same shape."""
        b, tokens, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).reshape(b, tokens, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.join(mixed.transpose(1, 2).reshape(b, tokens, width))
        inner: Tensor = self.narrow(functional.gelu(self.widen(self.norm_inner(x))))
        return x + inner


def to_first(tokens: Tensor) -> Tensor:
    """The cosine of every token with the first: (b, m, w) to (b, m)."""
    unit = functional.normalize(tokens, dim=-1)
    return (unit[:, :1] * unit).sum(dim=-1)


def contrastive(similarity: Tensor, right: Tensor, wrong: Tensor, scale: Tensor | float) -> Tensor:
    """The mean over the right rows of -log(e^s / (e^s + sum over the wrong rows of e^s')).

    similarity, right, wrong : (b, m); s is the similarity times ``scale``
    """
    logits = similarity * scale
    others = logits.masked_fill(~wrong, -torch.inf).logsumexp(dim=1, keepdim=True)
    # A list without a wrong row has nothing to be told from.
    others = others.clamp(min=torch.finfo(logits.dtype).min / 2)
    each = functional.softplus(others - logits) * right
    count = right.sum(dim=1).clamp(min=1)
    return (each.sum(dim=1) / count).mean()


def to_arrays(network: nn.Module) -> Arrays:
    """The weights by name."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


def from_arrays(network: nn.Module, arrays: Arrays, path: PathLike) -> None:
    """Put weights that were read from ``path`` into a network of the same sizes."""
    state = {}
    for name, expected in network.state_dict().items():
        shape, array = tuple(expected.shape), arrays.get(name)
        if array is None or array.shape != shape or not np.isfinite(array).all():
            got = "none" if array is None else f"shape {array.shape}"
            raise FileFormatError(
                f"{path} must hold finite weights {name!r} of shape {shape}, got {got}."
            )
        state[name] = torch.from_numpy(array)
    network.load_state_dict(state)


def size(network: nn.Module) -> int:
    """How many numbers are trained."""
    return sum(parameter.numel() for parameter in network.parameters())


def tensor(values: Any, device: torch.device) -> Tensor:
    """A numpy array on a device."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device, copy=True)


def check_device(name: str) -> torch.device:
    """The device called ``name``, if torch can use it here."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InvalidInputError(
            f"`device` must be one that torch can use here, such as 'cpu', got {name!r}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return device


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Let torch use ``count`` threads inside, and as many as before afterwards; None: as it is.

    torch keeps one number for new threads and one for each that it has seen. Calls may be nested,
    and several threads may be inside at a time: the last one to leave restores the number.
    """
    if count is None:
        yield
        return
    # What the calling thread has asked for, the last at the end.
    asked: list[int] = _local.__dict__.setdefault("asked", [])
    before = torch.get_num_threads()  # first: a new thread begins with the common number here
    with _LOCK:
        if not _inside:
            _before.append(before)
        _inside.append(count)
        torch.set_num_threads(count)
    asked.append(count)
    try:
        yield
    finally:
        with _LOCK:
            _inside.remove(asked.pop())
            torch.set_num_threads(asked[-1] if asked else _before[-1])
            if not _inside:
                _before.clear()
