"""The learnt projection, dense and slow, in the letters of its equations."""

import numpy as np


def unit(x):
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(norms > 0, norms, 1)


def learnt(x, pairs, directions=384):
    """Mean m and matrix of z = unit(matrix (x - m)).

    x : (n, d); pairs : (i, j, w), each pair once
    """
    x = unit(np.asarray(x, np.float64))
    m = x.mean(axis=0)
    c = unit(x - m)
    n, d = c.shape
    w = np.zeros((n, n))
    for i, j, weight in pairs:
        w[i, j] = w[j, i] = weight
    sums = w.sum(axis=1)
    sums[sums == 0] = 1
    w = w / np.sqrt(np.outer(sums, sums))
    C = np.cov(c.T, bias=True).reshape(d, d)
    values, U = np.linalg.eigh(C)
    kept = np.argsort(-values)[:directions]
    kept = kept[values[kept] > 1e-9 * values.max()]
    U = U[:, kept]
    y = c @ U
    p = len(kept)
    W = np.zeros((p, p))
    fourth = 0.0
    squares = 0.0
    total = w.sum() / 2
    for i in range(n):
        for j in range(i):
            if w[i, j]:
                e = (y[i] - y[j]) / np.sqrt(2)
                share = w[i, j] / total
                W += share * np.outer(e, e)
                fourth += share**2 * (e @ e) ** 2
                squares += share**2
    mu = np.trace(W) / p
    noise = fourth - squares * (W**2).sum()
    a = np.clip(noise / ((W - mu * np.eye(p)) ** 2).sum(), 1e-3, 1)
    W = (1 - a) * W + a * mu * np.eye(p)
    inner, V = np.linalg.eigh(W)
    A = V @ np.diag(inner**-0.5) @ V.T
    t, V = np.linalg.eigh(A @ np.diag(values[kept]) @ A)
    s = np.maximum(t - 1, 0)
    return m, np.diag(np.sqrt(s / (1 + 2 * s))) @ V.T @ A @ U.T
