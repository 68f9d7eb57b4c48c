"""Distances that come as the blocks of one matrix, and a matrix back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.cas import CAS
from kinrank.errors import InvalidInputError
from kinrank.methods.context.kreciprocal import KReciprocal
from kinrank.ordering import ascending
from kinrank.parallel import Runner
from kinrank.types import Floats, Ints, Longs, Neighbors, Ranking
from kinrank.validation import as_matrix, check_choice, check_int, common_exponent

METHODS = ("kreciprocal", "cas")


@dataclass(frozen=True, eq=False)
class BlockDistances:
    """Squared distances between [queries; gallery] in the blocks they came in, never joined.

    Values are over the row's farthest, as ``kinrank.stages.distances`` wants them.
    """

    q_g: Floats
    q_q: Floats
    g_g: Floats
    neighbors: Neighbors

    @property
    def query_lists(self) -> Neighbors:
        return self.neighbors

    @classmethod
    def of(cls, q_g: Floats, q_q: Floats, g_g: Floats, length: int, run: Runner) -> BlockDistances:
        """With lists of ``length`` for every row, the row itself first, ties by lower index."""
        n = len(q_q) + len(g_g)
        lists = Neighbors(
            np.empty((n, length), np.int32),
            np.empty((n, length), np.float32),
            np.empty(n, np.float32),
        )
        made = cls(q_g, q_q, g_g, lists)

        def fill(low: int, high: int) -> None:
            for row in range(low, high):
                values = made.distances_of(row)
                ranked = values.copy()
                ranked[row] = -1
                order = ascending(ranked, length)
                lists.indices[row] = order
                lists.distances[row] = values[order]
                lists.distances[row, 0] = 0
                lists.farthest[row] = values.max()

        run.map("neighbours", fill, n)
        return made

    def distances_of(self, row: int) -> Floats:
        """From one row to all, queries first."""
        n_queries = len(self.q_q)
        if row < n_queries:
            return np.concatenate([self.q_q[row], self.q_g[row]])
        return np.concatenate([self.q_g[:, row - n_queries], self.g_g[row - n_queries]])

    def on_pattern(self, rows: Ints, indptr: Longs, ids: Ints, run: Runner) -> Floats:
        out = np.empty(len(ids), np.float32)

        def fill(low: int, high: int) -> None:
            for at in range(low, high):
                wanted = slice(indptr[at], indptr[at + 1])
                out[wanted] = self._scaled(self.distances_of(rows[at])[ids[wanted]], rows[at])

        run.map("distances", fill, len(rows))
        return out

    def to_all(self, rows: Ints, first: int, run: Runner) -> Floats:
        del run  # rows are copied, not computed
        return np.stack([self._scaled(self.distances_of(row)[first:], row) for row in rows])

    def _scaled(self, values: Floats, row: int) -> Floats:
        farthest = self.neighbors.farthest[row]
        scale = farthest if farthest > 0 else 1
        return (np.minimum(values, scale) / scale).astype(np.float32)


def check_blocks(q_g: Any, q_q: Any, g_g: Any) -> tuple[Floats, Floats, Floats]:
    """The three blocks as float32, of matching shapes.

    Distances so large or small that squares would not fit are divided by one power of two, which
    changes no result.
    """
    named = {"q_g_dist": q_g, "q_q_dist": q_q, "g_g_dist": g_g}
    matrices = [(name, as_matrix(name, block)) for name, block in named.items()]
    exponent = common_exponent(matrices)
    blocks = {name: divided(block, exponent) for name, block in matrices}
    n_queries, n_gallery = blocks["q_g_dist"].shape
    wanted = {"q_q_dist": (n_queries, n_queries), "g_g_dist": (n_gallery, n_gallery)}
    for name, shape in wanted.items():
        if blocks[name].shape != shape:
            raise InvalidInputError(f"`{name}` must be {shape}, got shape {blocks[name].shape}.")
    for name, block in blocks.items():
        if (block < 0).any():
            raise InvalidInputError(
                f"`{name}` has a negative, infinite or NaN entry; distances are finite and at "
                "least 0."
            )
    return blocks["q_g_dist"], blocks["q_q_dist"], blocks["g_g_dist"]


def divided(values: npt.NDArray[Any], exponent: int) -> Floats:
    """Values over a power of two, as float32."""
    return (np.ldexp(values.astype(np.float64), -exponent) if exponent else values).astype(
        np.float32
    )


def rank_blocks(blocks: tuple[Floats, Floats, Floats], ranker: CAS | KReciprocal) -> Floats:
    """The new distances between queries and gallery, (n_queries, n_gallery)."""
    n_queries, n_gallery = blocks[0].shape
    if isinstance(ranker, CAS):
        joined = np.block([[blocks[1], blocks[0]], [blocks[0].T, blocks[2]]])
        return as_square(ranker.rerank_neighbors(joined, n_queries=n_queries, squared=True))
    run = Runner.of()
    distances = BlockDistances.of(*blocks, max(ranker.k1 + 1, ranker.k2), run)
    return as_square(ranker.rank(distances, n_queries, n_gallery, run))


def make_ranker(method: str, n: int, k1: Any, k2: Any, share: float) -> CAS | KReciprocal:
    """The method, with sizes that fit ``n`` rows; share : of the original distance."""
    check_choice("method", method, METHODS)
    k1 = min(check_int("k1", k1, 1), n - 1)
    k2 = check_int("k2", k2, 1)
    if method == "cas":
        return CAS(k1=k1, k2=min(k2, k1), omega=share)
    return KReciprocal(k1=k1, k2=min(k2, n), lambda_value=share)


def as_square(ranking: Ranking) -> Floats:
    """A ranking of the whole gallery as distances by gallery row."""
    out = np.empty(ranking.indices.shape, np.float32)
    np.put_along_axis(out, ranking.indices.astype(np.int64), ranking.distances, axis=1)
    return out
