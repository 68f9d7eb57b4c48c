"""Nearest rows of a query, and further distances, from a store that keeps the vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, UnknownIdError
from kinrank.index.searchers import Nearest
from kinrank.index.state import State
from kinrank.index.store_answers import SearchStore, store_fetch, store_search
from kinrank.kernels.scan import pair_distances
from kinrank.parallel import Runner
from kinrank.types import Floats, Ints, Longs

_TILE = 1 << 24  # numbers of the vectors that are here at a time


@dataclass(frozen=True, eq=False)
class StoreSearch:
    """The store is asked; its ids become rows. Without one, only searching is refused.

    refine : whether vectors are fetched for distances that its answer does not have
    """

    store: SearchStore | None
    state: State
    refine: bool = True
    exact: bool = False

    def search(self, queries: Floats, k: int, run: Runner) -> Nearest:  # noqa: ARG002
        """See RowSearch."""
        k, state = min(k, len(self.state)), self.state
        places, values = store_search(self._opened(), queries, k, state.table)
        known = places >= 0
        rows = np.where(known, state.places[places], np.int32(-1))
        order = np.lexsort((rows, values), axis=1)
        return Nearest(
            np.take_along_axis(rows, order, axis=1),
            np.take_along_axis(values, order, axis=1),
            known.sum(axis=1).astype(np.int64),
        )

    def squared(self, queries: Floats, owners: Longs, rows: Ints) -> Floats:
        """Squared distances from ``queries[owners]`` to rows, each of which is fetched once.

        Infinite to rows that left the store.
        """
        out = np.full(len(rows), np.inf, np.float32)
        asked = np.flatnonzero(~self._gone[rows])
        different, places = np.unique(rows[asked], return_inverse=True)
        order = np.argsort(places, kind="stable")
        bounds = np.searchsorted(places[order], np.arange(len(different) + 1))
        size = max(1, _TILE // self.state.frame.width)
        for start in range(0, len(different), size):
            for low, high, vectors in self._pieces(different, start, start + size):
                mine = order[bounds[low] : bounds[high]]
                part = np.empty(len(mine), np.float32)
                pair_distances(queries, owners[asked[mine]], vectors, places[mine] - low, part)
                out[asked[mine]] = part
        return out

    def _pieces(self, rows: Ints, low: int, high: int) -> Iterator[tuple[int, int, Floats]]:
        """The vectors of rows low to high, in pieces that the store has whole."""
        high = min(high, len(rows))
        try:
            names = self.state.names[rows[low:high]]
            vectors = store_fetch(self._opened(), self.state.ids[names], self.state.frame.width)
        except UnknownIdError:
            if high - low == 1:
                self._gone[rows[low]] = True
                return
            middle = (low + high) // 2
            yield from self._pieces(rows, low, middle)
            yield from self._pieces(rows, middle, high)
            return
        yield low, high, self.state.frame.place("vectors", vectors)

    @cached_property
    def _gone(self) -> npt.NDArray[np.bool_]:
        """(n,) rows that the store did not have when it was asked; it is not asked again."""
        return np.zeros(len(self.state), np.bool_)

    def _opened(self) -> SearchStore:
        if self.store is None:
            raise InvalidInputError(
                "`store` must be given to kinrank.open: the index was made over one, and holds no "
                "vectors."
            )
        return self.store
