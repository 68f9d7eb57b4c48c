"""What travels together into kernels, by name.

numba takes about a microsecond to recognise a named tuple among the arguments of a call, and a
third of one for a plain tuple. A query makes some fifteen calls and takes one to three
milliseconds, so the names cost it less than one part in a hundred. Inside a kernel they are free.

``signatures.json`` spells a record as its name and the types of its fields; ``RECORDS`` lists
them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.types import Csr, Floats, Ints, Longs

Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Rows(NamedTuple):
    """Sparse rows, and the overlay of rows that stand in for some of them (``kernels.overlay``).

    ptr, ids, values : the stored rows
    groups : (m + 1,) query t has the overlay's rows groups[t] to groups[t + 1]; empty without
        queries
    replaced : which stored row each row of the overlay replaces; n for the query itself
    over_ptr, over_ids, over_values : the overlay's rows
    """

    ptr: Longs
    ids: Ints
    values: Floats
    groups: Longs
    replaced: Ints
    over_ptr: Longs
    over_ids: Ints
    over_values: Floats


class Lists(NamedTuple):
    """Lists of neighbours, (n, K), and the overlay of lists that stand in for some of them.

    ids : nearest first, the row itself before all, -1 behind the end of a short list
    d : squared distances; farthest : (n,) the largest squared distance of each row
    groups, replaced : as in ``Rows``
    over_ids, over_d, over_farthest : the overlay's lists
    """

    ids: Ints
    d: Floats
    farthest: Floats
    groups: Longs
    replaced: Ints
    over_ids: Ints
    over_d: Floats
    over_farthest: Floats


class Space(NamedTuple):
    """Arrays as long as there are rows, and two more (``overlay.new_space``).

    One is for the query, and one of ``touched`` for what is written before it is known to count.
    An entry of ``seen`` or ``stepped`` is marked if it equals the stamp in use.

    clock : (1,) the last stamp
    seen, stepped : two sets of marks
    overlaid : which row of the overlay stands in for a row, -1 for none
    slot : the local number of a row, -1 for none; all -1 between uses
    touched : rows that are noted one after the other
    total, mass : sums and other numbers for each row, of use where a mark says so
    """

    clock: Ints
    seen: Ints
    stepped: Ints
    overlaid: Ints
    slot: Ints
    touched: Ints
    total: Doubles
    mass: Doubles


class DiffusionTerms(NamedTuple):
    """How F follows from S (``stages.diffusion.Polynomial``).

    powers, binomial : of ``diffuse.power_rows``; series : of ``diffuse.chebyshev_rows``; empty
        where unused
    decay : how much of the weight is left after a step
    floor : (n,) a row that is reached with no more weight than this is left out
    """

    powers: Doubles
    binomial: Doubles
    series: Doubles
    decay: float
    floor: Floats


class SmoothingWalk(NamedTuple):
    """P of the two-step walk that guides the smoothing, by rows and by columns.

    ids, p : (n, k) the columns and the values of each row
    in_ptr, in_ids, in_p : the rows and the values of each column
    """

    ids: Ints
    p: Floats
    in_ptr: Longs
    in_ids: Ints
    in_p: Floats


class Columns(NamedTuple):
    """Encodings F' by columns.

    ptr : where each column begins; rows, values, entropies : of each entry its row, its value x and
        x log2 x
    """

    ptr: Longs
    rows: Ints
    values: Floats
    entropies: Floats


class Encodings(NamedTuple):
    """F' of all rows, and what the distance d' between two of them is computed from.

    measure : the code of a measure (``kernels.measures``)
    ptr, ids, values, entropies : F' by rows, and x log2 x of its entries
    columns : F' by columns, of the rows that may be answers
    norms : (n,) the squared Euclidean norm of each row of F'
    """

    measure: int
    ptr: Longs
    ids: Ints
    values: Floats
    entropies: Floats
    columns: Columns
    norms: Doubles


class Levels(NamedTuple):
    """The entries of F' in levels by their weight in the row (``kernels.bounded``).

    marks : LEVELS times the column plus the level of each entry
    rests : (n, LEVELS - 1) the weight of a row above each level
    starts : where each level of each column begins
    """

    marks: Ints
    rests: Floats
    starts: Longs


class Fusion(NamedTuple):
    """What d' is fused with: d* = (1 - omega) d' + omega d.

    root : whether d is the root of the squared distance over the row's farthest
    vectors : float32, or the bits of float16 (``kernels.stored``)
    vectors, order : row i has the vector order[i]; ties go by these numbers, and results tell them
    farthest : (n,) the largest squared distance of each row
    lists, list_d : (n_queries, K) the nearest rows of each query, and d to them
    """

    omega: np.float32
    root: bool
    vectors: Floats | npt.NDArray[np.uint16]
    order: Ints
    farthest: Floats
    lists: Ints
    list_d: Floats


class QueryLists(NamedTuple):
    """Queries of an index and their nearest rows.

    vectors : (m, d)
    ids, squared : (m, L) the nearest rows, and their squared distances, ascending
    counts : (m,) how many of these there are
    farthest : (m,) an estimate of the largest squared distance to any row, which scales d
    """

    vectors: Floats
    ids: Ints
    squared: Floats
    counts: Longs
    farthest: Floats


class FetchedDistances(NamedTuple):
    """Squared distances that were asked of a store: query t has the entries ptr[t] to ptr[t + 1].

    rows, squared : of each entry; infinite where the store has no such row
    """

    ptr: Longs
    rows: Ints
    squared: Floats


class FilterLists(NamedTuple):
    """Which rows may be results: query t lists rows[indptr[t] : indptr[t + 1]].

    is_allow_list : (n_queries,) whether these alone may be results, or all but these
    """

    indptr: Longs
    rows: Ints
    is_allow_list: Flags


class Answerable(NamedTuple):
    """The rows of an index as answers are made from them.

    measure, columns, norms : of F', as in ``Encodings``
    omega, root : as in ``Fusion``
    order : the numbers that rows have for users; those from ``n_gallery`` on are never answers
    vectors : (n, d), or (0, d) where they are in a store
    """

    measure: int
    columns: Columns
    norms: Doubles
    omega: np.float32
    root: bool
    order: Ints
    n_gallery: int
    vectors: Floats


class PathGraph(NamedTuple):
    """The graph of shortest paths through an index, and what their lengths are fused with.

    ptr, ids, weights : d' on the edges, those of a row ascending
    limit : the length where there is no path
    omega, root, order, n_gallery, vectors : as in ``Answerable``
    """

    ptr: Longs
    ids: Ints
    weights: Floats
    limit: np.float32
    omega: np.float32
    root: bool
    order: Ints
    n_gallery: int
    vectors: Floats


class Contenders(NamedTuple):
    """What a search among all rows knows of the rows low, low + 1, ... so far (``kernels.pairs``).

    A column y has the value |y|^2 - 2 xy for the row x, in the order of its distance.

    low : (1,) the number of the first row
    bounds : a column whose value is not below it is no neighbour
    counts, nearest : how many columns are kept, and these, packed with their values (``heap``)
    reaches : a column whose value is not above it is not the farthest
    margins : values that differ by less may be the other way round, as products are rounded
    far_counts, farthest : columns that may be the farthest, packed; a count beyond the room: too
        many
    """

    low: Longs
    bounds: Floats
    counts: Longs
    nearest: Longs
    reaches: Floats
    margins: Floats
    far_counts: Longs
    farthest: Longs


RECORDS = {
    record.__name__: record
    for record in (
        Csr,
        Rows,
        Lists,
        DiffusionTerms,
        SmoothingWalk,
        Columns,
        Encodings,
        Levels,
        Fusion,
        QueryLists,
        FetchedDistances,
        FilterLists,
        Answerable,
        PathGraph,
        Contenders,
    )
}
