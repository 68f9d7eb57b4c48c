"""What travels together into kernels, by name: NamedTuples of arrays.

``ptr, ids, values`` is a sparse matrix by rows everywhere: row i has the columns
ids[ptr[i]:ptr[i + 1]], and the values in the same places (CSR). n is the number of stored rows. An
overlay is rows that stand in for stored ones while a query is computed (``kernels/overlay.py``).

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
    """A sparse matrix whose rows may have overlay rows in front of them.

    ptr, ids, values : the stored rows, (n + 1,) int64, (nnz,) int32, (nnz,) float32
    groups : (m + 1,) int64, query t of m has the overlay rows groups[t] to groups[t + 1]; empty
        without queries
    replaced : int32, which stored row each overlay row stands in for; n for the query itself
    over_ptr, over_ids, over_values : the overlay rows, as ``ptr, ids, values``
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
    """Lists of the K nearest rows of each row, which may have overlay lists in front of them.

    ids : (n, K) int32, nearest first, the row itself before all, -1 behind the end of a short list
    squared : (n, K) float32, squared distances
    farthest : (n,) float32, the largest squared distance of each row
    groups, replaced : of the overlay, as in ``Rows``
    over_ids, over_squared, over_farthest : the overlay lists, as ``ids, squared, farthest``
    """

    ids: Ints
    squared: Floats
    farthest: Floats
    groups: Longs
    replaced: Ints
    over_ids: Ints
    over_squared: Floats
    over_farthest: Floats


class Space(NamedTuple):
    """Scratch arrays with an entry for each of n stored rows, and two entries more.

    Entry n is for the query; the last one of ``touched`` is for what is written before it is known
    to count. Rows are marked by stamps: an entry of ``seen`` or ``stepped`` is marked if it equals
    the stamp in use, so that nothing has to be wiped.

    last_stamp : (1,) the last stamp that was given out
    seen, stepped : two sets of marks
    overlay_row : which overlay row stands in for a row, -1 for none
    slot : the local number of a row or column, -1 for none; all -1 between uses
    touched : row numbers that are noted one after the other
    total, scratch : float64, what a kernel keeps for each row, of use where a mark says so
    """

    last_stamp: Ints
    seen: Ints
    stepped: Ints
    overlay_row: Ints
    slot: Ints
    touched: Ints
    total: Doubles
    scratch: Doubles


class DiffusionTerms(NamedTuple):
    """How the similarity F follows from the normalised graph S: coefficients of polynomials of S.

    powers, binomial : (T + 1,) float64, the sum over t of powers[t] S^t + binomial[t] S^t B S^(T-t)
    series : float64, the sum over t of series[t] T_t(S), T_t the Chebyshev polynomials
        Arrays that are not used are empty.
    decay : what part of the weight is left after a step along the edges
    floor : a row that is reached with no more weight than this is left out
    """

    powers: Doubles
    binomial: Doubles
    series: Doubles
    decay: float
    floor: float


class SmoothingWalk(NamedTuple):
    """P, the transitions of the two-step walk that guides the smoothing, by rows and by columns.

    ids, p : (n, k) int32 and float32, the columns and the values of each row
    in_ptr, in_ids, in_p : column c has the rows in_ids[in_ptr[c]:in_ptr[c + 1]], with values in_p
    """

    ids: Ints
    p: Floats
    in_ptr: Longs
    in_ids: Ints
    in_p: Floats


class Columns(NamedTuple):
    """Encodings F' by columns.

    ptr : int64, where the entries of each column begin
    rows, values, entropies : of each entry its row, its value x, and x log2 x
    """

    ptr: Longs
    rows: Ints
    values: Floats
    entropies: Floats


class Encodings(NamedTuple):
    """F' of all rows, and what the distance d' between two of them is computed from.

    measure : the code of the distance (``kernels.measures``)
    ptr, ids, values : F' by rows
    entropies : x log2 x of ``values``
    columns : F' by columns, of the rows that may be results alone
    norms : (n,) float64, the squared Euclidean norm of each row of F'
    """

    measure: int
    ptr: Longs
    ids: Ints
    values: Floats
    entropies: Floats
    columns: Columns
    norms: Doubles


class Levels(NamedTuple):
    """The entries of F' in LEVELS levels by their weight in the row, heavy ones first.

    ``kernels.bounded`` makes and uses them.

    marks : int32, of each entry of F' by rows: LEVELS times its column plus its level
    rests : (n, LEVELS - 1) float32, rests[i, l] the sum of the entries of row i in levels above l,
        which are lighter
    starts : int64, where level l of column c begins, at LEVELS c + l
    """

    marks: Ints
    rests: Floats
    starts: Longs


class Fusion(NamedTuple):
    """The distance d that d' is fused with: d* = (1 - omega) d' + omega d.

    omega : the weight of d
    root : whether d is the root of the squared distance over the row's farthest, or this itself
    vectors : (n, dimensions) float32, or the bits of float16 (``kernels.stored``)
    order : (n,) int32, row i has the vector order[i]; order[i] also stands for it in results and in
        ties
    farthest : (n,) float32, the largest squared distance of each row
    lists : (n_queries, K) int32, the nearest rows of each query; list_d : d to them
    """

    omega: np.float32
    root: bool
    vectors: Floats | npt.NDArray[np.uint16]
    order: Ints
    farthest: Floats
    lists: Ints
    list_d: Floats


class QueryLists(NamedTuple):
    """m queries of an index, and their nearest rows.

    vectors : (m, dimensions) float32
    ids, squared : (m, L) the nearest rows, and their squared distances, ascending
    counts : (m,) how many of the L are filled
    farthest : (m,) the largest squared distance of a query to any row, estimated from its nearest
        rows; squared distances are divided by it
    """

    vectors: Floats
    ids: Ints
    squared: Floats
    counts: Longs
    farthest: Floats


class FetchedDistances(NamedTuple):
    """Squared distances that were asked of a store: query t has the entries ptr[t] to ptr[t + 1].

    rows, squared : of each entry the row, and the squared distance from the query to it; infinite
        where the store has no such row
    """

    ptr: Longs
    rows: Ints
    squared: Floats


class FilterLists(NamedTuple):
    """Which rows may be results: query t lists rows[indptr[t] : indptr[t + 1]].

    is_allow_list : (n_queries,) bool, whether only the listed rows may be results, or all others
    """

    indptr: Longs
    rows: Ints
    is_allow_list: Flags


class Answerable(NamedTuple):
    """The rows of an index, as queries are compared with them.

    measure, columns, norms : of F', as in ``Encodings``
    omega, root : as in ``Fusion``
    order : (n,) the number that stands for each row in results and in ties; rows for which it is
        ``n_gallery`` or more are never results
    vectors : (n, dimensions) float32, or (0, dimensions) where the vectors are in a store
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
    """The graph of shortest paths through an index, and what path lengths are fused with.

    ptr, ids, weights : the edges of each row, and d' on them; the edges of a row ascend by weight
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
    """What a search knows so far of a band, the rows low, low + 1, ... (``kernels.pairs``).

    A column y has the value |y|^2 - 2 xy for the row x: the squared distance less |x|^2, and so in
    the same order. "Packed" is a value and its column as one int64 (``kernels.heap``).

    low : (1,) the number of the first row of the band
    bounds : (rows,) a column whose value is not below it is no neighbour
    counts, nearest : (rows,), (rows, capacity) how many columns are kept, and these, packed
    far_bounds : (rows,) a column whose value is not above it is not the farthest
    margins : (rows,) values that differ by less may be the other way round: products are rounded
    far_counts, farthest : (rows,), (rows, capacity) columns that may be the farthest, packed; a
        count beyond the capacity says that there were too many
    """

    low: Longs
    bounds: Floats
    counts: Longs
    nearest: Longs
    far_bounds: Floats
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
