"""Plain pickles are read; anything that would run is refused before it runs."""

import os
import pickle
import pickletools
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kinrank import FileFormatError
from kinrank.datasets import load_plain_pickle

PLAIN = {
    "imlist": ["all_souls_000000", "all_souls_000001"],
    "gnd": [
        {
            "bbx": [136.5, 34.1, 648.5, 955.7],
            "easy": np.array([1, 5, 7]),
            "hard": np.array([], dtype=np.int64),
            "junk": [np.int32(3), np.float64(0.5)],
        }
    ],
    "bytes": b"\x00\xff",
    "empty": b"",
    "pair": (1, None, True, 2.5),
    "matrix": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
    "big_endian": np.array([1, 2, 3], dtype=">i4"),
    "names": np.array(["a", "bcd"]),
}


def assert_equal(got, expected) -> None:
    assert type(got) is type(expected)
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key in expected:
            assert_equal(got[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_equal(one, other)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data(tmp_path: Path, protocol: int) -> None:
    file = tmp_path / "plain.pkl"
    file.write_bytes(pickle.dumps(PLAIN, protocol=protocol))
    assert_equal(load_plain_pickle(file), PLAIN)


def test_a_file_of_python_2_and_old_numpy(tmp_path: Path) -> None:
    # What cPickle of Python 2 wrote for {"easy": numpy.array([1, 5])}, protocol 0.
    content = (
        b"(dp1\nS'easy'\np2\ncnumpy.core.multiarray\n_reconstruct\np3\n(cnumpy\nndarray\np4\n"
        b"(I0\ntp5\nS'b'\np6\ntp7\nRp8\n(I1\n(I2\ntp9\ncnumpy\ndtype\np10\n(S'i8'\np11\nI0\nI1\n"
        b"tp12\nRp13\n(I3\nS'<'\np14\nNNNI-1\nI-1\nI0\ntp15\nbI00\n"
        b"S'\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00'\n"
        b"p16\ntp17\nbs."
    )
    list(pickletools.genops(content))  # the bytes are well-formed
    file = tmp_path / "old.pkl"
    file.write_bytes(content)
    assert load_plain_pickle(file)["easy"].tolist() == [1, 5]


class Runs:
    """Pickles to a call of its choice."""

    def __init__(self, function, *arguments) -> None:
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def malicious(marker: Path):
    command = f"touch {marker}"
    return {
        "os.system": Runs(os.system, command),
        "subprocess": Runs(subprocess.check_output, ["touch", str(marker)]),
        "eval": Runs(eval, f"open({str(marker)!r}, 'w')"),
        "exec": Runs(exec, f"open({str(marker)!r}, 'w')"),
        "import": Runs(__import__, "os"),
        "getattr": Runs(getattr, "", "format"),
        "open": Runs(open, str(marker), "w"),
        "numpy.load": Runs(np.load, str(marker)),
        "fromfile": Runs(np.fromfile, str(marker)),
        "nested": {"gnd": [{"easy": [Runs(os.system, command)]}]},
    }


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("name", sorted(malicious(Path("x"))))
def test_malicious_pickle_is_refused_without_running(tmp_path: Path, name, protocol) -> None:
    marker = tmp_path / "it_ran"
    file = tmp_path / "bad.pkl"
    file.write_bytes(pickle.dumps(malicious(marker)[name], protocol=protocol))
    with pytest.raises(FileFormatError, match=r"must hold plain data.*It was not run"):
        load_plain_pickle(file)
    assert not marker.exists()


SHORT_ARRAY = (
    b"cnumpy.core.multiarray\n_reconstruct\n(tR(I1\n(I9\ntcnumpy\ndtype\n(S'i8'\ntRI00\nS'abc'\ntb."
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # A name of the table used as data, called, or given a new state.
        (b"cnumpy\nndarray\n.", "a function"),
        (b"cnumpy\nndarray\n(I1\ntR.", "a call of numpy.ndarray"),
        (b"cnumpy\ndtype\n(dS'_maker'\nI1\nsb.", "an attempt to change a function"),
        (b"c_codecs\nencode\n(Vabc\nVzip\ntR.", "an encoding 'zip'"),
        (b"cnumpy\ndtype\n(S'O'\ntR.", "dtype object"),
        (b"cnumpy\ndtype\n(S'i4,i4'\ntR.", "dtype"),
        (b"cbuiltins\nbytes\n(I1000000000\ntR.", "a call of bytes"),
        (b"Pelsewhere\n.", "outside the file"),
        # An array whose data do not fill its shape.
        (SHORT_ARRAY, r"shape \(9,\) in 3 bytes"),
        (b"", "must be a pickle file"),
        (b"not a pickle", "must be a pickle file"),
        (pickle.dumps(PLAIN)[:-20], "must be a pickle file"),
    ],
)
def test_tricks_and_broken_files(tmp_path: Path, content, message) -> None:
    file = tmp_path / "bad.pkl"
    file.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        load_plain_pickle(file)


def test_shared_lists_do_not_multiply(tmp_path: Path) -> None:
    # Forty doublings: written out, a million million entries.
    value: list = [1]
    for _ in range(40):
        value = [value, value]
    file = tmp_path / "laughs.pkl"
    file.write_bytes(pickle.dumps(value))
    loaded = load_plain_pickle(file)
    assert loaded[0] is loaded[1]


def test_a_place_that_would_take_all_memory(tmp_path):
    """One instruction of a pickle can ask for a table of 2^32 places."""
    (tmp_path / "a.pkl").write_bytes(b"\x80\x02]r\xff\xff\xff\xff.")
    with pytest.raises(FileFormatError, match="place 4294967295 in a pickle of 9 bytes"):
        load_plain_pickle(tmp_path / "a.pkl")
