"""A filter as the kernels of an index take it: rows that alone may be answers, or that may not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from kinrank.conditions import Mask
from kinrank.filters import Filter
from kinrank.types import Ints, Longs

# Pointers, rows, and whether these alone may be answers; of each query.
ChosenRows: TypeAlias = tuple[Longs, Ints, Mask]


@lru_cache(maxsize=128)
def everything(n_queries: int) -> ChosenRows:
    """No filter."""
    return np.zeros(n_queries + 1, np.int64), np.empty(0, np.int32), np.zeros(n_queries, np.bool_)


@dataclass(frozen=True, eq=False)
class Choice:
    """A filter over the rows of an index.

    numbers : (m,) which queries of the filter are asked
    places : the row of each gallery item
    only : name the rows that may be answers, and look at all of them; or those that may not
    """

    allowed: Filter
    numbers: Longs
    places: Ints
    only: bool

    def some(self, part: slice) -> ChosenRows:
        """Of some of the queries."""
        rows = self.allowed.rows if self.only else self.allowed.barred
        lists = [self.places[rows(int(query))] for query in self.numbers[part]]
        indptr = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(ids) for ids in lists], out=indptr[1:])
        joined = lists[0] if len(lists) == 1 else np.concatenate(lists)
        return indptr, joined, np.full(len(lists), self.only)
