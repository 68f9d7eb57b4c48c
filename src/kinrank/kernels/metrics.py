"""Where in a ranking the right answers are.

Positions are counted from 0 and without the entries that a protocol takes out of the list (junk,
the query's own camera, the query itself, -1 for none), so that metrics need no second look at the
ranking.

Functions under ``kernel`` are called from Python (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel

# Kinds of faults in a ranking.
NO_FAULT = 0
OUT_OF_RANGE = 1
REPEATED = 2


@kernel
def find_fault(indices, n_gallery, low, high):
    """The first fault in rows [low, high) of a ranking: (kind, row, gallery index), int64.

    indices : (n_queries, k) gallery rows, -1 for none; kind : NO_FAULT, OUT_OF_RANGE or REPEATED
    """
    seen = np.full(n_gallery, -1, np.int64)
    for row in range(low, high):
        for column in range(indices.shape[1]):
            index = indices[row, column]
            if index >= n_gallery or index < -1:
                return np.array([OUT_OF_RANGE, row, index])
            if index >= 0:
                if seen[index] == row:
                    return np.array([REPEATED, row, index])
                seen[index] = row
    return np.array([NO_FAULT, -1, -1])


@kernel
def label_positions(
    indices,
    query_labels,
    gallery_labels,
    query_cameras,
    gallery_cameras,
    own_rows,
    indptr,
    low,
    high,
):
    """Positions of the matches of queries [low, high), from 0, -1 in the slots left over.

    A match is a gallery row of the query's label, but not of its camera. Labels below 0 are junk.
    indices : (n_queries, k) gallery rows, -1 for none
    query_labels, gallery_labels, query_cameras, gallery_cameras : an integer for each query, or
        gallery row; cameras of length 0 are not looked at
    own_rows : (n_queries,) the gallery row that the query is, -1 for none; length 0: no query is
        one
    indptr : (n_queries + 1,) gives every query the slots for all its matches
    Returns the slots of these queries, int32.
    """
    start = indptr[low]
    positions = np.full(indptr[high] - start, -1, np.int32)
    with_cameras = len(gallery_cameras) > 0
    with_own_rows = len(own_rows) > 0
    for row in range(low, high):
        slot = indptr[row] - start
        position = 0
        label = query_labels[row]
        camera = query_cameras[row] if with_cameras else 0
        own_row = own_rows[row] if with_own_rows else -1
        for column in range(indices.shape[1]):
            index = indices[row, column]
            if index < 0 or index == own_row or gallery_labels[index] < 0:
                continue
            if gallery_labels[index] == label:
                if with_cameras and gallery_cameras[index] == camera:
                    continue
                positions[slot] = position
                slot += 1
            position += 1
    return positions


@kernel
def listed_positions(indices, right_indptr, right, junk_indptr, junk, n_gallery, low, high):
    """As ``label_positions``, for queries that list their right and their junk gallery rows.

    right_indptr, right : query i has the matches right[right_indptr[i]:right_indptr[i + 1]], and as
        many slots; junk_indptr, junk : rows that are taken out of its ranking, alike
    Returns the slots of queries [low, high), int32.
    """
    start = right_indptr[low]
    positions = np.full(right_indptr[high] - start, -1, np.int32)
    # Two marks for each query, so that the marks of the last one need no wiping.
    marks = np.zeros(n_gallery, np.int64)
    for row in range(low, high):
        is_right = 2 * row + 1
        is_junk = 2 * row + 2
        for entry in range(right_indptr[row], right_indptr[row + 1]):
            marks[right[entry]] = is_right
        for entry in range(junk_indptr[row], junk_indptr[row + 1]):
            marks[junk[entry]] = is_junk
        slot = right_indptr[row] - start
        position = 0
        for column in range(indices.shape[1]):
            index = indices[row, column]
            if index < 0 or marks[index] == is_junk:
                continue
            if marks[index] == is_right:
                positions[slot] = position
                slot += 1
            position += 1
    return positions
