"""Which rows are looked at: all of a small collection, whole regions of a large one.

Leaving out rows at random would make every cluster smaller, and with it the sizes that suit it. A
region, the nearest rows of one row, keeps its clusters whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.parallel import Runner
from kinrank.search.exact import exact_search
from kinrank.types import Floats, Ints

MAX_ROWS = 6000  # of a collection that is looked at as a whole
ASKED = 126  # of its rows, whose results are compared
REGIONS = 4  # of a larger collection, at a time: rows of many regions reach each other by chance
REGION_SIZE = 200
CORE = 8  # rows of a region, its middle, that are asked for


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a collection, those that are asked for first.

    rows : (n,) row numbers in [queries; gallery]; n_asked : how many are asked for
    """

    rows: Ints
    n_asked: int


def draw(
    vectors: Floats, n_queries: int, count: int, random: np.random.Generator, run: Runner
) -> Iterator[Sample]:
    """Rows to look at, ``count`` times.

    As many of those asked for are queries as gallery rows, if there are.
    """
    n = len(vectors)
    if n <= MAX_ROWS:
        for _ in range(count):
            asked = _mixed(n, n_queries, min(ASKED, n // 4), random)
            yield _sample(asked, np.ones(n, np.bool_))
        return
    centres = _mixed(n, n_queries, count * REGIONS, random)
    found = exact_search(np.ascontiguousarray(vectors[centres]), vectors, REGION_SIZE, run)
    for part in range(count):
        regions = found.indices[part::count]
        taken = np.zeros(n, np.bool_)
        taken[regions] = True
        yield _sample(np.unique(regions[:, :CORE]), taken)


def _mixed(n: int, n_queries: int, count: int, random: np.random.Generator) -> Ints:
    some = min(n_queries, count // 2)
    queries = random.choice(n_queries, some, replace=False) if some else np.empty(0, np.int64)
    gallery = random.choice(n - n_queries, min(count - some, n - n_queries), replace=False)
    return np.concatenate([queries, n_queries + gallery]).astype(np.int32)


def _sample(asked: Ints, taken: npt.NDArray[np.bool_]) -> Sample:
    taken[asked] = False
    rest = np.flatnonzero(taken).astype(np.int32)
    return Sample(np.concatenate([asked.astype(np.int32), rest]), len(asked))
