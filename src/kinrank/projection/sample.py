"""The rows that a map is learnt from: all, or those around some of them.

A random part of a large collection has lost most of the partners of its rows. So rows are drawn,
and the nearest of each in the whole collection come with it: around every drawn row there is all
that belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kinrank.parallel import Runner
from kinrank.search.exact import search_pieces
from kinrank.types import Floats, Longs
from kinrank.validation import Matrices, as_vectors

MOST = 8192  # rows up to which all are taken
DRAWN = 1024  # of more, and with each of them its
AROUND = 12  # nearest
_PIECE = 8192  # rows that are read at a time


class Sample(NamedTuple):
    """Rows to learn from.

    rows : their numbers, ascending, over all matrices one above the other
    drawn : which of them, by their place in ``rows``, have all their nearest beside them
    """

    rows: Longs
    drawn: Longs


def learning_rows(matrices: Matrices, run: Runner) -> Sample:
    """The rows to learn from: all, or of many those around some."""
    n = sum(len(matrix) for _, matrix in matrices)
    if n <= MOST:
        return Sample(np.arange(n), np.arange(n))
    drawn = np.sort(np.random.default_rng(0).choice(n, DRAWN, replace=False))
    nearest = search_pieces(unit_rows_at(matrices, drawn), _pieces(matrices), AROUND, run)
    rows = np.unique(np.concatenate([drawn, nearest.indices.ravel().astype(np.int64)]))
    return Sample(rows, np.searchsorted(rows, drawn))


def unit_rows_at(matrices: Matrices, rows: Longs) -> Floats:
    """The rows of these numbers, each over its norm."""
    parts = []
    begin = 0
    for name, matrix in matrices:
        inside = rows[(rows >= begin) & (rows < begin + len(matrix))] - begin
        if len(inside):
            parts.append((name, matrix[inside]))
        begin += len(matrix)
    return as_vectors(*parts, cosine=True)


def _pieces(matrices: Matrices) -> Iterator[Floats]:
    for name, matrix in matrices:
        for low in range(0, len(matrix), _PIECE):
            yield as_vectors((name, matrix[low : low + _PIECE]), cosine=True)
