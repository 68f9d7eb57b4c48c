"""Diffusion of a query that is not a row: it is tied into its surroundings, which are diffused."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.kernels.diffuse import polynomial_rows, walk_rows
from kinrank.kernels.jit import kernel
from kinrank.kernels.online import affinity
from kinrank.types import Floats, Ints, Longs


class Graph(NamedTuple):
    """W by rows, and its row sums."""

    ptr: Longs
    ids: Ints
    w: Floats
    degree: Floats


class Walk(NamedTuple):
    """How F follows from S.

    k, sigma2, kappa : of the graph, the row itself counted in k
    floor : a row lighter than floor sqrt(degree) is left out
    powers, binomial : of ``walk_rows``; series : of ``polynomial_rows``; empty when unused
    """

    k: int
    sigma2: float
    kappa: float
    decay: float
    floor: float
    powers: npt.NDArray[np.float64]
    binomial: npt.NDArray[np.float64]
    series: npt.NDArray[np.float64]


@kernel
def edges_of(near, near_d, far, xi, list_d, farthest, k, sigma2, kappa, ids, weights):
    """The rows that share an edge with q and the weights (W + W^T) / 2; returns their number."""
    size = 0
    for t in range(near.shape[0]):
        other, d = near[t], near_d[t]
        weight = 0.0
        if t < k - 1:
            weight += affinity(d, far, sigma2) / 2
        if d <= list_d[other, k - 1]:
            weight += affinity(d, max(farthest[other], d), sigma2) / 2
        if weight > 0:
            for member in xi:
                if member == other:
                    weight *= kappa
            ids[size], weights[size] = other, weight
            size += 1
    return size


@kernel
def find_ball(edges, weights, seeds, graph, decay, floor, hops, slot, nodes, mass):
    """Number the surroundings of q and the seeds, q first; as ``diffuse.find_ball``."""
    total = 0.0
    for weight in weights:
        total += weight
    nodes[0], mass[0] = slot.shape[0] - 1, 1.0
    slot[nodes[0]] = 0
    size = 1
    for node in seeds:
        if slot[node] < 0:
            slot[node], nodes[size], mass[size] = size, node, 0.03
            size += 1
    at = 0
    for _ in range(hops):
        level_end = seen = size
        while at < level_end:
            node, out = nodes[at], decay * mass[at]
            begin = end = np.int64(0)
            if at == 0:
                end = edges.shape[0]
            else:
                begin, end = graph.ptr[node], graph.ptr[node + 1]
            for e in range(begin, end):
                if at == 0:
                    other, weight = edges[e], np.float64(weights[e])
                    norm = total * (graph.degree[other] + weight)
                else:
                    other, weight = graph.ids[e], np.float64(graph.w[e])
                    norm = np.float64(graph.degree[node]) * graph.degree[other]
                if slot[other] < 0:
                    slot[other], nodes[seen], mass[seen] = seen, other, 0.0
                    seen += 1
                if norm > 0:
                    mass[slot[other]] += out * weight / np.sqrt(norm)
            at += 1
        for t in range(level_end, seen):
            node = nodes[t]
            if mass[t] > floor * np.sqrt(graph.degree[node]):
                slot[node], nodes[size], mass[size] = size, node, mass[t]
                size += 1
            else:
                slot[node] = -1
    return size


@kernel
def ball_graph(size, edges, weights, graph, slot, nodes):
    """S and W of the ball with q in it, under local numbers, and the degrees with q counted.

    Returns pointers, columns, values of S, values of W, degrees.
    """
    degree, extra = np.zeros(size, np.float64), np.zeros(size, np.float32)
    entries = 2 * edges.shape[0]
    for v in range(1, size):
        degree[v] = graph.degree[nodes[v]]
        entries += graph.ptr[nodes[v] + 1] - graph.ptr[nodes[v]]
    ptr, ids = np.empty(size + 1, np.int64), np.empty(entries, np.int32)
    s, w = np.empty(entries, np.float32), np.empty(entries, np.float32)
    ptr[0] = at = 0
    for e in range(edges.shape[0]):
        degree[0] += weights[e]
        local = slot[edges[e]]
        if local >= 0:
            degree[local] += weights[e]
            extra[local] = weights[e]
            ids[at], w[at] = local, weights[e]
            at += 1
    ptr[1] = at
    for v in range(1, size):
        node = nodes[v]
        if extra[v] > 0:
            ids[at], w[at] = 0, extra[v]
            at += 1
        for e in range(graph.ptr[node], graph.ptr[node + 1]):
            local = slot[graph.ids[e]]
            if local >= 0:
                ids[at], w[at] = local, graph.w[e]
                at += 1
        ptr[v + 1] = at
    for v in range(size):
        for e in range(ptr[v], ptr[v + 1]):
            norm = np.sqrt(degree[v] * degree[ids[e]])
            s[e] = w[e] / norm if norm > 0 else 0.0
    return ptr, ids[:at], s[:at], w[:at], degree


@kernel
def diffuse_rows(block, list_d, farthest, xi_ptr, xi_ids, ptr, ids, graph, walk, space, out):
    """The rows of F on the clusters of queries, not yet of norm 1."""
    edges, weights = np.empty(list_d.shape[1], np.int32), np.empty(list_d.shape[1], np.float32)
    hops = max(walk.powers.shape[0], walk.series.shape[0]) // 2
    one = np.zeros(1, np.int32)
    for row in range(block.counts.shape[0]):
        near, near_d = block.ids[row, : block.counts[row]], block.d[row, : block.counts[row]]
        seeds = ids[ptr[row] : ptr[row + 1]]
        count = edges_of(
            near, near_d, block.farthest[row], xi_ids[xi_ptr[row] : xi_ptr[row + 1]], list_d,
            farthest, walk.k, walk.sigma2, walk.kappa, edges, weights,
        )  # fmt: skip
        size = find_ball(
            edges[:count], weights[:count], seeds, graph, walk.decay, walk.floor, hops, space.slot,
            space.nodes, space.mass,
        )  # fmt: skip
        local = ball_graph(size, edges[:count], weights[:count], graph, space.slot, space.nodes)
        floor = (walk.floor * np.sqrt(local[4])).astype(np.float32)
        places, values = np.empty_like(seeds), np.zeros(seeds.shape[0], np.float32)
        for t in range(seeds.shape[0]):
            places[t] = space.slot[seeds[t]]
        for v in range(size):
            space.slot[space.nodes[v]] = -1
        bounds = np.array([0, seeds.shape[0]])
        part = out[ptr[row] : ptr[row + 1]]
        part[:] = 0
        if walk.powers.shape[0] > 0:
            walk_rows(
                0, 1, one, local[0], local[1], local[2], local[3], walk.powers, walk.binomial,
                walk.decay, floor, bounds, places, part,
            )  # fmt: skip
        if walk.series.shape[0] > 0:
            polynomial_rows(
                0, 1, one, local[0], local[1], local[2], walk.series, walk.decay, floor, bounds,
                places, values,
            )  # fmt: skip
            for t in range(part.shape[0]):
                part[t] += max(values[t], np.float32(0))
