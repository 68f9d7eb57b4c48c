"""What is learned from: rows with identities, split by identity, each with its nearest rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.learned.recipes import TrainingRecipe
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors
from kinrank.types import Floats, Ints, Longs
from kinrank.validation import as_array, as_vectors, reduce_k

Flags = npt.NDArray[np.bool_]
# One in so many rows of a held-out identity is a query, and not more than so many in all.
_ROWS_PER_QUERY = 4
_MOST_QUERIES = 400


@dataclass(frozen=True, eq=False)
class Labelled:
    """Unit vectors with identities.

    Attributes
    ----------
    vectors : (n, d) float32
    labels : (n,) int64, identities from 0
    cams : (n,) int64, or None: rows of one identity and one camera then do not count as right
    """

    vectors: Floats
    labels: Longs
    cams: Longs | None

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def identities(self) -> int:
        return len(np.unique(self.labels))

    def take(self, rows: npt.NDArray[Any]) -> Labelled:
        cams = None if self.cams is None else self.cams[rows]
        return Labelled(self.vectors[rows], self.labels[rows], cams)


def labelled(features: Any, labels: Any, cams: Any = None) -> Labelled:
    """Check what a user gave: one label (None: all the same), perhaps one camera, for each row."""
    vectors = as_vectors(("features", features), cosine=True)
    n = len(vectors)
    codes = np.zeros(n, np.int64) if labels is None else _codes("labels", labels, n)
    return Labelled(vectors, codes, None if cams is None else _codes("cams", cams, n))


def split(data: Labelled, share: float, seed: int) -> tuple[Labelled, Labelled]:
    """Rows to learn from and held-out rows, which have no identity in common."""
    n = data.identities
    held = round(share * n)
    if held < 2 or n - held < 2:
        raise InvalidInputError(
            f"`labels` must have enough identities for two to learn from and two held out, got {n} "
            f"with holdout={share:g}."
        )
    chosen = np.random.default_rng([seed, 0]).permutation(np.unique(data.labels))[:held]
    is_held = np.isin(data.labels, chosen)
    return data.take(np.flatnonzero(~is_held)), data.take(np.flatnonzero(is_held))


def queries_and_gallery(data: Labelled, seed: int) -> tuple[Labelled, Labelled]:
    """Some rows of each identity as queries, all others as the gallery."""
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(len(data))
    order = order[np.argsort(data.labels[order], kind="stable")]
    begins = np.flatnonzero(np.diff(data.labels[order], prepend=-1))
    counts = np.diff([*begins, len(order)])
    place = np.arange(len(order)) - np.repeat(begins, counts)
    queries = order[(place % _ROWS_PER_QUERY == 0) & np.repeat(counts > 1, counts)]
    queries = np.sort(rng.permutation(queries)[:_MOST_QUERIES])
    return data.take(queries), data.take(np.setdiff1d(np.arange(len(data)), queries))


class TrainingLists:
    """The nearest rows of every row, and batches of them in random order."""

    def __init__(self, data: Labelled, recipe: TrainingRecipe, run: Runner) -> None:
        self._data = data
        self._recipe = recipe
        length = reduce_k("the list length", recipe.length, len(data) - 1, "other rows")
        # Some more than needed, so that leaving some out leaves enough.
        spare = min(len(data), int(np.ceil(length / (1 - recipe.drop))) + 1)
        self.ids = exact_neighbors(data.vectors, spare, run).indices
        self._length = length
        self.usable = np.flatnonzero(self._mark(np.arange(len(data)), self.ids)[0].any(axis=1))
        if len(self.usable) == 0:
            raise InvalidInputError(
                "`labels` must give some row another row of its identity (of another camera, if "
                f"cameras are given) among its {spare - 1} nearest, got none."
            )
        self.steps = -(-min(len(self.usable), recipe.queries) // recipe.batch)  # in an epoch

    def batches(self, epoch: int) -> Iterator[tuple[Ints, Flags, Flags]]:
        """The batches of an epoch; the same for the same seed and epoch.

        Each is the ids of lists (b, 1 + m), the query first, and which of them are right and which
        are wrong, (b, 1 + m) bool.
        """
        recipe = self._recipe
        rng = np.random.default_rng([recipe.seed, 2, epoch])
        queries = rng.permutation(self.usable)[: recipe.queries]
        for low in range(0, len(queries), recipe.batch):
            rows = queries[low : low + recipe.batch]
            ids = self._thinned(self.ids[rows], rng)
            yield ids, *self._mark(rows, ids)

    def _thinned(self, ids: Ints, rng: np.random.Generator) -> Ints:
        """The query and ``length`` of its nearest rows, in their order."""
        if ids.shape[1] - 1 <= self._length:
            return ids
        keys = rng.random((len(ids), ids.shape[1] - 1))
        kept = np.sort(np.argsort(keys, axis=1)[:, : self._length], axis=1) + 1
        return np.concatenate([ids[:, :1], np.take_along_axis(ids, kept, axis=1)], axis=1)

    def _mark(self, rows: npt.NDArray[Any], ids: Ints) -> tuple[Flags, Flags]:
        labels = self._data.labels
        cams = self._data.cams
        same = labels[ids] == labels[rows, None]
        right = same & (ids != rows[:, None])
        if cams is not None:
            right &= cams[ids] != cams[rows, None]
        return right, ~same


def _codes(name: str, values: Any, n: int) -> Longs:
    array = as_array(name, values)
    if array.ndim != 1 or array.dtype.kind not in "iufUSb" or len(array) != n:
        raise InvalidInputError(
            f"`{name}` must be one number or word for each of the {n} rows, "
            f"got {array.dtype} of shape {array.shape}."
        )
    return np.unique(array, return_inverse=True)[1].astype(np.int64)
