"""Metrics as the protocols say them, one query and one entry at a time."""

from __future__ import annotations

import math


def cleaned(row, removed):
    """The listed gallery rows without none and without what the protocol takes out."""
    return [index for index in row if index >= 0 and index not in removed]


def ap(row, right, removed=()):
    if not right:
        return math.nan
    found, total = 0, 0.0
    for rank, index in enumerate(cleaned(row, removed), start=1):
        if index in right:
            found += 1
            total += found / rank
    return total / len(right)


def ap_at(row, right, k, removed=()):
    if not right:
        return math.nan
    found, total = 0, 0.0
    for rank, index in enumerate(cleaned(row, removed)[:k], start=1):
        if index in right:
            found += 1
            total += found / rank
    return total / min(len(right), k)


def trapezoidal_ap(row, right, removed=()):
    """Area under the curve through (recall, precision), each step a trapezoid."""
    if not right:
        return math.nan
    entries = cleaned(row, removed)
    area = 0.0
    for position, index in enumerate(entries):
        if index not in right:
            continue
        before = sum(other in right for other in entries[:position])
        left = before / position if position else 1.0
        area += (left + (before + 1) / (position + 1)) / 2 / len(right)
    return area


def inp(row, right, removed=()):
    if not right:
        return math.nan
    entries = cleaned(row, removed)
    ranks = [rank for rank, index in enumerate(entries, start=1) if index in right]
    return len(right) / ranks[-1] if len(ranks) == len(right) else 0.0


def hit(row, right, k, removed=()):
    if not right:
        return math.nan
    return float(any(index in right for index in cleaned(row, removed)[:k]))


def recall(row, right, k, removed=()):
    if not right:
        return math.nan
    return sum(index in right for index in cleaned(row, removed)[:k]) / len(right)


def precision(row, right, k, removed=()):
    if not right:
        return math.nan
    return sum(index in right for index in cleaned(row, removed)[:k]) / k


def revisited_precision(row, right, k, removed=()):
    if not right:
        return math.nan
    entries = cleaned(row, removed)
    ranks = [rank for rank, index in enumerate(entries, start=1) if index in right]
    depth = min(k, ranks[-1]) if len(ranks) == len(right) else k
    return sum(rank <= depth for rank in ranks) / depth


def ndcg(row, right, k, removed=()):
    if not right:
        return math.nan
    entries = cleaned(row, removed)[:k]
    gain = sum(1 / math.log2(rank + 1) for rank, i in enumerate(entries, 1) if i in right)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(right)) + 1))
