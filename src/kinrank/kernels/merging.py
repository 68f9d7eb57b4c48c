"""Average-link merging over sparse sums of similarities, best pair first, and the cut of its tree.

Two clusters a and b have the link

    (sums_ab / min(|a| |b|, partners min(|a|, |b|)))^(1/2)  cos(centre_a, centre_b)^(3/4)

sums_ab is the sum of the similarities of their pairs, |a| the number of rows in a. The first factor
counts absent pairs as 0, so that one wrong pair cannot join two clusters; a row has no more than so
many ``partners`` in its list, and none beyond can be asked for. The second sees all pairs, listed
or not. Pairs that must stay apart, and clusters with two anchors, are never joined: an anchor is
what a cluster is known to be.

A cluster goes by the number of one of its rows, ``root_of(parent, row)``; ``parent`` is a
union-find forest. A pair of clusters is called ``one, other``.

Functions under ``kernel`` are called from Python, those under ``inner`` and ``inner_sum`` by
kernels; the sums of ``inner_sum`` may be regrouped (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, inner_sum, kernel


@inner
def root_of(parent, row):
    """The cluster that a row is in; the way there is halved for the next time."""
    while parent[row] != row:
        parent[row] = parent[parent[row]]
        row = parent[row]
    return row


@inner_sum
def product(x, y):
    """The inner product of two vectors, in float64."""
    total = 0.0
    for column in range(x.shape[0]):
        total += np.float64(x[column]) * np.float64(y[column])
    return total


@inner
def first_factor(total, size, other_size, partners):
    """The first factor of the link, which is an upper bound of it.

    total : the sum of similarities between two clusters; size, other_size : how many rows they have
    partners : most links that a row can have
    """
    pairs = min(size * other_size, partners * min(size, other_size))
    return np.sqrt(max(total, 0.0) / pairs)


@inner
def second_factor(centres, norms, one, other):
    """The second factor of the link: how alike the centres of two clusters are.

    centres : (n, d) sums of unit vectors of each cluster; norms : (n,) their squared lengths
    """
    length = np.sqrt(norms[one] * norms[other])
    if length <= 0.0:
        return 0.0
    cosine = product(centres[one], centres[other]) / length
    return max(cosine, 0.0) ** 0.75


@inner
def before(links, one, other):
    """Whether cluster ``one`` goes before ``other``: stronger links first, then lower numbers."""
    return links[one] > links[other] or (links[one] == links[other] and one < other)


@inner
def sift(heap, slots, size, links, cluster):
    """Put a cluster whose link has changed where it belongs in the heap, the strongest link first.

    heap, size : clusters, and how many; slots : (n,) where each is; links : (n,) its best link
    """
    slot = slots[cluster]
    while slot > 0 and before(links, cluster, heap[(slot - 1) // 2]):
        parent_slot = (slot - 1) // 2
        heap[slot] = heap[parent_slot]
        slots[heap[slot]] = slot
        slot = parent_slot
    while True:
        child = 2 * slot + 1
        if child >= size:
            break
        if child + 1 < size and before(links, heap[child + 1], heap[child]):
            child += 1
        if not before(links, heap[child], cluster):
            break
        heap[slot] = heap[child]
        slots[heap[slot]] = slot
        slot = child
    heap[slot] = cluster
    slots[cluster] = slot


@inner
def gather(cluster, ptr, ids, sums, apart, parent, chain, filled, totals, barred, seen, touched):
    """Sum the entries of a cluster by the clusters that they lead to, and store them compacted.

    A cluster is a chain of segments, the rows of the matrix ``ptr, ids, sums, apart`` that were
    joined: ``chain`` is (first segment, next segment, last segment), -1 behind the last; segment i
    has the entries ptr[i] to ptr[i] + filled[i].
    totals, barred : (n,) float64 and bool, set for the clusters that entries lead to: the sum of
        similarities, and whether a pair must stay apart
    seen : (n,) bool scratch, False before and after
    touched : (n,) the clusters that entries lead to; as many are written as there are
    Returns how many there are.
    """
    first, next_segment, last = chain
    count = 0
    segment = first[cluster]
    while segment >= 0:
        for entry in range(ptr[segment], ptr[segment] + filled[segment]):
            other = root_of(parent, ids[entry])
            if other == cluster:
                continue
            if not seen[other]:
                seen[other] = True
                totals[other] = 0.0
                barred[other] = False
                touched[count] = other
                count += 1
            totals[other] += sums[entry]
            barred[other] |= apart[entry]
        segment = next_segment[segment]
    written = 0
    segment = first[cluster]
    while segment >= 0:
        capacity = ptr[segment + 1] - ptr[segment]
        filled[segment] = min(capacity, count - written)
        for t in range(filled[segment]):
            other = touched[written + t]
            entry = ptr[segment] + t
            ids[entry] = other
            sums[entry] = totals[other]
            apart[entry] = barred[other]
        written += filled[segment]
        after_this = next_segment[segment]
        if written == count:  # what follows is empty
            next_segment[segment] = -1
            last[cluster] = segment
            break
        segment = after_this
    for t in range(count):
        seen[touched[t]] = False
    return count


@kernel
def merge_links(ptr, ids, sums, apart, sizes, centres, anchors, partners):
    """The tree of merges of n leaves, rows or groups of rows.

    ptr, ids, sums, apart : a symmetric sparse matrix without a diagonal, row i with the columns
        ids[ptr[i]:ptr[i + 1]]: sums of similarities, and whether a pair must stay apart;
        overwritten
    sizes : (n,) float64, how many rows each leaf stands for
    centres : (n, d) float32, sums of the unit vectors of these rows; overwritten
    anchors : (n,) int64, what the leaf is known to be, -1 for nothing; overwritten
    partners : most links that a row can have

    Returns the children (m, 2) of each merge and its link (m,); merge i makes node n + i, leaves
    are nodes 0 to n - 1.
    """
    n = sizes.shape[0]
    sizes = sizes.copy()
    parent = np.arange(n)
    node = np.arange(n)
    chain = (np.arange(n), np.full(n, -1), np.arange(n))
    first, next_segment, last = chain
    filled = np.empty(n, np.int64)
    norms = np.empty(n)
    for row in range(n):
        filled[row] = ptr[row + 1] - ptr[row]
        norms[row] = product(centres[row], centres[row])
    totals = np.zeros(n)
    barred = np.zeros(n, np.bool_)
    seen = np.zeros(n, np.bool_)
    touched = np.empty(n, np.int64)
    links = np.zeros(n)
    nearest = np.full(n, -1)
    stale = np.ones(n, np.bool_)
    heap = np.arange(n)
    slots = np.arange(n)
    for row in range(n):
        links[row] = np.inf  # looked at when it is first met
    size = n
    children = np.empty((max(n - 1, 0), 2), np.int64)
    heights = np.empty(max(n - 1, 0))
    step = 0
    while size > 0:
        cluster = heap[0]
        if links[cluster] <= 0.0:
            break
        if stale[cluster]:
            count = gather(
                cluster, ptr, ids, sums, apart, parent, chain, filled, totals, barred, seen, touched
            )
            best = 0.0
            best_other = -1
            for t in range(count):
                other = touched[t]
                if barred[other]:
                    continue
                anchored = anchors[other] >= 0 and anchors[cluster] >= 0
                if anchored and anchors[other] != anchors[cluster]:
                    continue
                link = first_factor(totals[other], sizes[cluster], sizes[other], partners)
                if link < best or link <= 0.0:
                    continue
                link *= second_factor(centres, norms, cluster, other)
                if link > best or (link == best and link > 0.0 and other < best_other):
                    best = link
                    best_other = other
            links[cluster] = best
            nearest[cluster] = best_other
            stale[cluster] = False
            sift(heap, slots, size, links, cluster)
            continue
        link = links[cluster]
        one = min(cluster, nearest[cluster])
        other = max(cluster, nearest[cluster])
        children[step, 0] = node[one]
        children[step, 1] = node[other]
        heights[step] = link
        node[one] = n + step
        step += 1
        # The other one leaves the heap.
        size -= 1
        moved_cluster = heap[size]
        if moved_cluster != other:
            heap[slots[other]] = moved_cluster
            slots[moved_cluster] = slots[other]
            sift(heap, slots, size, links, moved_cluster)
        parent[other] = one
        next_segment[last[one]] = first[other]
        last[one] = last[other]
        sizes[one] += sizes[other]
        for column in range(centres.shape[1]):
            centres[one, column] += centres[other, column]
        norms[one] = product(centres[one], centres[one])
        if anchors[one] < 0:
            anchors[one] = anchors[other]
        count = gather(
            one, ptr, ids, sums, apart, parent, chain, filled, totals, barred, seen, touched
        )
        best = 0.0
        best_other = -1
        for t in range(count):
            row = touched[t]
            lost_nearest = nearest[row] == one or nearest[row] == other
            link = 0.0
            is_allowed = not barred[row]
            if anchors[row] >= 0 and anchors[one] >= 0 and anchors[row] != anchors[one]:
                is_allowed = False
            if is_allowed:
                link = first_factor(totals[row], sizes[one], sizes[row], partners)
                if link >= best or link >= links[row]:
                    link *= second_factor(centres, norms, one, row)
                else:
                    link = 0.0
            if link > best or (link == best and link > 0.0 and row < best_other):
                best = link
                best_other = row
            if stale[row]:
                if link > links[row]:  # a bound from above for what it will find
                    links[row] = link
                    sift(heap, slots, size, links, row)
            elif link > links[row] or (link == links[row] and link > 0.0 and one < nearest[row]):
                links[row] = link
                nearest[row] = one
                sift(heap, slots, size, links, row)
            elif lost_nearest:
                stale[row] = True
        links[one] = best
        nearest[one] = best_other
        stale[one] = False
        sift(heap, slots, size, links, one)
    return children[:step], heights[:step]


@kernel
def lifetimes(children, heights, leaf_sizes):
    """Where the nodes of a tree begin and end on the scale of links, and how many rows they have.

    children, heights : (m, 2) and (m,), of ``merge_links``; leaf_sizes : (n,) float64
    Returns for each of n + m nodes the link that formed it, at most those of its children and 1
    for a leaf; the link that ends it, 0 where nothing does; and its size.
    """
    n = leaf_sizes.shape[0]
    m = children.shape[0]
    links = np.ones(n + m)
    ends = np.zeros(n + m)
    sizes = np.empty(n + m)
    for leaf in range(n):
        sizes[leaf] = leaf_sizes[leaf]
    for step in range(m):
        left = children[step, 0]
        right = children[step, 1]
        links[n + step] = min(heights[step], links[left], links[right])
        sizes[n + step] = sizes[left] + sizes[right]
        ends[left] = links[n + step]
        ends[right] = links[n + step]
    return links, ends, sizes


@kernel
def best_antichain(values, children, n):
    """The nodes of a forest, none above another and all leaves below one, of the greatest sum.

    values : (n + m,) of each node, the n leaves first; children : (m, 2), each before its parent
    Returns for each node whether it is taken, (n + m,) bool, and for each leaf which taken node it
    is below, or the leaf itself where that is taken, (n,) int64.
    """
    m = children.shape[0]
    best = values.copy()
    taken = np.ones(n + m, np.bool_)
    for step in range(m):
        split = best[children[step, 0]] + best[children[step, 1]]
        if split > best[n + step]:
            best[n + step] = split
            taken[n + step] = False
    above = np.full(n + m, -1)
    for step in range(m - 1, -1, -1):
        node = n + step
        if above[node] < 0 and taken[node]:
            above[node] = node
        if above[node] >= 0:
            above[children[step, 0]] = above[node]
            above[children[step, 1]] = above[node]
    chosen = np.zeros(n + m, np.bool_)
    for leaf in range(n):
        if above[leaf] < 0:
            above[leaf] = leaf
        chosen[above[leaf]] = True
    return chosen, above[:n]
