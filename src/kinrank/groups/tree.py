"""The tree of merges, and where it is cut.

A node of the tree lives from the link that formed it down to the link that ends it. Groups are the
nodes, none above another, with the greatest sum of size times lifetime. Lifetimes are measured by
a density over links: most of it lies around the ``level`` at which groups usually end, and more
where many rows of the groups live that were found so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.arrays import IN_MEMORY, Arrays
from kinrank.groups.constraints import Bound, LeafPairs
from kinrank.groups.links import Links
from kinrank.kernels.links import add_to_leaves, leaf_links
from kinrank.kernels.merging import best_antichain, lifetimes, merge_links
from kinrank.types import Longs, SparseRows

PARTNERS = 60.0  # links that a row can have at most: groups may be far larger than the lists
USUAL_LEVEL = 0.2  # where groups end in most collections
WIDTH = 0.4  # of the density around the level, in natural logarithms
ROUNDS = 5
STEPS = 400  # of the scale of links
LEAST_DENSITY = 1e-3  # of levels at which no row lives

Wide = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tree:
    """A forest of merges over leaves, which are rows or rows that must be together.

    leaves : (n,) the leaf of each row
    children : (m, 2) of each merge, nodes numbered behind the leaves
    links : (leaves + m,) the link that formed a node, at most those of its children; 1 for a leaf
    ends : the link that ends it; 0 where nothing does
    sizes : how many rows it has
    """

    leaves: Longs
    children: Longs
    links: Wide
    ends: Wide
    sizes: Wide

    @property
    def n_leaves(self) -> int:
        return len(self.links) - len(self.children)


def grow_tree(
    links: Links,
    bound: Bound | None = None,
    single: npt.NDArray[np.bool_] | None = None,
    arrays: Arrays = IN_MEMORY,
) -> Tree:
    """Merge rows, the strongest link first; rows that are ``single`` have no links.

    arrays : where what is merged lies: a copy of the links, and of the directions
    """
    n = len(links)
    if single is None:
        single = np.zeros(n, np.bool_)
    if bound is None:
        leaves: Longs = np.arange(n)
        anchors: Longs = np.full(n, -1)
        centres = arrays.empty(links.directions.shape, np.float32)
        centres[:] = links.directions
        sizes = np.ones(n)
        more = LeafPairs.none(n)
    else:
        leaves = bound.leaves
        anchors = bound.anchors.copy()
        centres = arrays.empty((bound.n_leaves, links.directions.shape[1]), np.float32)
        centres[:] = 0
        add_to_leaves(leaves, links.directions, centres)
        sizes = np.bincount(leaves, minlength=bound.n_leaves).astype(np.float64)
        more = bound.pairs()
    pairs = links_of_leaves(links.similarities, leaves, len(sizes), single, more, arrays)
    children, heights = merge_links(*pairs, sizes, centres, anchors, PARTNERS)
    return Tree(leaves, children, *lifetimes(children, heights, sizes))


def links_of_leaves(
    similarities: SparseRows,
    leaves: Longs,
    n_leaves: int,
    single: npt.NDArray[np.bool_],
    more: LeafPairs,
    arrays: Arrays = IN_MEMORY,
) -> tuple[Longs, npt.NDArray[np.int32], Wide, npt.NDArray[np.bool_]]:
    """The links between leaves as ``merge_links`` takes them: ptr, ids, sums, apart."""
    size = similarities.nnz + len(more.ids)
    ids = arrays.empty(size, np.int32)
    sums = arrays.empty(size, np.float64)
    apart = arrays.empty(size, np.bool_)
    leaf_rows = np.argsort(leaves, kind="stable")
    leaf_ptr = np.searchsorted(leaves[leaf_rows], np.arange(n_leaves + 1))
    ptr = leaf_links(
        similarities.csr, single, leaves, leaf_ptr, leaf_rows, tuple(more), ids, sums, apart
    )
    return ptr, ids, sums, apart


def cut_tree(tree: Tree, level: float) -> Longs:
    """The node that each row's group is."""
    grid = np.linspace(0, 1, STEPS + 1)
    middle = (grid[1:] + grid[:-1]) / 2
    prior = np.exp(-0.5 * (np.log(middle / level) / WIDTH) ** 2)
    density = prior / prior.sum()
    nodes = tree.leaves
    for _ in range(ROUNDS):
        measured = np.concatenate([[0.0], np.cumsum(density)])
        lives = np.interp(tree.links, grid, measured) - np.interp(tree.ends, grid, measured)
        chosen, above = best_antichain(tree.sizes * lives, tree.children, tree.n_leaves)
        nodes = above[tree.leaves]
        density = prior * (_living(tree, chosen, grid) + LEAST_DENSITY)
        density /= density.sum()
    return nodes


def _living(tree: Tree, chosen: npt.NDArray[np.bool_], grid: Wide) -> Wide:
    """The share of rows whose group lives at each step of the scale."""
    begins = np.searchsorted(grid, tree.ends[chosen])
    ends = np.minimum(np.searchsorted(grid, tree.links[chosen]), STEPS)
    counts = np.zeros(STEPS + 1)
    np.add.at(counts, begins, tree.sizes[chosen])
    np.add.at(counts, ends, -tree.sizes[chosen])
    return np.cumsum(counts)[:STEPS] / len(tree.leaves)


def cut_at(tree: Tree, threshold: float) -> Longs:
    """The same for one threshold: nodes whose links are at least that."""
    strong = (tree.links >= threshold).astype(np.float64)
    # A node that may be a group is worth more than what it is made of.
    _, above = best_antichain(strong * tree.sizes**2, tree.children, tree.n_leaves)
    nodes: Longs = above[tree.leaves]
    return nodes


def numbered(nodes: Longs) -> Longs:
    """Groups numbered from 0, the largest first, ties by their first row."""
    _, first, inverse, counts = np.unique(
        nodes, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.lexsort((first, -counts))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    return numbers[inverse]
