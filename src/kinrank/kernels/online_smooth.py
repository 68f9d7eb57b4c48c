"""What the neighbours say of a query that is not a row: T and r of the smoothing."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.online import affinity, begin, distance_to, tick


@kernel
def walk_row(row, x, k, sigma2, lists, walk_norm, stamp, known, distance):
    """How a row's step of the walk changes when the query enters its list.

    Returns the weight of the step to q (0: it is not in the list), how many of the old entries
    stay, and the sum of all weights.
    """
    norm = np.float64(walk_norm[row])
    d = distance_to(row, x, lists.vectors, stamp, known, distance)
    if not d <= lists.d[row, k - 1]:
        return 0.0, k - 1, norm
    weight = affinity(d, lists.farthest[row], sigma2)
    if lists.ids[row, k - 1] < 0:  # nobody drops out of a list that is not full
        return weight, k - 1, norm + weight
    last = affinity(lists.d[row, k - 1], lists.farthest[row], sigma2)
    return weight, k - 2, norm - last + weight


@kernel
def own_steps(near_d, far, k, sigma2):
    """P from q to the rows of its walk."""
    out = np.empty(min(k - 1, near_d.shape[0]), np.float64)
    total = 0.0
    for t in range(out.shape[0]):
        out[t] = affinity(near_d[t], far, sigma2)
        total += out[t]
    return out / total if total > 0 else out


@kernel
def chance(row, inside, x, k, sigma2, lists, walk_norm, stamp, space):
    """The chance to step from a row to one that is marked; q always is."""
    total, kept, norm = walk_row(
        row, x, k, sigma2, lists, walk_norm, stamp, space.known, space.distance
    )
    for t in range(1, kept + 1):
        if lists.ids[row, t] < 0:
            break
        if space.seen[lists.ids[row, t]] == inside:
            total += affinity(lists.d[row, t], lists.farthest[row], sigma2)
    return total / norm if norm > 0 else 0.0


@kernel
def one_step(target, row, enters, kept, norm, sigma2, lists):
    """P from a row to another (q: number n), given what ``walk_row`` says of it."""
    if not norm > 0:  # all weights are too small to be told from 0
        return 0.0
    if target == lists.ids.shape[0]:
        return enters / norm
    for t in range(1, kept + 1):
        if lists.ids[row, t] == target:
            return affinity(lists.d[row, t], lists.farthest[row], sigma2) / norm
    return 0.0


@kernel
def come_back(c, near, own, x, k, sigma2, lists, walk_norm, stamp, space):
    """The chance to be back at a row, or at q (number n), after two steps."""
    n, total = lists.ids.shape[0], 0.0
    if c == n:
        for t in range(own.shape[0]):
            enters, kept, norm = walk_row(
                near[t], x, k, sigma2, lists, walk_norm, stamp, space.known, space.distance
            )
            total += own[t] * enters / norm if norm > 0 else 0.0
        return total
    enters, kept, norm = walk_row(
        c, x, k, sigma2, lists, walk_norm, stamp, space.known, space.distance
    )
    for t in range(own.shape[0] if enters > 0 else 0):
        if near[t] == c:
            total += enters * own[t]
    for t in range(1, kept + 1):
        m = lists.ids[c, t]
        if m < 0:
            break
        m_enters, m_kept, m_norm = walk_row(
            m, x, k, sigma2, lists, walk_norm, stamp, space.known, space.distance
        )
        there = affinity(lists.d[c, t], lists.farthest[c], sigma2)
        total += there * one_step(c, m, m_enters, m_kept, m_norm, sigma2, lists)
    return total / norm if norm > 0 else 0.0


@kernel
def walk_guides(
    block, lists, walk_norm, k, sigma2, xi_ptr, xi_ids, ptr, ids, space, guide, anchor
):  # fmt: skip
    """T and r by the two-step walk, on the clusters of queries; as ``guide.guide_by_walk``."""
    for row in range(block.counts.shape[0]):
        xi, members = xi_ids[xi_ptr[row] : xi_ptr[row + 1]], ids[ptr[row] : ptr[row + 1]]
        near, near_d = block.ids[row, : block.counts[row]], block.d[row, : block.counts[row]]
        part, size, x = guide[ptr[row] : ptr[row + 1]], xi.shape[0], block.x[row]
        part[:] = 0
        anchor[row] = 0
        if size < 2 or members.shape[0] - size < 2 or k < 2:
            continue
        stamp = begin(row, near, near_d, block.told, space.clock, space.known, space.distance)
        own = own_steps(near_d, block.farthest[row], k, sigma2)
        r = 0.0
        inside, memo = tick(space.clock), tick(space.clock)
        for c in xi:
            space.seen[c] = inside
            r += come_back(c, near, own, x, k, sigma2, lists, walk_norm, stamp, space)
        arrives = 0.0  # from q, in one step
        for t in range(own.shape[0]):
            if space.seen[near[t]] == inside:
                arrives += own[t]
        anchor[row] = r / size
        for e in range(members.shape[0]):
            j = members[e]
            if space.seen[j] == inside:
                part[e] = r / size
                continue
            enters, kept, norm = walk_row(
                j, x, k, sigma2, lists, walk_norm, stamp, space.known, space.distance
            )
            total = enters * arrives
            for t in range(1, kept + 1):
                m = lists.ids[j, t]
                if m < 0:
                    break
                if space.stepped[m] != memo:  # shared by many members
                    space.stepped[m] = memo
                    space.total[m] = chance(m, inside, x, k, sigma2, lists, walk_norm, stamp, space)
                total += affinity(lists.d[j, t], lists.farthest[j], sigma2) * space.total[m]
            part[e] = total / norm / size if norm > 0 else 0.0


@kernel
def similarity_guides(
    xi_ptr, xi_ids, ptr, ids, f, rows_ptr, rows_ids, rows_f, space, guide, anchor
):  # fmt: skip
    """T and r from F; the rows hold nothing of q (number n), so F_jq is taken to be F_qj."""
    n = rows_ptr.shape[0] - 1
    for row in range(anchor.shape[0]):
        xi = xi_ids[xi_ptr[row] : xi_ptr[row + 1]]
        inside, r = tick(space.clock), 0.0
        for c in xi:
            space.seen[c] = inside
        for e in range(ptr[row], ptr[row + 1]):
            total = 0.0
            if ids[e] == n:
                for o in range(ptr[row], ptr[row + 1]):
                    if space.seen[ids[o]] == inside:
                        total += f[o]
            else:
                total += f[e]
                for o in range(rows_ptr[ids[e]], rows_ptr[ids[e] + 1]):
                    if space.seen[rows_ids[o]] == inside:
                        total += rows_f[o]
            guide[e] = total / xi.shape[0]
            if space.seen[ids[e]] == inside:
                r += total / xi.shape[0]
        anchor[row] = r / xi.shape[0]
