"""Sparse rows of which some are exchanged, against the same on dense matrices."""

import numpy as np
import pytest
from scipy import sparse

from kinrank.index import change_rows
from kinrank.index.change_rows import Change
from kinrank.index.state import EncodingColumns
from kinrank.kernels.measures import entropies
from kinrank.parallel import Runner
from kinrank.stages.sparse import take
from kinrank.types import SparseRows


def dense(rng, n, m):
    return (rng.random((n, m)) * (rng.random((n, m)) < 0.2)).astype(np.float32)


def rows_of(matrix):
    made = sparse.csr_array(matrix)
    return SparseRows(
        made.indptr.astype(np.int64), made.indices.astype(np.int32), made.data, matrix.shape[1]
    )


def as_dense(rows):
    return np.asarray(rows.to_scipy().todense())


def change_of(kept, m):
    names = np.arange(kept.sum() + m, dtype=np.int32)
    return Change(kept, names, np.zeros((len(names), 2), np.float32))


@pytest.mark.parametrize("where", [[], [0], [39], [0, 1, 2, 17, 39], list(range(40))])
def test_some_rows_are_taken_and_put(where):
    rng = np.random.default_rng(0)
    a, b = dense(rng, 40, 30), dense(rng, len(where), 30)
    at = np.array(where, np.int32)
    np.testing.assert_array_equal(as_dense(take(rows_of(a), at)), a[at])
    put = change_rows.with_rows(rows_of(a), at, rows_of(b))
    a[at] = b
    np.testing.assert_array_equal(as_dense(put), a)
    pattern = change_rows.with_rows(rows_of(a).with_data(None), at, rows_of(b).with_data(None))
    assert pattern.data is None
    np.testing.assert_array_equal(as_dense(pattern) > 0, a > 0)


def test_rows_that_differ_or_hold_what_is_marked():
    rng = np.random.default_rng(1)
    a = dense(rng, 40, 30)
    b = a.copy()
    b[3, 4] += 1e-6
    b[7] = 0
    b[9, 2] = 0.5
    found = change_rows.differing_rows(rows_of(a), rows_of(b), 1e-4)
    np.testing.assert_array_equal(found, np.abs(a - b).max(axis=1) > 1e-4)
    assert change_rows.differing_rows(rows_of(a), rows_of(b), 1e-8)[3]
    mask = rng.random(30) < 0.1
    np.testing.assert_array_equal(
        change_rows.rows_that_hold(mask, rows_of(a)), (a[:, mask] > 0).any(axis=1)
    )


@pytest.mark.parametrize(("gone", "m"), [(0, 3), (6, 0), (6, 3), (0, 0)])
def test_columns_follow_a_change(gone, m):
    rng = np.random.default_rng(2)
    n, run = 40, Runner.of(2)
    kept = np.ones(n, np.bool_)
    kept[rng.choice(n, gone, replace=False)] = False
    change, before = change_of(kept, m), dense(rng, n, n)
    base, lost = change_rows.moved_rows(rows_of(before), change)
    expected = np.zeros((n - gone + m, n - gone + m), np.float32)
    expected[: n - gone, : n - gone] = before[kept][:, kept]
    np.testing.assert_array_equal(as_dense(base), expected)
    np.testing.assert_array_equal(lost[: n - gone], (before[kept][:, ~kept] > 0).any(axis=1))

    known = EncodingColumns.of(rows_of(before), run)
    np.testing.assert_array_equal(change_rows.rows_that_lost_an_entry(known.columns, change), lost)
    lost[rng.choice(n - gone + m, 9, replace=False)] = True
    where = np.flatnonzero(lost).astype(np.int32)
    part = dense(rng, len(where), n - gone + m)
    expected[where] = part
    found = change_rows.encoding_with_rows(known, change, where, rows_of(part), run)
    np.testing.assert_array_equal(as_dense(found.columns), expected.T)
    np.testing.assert_array_equal(found.entropies, entropies(found.columns.values))
    np.testing.assert_allclose(found.norms, (expected.astype(np.float64) ** 2).sum(axis=1))
    for column in range(len(found.columns)):
        rows = found.columns.indices[slice(*found.columns.indptr[column : column + 2])]
        assert (np.diff(rows) > 0).all()
