"""Index files with right checksums and numbers that no index has: refused, or used in silence."""

import json
import zlib

import numpy as np
import pytest

import kinrank
from index_data import QUERIES, ROWS
from kinrank import CAS
from kinrank.index import storage


@pytest.fixture
def path(tmp_path):
    CAS(k1=10, k2=4).fit(ROWS).save(tmp_path / "an.index")
    return tmp_path / "an.index"


def forge(path, name, change):
    """Change an array of the file, and its checksums with it."""
    prefix, whole = storage._PREFIX, bytearray(path.read_bytes())
    magic, version, place, length, _ = prefix.unpack(whole[: prefix.size])
    table = json.loads(whole[place : place + length])
    entry = table["arrays"][name]
    array = np.frombuffer(whole, entry["dtype"], int(np.prod(entry["shape"])), entry["place"])
    change(array)
    entry["crc32"] = zlib.crc32(array.tobytes())
    text = json.dumps(table).encode()
    head = prefix.pack(magic, version, place, len(text), zlib.crc32(text))
    path.write_bytes(head + whole[len(head) : place] + text)


@pytest.mark.parametrize(
    ("name", "factor", "message"),
    [
        ("w.data", -1, "weights below 0"),
        ("columns.data", 1e38, "`columns` with values that are not finite, or too large"),
        ("p.data", -1e36, "`p` with values"),
        ("entropies", 1e38, "`entropies` with values"),
    ],
)
def test_weights_that_are_none_are_refused(path, name, factor, message):
    forge(path, name, lambda data: np.multiply(data, np.float32(factor), out=data))
    with pytest.raises(kinrank.FileFormatError, match=message):
        kinrank.open(path).calibrate(sample=9)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("neighbors.farthest", lambda data: data.fill(1e-45)),
        ("columns.data", lambda data: data.fill(2.0)),
        ("entropies", lambda data: np.multiply(data, -9, out=data)),
        ("entropies", lambda data: np.multiply(data, 1e6, out=data)),
    ],
)
def test_numbers_of_any_size_are_used_without_a_warning(path, name, change):
    forge(path, name, change)
    index = kinrank.open(path)
    for base in (False, True):
        assert not np.isnan(index.search(QUERIES, k=5, base=base).distances).any()
    rates = index.calibrate(sample=9).false_match_rate
    assert rates.min() >= 0
    assert rates[-1] == 1
