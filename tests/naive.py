"""CAS with full matrices, in the paper's letters: slow, plain, and the definition of right.

Everything is float64 and n x n. Nothing here is imported by the library.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

# Matrices are small: threads would mostly wait for each other.
one_thread = threadpool_limits.wrap(limits=1)


def whitened(X, G, power):
    """Rows by the mean and covariance of ``G``: (l + 0.001 l_max)^(-power) U^T (x - mu).

    The largest l comes first; the largest entry of each eigenvector is positive.
    """
    X, G = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (np.asarray(X, float), G))
    mu = G.mean(axis=0)
    L, U = np.linalg.eigh((G - mu).T @ (G - mu) / len(G))
    L, U = np.maximum(L, 0)[::-1], U[:, ::-1]
    U = U * np.sign(U[np.abs(U).argmax(axis=0), np.arange(len(mu))])
    Y = (X - mu) @ U * (L + 1e-3 * L.max()) ** -power
    norms = np.linalg.norm(Y, axis=1, keepdims=True)
    return Y / np.where(norms > 0, norms, 1)


def squared_distances(X):
    """d^2(i, j) / max_j d^2(i, j); a row of zeros stays zero."""
    X = np.asarray(X, np.float64)
    D = ((X[:, None, :] - X[None, :, :]) ** 2).sum(-1) if len(X) < 400 else _by_rows(X)
    return over_farthest(D)


def _by_rows(X):
    return np.stack([((x - X) ** 2).sum(1) for x in X])


def over_farthest(D):
    far = D.max(axis=1, keepdims=True)
    return np.where(far > 0, D / np.where(far > 0, far, 1), 0.0)


def ranks(D):
    """The rows nearest to each row: itself first, ties by lower index."""
    D = D.copy()
    np.fill_diagonal(D, -1)
    return np.argsort(D, axis=1, kind="stable")


def first(rank, i, begin, end):
    """Entries begin to end of the list of i; a list may be shorter, and then ends in -1."""
    part = rank[i, begin:end]
    return part[part >= 0]


def N(rank, k):
    """Indicator of the k nearest, the row itself counted."""
    n = len(rank)
    out = np.zeros((n, n), bool)
    for i in range(n):
        out[i, first(rank, i, 0, k)] = True
    return out


def R(rank, k):
    """k-reciprocal neighbours."""
    near = N(rank, k)
    return near & near.T


def R_star(rank, k, half):
    """Expanded k-reciprocal neighbours."""
    full, part = R(rank, k), R(rank, half)
    out = full.copy()
    for i in range(len(rank)):
        for c in np.flatnonzero(full[i]):
            if (part[c] & full[i]).sum() > 2 / 3 * part[c].sum() + 1e-9:
                out[i] |= part[c]
    return out


def affinity(D2, sigma):
    return np.exp(-D2 / sigma**2)


def graph(D2, rank, k, sigma, kappa, xi, symmetric=True):
    """W on the k nearest without the row itself, and S."""
    n = len(rank)
    W = np.zeros((n, n))
    for i in range(n):
        for j in first(rank, i, 1, k + 1):
            W[i, j] = affinity(D2[i, j], sigma) * (kappa if xi[i, j] else 1)
    if symmetric:
        W = (W + W.T) / 2
    S = normalized(W)
    if not symmetric:
        S = (S + S.T) / 2
        S = S / max(1.0, np.abs(np.linalg.eigvalsh(S)).max())
    return W, S


def normalized(W):
    """D^-1/2 W D^-1/2."""
    d = W.sum(axis=1)
    root = np.where(d > 0, 1 / np.sqrt(np.where(d > 0, d, 1)), 0)
    return root[:, None] * W * root[None, :]


def bsd_closed_form(S, E, alpha):
    """F* = (1 - a) vec^-1((I - a S-bar)^-1 vec(E)), by the n^2 x n^2 matrix; tiny n only."""
    n = len(S)
    eye = np.eye(n)
    S_bar = (np.kron(S, eye) + np.kron(eye, S)) / 2
    vec = np.linalg.solve(np.eye(n * n) - alpha * S_bar, E.reshape(-1))
    return (1 - alpha) * vec.reshape(n, n)


def bsd_lyapunov(S, E, alpha):
    """The same F* from (I - aS) F + F (I - aS) = 2 (1 - a) E."""
    from scipy.linalg import solve_continuous_lyapunov

    A = np.eye(len(S)) - alpha * S
    return solve_continuous_lyapunov(A, 2 * (1 - alpha) * E)


def bsd_iterate(S, E, alpha, steps, F):
    """The basic iteration."""
    for _ in range(steps):
        F = alpha / 2 * (F @ S.T + S @ F) + (1 - alpha) * E
    return F


def ssm(S, alpha, doublings=14):
    """Tensor-product diffusion A = a S A S^T + (1 - a) I, the sum of (1 - a) a^t S^t (S^T)^t.

    Each step doubles the number of terms.
    """
    A, power = (1 - alpha) * np.eye(len(S)), np.sqrt(alpha) * S
    for _ in range(doublings):
        A = A + power @ A @ power.T
        power = power @ power
    return A


def l1(F, C=None):
    """Rows of L1 norm 1; an empty one becomes uniform on C."""
    norm = F.sum(axis=1, keepdims=True)
    uniform = 0.0 if C is None else C / C.sum(axis=1, keepdims=True)
    return np.where(norm > 0, F / np.where(norm > 0, norm, 1), uniform)


def nss_row(f, p, r, beta, C):
    """Closed form of min 1/2 |r x - p f|^2 + beta |x - f|^2, x >= 0 on C, |x|_1 = |f|_1."""
    if r * r + 2 * beta <= 0:
        return f
    p = np.minimum(p, r)
    x = (r * p + 2 * beta) / (r * r + 2 * beta) * f
    x = x + (r * r * f.sum() - r * (p * f).sum()) / (C.sum() * (r * r + 2 * beta))
    return np.where(C, x, 0.0)


def nss_by_similarity(F, C, xi, beta):
    out = np.empty_like(F)
    for i in range(len(F)):
        members = np.flatnonzero(xi[i])
        T = F[:, members].mean(axis=1)
        r = F[np.ix_(members, members)].mean()
        out[i] = nss_row(F[i], T, r, beta, C[i])
    return out


def nss_by_walk(F, C, xi, D2, rank, walk_k, sigma, beta):
    n = len(F)
    P = np.zeros((n, n))
    for i in range(n):
        near = first(rank, i, 1, walk_k)
        P[i, near] = affinity(D2[i, near], sigma)
    P = l1(P)
    Q = P @ P
    out = F.copy()
    for i in range(n):
        members = np.flatnonzero(xi[i])
        if len(members) < 2 or C[i].sum() - len(members) < 2:
            continue
        r = Q[members, members].mean()
        T = np.where(xi[i], r, Q[:, members].mean(axis=1))
        out[i] = nss_row(F[i], T, r, beta, C[i])
    return out


def aqe(F, rank, k):
    return l1(np.stack([F[first(rank, i, 0, k)].mean(axis=0) for i in range(len(F))]))


def enhance(F, xi, rank, k, kappa):
    rows = []
    for i in range(len(F)):
        near = F[first(rank, i, 0, k)].mean(axis=0)
        rows.append((kappa * F[xi[i]].mean(axis=0) + near) / (kappa + 1))
    return l1(np.stack(rows))


TIE = 1e-5  # entries of P that differ by less, relatively, are equal where P is cut
UNDECIDED = TIE / 2  # decisions that are nearer, relatively, may be taken otherwise in float32


def cut(P, keep):
    """The ``keep`` largest of each row, ties to the lower column, L1 norm 1."""
    out = np.zeros_like(P)
    for i, row in enumerate(P):
        last = np.sort(row)[-min(keep, len(row))]
        larger = np.flatnonzero(row > last * (1 + TIE))
        equal = np.flatnonzero(np.abs(row - last) <= last * TIE)
        top = np.concatenate([larger, equal])[:keep]
        out[i, top] = row[top]
    return l1(out)


def cut_margin(F, keep, scheme):
    """How near, relatively, an entry of P is to the border of what equals the last one kept."""
    return margin(F.T @ F if scheme == "transpose" else F @ F, keep)


def margin(P, keep):
    if keep >= P.shape[1]:
        return 1.0
    last = np.sort(P, axis=1)[:, -keep][:, None]
    apart = np.abs(P - last) / np.where(last > 0, last, 1)
    return np.where(last > 0, np.abs(apart - TIE), 1).min()


def transition(F, keep, scheme):
    """P."""
    return cut(F.T @ F if scheme == "transpose" else F @ F, keep)


def propagate(F, keep, scheme):
    """F'."""
    P = transition(F, keep, scheme)
    return l1(P @ (F if scheme == "transpose" else P))


def js(p, q):
    """Jensen-Shannon divergence, base 2."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        if a > 0:
            total += a * np.log2(2 * a / (a + b)) / 2
        if b > 0:
            total += b * np.log2(2 * b / (a + b)) / 2
    return total


def js_matrix(F, rows):
    """js of the first rows to all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.where(F > 0, F * np.log2(F), 0)
        out = np.empty((rows, len(F)))
        for i in range(rows):
            M = F[i] + F
            both = np.where(M > 0, M * np.log2(M), 0).sum(axis=1)
            out[i] = 1 + (f[i].sum() + f.sum(axis=1) - both) / 2
    return np.clip(out, 0, None)


def divergence(F, measure, rows):
    """d' of the first rows to all."""
    if measure == "js":
        return js_matrix(F, rows)
    if rows == 0:
        return np.empty((0, len(F)))
    if measure == "jaccard":
        low = np.stack([np.minimum(row, F).sum(axis=1) for row in F[:rows]])
        high = np.stack([np.maximum(row, F).sum(axis=1) for row in F[:rows]])
        return 1 - low / high
    if measure == "cosine":
        unit = F / np.linalg.norm(F, axis=1, keepdims=True)
        return np.clip(1 - unit[:rows] @ unit.T, 0, 1)
    if measure == "euclidean":
        return np.stack([np.linalg.norm(row - F, axis=1) for row in F[:rows]])
    return 1 - F[:rows] / F[:rows].max(axis=1, keepdims=True)


def geodesic(D, rank, k, unreachable=50.0):
    """Shortest paths over the graph that keeps D on each row's k nearest (Floyd and Warshall)."""
    n = len(D)
    paths = np.full((n, n), np.inf)
    for i in range(n):
        near = first(rank, i, 0, k)
        paths[i, near] = D[i, near]
    paths = np.minimum(paths, paths.T)
    np.fill_diagonal(paths, 0)
    for middle in range(n):
        paths = np.minimum(paths, paths[:, [middle]] + paths[[middle]])
    return np.minimum(paths, unreachable)


def diffusion_distance(S, alpha):
    F = (1 - alpha) * np.linalg.inv(np.eye(len(S)) - alpha * S)
    root = np.sqrt(np.diag(F))
    return np.clip(1 - F / root[:, None] / root[None, :], 0, 1)


def clusters(rank, o):
    """C."""
    extra = 0 if o.self_counts else 1
    if o.clusters == "knn":
        return N(rank, o.k1 + extra)
    if o.clusters == "reciprocal":
        return R(rank, o.k1 + extra)
    return R_star(rank, o.k1 + extra, max(o.k1 // 2 + extra, 1))


def similarity(D2, W, S, o, E=None):
    """F*, everywhere."""
    n, alpha = len(D2), 1 / (1 + o.mu)
    if E is None:
        E = np.eye(n) + (S if o.regularizer == "graph" else 0)
    if o.similarity == "original":
        return affinity(D2, o.sigma)
    if o.similarity == "smoothed":
        return ssm(S, alpha)
    if o.solver == "iterate":
        start = {"graph": W, "regularizer": E, "zero": np.zeros((n, n))}[o.start]
        return bsd_iterate(S, E, alpha, o.steps, start)
    return bsd_lyapunov(S, E, alpha)


def smoothed(F, C, xi, D2, rank, o):
    """F smoothed."""
    if o.smoothing is None:
        return F
    if o.smoothing == "aqe":
        return aqe(F, rank, o.k2)
    if o.guide == "similarity":
        return nss_by_similarity(F, C, xi, o.beta)
    return nss_by_walk(F, C, xi, D2, rank, o.walk_k, o.sigma, o.beta)


@one_thread
def cas(D2, n_queries, o, E=None, rank=None):
    """d* between queries and gallery, and the intermediate matrices.

    D2 : (n, n) squared distances over the row's farthest
    o : the options, an object with the attributes of kinrank.CAS
    E : the regulariser if it is a matrix
    rank : (n, K) lists of neighbours if they are given, -1 behind the end of a shorter one
    """
    n, alpha = len(D2), 1 / (1 + o.mu)
    rank = ranks(D2) if rank is None else rank
    xi, C = R(rank, o.k2), clusters(rank, o)
    W, S = graph(D2, rank, o.graph_k, o.sigma, o.kappa, xi, o.symmetric)
    F_star = similarity(D2, W, S, o, E)
    F = l1(np.where(C, F_star, 0.0), C)
    F_hat = smoothed(F, C, xi, D2, rank, o)
    F_tilde = enhance(F_hat, xi, rank, o.enhance_k, o.kappa) if o.enhancement else F_hat
    F_prime = propagate(F_tilde, o.keep, o.propagation)
    d_prime = divergence(F_prime, o.divergence, n if o.geodesic else n_queries)
    if o.geodesic:
        d_prime = geodesic(d_prime, rank, o.geodesic_k)
    d = {
        "squared": lambda: D2,
        "euclidean": lambda: np.sqrt(D2),
        "diffusion": lambda: diffusion_distance(S, alpha),
    }[o.fusion]()
    d_star = (1 - o.omega) * d_prime[:n_queries] + o.omega * d[:n_queries]
    if o.geodesic:
        d_star = d_star / (1 + d_star)
    stages = {
        "D2": D2, "rank": rank, "xi": xi, "C": C, "W": W, "S": S, "F_star": F_star, "F": F,
        "F_hat": F_hat, "F_tilde": F_tilde, "F_prime": F_prime, "d_prime": d_prime, "d": d,
    }  # fmt: skip
    return d_star[:, n_queries:], stages


@one_thread
def offline(X, o, K, over_store=False):
    """What an index knows of its rows before a query: D, D2 and the matrices of ``cas``."""
    D = _by_rows(np.asarray(X, np.float64))
    D2, rank = over_farthest(D), ranks(D)
    if over_store:
        D2 = np.where(N(rank, K), D2, 1.0)
    return D, D2, cas(D2, 0, o, rank=rank)[1]


@one_thread
def online(X, x, o, K, before):
    """d* from a query that is not a row to the rows of an index, and the matrices on the way.

    X : (n, d) rows, gallery first, then context; x : (d,) the query, which gets the number n
    K : the length of the index's lists, the row itself counted; o : as in ``cas``
    before : ``offline`` of the rows, where over_store says that the index knows no distances but
        those of its lists

    The query notices every row. Of the rows, these notice it, and no others:
      lists     those of its K - 1 nearest that are no farther from it than from the last they list
      W, S      an edge to each row that lists it or that it lists; nobody else loses one
      F         its own row; F_jq = F_qj where the smoothing is guided by F
      enhanced  its own row, and the rows that would average it: q in N(j, enhance_k) or in xi[j]
      P, F'     these, and the rows to which P gives the query more than an even share
      paths     those of the query begin with an edge to each of its geodesic_k - 1 nearest, and go
                on through the graph of the rows, which stays as it is
    ``margin`` tells how near, relatively, a decision was: who is nearer, who is kept in P, who has
    such a share.
    """
    n, q = len(X), len(X)
    D, D2, known = before
    far = D.max(axis=1)
    d = ((np.asarray(x, np.float64) - X) ** 2).sum(axis=1)
    near = np.argsort(d, kind="stable")
    far_q = max(far[near[:5]].mean(), d[near[: K - 1][-1]])

    def grown(A, row=0.0, column=0.0):
        """A with a row and a column for the query."""
        out = np.zeros((n + 1, n + 1), A.dtype)
        out[:n, :n], out[q, :n], out[:n, q] = A, row, column
        return out

    scaled = np.minimum(d / far_q, 1) if far_q > 0 else np.zeros(n)
    theirs = np.minimum(d / np.where(far > 0, far, 1), 1)
    D2 = grown(D2, scaled, theirs)
    rank = np.empty((n + 1, n + 1), np.int64)
    rank[q] = np.concatenate([[q], near])
    for j in range(n):
        at = n
        if j in near[: K - 1] and d[j] <= D[j, known["rank"][j, K - 1]]:
            at = 1 + np.searchsorted(D[j, known["rank"][j, 1:]], d[j])  # before rows as far
        rank[j] = np.insert(known["rank"][j], at, q)

    xi, C = R(rank, o.k2), clusters(rank, o)
    W = grown(known["W"])
    for j in near[: K - 1]:
        w = affinity(scaled[j], o.sigma) * (j in rank[q, : o.graph_k + 1])
        w = w + affinity(theirs[j], o.sigma) * (q in rank[j, : o.graph_k + 1])
        W[q, j] = W[j, q] = w / 2 * (o.kappa if xi[q, j] else 1)
    S = normalized(W)
    F_star = similarity(D2, W, S, o)
    F, F_hat, F_tilde = (grown(known[name]) for name in ("F", "F_hat", "F_tilde"))
    F[q] = l1(np.where(C, F_star, 0.0), C)[q]
    mirrored = F.copy()
    mirrored[:n, q] = F[q, :n]
    F_hat[q] = smoothed(mirrored if o.guide == "similarity" else F, C, xi, D2, rank, o)[q]
    made = [q]
    if o.enhancement:
        made += [j for j in near[: K - 1] if q in rank[j, : o.enhance_k] or xi[q, j]]
        xi[:n, :n] = known["xi"]
        F_tilde[made] = enhance(F_hat, xi, rank, o.enhance_k, o.kappa)[made]
    else:
        F_tilde[q] = F_hat[q]
    # With P = F^T F the row of the query would be its column of F, which no row has: its row stands
    # for it.
    P = grown(transition(known["F_tilde"], o.keep, o.propagation))
    P[q] = cut((F_tilde[q] @ F_tilde)[None], o.keep)[0]
    gaps = np.abs(np.concatenate([(D - d[:, None]).ravel(), np.diff(d[near])])) / max(
        d.max(), 1e-300
    )
    closest = 0.0 if ((gaps > 0) & (gaps < 3e-7)).any() else 1.0  # float32 cannot tell
    closest = min(closest, margin(F_tilde[made] @ F_tilde, o.keep))
    if o.enhancement:
        share = (1 + TIE) / (P[q] > 0).sum()
        closest = min(closest, np.abs(P[q][P[q] > 0] / share - 1).min())
        made += [j for j in range(n) if P[q, j] > share and j not in made]
    closest = min(closest, margin(F_tilde[made] @ F_tilde, o.keep))
    closest = min(closest, cut_margin(known["F_tilde"], o.keep, o.propagation))
    P[made] = cut(F_tilde[made] @ F_tilde, o.keep)
    F_prime = grown(known["F_prime"])
    F_prime[made] = l1(P[made] @ (F_tilde if o.propagation == "transpose" else P))
    order = np.concatenate([[q], np.arange(n)])
    d_prime = divergence(F_prime[order], o.divergence, 1)[0, 1:]
    if o.geodesic:
        edges = near[: o.geodesic_k - 1]
        paths = (d_prime[edges, None] + known["d_prime"][edges]).min(axis=0, initial=50)
        d_prime = np.minimum(paths, 50)
    plain = np.sqrt(scaled) if o.fusion == "euclidean" else scaled
    d_star = (1 - o.omega) * d_prime + o.omega * plain
    if o.geodesic:
        d_star = d_star / (1 + d_star)
    stages = {
        "xi": xi[q], "C": C[q], "F": F[q], "F_hat": F_hat[q], "F_tilde": F_tilde, "P": P,
        "F_prime": F_prime, "made": made, "margin": closest,
    }  # fmt: skip
    return d_star, stages
