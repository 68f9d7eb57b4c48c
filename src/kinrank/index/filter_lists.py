"""A filter as the kernels of an index take it: for each query a list of rows.

A filter (``kinrank.filters``) counts gallery rows by index, as users do; kernels count rows as they
are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kinrank.filters import Filter
from kinrank.kernels.records import FilterLists
from kinrank.types import Ints, Longs


@lru_cache(maxsize=128)
def no_filter(n_queries: int) -> FilterLists:
    """The lists of queries for which every row may be a result: nothing is excluded."""
    return FilterLists(
        indptr=np.zeros(n_queries + 1, np.int64),
        rows=np.empty(0, np.int32),
        is_allow_list=np.zeros(n_queries, np.bool_),
    )


@dataclass(frozen=True, eq=False)
class QueryFilter:
    """A filter for some queries, whose lists are made for a block of them at a time.

    row_filter : of all queries of a call
    queries : (m,) the positions of these queries in it
    position : (n,) int32, the row of each gallery index
    by_allow_list : whether the lists name the rows that may be results, or those that may not
    """

    row_filter: Filter
    queries: Longs
    position: Ints
    by_allow_list: bool

    def lists(self, low: int, high: int) -> FilterLists:
        """The lists of queries[low:high]."""
        indices_of = self.row_filter.excluded_rows
        if self.by_allow_list:
            indices_of = self.row_filter.allowed_rows
        lists = [self.position[indices_of(int(query))] for query in self.queries[low:high]]
        indptr = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(rows) for rows in lists], out=indptr[1:])
        rows = lists[0] if len(lists) == 1 else np.concatenate(lists)
        return FilterLists(indptr, rows, np.full(len(lists), self.by_allow_list))
