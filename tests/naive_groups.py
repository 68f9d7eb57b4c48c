"""Slow twins of the kernels of groups: dense matrices, every pair looked at in every step."""

from __future__ import annotations

import numpy as np


def similarities(indices, distances, least):
    """1 - distance between rows of which one lists the other, the larger of both ways, else 0.

    indices, distances : (n, k), the results of each row, -1 for none; least : what counts as 0
    """
    n = len(indices)
    out = np.zeros((n, n))
    for row in range(n):
        for other, distance in zip(indices[row], distances[row], strict=True):
            if other >= 0 and other != row and 1 - float(distance) > least:
                out[row, other] = 1 - float(distance)
    return np.maximum(out, out.T)


def leaf_sums(similarities, leaves, single):
    """Sums of similarities between leaves, which are sets of rows; single rows have none."""
    kept = similarities * np.outer(~single, ~single)
    member = np.equal.outer(np.arange(leaves.max() + 1), leaves).astype(float)
    sums = member @ kept @ member.T
    np.fill_diagonal(sums, 0)
    return sums


def link(sums, sizes, centres, one, other, partners):
    """The link of two clusters, in the letters of ``kernels/merging.py``."""
    pairs = min(sizes[one] * sizes[other], partners * min(sizes[one], sizes[other]))
    length = np.linalg.norm(centres[one]) * np.linalg.norm(centres[other])
    cosine = centres[one] @ centres[other] / length if length else 0.0
    return np.sqrt(max(sums[one, other], 0) / pairs) * max(cosine, 0) ** 0.75


def merge(similarities, apart, sizes, centres, anchors, partners):
    """Children and links of all merges, the strongest first, ties by lower rows."""
    n = len(sizes)
    sums = similarities.astype(float).copy()
    apart = apart.copy()
    sizes = sizes.astype(float).copy()
    centres = centres.astype(float).copy()
    anchors = anchors.copy()
    node = np.arange(n)
    alive = set(range(n))
    children = []
    links = []
    while True:
        best = (0.0, -1, -1)
        for one in sorted(alive):
            for other in sorted(alive):
                if other <= one or apart[one, other]:
                    continue
                if anchors[one] >= 0 and anchors[other] >= 0 and anchors[one] != anchors[other]:
                    continue
                strength = link(sums, sizes, centres, one, other, partners)
                if strength > best[0] + 1e-12:
                    best = (strength, one, other)
        strength, one, other = best
        if one < 0:
            return np.array(children).reshape(-1, 2), np.array(links)
        children.append((node[one], node[other]))
        links.append(strength)
        sums[one] += sums[other]
        sums[:, one] = sums[one]
        apart[one] |= apart[other]
        apart[:, one] = apart[one]
        sizes[one] += sizes[other]
        centres[one] += centres[other]
        anchors[one] = max(anchors[one], anchors[other])
        node[one] = n + len(links) - 1
        alive.remove(other)


def best_sum(values, children, n):
    """The greatest sum of values over nodes, none above another, all leaves below one."""

    def of(node):
        if node < n:
            return values[node]
        left, right = children[node - n]
        return max(values[node], of(left) + of(right))

    below = {child for pair in children for child in pair}
    return sum(of(node) for node in range(n + len(children)) if node not in below)
