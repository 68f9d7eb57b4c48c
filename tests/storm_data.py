"""Rows that tie, indexes that change and change again, and what they are compared with."""

import numpy as np

import naive

KINDS = ("ternary", "copies", "random")


def tied_rows(rng, kind, n, d):
    """(n, d) rows: of -1, 0 and 1, whose distances tie; each about three times; or any."""
    if kind == "ternary":
        rows = rng.integers(-1, 2, (n, d))
        rows[~rows.any(axis=1)] = 1
        return rows.astype(np.float32)
    rows = rng.normal(size=(n, d)).astype(np.float32)
    return rows[rng.integers(0, -(-n // 3), n)] if kind == "copies" else rows


def changed_and_fresh(rng, method, rows, n, changes):
    """An index of the first ``n`` rows after some changes, and one that is fitted to what is left.

    Other rows come in by and by. Both indexes know their rows by the same ids, in the same order.
    """
    vectors = dict(enumerate(rows[:n]))
    waiting = list(rows[n:])
    index = method.fit(rows[:n], ids=np.arange(n))
    for _ in range(changes):
        count = int(rng.integers(1, 6))
        known = np.array(list(vectors))
        kind = rng.choice(["add", "remove", "update"]) if len(known) > 8 else "add"
        if kind != "add":
            ids = rng.choice(known, count, replace=False)
        else:
            ids = known.max() + 1 + np.arange(count)
        if kind == "remove":
            index.remove(ids)
        else:
            new = np.array([waiting.pop() for _ in range(count)])
            index.add(new, ids=ids) if kind == "add" else index.update(ids, new)
        for item in ids.tolist():
            vectors.pop(item, None)  # an updated row becomes the last one
        if kind != "remove":
            vectors |= dict(zip(ids.tolist(), new, strict=True))
    left = np.array(list(vectors))
    fresh = method.fit(np.array(list(vectors.values())), ids=left)
    np.testing.assert_array_equal(index.ids, left)
    return index, fresh


def permuted_order(rng, rows):
    """A random order of rows in which equal rows follow each other as they did."""
    order = rng.permutation(len(rows))
    copies = np.unique(rows, axis=0, return_inverse=True)[1].ravel()[order]
    for copy in np.unique(copies):
        order[copies == copy] = np.sort(order[copies == copy])
    return order


def by_item(index, queries, **options):
    """The distances of all items, in the order of the index's ids, (n_queries, n)."""
    found = index.search(queries, k=None, **options)
    out = np.full(found.indices.shape, np.nan)
    np.put_along_axis(out, found.indices.astype(np.int64), found.distances, axis=1)
    return out


def is_decided(index):
    """Whether no entry of P is so near the border of a tie that rounding decides at the cut."""
    method = index.engine.state.method
    return naive.cut_margin(_enhanced(index), method.keep, method.propagation) > naive.UNDECIDED


def different_rows_tie(index, rows):
    """Whether rows that are no copies of each other are equal where a row of P is cut.

    rows : those of the index, in the order of its ids
    """
    method = index.engine.state.method
    if method.keep >= len(rows):
        return False
    f = _enhanced(index)
    p = f.T @ f if method.propagation == "transpose" else f @ f
    last = np.sort(p, axis=1)[:, -method.keep][:, None]
    equal = (np.abs(p - last) <= 2 * naive.TIE * last) & (last > 0)
    copies = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return any(len(np.unique(copies[row])) > 1 for row in equal)


def _enhanced(index):
    """F before propagation, (n, n) float64, in the order of the index's ids."""
    state = index.engine.state
    f = state.enhanced.to_scipy().toarray().astype(np.float64)
    return f[np.ix_(state.position, state.position)]
