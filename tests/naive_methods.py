"""The other methods with full matrices, in float64: slow, plain, and the definition of right.

Every function takes X, the rows [queries; gallery] (or queries and gallery), and returns distances
between queries and gallery. Nothing here is imported by the library.
"""

from __future__ import annotations

import heapq

import numpy as np

import naive


def unit(X):
    X = np.asarray(X, np.float64)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def squared(X):
    return ((X[:, None, :] - X[None, :, :]) ** 2).sum(-1)


def normalized(W):
    d = W.sum(axis=1)
    root = np.where(d > 0, 1 / np.sqrt(np.where(d > 0, d, 1)), 0)
    return root[:, None] * W * root[None, :]


def on_nearest(values, rank, k, first=0):
    """``values`` kept at the columns [first, k) of each row's list."""
    out = np.zeros_like(values)
    for i in range(len(rank)):
        out[i, rank[i, first:k]] = values[i, rank[i, first:k]]
    return out


def jaccard(V):
    low = np.stack([np.minimum(row, V).sum(axis=1) for row in V])
    return 1 - low / (2 - low)


def kreciprocal(D, nq, k1, k2, lambda_value, plain=False):
    """From the base distance D, (n, n): over the row's largest, or squared distances (plain)."""
    rank = naive.ranks(D)
    full = k1 if plain else k1 + 1
    V = naive.l1(np.where(naive.R_star(rank, full, round(k1 / 2) + 1), np.exp(-D), 0))
    V = np.stack([V[rank[i, :k2]].mean(axis=0) for i in range(len(D))])
    J = jaccard(V)
    out = J if plain else (1 - lambda_value) * J + lambda_value * D
    return out[:nq, nq:]


def kreciprocal_half(D, nq, k1, k2, lambda_value):
    """As the copies that keep V in float16; D in float32."""
    D = D.astype(np.float32)
    rank = naive.ranks(D)
    members = naive.R_star(rank, k1 + 1, round(k1 / 2) + 1)
    V = np.zeros(D.shape, np.float16)
    for i in range(len(D)):
        weight = np.exp(-D[i, members[i]])
        V[i, members[i]] = weight / weight.sum()
    if k2 != 1:
        V = np.stack([V[rank[i, :k2]].mean(axis=0) for i in range(len(D))])
    out = np.zeros((nq, len(D)), np.float32)
    for i in range(nq):
        total = np.zeros(len(D), np.float16)
        for c in np.flatnonzero(V[i]):
            rows = np.flatnonzero(V[:, c])
            total[rows] = total[rows] + np.minimum(V[i, c], V[rows, c])
        J = (1 - total / (2.0 - total)).astype(np.float16)
        out[i] = J * (1 - lambda_value) + D[i] * np.float32(lambda_value)
    return out[:, nq:]


def sca(X, nq, k1, k2):
    d = np.sqrt(naive.over_farthest(squared(X)))
    rank = naive.ranks(d)
    F = naive.l1(on_nearest(np.exp(-d), rank, k1))
    F = np.stack([F[rank[i, :k2]].sum(axis=0) for i in range(len(X))])
    m = np.stack([np.minimum(row, F).sum(axis=1) for row in F])
    return (1 - m / (2 * k2 - m))[:nq, nq:]


def ecn(X, nq, k, t, q):
    rank = naive.ranks(squared(unit(X)))
    K = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        K[i, rank[i, :k]] = k - np.arange(k)
    r = K @ K.T
    out = np.zeros(r.shape)
    E = [[*rank[i, 1 : t + 1], *rank[rank[i, 1 : t + 1], 1 : q + 1].ravel()] for i in range(len(X))]
    for i in range(len(X)):
        for j in range(len(X)):
            out[i, j] = -np.mean([r[e, j] for e in E[i]] + [r[e, i] for e in E[j]])
    return out[:nq, nq:]


def stml(X, nq, k, sigma):
    D = naive.over_farthest(squared(X)) ** 2
    rank = naive.ranks(D)
    V = naive.R(rank, k).astype(np.float64)
    W = V @ V.T / V.sum(axis=1, keepdims=True)
    W = np.stack([W[rank[i, : max(k // 2, 1)]].mean(axis=0) for i in range(len(X))])
    return -((np.exp(-D / sigma) + (W + W.T) / 2) / 2)[:nq, nq:]


def gnn(X, nq, k1, k2, alpha, mix, own):
    """own : how often the row itself counts beside its place among the k2 nearest."""
    X = unit(X)
    s = X @ X.T
    rank = naive.ranks(squared(X))
    A = on_nearest(np.ones_like(s), rank, k1)
    if k2 > 1:
        for _ in range(2):
            A = A + A.T
            P = on_nearest(s**alpha, rank, k2) + own * np.eye(len(X))
            A = P @ A
            A = A / np.linalg.norm(A, axis=1, keepdims=True)
    else:
        A = A / np.linalg.norm(A, axis=1, keepdims=True)
    return -((1 - mix) * A @ A.T + mix * s)[:nq, nq:]


def knn(X, nq, k, both):
    rank = naive.ranks(squared(X))
    R = np.argsort(rank, axis=1) + 1.0
    out = np.zeros((nq, len(X)))
    for q in range(nq):
        for j in range(k + 1):
            c = rank[q, j]
            out[q] += 1 / ((j + 1 + (R[c, q] if both else 0)) * R[c])
    return -out[:, nq:]


def cdm(X, nq, k, alpha, steps):
    d = np.sqrt(squared(X))
    for _ in range(steps):
        inner = d + np.diag(np.full(len(d), np.inf))
        r = np.sort(inner, axis=1)[:, :k].mean(axis=1)
        rbar = np.exp(np.log(r).mean())
        d = d * (rbar**2 / np.outer(r, r)) ** (alpha / 2)
    return d[:nq, nq:]


def mutual(G, k, gamma):
    """S of the mutual graph of unit rows, the row itself counted in k."""
    s = G @ G.T
    W = np.where(naive.R(naive.ranks(squared(G)), k), np.maximum(s, 0) ** gamma, 0)
    np.fill_diagonal(W, 0)
    return normalized(W)


def starts(Q, G, kq, gamma):
    s = Q @ G.T
    y = np.zeros_like(s)
    for q, row in enumerate(s):
        top = np.argsort(-row, kind="stable")[:kq]
        y[q, top] = np.maximum(row[top], 0) ** gamma
    return y


def conjugate_gradients(A, y, steps, tol):
    x, r = np.zeros_like(y), y.copy()
    p, goal = r.copy(), tol * np.linalg.norm(y)
    for _ in range(steps):
        if np.linalg.norm(r) <= goal:
            break
        step = r @ r / (p @ A @ p)
        x, last, r = x + step * p, r, r - step * (A @ p)
        p = r + (r @ r) / (last @ last) * p
    return x


def dfs(Q, G, k, kq, alpha, gamma, steps, tol):
    Q, G = unit(Q), unit(G)
    A = np.eye(len(G)) - alpha * mutual(G, k, gamma)
    y = starts(Q, G, kq, gamma)
    return -np.stack([conjugate_gradients(A, row, steps, tol) for row in y])


def fsr(Q, G, k, kq, alpha, gamma, rank=None, residual=True):
    Q, G = unit(Q), unit(G)
    values, U = np.linalg.eigh(mutual(G, k, gamma))
    y = starts(Q, G, kq, gamma)
    if rank is not None:
        values, U = values[-rank:], U[:, -rank:]
    f = y @ U @ np.diag(1 / (1 - alpha * values)) @ U.T
    return -(f + (y - y @ U @ U.T if residual and rank is not None else 0))


def rdp(X, nq, k, sigma, mu, steps):
    D = squared(X)
    W = on_nearest(np.exp(-((D / D.max()) ** 2) / sigma**2), naive.ranks(D), k)
    S, alpha, eye = normalized((W + W.T) / 2), 1 / (1 + mu), np.eye(len(X))
    A = eye
    for _ in range(steps):
        A = alpha * S @ A @ S.T + (1 - alpha) * eye
    return -A[:nq, nq:]


def manifold(X, nq, k, sigma, alpha):
    D = naive.over_farthest(squared(X))
    W = on_nearest(np.exp(-D / sigma**2), naive.ranks(D), k + 1, first=1)
    S = normalized((W + W.T) / 2)
    return -(1 - alpha) * np.linalg.inv(np.eye(len(X)) - alpha * S)[:nq, nq:]


def eir_rows(G, k, truncation, alpha, gamma, steps, tol):
    """F: row i solves the system of the nearest rows of i."""
    A = np.eye(len(G)) - alpha * mutual(G, k, gamma)
    rank, F = naive.ranks(squared(G)), np.zeros((len(G), len(G)))
    for i in range(len(G)):
        T = rank[i, :truncation]
        e = np.zeros(len(T))
        e[0] = 1
        F[i, T] = conjugate_gradients(A[np.ix_(T, T)], e, steps, tol)
    return F


def eir(Q, G, k, kq, truncation, alpha, gamma, steps, tol, joint):
    Q, G = unit(Q), unit(G)
    if not joint:
        rows = eir_rows(G, k, truncation, alpha, gamma, steps, tol)
        return -starts(Q, G, kq, gamma) @ rows
    F = unit(eir_rows(np.concatenate([Q, G]), k, truncation, alpha, gamma, steps, tol))
    return -(F @ F.T)[: len(Q), len(Q) :]


def egt_order(q, G, k, t, p, last_only=False):
    """The rows in the order in which the traversal from one query takes them."""
    G, q = unit(G), unit(q[None])[0]
    s, rank = G @ G.T, naive.ranks(squared(G))
    digits = 3 if last_only else 12
    edges = {i: {int(j): round(s[i, j], digits) for j in rank[i, 1 : k + 1]} for i in range(len(G))}
    reverse = {}
    for i in range(len(G)):
        for j in rank[i, 1 : k + 1]:
            reverse.setdefault(int(j), []).append(i)
    for j, sources in reverse.items():
        for i in sources[-1:] if last_only else sources:
            edges[j][i] = round(s[i, j], digits)
    own = G @ q
    near = np.argsort(-own, kind="stable")[:k]
    best, done, heap, taken = {}, set(), [], []
    frontier = [{int(j): round(own[j], digits) for j in near}]
    while frontier and len(taken) < p:
        for neighbours in frontier:
            for x, w in neighbours.items():
                if x not in done and w > best.get(x, -np.inf):
                    best[x] = w
                    heapq.heappush(heap, (-w, x))
        frontier = []
        while heap and len(taken) < p:
            w, x = -heap[0][0], heap[0][1]
            if x in done or w < best[x]:
                heapq.heappop(heap)
                continue
            if frontier and w <= t:
                break
            heapq.heappop(heap)
            done.add(x)
            taken.append(x)
            frontier.append(edges[x])
    return taken
