"""Near duplicates: the strict end of groups. Pairs, sets, and which row of each to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.groups.given import as_row_ids, refuse_zero_rows
from kinrank.parallel import Runner
from kinrank.search.exact import exact_search
from kinrank.types import Floats, Longs
from kinrank.validation import as_matrix, as_vectors, check_float

LISTED = 20  # nearest rows that are looked at; more copies than that are found through each other


@dataclass(frozen=True, eq=False)
class Duplicates:
    """What is there more than once.

    pairs : (m, 2) ids; similarities : (m,) cosines, the most alike first
    sets : ids that are copies of each other, the one to keep first: the most central
    """

    pairs: npt.NDArray[Any]
    similarities: Floats
    sets: tuple[tuple[Any, ...], ...]

    @property
    def keep(self) -> tuple[Any, ...]:
        """One id of each set."""
        return tuple(members[0] for members in self.sets)

    @property
    def drop(self) -> tuple[Any, ...]:
        """All others."""
        return tuple(value for members in self.sets for value in members[1:])

    def __len__(self) -> int:
        return len(self.sets)


def near_duplicates(
    vectors: Any, ids: Any = None, *, similarity: float = 0.98, threads: int | None = None
) -> Duplicates:
    """Rows that are copies of each other but for little.

    A set grows only by rows that are alike all of it, so that no chain of small steps joins two
    different pictures.

    Parameters
    ----------
    vectors : (n, d) array of any real dtype, or a torch tensor
    ids : (n,) names of the rows; None numbers them
    similarity : the least cosine of two copies, in (0, 1]
    threads : how many threads to use; never changes the result

    Examples
    --------
    >>> import kinrank
    >>> kinrank.near_duplicates([[1, 0], [1, 0.01], [0, 1]]).sets
    ((0, 1),)
    """
    similarity = check_float("similarity", similarity, 0, 1, low_open=True)
    matrix = as_matrix("vectors", vectors)
    refuse_zero_rows(matrix)
    rows = as_vectors(("vectors", matrix), cosine=True)
    names = as_row_ids(ids, len(rows))
    if len(rows) < 2:
        raise InvalidInputError("`vectors` must have at least 2 rows to be compared, got 1.")
    k = min(LISTED + 1, len(rows))
    lists = exact_search(rows, rows, k, Runner.of(threads))
    owners = np.repeat(np.arange(len(rows)), k)
    others = lists.indices.ravel().astype(np.int64)
    ahead = (owners < others) | (owners > others)
    low = np.minimum(owners[ahead], others[ahead])
    high = np.maximum(owners[ahead], others[ahead])
    pairs = np.unique(np.stack([low, high], axis=1), axis=0)
    cosines = np.einsum("ij,ij->i", rows[pairs[:, 0]], rows[pairs[:, 1]], dtype=np.float64)
    alike = cosines >= similarity - 1e-6
    pairs = pairs[alike]
    cosines = cosines[alike]
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -cosines))
    pairs = pairs[order]
    cosines = cosines[order]
    sets = tuple(tuple(names[list(members)].tolist()) for members in _sets(rows, pairs, similarity))
    return Duplicates(names[pairs], np.minimum(cosines, 1).astype(np.float32), sets)


def _sets(rows: Floats, pairs: Longs, similarity: float) -> list[list[int]]:
    """Sets whose rows are all alike, the most central row of each first."""
    number: dict[int, int] = {}
    sets: dict[int, list[int]] = {}
    for one, other in pairs.tolist():
        first = sets.get(number.get(one, -1), [one])
        second = sets.get(number.get(other, -1), [other])
        if first is second or (one in number and number.get(one) == number.get(other)):
            continue
        products = rows[first] @ rows[second].T
        if products.min() < similarity - 1e-6:
            continue
        merged = first + second
        for row in (one, other):
            if row in number:
                sets.pop(number[row], None)
        sets[min(merged)] = merged
        for row in merged:
            number[row] = min(merged)
    out = []
    for _, members in sorted(sets.items()):
        central = rows[members] @ rows[members].sum(axis=0)
        out.append([members[at] for at in np.lexsort((members, -central)).tolist()])
    return out
