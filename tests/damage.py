"""Files that are damaged at random, and what reads them: ``python damage.py SEED COUNT KIND...``.

In a process of its own, so that a crash is seen. Each outcome must be a result or a KinrankError.
"""

import faulthandler
import io
import json
import pickle
import struct
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

import numpy as np

import kinrank
from index_data import QUERIES, ROWS
from kinrank import Projection
from kinrank._onnx_file import OnnxGraph, layer_names
from kinrank.datasets import revisited
from kinrank.features._torch_file import read_state
from kinrank.features.preprocess import read_description
from kinrank.index import file as index_file
from kinrank.io import load_array, load_safetensors, save_npz, save_safetensors

SMALL = np.arange(24, dtype=np.float32).reshape(6, 4)
RANKING = kinrank.Ranking(
    np.array([[2, 0, -1], [1, 2, 0]]), np.array([[0.5, 1.0, np.inf], [0.0, 0.1, 0.2]]),
    np.array([["c", "a", ""], ["b", "c", "a"]]),
)  # fmt: skip
GND = [{"easy": [0, 3], "hard": [1], "junk": [], "bbx": [0.0, 1.0, 2.0, 3.0]} for _ in range(3)]
METHOD = kinrank.CAS(k1=6, k2=3)


def campaign(kind, seed, count):
    """Damage a file of a kind so many times, and read it; returns how often it was refused."""
    rng = np.random.default_rng(seed)
    make, use = KINDS[kind]
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / kind
        make(path)
        whole = path.read_bytes()
        use(path)
        for number in range(count):
            content, how = (forged if kind.startswith("forged") else damaged)(whole, rng)
            path.write_bytes(content)
            sys.stderr.write(f"{kind} {seed} {number} {how}\n")  # the last one is who failed
            try:
                use(path)
            except kinrank.KinrankError:
                refused += 1
    return refused


def damaged(whole, rng):
    """The bytes cut off, with some flipped, written over by others, or with two pieces swapped."""
    content = bytearray(whole)
    how = str(rng.choice(["cut", "flip", "splice", "swap", "word"]))
    a, b = sorted(int(at) for at in rng.integers(0, len(content), 2))
    if how == "cut":
        del content[a:]
    elif how == "flip":
        for at in rng.integers(0, len(content), int(rng.integers(1, 4))):
            content[at] ^= 1 << int(rng.integers(8))
    elif how == "splice":
        content[a:b] = rng.bytes(int(rng.integers(0, 40)))
    elif how == "word":  # a number that is far too large, or negative
        content[a : a + 4] = struct.pack("<i", int(rng.choice([-5, -1, 0, 2**31 - 1])))
    else:
        size = min(b - a, len(content) - b, 50)
        content[a : a + size], content[b : b + size] = (
            content[b : b + size], content[a : a + size],
        )  # fmt: skip
    return bytes(content), f"{how} {a} {b}"


NUMBERS = [-(2**31), -5, -1, 0, 1, 2_000_000_000, 2**31 - 1]
VALUES = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-40, 1e30]


def forged(whole, rng):
    """An index with right checksums and other numbers in one of its arrays."""
    prefix = index_file._PREFIX
    magic, version, place, length, _ = prefix.unpack(whole[: prefix.size])
    table = json.loads(whole[place : place + length])
    content = bytearray(whole[:place])
    name = str(rng.choice(sorted(table["arrays"])))
    entry = table["arrays"][name]
    array = np.frombuffer(content, entry["dtype"], int(np.prod(entry["shape"])), entry["offset"])
    how = str(rng.choice(["one", "many", "swap", "reverse"]))
    if array.size and array.dtype.kind in "if":
        choices = NUMBERS if array.dtype.kind == "i" else VALUES
        at = rng.integers(0, len(array), 1 if how == "one" else max(1, len(array) // 10))
        if how in ("one", "many"):
            array[at] = rng.choice(choices)
        elif how == "swap":
            array[at] = array[rng.permutation(at)]
        else:
            array[:] = array[::-1].copy()
    elif array.size:
        array.view(np.uint8)[int(rng.integers(array.nbytes))] ^= 255
    entry["crc32"] = zlib.crc32(array.tobytes())
    if rng.random() < 0.3:
        how, name = "table", changed_word(table, rng)
    text = json.dumps(table).encode()
    head = prefix.pack(magic, version, place, len(text), zlib.crc32(text))
    return head + bytes(content[prefix.size :]) + text, f"{how} {name}"


WORDS = [None, -5, 0, 1e400, 10**30, True, "x", [], [[1]], {}, float("nan"), 2**31]


def changed_word(table, rng):
    """Another value somewhere in a table."""
    at, where = table, []
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = keys[int(rng.integers(len(keys)))]
        where.append(str(key))
        if not isinstance(at[key], (dict, list)) or not at[key] or rng.random() < 0.1:
            at[key] = WORDS[int(rng.integers(len(WORDS)))]
            return f"{'/'.join(where)} {at[key]}"
        at = at[key]


def use_index(path):
    """Every way to ask, and a change, over a file that may be verified or not."""
    for verify in (None, False):
        index = kinrank.open(path, verify=verify)
        index.info()
        for found in (index.search(QUERIES[:3], k=20), index.search(QUERIES[:3], base=True)):
            check(found, len(index))
        one = index.ids[0].item()
        check(index.neighbors(one, 5), len(index))
        str(index.explain(QUERIES[0], one))
    index._path = None  # as if it were open for writing
    index.remove([one])
    index.add(ROWS[:1], ["new" if isinstance(one, str) else 1000])
    check(index.search(QUERIES[:2], k=9), len(index))


def check(ranking, n):
    """What holds for every ranking."""
    ids, d = ranking.indices, ranking.distances
    assert ids.min() >= -1
    assert ids.max() < n
    assert not np.isnan(d).any()
    assert (d[:, 1:] >= d[:, :-1]).all()
    for row in ids:
        there = row[row >= 0]
        assert len(np.unique(there)) == len(there)


def use_ranking(path):
    """Whole, or refused."""
    found = kinrank.Ranking.load(path)
    np.testing.assert_array_equal(found.indices, RANKING.indices)
    np.testing.assert_array_equal(found.distances, RANKING.distances)
    np.testing.assert_array_equal(found.ids, RANKING.ids)


def make_index(path):
    """An index with text ids, context and notes."""
    names = [f"r{n}" for n in range(60)]
    index = METHOD.fit(ROWS[:60], ids=names, context=ROWS[60:90])
    index.notes["labels"] = dict.fromkeys(names, "x")
    index.save(path)


def make_cells(path):
    """An index with integers as ids, cells, and the stages that the paper's text has."""
    method = kinrank.CAS(k1=6, k2=3, variant="paper", metric="cosine")
    method.fit(ROWS[:90], run=kinrank.Run(search="approximate")).save(path)


def make_torch(path):
    """The old format of torch, written by hand: a tensor of six numbers."""
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    stream = io.BytesIO(b"".join(pickle.dumps(part, 2) for part in parts))
    stream.seek(0, 2)
    text = (
        b"\x80\x02}U\x01wctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\n"
        b"U\x010U\x03cpuK\x06NtQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89ccollections\nOrderedDict\n"
        b")Rt\x52s."
    )
    stream.write(text + pickle.dumps(["0"], 2))
    stream.write(struct.pack("<q", 6) + np.arange(6, dtype="<f4").tobytes())
    path.write_bytes(stream.getvalue())


def make_onnx(path):
    """A network of one operation."""
    graph = OnnxGraph("net")
    graph.weight("w", np.ones(3, np.float32))
    graph.node("Add", ["x", "w"], "y", axis=1)
    path.write_bytes(graph.model({"x": ["n", 3]}, {"y": ["n", 3]}))


def use_onnx(path):
    """The names in it; the runtime that computes is not ours."""
    try:
        layer_names(path.read_bytes())
    except ValueError:  # what it says it raises; callers turn it into their own
        raise kinrank.FileFormatError from None


def save_npy(path):
    """One array."""
    with path.open("wb") as file:
        np.save(file, SMALL)


KINDS = {
    "npy": (save_npy, load_array),
    "npz": (lambda path: save_npz(path, a=SMALL), load_array),
    "packed.npz": (
        lambda path: np.savez_compressed(path, a=np.tile(SMALL, (50, 1))), load_array,
    ),
    "a.safetensors": (
        lambda path: save_safetensors(path, {"a": SMALL, "b": SMALL[0]}, {"by": "test"}),
        load_safetensors,
    ),
    "ranking": (RANKING.save, use_ranking),
    "projection": (Projection(SMALL[0], SMALL).save, Projection.load),
    "gnd.json": (lambda path: path.write_text(json.dumps(GND)), revisited),
    "gnd.pkl": (
        lambda path: path.write_bytes(
            pickle.dumps({"gnd": GND, "imlist": list("abcd"), "x": SMALL})
        ),
        revisited,
    ),
    "torch": (make_torch, read_state),
    "onnx": (make_onnx, use_onnx),
    "net.json": (
        lambda path: path.write_text('{"size": [8, 8], "preset": "person", "std": [1, 1, 1]}'),
        read_description,
    ),
    "index": (make_index, use_index),
    "forged.index": (make_index, use_index),
    "forged.cells": (make_cells, use_index),
}  # fmt: skip


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    seed, count, *kinds = sys.argv[1:]
    done = {kind: campaign(kind, int(seed), int(count)) for kind in kinds}
    sys.stdout.write(json.dumps(done))
