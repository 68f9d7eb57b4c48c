"""A batch of files in, their rows out: the part of extraction that runs on many threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.features.descriptors import Descriptor
from kinrank.features.images import UnreadableError, read_image, to_input
from kinrank.features.networks import Network

Inputs = tuple[npt.NDArray[np.float32], ...]  # one for each scale


@dataclass(frozen=True)
class Item:
    """A file and the part of it to look at."""

    file: Path
    box: Sequence[float] | None = None


@dataclass
class Rows:
    """What became of some items.

    Attributes
    ----------
    features : (r, d) float32
    owners : (r,) int32, the item of each row, ascending
    failures : item -> why it has no row
    """

    features: npt.NDArray[np.float32]
    owners: npt.NDArray[np.int32]
    failures: dict[int, str] = field(default_factory=dict)

    @classmethod
    def joined(cls, batches: Sequence[tuple[Rows, int]]) -> Rows:
        """The rows of consecutive batches, each with its number of items."""
        starts = np.cumsum([0, *(size for _, size in batches)]).tolist()
        pairs = [(rows, start) for (rows, _), start in zip(batches, starts[:-1], strict=True)]
        filled = [rows.features for rows, _ in pairs if len(rows.features)]
        return cls(
            np.concatenate(filled) if filled else np.empty((0, 0), np.float32),
            np.concatenate([rows.owners + np.int32(start) for rows, start in pairs]),
            {start + item: why for rows, start in pairs for item, why in rows.failures.items()},
        )


@dataclass(frozen=True)
class Worker:
    """Reads, runs the network and pools; the same items always give the same rows."""

    network: Network
    descriptor: Descriptor

    def __call__(self, items: Sequence[Item]) -> Rows:
        """The rows of ``items``."""
        inputs, failures = self._read(items)
        found: dict[int, npt.NDArray[np.float32]] = {}
        for members in _by_shape(inputs):
            for some in _chunks(members, self.network.batch_size):
                try:
                    rows = self._describe([inputs[item] for item in some])
                except InvalidInputError as error:
                    failures |= dict.fromkeys(some, str(error))
                    continue
                found |= zip(some, rows, strict=True)
        return _stacked(found, failures)

    def probe(self, items: Iterable[Item]) -> tuple[int, int] | None:
        """Rows of the first item that can be read, and their dimensions; None if none can.

        Raises if the network cannot be run on it, which is then the network's fault and not the
        picture's.
        """
        for item in items:
            inputs, failures = self._read([item])
            if not failures:
                rows = self._describe([inputs[0]])[0]
                return len(np.atleast_2d(rows)), int(rows.shape[-1])
        return None

    def _read(self, items: Sequence[Item]) -> tuple[dict[int, Inputs], dict[int, str]]:
        want = self.network.preprocessing
        inputs: dict[int, Inputs] = {}
        failures: dict[int, str] = {}
        scales = self.descriptor.scales
        for number, item in enumerate(items):
            try:
                image = read_image(item.file, item.box, want if max(scales) <= 1 else None)
                inputs[number] = tuple(to_input(image, want, scale) for scale in scales)
            except (UnreadableError, InvalidInputError) as error:
                failures[number] = str(error)
        return inputs, failures

    def _describe(self, inputs: Sequence[Inputs]) -> npt.NDArray[np.float32]:
        scales = range(len(self.descriptor.scales))
        outputs = [self.network(np.stack([one[scale] for one in inputs])) for scale in scales]
        return self.descriptor.rows(outputs)


def _by_shape(inputs: dict[int, Inputs]) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    for number, scales in inputs.items():
        groups.setdefault(tuple(scale.shape for scale in scales), []).append(number)
    return list(groups.values())


def _chunks(members: list[int], size: int | None) -> list[list[int]]:
    step = size or len(members)
    return [members[low : low + step] for low in range(0, len(members), step)]


def _stacked(found: dict[int, npt.NDArray[np.float32]], failures: dict[int, str]) -> Rows:
    blocks = {item: np.atleast_2d(found[item]) for item in sorted(found)}
    failures = {item: failures[item] for item in sorted(failures)}
    if not blocks:
        return Rows(np.empty((0, 0), np.float32), np.empty(0, np.int32), failures)
    owners = np.repeat(list(blocks), [len(block) for block in blocks.values()])
    return Rows(np.concatenate(list(blocks.values())), owners.astype(np.int32), failures)
