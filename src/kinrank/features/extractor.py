"""A batch of picture files in, their features out; batches on several threads, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.features.descriptors import Descriptor
from kinrank.features.images import UnreadableError, read_image, to_input
from kinrank.features.networks import Network

Inputs = tuple[npt.NDArray[np.float32], ...]  # one for each scale
Item = tuple[Path | bytes, Sequence[float] | None]  # a file, and the box to cut out of it
_AHEAD = 2  # batches for each thread that are begun before they are asked for


@dataclass
class ImageFeatures:
    """What became of ``n_images`` pictures.

    features : (r, d) float32; owners : (r,) int32, the picture of each row, ascending
    failures : picture -> why it has no row
    """

    features: npt.NDArray[np.float32]
    owners: npt.NDArray[np.int32]
    failures: dict[int, str]
    n_images: int

    @classmethod
    def joined(cls, batches: Sequence[ImageFeatures]) -> ImageFeatures:
        starts = np.cumsum([0, *(batch.n_images for batch in batches)]).tolist()
        pairs = list(zip(batches, starts, strict=False))
        return cls(
            _stacked([batch.features for batch in batches if len(batch.features)]),
            np.concatenate([batch.owners + np.int32(start) for batch, start in pairs]),
            {start + item: why for batch, start in pairs for item, why in batch.failures.items()},
            starts[-1],
        )


@dataclass(frozen=True)
class FeatureExtractor:
    """Reads, runs the network and pools; the same items always give the same rows."""

    network: Network
    descriptor: Descriptor

    def __call__(self, items: Sequence[Item]) -> ImageFeatures:
        inputs, failures = self._read(items)
        by_shape: dict[Any, list[int]] = {}
        for number, scales in inputs.items():
            by_shape.setdefault(tuple(scale.shape for scale in scales), []).append(number)
        rows: dict[int, npt.NDArray[np.float32]] = {}
        for members in by_shape.values():
            step = self.network.batch_size or len(members)
            for low in range(0, len(members), step):
                batch = members[low : low + step]
                try:
                    described = self._describe([inputs[item] for item in batch])
                    rows |= zip(batch, map(np.atleast_2d, described), strict=True)
                except InvalidInputError as error:
                    failures |= dict.fromkeys(batch, str(error))
        order = sorted(rows)
        owners = np.repeat(np.array(order, np.int32), [len(rows[item]) for item in order])
        reasons = dict(sorted(failures.items()))
        return ImageFeatures(_stacked([rows[i] for i in order]), owners, reasons, len(items))

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

    def stream(
        self, batches: Iterable[list[Item]], threads: int, advance: progress.Advance
    ) -> Generator[ImageFeatures, None, None]:
        """The features of each batch, in order.

        Close it when not all of it is wanted: batches that have not begun are then given up.
        """
        pool = ThreadPoolExecutor(threads, thread_name_prefix="kinrank")
        waiting: deque[Future[ImageFeatures]] = deque()

        def finish() -> ImageFeatures:
            features = waiting.popleft().result()
            advance(features.n_images)
            return features

        try:
            for batch in batches:
                waiting.append(pool.submit(self, batch))
                if len(waiting) > _AHEAD * threads:
                    yield finish()
            while waiting:
                yield finish()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _read(self, items: Sequence[Item]) -> tuple[dict[int, Inputs], dict[int, str]]:
        want = self.network.preprocessing
        scales = self.descriptor.scales
        inputs: dict[int, Inputs] = {}
        failures: dict[int, str] = {}
        for number, (file, box) in enumerate(items):
            try:
                image = read_image(file, box, want if max(scales) <= 1 else None)
                inputs[number] = tuple(to_input(image, want, scale) for scale in scales)
            except (UnreadableError, InvalidInputError) as error:
                failures[number] = str(error)
        return inputs, failures

    def _describe(self, inputs: Sequence[Inputs]) -> npt.NDArray[np.float32]:
        by_scale = zip(*inputs, strict=True)
        return self.descriptor.rows([self.network(np.stack(batch)) for batch in by_scale])


def _stacked(blocks: list[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    return np.concatenate(blocks) if blocks else np.empty((0, 0), np.float32)
