"""Groups of rows that show the same item, without labels."""

import numpy as np
import pytest

from kinrank import CAS
from kinrank.index.same_item import SameItemRows


def made(n_items, each, noise, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_items), each)
    centres = rng.normal(size=(n_items, 16))
    rows = centres[labels] + noise * rng.normal(size=(len(labels), 16))
    return rows.astype(np.float32), labels


@pytest.mark.parametrize("propagation", ["square", "transpose"])
def test_groups_are_pure_and_hold_their_row(propagation):
    rows, labels = made(60, 8, 0.4)
    engine = CAS(k1=12, k2=4, metric="cosine", propagation=propagation).fit(rows).engine
    alike = SameItemRows(engine)
    shares = []
    sizes = []
    for row in range(0, len(rows), 7):
        group = alike.rows_of_item(row)
        assert group[0] == row
        assert len(np.unique(group)) == len(group)
        shares.append((labels[group] == labels[row]).mean())
        sizes.append(len(group))
    assert np.mean(shares) > 0.97
    assert 4 < np.mean(sizes) <= 8.5


def test_context_is_in_no_group():
    rows, _ = made(20, 8, 0.3)
    engine = CAS(k1=8, k2=4).fit(rows[:100], context=rows[100:]).engine
    alike = SameItemRows(engine)
    assert max(alike.rows_of_item(row).max() for row in range(100)) < 100


def test_copies_and_single_rows():
    rng = np.random.default_rng(2)
    rows = np.concatenate(
        [np.repeat(rng.normal(size=(1, 8)), 30, axis=0), rng.normal(size=(40, 8))]
    )
    alike = SameItemRows(CAS(k1=6, k2=3).fit(rows.astype(np.float32)).engine)
    assert (alike.rows_of_item(3) < 30).all()
    assert len(alike.rows_of_item(3)) > 5
    assert np.mean([len(alike.rows_of_item(row)) for row in range(30, 70)]) < 4
