"""Index files with right checksums and numbers that no index has: refused, or used in silence."""

import numpy as np
import pytest

import kinrank
from index_data import QUERIES, ROWS
from kinrank import CAS
from kinrank.index import file as index_file


@pytest.fixture
def path(tmp_path):
    CAS(k1=10, k2=4).fit(ROWS).save(tmp_path / "an.index")
    return tmp_path / "an.index"


def forge(path, change):
    """Write the file again with other arrays; change : called with those it has."""
    stored = index_file.read(path)
    arrays = {name: array.copy() for name, array in stored.arrays.items()}
    change(arrays)
    index_file.write(path, stored.description, arrays)


@pytest.mark.parametrize(
    ("name", "factor", "message"),
    [
        ("affinity.data", -1, "weights below 0"),
        ("columns.data", 1e38, "`columns` with values that are not finite, or too large"),
        ("transition.data", -1e36, "`transition` with values"),
        ("entropies", 1e38, "`entropies` with values"),
    ],
)
def test_weights_that_are_none_are_refused(path, name, factor, message):
    forge(path, lambda arrays: arrays.update({name: arrays[name] * np.float32(factor)}))
    with pytest.raises(kinrank.FileFormatError, match=message):
        kinrank.open(path).calibrate(sample=9)


@pytest.mark.parametrize(
    ("name", "value"),
    [("neighbors.farthest", 1e-45), ("columns.data", 2), ("entropies", 9), ("entropies", -1e6)],
)
def test_numbers_of_any_size_are_used_without_a_warning(path, name, value):
    forge(path, lambda arrays: arrays[name].fill(value))
    index = kinrank.open(path)
    for base in (False, True):
        assert not np.isnan(index.search(QUERIES, k=5, base=base).distances).any()
    rates = index.calibrate(sample=9).pair_false_match_rate
    assert rates.min() >= 0
    assert rates[-1] == 1


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"variant": "paper"}, "similarity"),
        ({"smoothing": "aqe"}, "similarity"),
        ({}, "transition"),
    ],
)
def test_stages_that_the_method_needs_are_there(tmp_path, options, name):
    path = tmp_path / "an.index"
    CAS(k1=10, k2=4, **options).fit(ROWS).save(path)
    forge(path, lambda arrays: [arrays.pop(f"{name}.{part}") for part in ("indptr", "indices")])
    with pytest.raises(kinrank.FileFormatError, match="do not fit each other"):
        kinrank.open(path)
