"""Which rows of a gallery show the same item, as far as the gallery itself tells.

Around a row a group grows: the row that is most similar to its members on average joins, as long as
that average is high. Pairs that share nothing count as 0, so one wrong link draws nobody in. The
similarity of two rows is (1 - d')^0.5 cos^0.75. Groups are rather too small than too large: rows of
one item that are left out only make what is learnt from them more cautious.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import numpy as np

from kinrank.index.distances import encoding_rows
from kinrank.index.engine import Engine
from kinrank.kernels.ranking import compared_rows
from kinrank.stages.sparse import take, transposed
from kinrank.types import Floats, Ints, SparseRows

# The gallery rows that show the same item as a gallery row, itself among them.
RowsOfItem: TypeAlias = Callable[[int], Ints]

_LEAST_MEAN = 0.7  # similarity to the members of a group, of a row that joins
_LARGEST = 200  # rows of a group
_LISTED = 60  # most similar rows of each row that are looked at


class SameItemRows:
    """Groups around the gallery rows of an engine; what was computed is kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._similar: dict[int, tuple[list[int], list[float]]] = {}

    def rows_of_item(self, gallery_row: int) -> Ints:
        """The group around a gallery row, itself first."""
        state = self._engine.state
        first = int(state.position[gallery_row])
        members = [first]
        sums: dict[int, float] = {}
        joining = first
        while len(members) < _LARGEST:
            for row, similarity in zip(*self._similar_rows(joining), strict=True):
                sums[row] = sums.get(row, 0.0) + similarity
            sums[joining] = -np.inf  # once is enough
            joining = max(sums, key=sums.__getitem__)
            if sums[joining] < _LEAST_MEAN * len(members):
                break
            members.append(joining)
        in_gallery = state.order[members]
        return in_gallery[in_gallery < state.n_gallery]

    def _similar_rows(self, row: int) -> tuple[list[int], list[float]]:
        """The rows most similar to a row, and how much so."""
        if row not in self._similar:
            state = self._engine.state
            with self._engine.workspace() as space:
                if self._encoding is None:
                    encoding = encoding_rows(self._engine, np.array([row], np.int32), space)
                else:
                    encoding = take(self._encoding, np.array([row], np.int32))
                _, columns, values = encoding.csr
                rows, divergence = compared_rows(columns, values, state.answerable, space)
            nearest = np.argsort(divergence, kind="stable")[:_LISTED]
            rows = rows[nearest]
            cosine = self._unit[rows] @ self._unit[row]
            similarity = np.sqrt(np.maximum(1 - divergence[nearest], 0))
            similarity *= np.maximum(cosine, 0) ** 0.75
            others = rows != row
            self._similar[row] = (rows[others].tolist(), similarity[others].tolist())
        return self._similar[row]

    @cached_property
    def _encoding(self) -> SparseRows | None:
        """F' by rows where it is kept by columns alone; None where P makes rows of it quickly."""
        state = self._engine.state
        return transposed(state.columns) if state.transition is None else None

    @cached_property
    def _unit(self) -> Floats:
        vectors = self._engine.state.vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Floats = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
        return unit
