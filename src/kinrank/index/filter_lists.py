"""A filter as the kernels of an index take it: for each query a list of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kinrank.filters import Filter
from kinrank.kernels.records import FilterLists
from kinrank.types import Ints, Longs


@lru_cache(maxsize=128)
def no_filter(n_queries: int) -> FilterLists:
    """All rows may be results."""
    return FilterLists(
        indptr=np.zeros(n_queries + 1, np.int64),
        rows=np.empty(0, np.int32),
        is_allow_list=np.zeros(n_queries, np.bool_),
    )


@dataclass(frozen=True, eq=False)
class QueryFilter:
    """A filter for some queries, whose lists are made for a few of them at a time.

    queries : their numbers in the filter; position : the row of each gallery index
    allow : whether lists name the rows that may be results, or those that may not
    """

    row_filter: Filter
    queries: Longs
    position: Ints
    allow: bool

    def lists(self, low: int, high: int) -> FilterLists:
        """The lists of queries[low:high]."""
        rows_of = self.row_filter.allowed_rows if self.allow else self.row_filter.excluded_rows
        lists = [self.position[rows_of(int(query))] for query in self.queries[low:high]]
        indptr = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(rows) for rows in lists], out=indptr[1:])
        rows = lists[0] if len(lists) == 1 else np.concatenate(lists)
        return FilterLists(indptr, rows, np.full(len(lists), self.allow))
