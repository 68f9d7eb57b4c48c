"""Which rows of a gallery show the same item, as far as the gallery itself tells: without labels.

Around a row a group grows: of all other rows the one that is most similar to its members on average
joins, as long as that average is high. Rows that share no column of F' have the similarity 0, so
that one wrong link draws nobody in. The similarity of two rows is (1 - d')^0.5 cos^0.75, d' the
divergence of their encodings and cos the cosine of their vectors.

Groups are rather too small than too large: ``calibrate`` learns from them what unknown items look
like, and rows of an item that are left out only make it more cautious.
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

# From the index of a gallery row to the indices of all that show its item, (m,) int32, itself among
# them.
RowsOfItem: TypeAlias = Callable[[int], Ints]

_LEAST_MEAN = 0.7  # similarity to the members of a group, of a row that joins
_LARGEST = 200  # rows of a group
_MOST_SIMILAR = 60  # rows that are considered from each member


class SameItemRows:
    """Groups around the gallery rows of an engine; similarities that were computed are kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept_similarities: dict[int, tuple[list[int], list[float]]] = {}

    def rows_of_item(self, index: int) -> Ints:
        """The indices of the group around a gallery row, int32, itself first."""
        state = self._engine.state
        row = int(state.position[index])
        members = [row]
        total_similarity: dict[int, float] = {}  # of each candidate to all members
        while len(members) < _LARGEST:
            for candidate, similarity in zip(*self._most_similar(members[-1]), strict=True):
                total_similarity[candidate] = total_similarity.get(candidate, 0.0) + similarity
            total_similarity[members[-1]] = -np.inf  # a member does not join again
            best = max(total_similarity, key=total_similarity.__getitem__)
            if total_similarity[best] < _LEAST_MEAN * len(members):
                break
            members.append(best)
        indices = state.order[members]
        return indices[indices < state.n_gallery]  # without rows of the context

    def _most_similar(self, row: int) -> tuple[list[int], list[float]]:
        """The rows that are most similar to a row, and how similar they are, from 0 to 1."""
        if row not in self._kept_similarities:
            self._kept_similarities[row] = self._computed_similarities(row)
        return self._kept_similarities[row]

    def _computed_similarities(self, row: int) -> tuple[list[int], list[float]]:
        """As ``_most_similar``, computed."""
        state = self._engine.state
        this_row = np.array([row], np.int32)
        with self._engine.workspace() as space:
            if self._encodings is None:
                encoding = encoding_rows(self._engine, this_row, space)
            else:
                encoding = take(self._encodings, this_row)
            _, columns, values = encoding.csr
            rows, divergence = compared_rows(columns, values, state.answerable, space)
        nearest = np.argsort(divergence, kind="stable")[:_MOST_SIMILAR]
        rows = rows[nearest]
        cosine = self._unit_vectors[rows] @ self._unit_vectors[row]
        similarity = np.sqrt(np.maximum(1 - divergence[nearest], 0))
        similarity *= np.maximum(cosine, 0) ** 0.75
        is_other = rows != row
        return rows[is_other].tolist(), similarity[is_other].tolist()

    @cached_property
    def _encodings(self) -> SparseRows | None:
        """F' by rows where there is no P; None where P is there, which makes rows quickly."""
        state = self._engine.state
        return transposed(state.columns) if state.transition is None else None

    @cached_property
    def _unit_vectors(self) -> Floats:
        """(n, d) float32, the vectors over their norms."""
        vectors = self._engine.state.vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Floats = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
        return unit
