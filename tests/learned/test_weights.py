"""Files of weights are safetensors like any other."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import kinrank
from kinrank.io import load_safetensors, save_safetensors
from kinrank.learned import Card, read_card
from kinrank.learned.recipes import save_weights

ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "number": np.array(2.5),
    "none": np.zeros((0, 4), np.int64),
    "flags": np.array([True, False, True]),
    "turned": np.arange(12, dtype=np.int16).reshape(3, 4).T,
}
WORDS = {"who": "näh", "list": json.dumps([1, 2])}


def test_the_package_reads_what_is_written(tmp_path):
    file = tmp_path / "a.safetensors"
    save_safetensors(file, ARRAYS, WORDS)
    with safe_open(file, "numpy") as found:
        assert found.metadata() == WORDS
        assert set(found.keys()) == set(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found.get_tensor(name), array)
    assert int.from_bytes(file.read_bytes()[:8], "little") % 8 == 0


def test_what_is_written_is_read_and_has_the_same_bytes(tmp_path):
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_safetensors(first, ARRAYS, WORDS)
    arrays, words = load_safetensors(first)
    assert words == WORDS
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    save_safetensors(second, arrays, words)
    assert second.read_bytes() == first.read_bytes()


def test_files_of_the_package_are_read(tmp_path):
    file = tmp_path / "a.safetensors"
    save_file({"x": ARRAYS["matrix"]}, file, metadata={"a": "b"})
    arrays, words = load_safetensors(file)
    assert words == {"a": "b"}
    np.testing.assert_array_equal(arrays["x"], ARRAYS["matrix"])


def test_cards(tmp_path):
    file = tmp_path / "w.safetensors"
    card = Card(
        method="csa", dimension=7, parameters={"m": 3}, size=12, data={"rows": 5},
        metrics={"mAP": 0.5},
    )  # fmt: skip
    save_weights(file, {"x": ARRAYS["matrix"]}, card)
    assert read_card(file) == card
    assert card.version == kinrank.__version__
    for words in ({}, {"kinrank.card": "{"}, {"kinrank.card": "[]"}, {"kinrank.card": "{}"}):
        save_safetensors(file, {}, words)
        with pytest.raises(kinrank.FileFormatError, match="model card"):
            read_card(file)
