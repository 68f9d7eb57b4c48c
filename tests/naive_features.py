"""Pooling and regions, slow and plain: one number at a time, in the letters of the papers."""

import math
from fractions import Fraction

import numpy as np


def mac(x):
    K, H, W = x.shape
    return np.array([max(x[k, i, j] for i in range(H) for j in range(W)) for k in range(K)])


def spoc(x):
    K, H, W = x.shape
    return np.array(
        [sum(x[k, i, j] for i in range(H) for j in range(W)) / (H * W) for k in range(K)]
    )


def gem(x, p):
    K, H, W = x.shape
    return np.array(
        [
            (sum(max(0, x[k, i, j]) ** p for i in range(H) for j in range(W)) / (H * W)) ** (1 / p)
            for k in range(K)
        ]
    )


def regions(H, W, L, overlap=Fraction(2, 5)):
    """Tolias et al.: m squares along the longer side at scale 1, then l x (l + m - 1)."""
    w = min(H, W)
    m = 1
    if H != W:
        # Overlap of neighbours when m squares of side w are laid evenly along the longer side.
        shared = {n: 1 - Fraction(max(H, W) - w, (n - 1) * w) for n in range(2, 2 + 2 * max(H, W))}
        m = min(shared, key=lambda n: abs(shared[n] - overlap))
    found = []
    for level in range(1, L + 1):
        side = math.floor(2 * w / (level + 1))
        if side < 1:
            continue
        n_y, n_x = level, level
        if H > W:
            n_y += m - 1
        elif W > H:
            n_x += m - 1
        for a in range(n_y):
            for b in range(n_x):
                y = 0 if n_y == 1 else a * (H - side) // (n_y - 1)
                x = 0 if n_x == 1 else b * (W - side) // (n_x - 1)
                found.append([y, x, side, side])
    return found


def unit(v):
    return v / math.sqrt(sum(float(n) ** 2 for n in v))


def rmac(x, L):
    _, H, W = x.shape
    total = 0
    for y, left, h, w in regions(H, W, L):
        total = total + unit(mac(x[:, y : y + h, left : left + w]))
    return unit(total)
