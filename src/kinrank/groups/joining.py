"""Rows that come later: they join groups or found some, without a new run.

A new row is compared with all rows in the directions that groups are compared in. The links that it
would have are read off from what rows of the collection with the same cosine have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, shown
from kinrank.groups.explaining import link_of
from kinrank.groups.given import refuse_zero_rows, whole_numbers
from kinrank.groups.links import LONG, Links, side_by_side
from kinrank.groups.singles import nearest_cosines
from kinrank.groups.tree import grow_tree
from kinrank.types import Floats, Longs, SparseRows
from kinrank.validation import as_labels, as_matrix, as_vectors

if TYPE_CHECKING:
    from kinrank.groups.groups import Groups

SAMPLED = 2000  # rows that tell what links a cosine has
BINS = 50


def join(groups: Groups, vectors: Any, ids: Any) -> Groups:
    """See ``Groups.join``."""
    found = groups.found
    matrix = as_matrix("vectors", vectors)
    refuse_zero_rows(matrix)
    rows = as_vectors(("vectors", matrix), together=False)
    width = found.links.views[0].width
    if rows.shape[1] != width:
        raise InvalidInputError(
            f"`vectors` must have {width} columns, as those that were grouped, got {rows.shape[1]}."
        )
    new_ids = _new_ids(groups, ids, len(rows))
    directions = side_by_side(rows, found.links.views)
    old = found.links
    n = len(old)
    table = _typical_links(old)
    every = np.concatenate([old.directions, directions])
    labels = np.concatenate([groups.labels, np.full(len(rows), -1)])
    added: list[tuple[Longs, npt.NDArray[np.float64]]] = []
    next_number = int(groups.labels.max()) + 1
    for at in range(len(rows)):
        cosines = (every[: n + at] @ directions[at]).astype(np.float64)
        nearest = np.argsort(-cosines, kind="stable")[:LONG]
        similarities = np.interp(cosines[nearest], *table)
        linked = similarities > 0
        nearest = nearest[linked]
        similarities = similarities[linked]
        added.append((nearest, similarities))
        number = None
        if cosines.max() >= found.single_below:
            number = _group_of(labels, every, directions[at], nearest, similarities, found.level)
        if number is None:
            number = next_number
            next_number += 1
        labels[n + at] = number
    links = Links(_extended(old.similarities, added), every, old.views)
    before = groups.tree
    leaves = np.concatenate([before.leaves, before.n_leaves + np.arange(len(rows))])
    tree = replace(
        before,
        leaves=leaves,
        children=_shifted(before.children, before.n_leaves, len(rows)),
        links=_with_leaves(before.links, before.n_leaves, len(rows), 1.0),
        ends=_with_leaves(before.ends, before.n_leaves, len(rows), 0.0),
        sizes=_with_leaves(before.sizes, before.n_leaves, len(rows), 1.0),
    )
    ids_of_all = np.concatenate([found.ids, new_ids])
    single = nearest_cosines(links) < found.single_below
    joined = replace(found, links=links, tree=grow_tree(links, single=single), ids=ids_of_all)
    return replace(groups, found=joined, tree=tree, labels=labels)


def _new_ids(groups: Groups, ids: Any, m: int) -> npt.NDArray[Any]:
    text = groups.ids.dtype.kind == "U"
    if ids is None:
        if text:
            raise InvalidInputError("`ids` must be given: those of the groups are text.")
        first = int(groups.ids.max()) + 1
        return np.arange(first, first + m)
    values = as_labels("ids", ids, m, "new rows", kinds="iuU")
    if (values.dtype.kind == "U") != text:
        kind = "text" if text else "integers"
        raise InvalidInputError(
            f"`ids` must be {kind}, as those of the groups, got {values.dtype}."
        )
    values = whole_numbers(values)
    every, counts = np.unique(np.concatenate([groups.ids, values]), return_counts=True)
    if len(every) < len(groups.ids) + m:
        twice = every[int(np.argmax(counts > 1))].item()
        raise InvalidInputError(
            "`ids` must be different from each other and from those of the groups, got "
            f"{shown(twice)} more than once."
        )
    return values


def _typical_links(links: Links) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Cosines, and the mean similarity of listed pairs that have them."""
    n = len(links)
    some = np.unique(np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.int64))
    owners: list[int] = []
    entries: list[int] = []
    for row in some.tolist():
        begin = int(links.similarities.indptr[row])
        end = int(links.similarities.indptr[row + 1])
        owners += [row] * (end - begin)
        entries += range(begin, end)
    others = links.similarities.indices[entries]
    cosines = np.einsum("ij,ij->i", links.directions[owners], links.directions[others])
    values = links.similarities.values[entries]
    edges = np.linspace(-1, 1, BINS + 1)
    place = np.clip(np.digitize(cosines, edges) - 1, 0, BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    sums = np.bincount(place, values, BINS)
    known = counts > 0
    if not known.any():
        return np.array([-1.0, 1.0]), np.array([0.0, 1.0])
    middle = (edges[1:] + edges[:-1]) / 2
    means = np.maximum.accumulate(sums[known] / counts[known])
    return np.concatenate([middle[known], [1.0]]), np.concatenate([means, [1.0]])


def _group_of(
    labels: Longs,
    every: Floats,
    direction: Floats,
    nearest: Longs,
    similarities: npt.NDArray[np.float64],
    level: float,
) -> int | None:
    """The group with the strongest link to a new row, if that is no weaker than groups end at."""
    best = None
    strongest = level
    for number in np.unique(labels[nearest]).tolist():
        members = np.flatnonzero(labels == number)
        centre = every[members].sum(axis=0)
        length = float(np.linalg.norm(centre))
        cosine = float(centre @ direction) / length if length else 0.0
        total = float(similarities[labels[nearest] == number].sum())
        link = link_of(
            np.array([total]), np.array([1.0]), np.array([float(len(members))]), np.array([cosine])
        )[0]
        if link >= strongest:
            strongest = float(link)
            best = int(number)
    return best


def _extended(old: SparseRows, added: list[tuple[Longs, npt.NDArray[np.float64]]]) -> SparseRows:
    n = len(old)
    total = n + len(added)
    new_rows = np.concatenate(
        [np.full(len(nearest), n + at) for at, (nearest, _) in enumerate(added)]
        or [np.empty(0, np.int64)]
    ).astype(np.int64)
    others = np.concatenate([nearest for nearest, _ in added] or [np.empty(0, np.int64)])
    values = np.concatenate([similarities for _, similarities in added] or [np.empty(0)])
    rows = np.concatenate([old.owners, new_rows, others])
    columns = np.concatenate([old.indices, others, new_rows])
    data = np.concatenate([old.values, values, values]).astype(np.float32)
    return SparseRows.of_entries(rows, columns, data, total)


def _shifted(children: Longs, n: int, m: int) -> Longs:
    return np.where(children >= n, children + m, children)


def _with_leaves(
    values: npt.NDArray[np.float64], n: int, m: int, value: float
) -> npt.NDArray[np.float64]:
    return np.concatenate([values[:n], np.full(m, value), values[n:]])
