import json
import os
import stat
import struct
import sys
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save_file

import kinrank
from kinrank import FileFormatError, InvalidInputError, UnknownNameError, reading
from kinrank.io import load_array, save_npz, split_name, write_text_atomic

A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(6, dtype=np.float16).reshape(3, 2)
posix_only = pytest.mark.skipif(os.name != "posix", reason="links, modes and devices of POSIX")


def safetensors_bytes(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


# Writing


def test_npz_has_exactly_the_name_given(tmp_path):
    save_npz(tmp_path / "plain", a=A)
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]


def test_npz_is_read_back_by_numpy(tmp_path):
    save_npz(tmp_path / "two.npz", a=A, file=B, path=np.array(["x"]))
    with np.load(tmp_path / "two.npz", allow_pickle=False) as file:
        assert sorted(file.files) == ["a", "file", "path"]
        np.testing.assert_array_equal(file["a"], A)
        np.testing.assert_array_equal(file["file"], B)


def test_same_arrays_give_same_bytes(tmp_path, monkeypatch):
    save_npz(tmp_path / "1.npz", a=A)
    monkeypatch.setattr("time.time", lambda: 2e9)
    save_npz(tmp_path / "2.npz", a=A)
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()


def test_npz_of_objects_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InvalidInputError, match="`a` must hold no Python objects, got object"):
        save_npz(tmp_path / "a.npz", a=np.array([{}], dtype=object))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError("disk full")])
def test_a_broken_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, stop):
    target = tmp_path / "a.npz"
    save_npz(target, a=A)
    before = target.read_bytes()

    def fail(*args, **kwargs):
        raise stop

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(stop if isinstance(stop, type) else type(stop)):
        save_npz(target, a=B)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_text_is_utf8_and_replaces(tmp_path):
    target = tmp_path / "page.html"
    write_text_atomic(target, "old and longer")
    write_text_atomic(target, "ξ ✓")
    assert target.read_text(encoding="utf-8") == "ξ ✓"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_missing_folder_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*none'$"):
        write_text_atomic(tmp_path / "none" / "a.txt", "")


@posix_only
def test_new_files_have_the_rights_of_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_text_atomic(tmp_path / "a.txt", "")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


@posix_only
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "real.txt")
    write_text_atomic(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "real.txt").read_text(encoding="utf-8") == "text"


@posix_only
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text_atomic(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_ranking_saves_and_loads(tmp_path):
    ranking = kinrank.Ranking(np.array([[2, 0, -1]]), np.array([[0.5, 1.0, np.inf]]))
    ranking.save(tmp_path / "ranking.npz")
    again = kinrank.Ranking.load(tmp_path / "ranking.npz")
    np.testing.assert_array_equal(again.indices, ranking.indices)
    np.testing.assert_array_equal(again.distances, ranking.distances)
    assert again.indices.dtype == np.int32
    assert again.distances.dtype == np.float32


def test_shapes_and_numbers_that_fit_no_type(tmp_path):
    shape, large = f"({2**40}, {2**40})", np.full((1, 2), 1e300)
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", 118) + head.encode())
    save_npz(tmp_path / "a.npz", indices=np.array([[0, 1]]), distances=large)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")  # programs see them, where tests would stop at them
        with pytest.raises(FileFormatError, match="must be a whole file of plain arrays"):
            load_array(tmp_path / "a.npy")
        with pytest.raises(FileFormatError, match="must be a ranking saved by kinrank"):
            kinrank.Ranking.load(tmp_path / "a.npz")
    assert not caught


def test_ranking_refuses_other_files(tmp_path):
    save_npz(tmp_path / "other.npz", a=A)
    with pytest.raises(FileFormatError, match="must be a ranking saved by kinrank"):
        kinrank.Ranking.load(tmp_path / "other.npz")


def test_a_ranking_without_its_ids_is_refused(tmp_path):
    file = tmp_path / "ranking.npz"
    kinrank.Ranking(np.array([[1, 0]]), np.array([[0.0, 1.0]]), np.array([["b", "a"]])).save(file)
    assert kinrank.Ranking.load(file).ids.tolist() == [["b", "a"]]
    whole = file.read_bytes()
    second = whole.index(b"PK\x01\x02", whole.index(b"PK\x01\x02") + 4)
    for place in (
        30,
        32,
    ):  # the lengths of what may follow a name: the next entry becomes part of it
        content = bytearray(whole)
        content[second + place : second + place + 2] = b"\xff\x7f"
        file.write_bytes(content)
        with pytest.raises(FileFormatError, match="must be a ranking saved by kinrank"):
            kinrank.Ranking.load(file)
    file.write_bytes(whole.replace(b"ids.npy", b"idz.npy"))
    with pytest.raises(FileFormatError, match="got: the arrays distances, idz, indices"):
        kinrank.Ranking.load(file)


# Reading


def test_npy_is_mapped_from_disk(tmp_path):
    np.save(tmp_path / "a.npy", A)
    array = load_array(tmp_path / "a.npy")
    assert isinstance(array, np.memmap)
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, A)


def test_npy_with_no_rows(tmp_path):
    np.save(tmp_path / "a.npy", np.empty((0, 5)))
    assert load_array(tmp_path / "a.npy").shape == (0, 5)


def test_the_kind_is_read_from_the_content_not_the_name(tmp_path):
    with (tmp_path / "a.bin").open("wb") as file:
        np.save(file, A)
    save_npz(tmp_path / "ranking", a=B)
    save_file({"a": A}, tmp_path / "model.st")
    np.testing.assert_array_equal(load_array(tmp_path / "a.bin"), A)
    np.testing.assert_array_equal(load_array(tmp_path / "ranking"), B)
    np.testing.assert_array_equal(load_array(tmp_path / "model.st"), A)


@pytest.mark.parametrize("write", [save_npz, lambda path, **arrays: save_file(arrays, path)])
@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_files_with_names(tmp_path, write, suffix):
    one, two = tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"
    write(one, a=A)
    write(two, a=A, b=B)
    np.testing.assert_array_equal(load_array(one), A)
    np.testing.assert_array_equal(load_array(f"{two}:b"), B)
    np.testing.assert_array_equal(load_array(two, "a"), A)
    with pytest.raises(
        InvalidInputError, match=r"holds 2 arrays \(a, b\): say which, as in .*two.*:a\."
    ):
        load_array(two)
    with pytest.raises(UnknownNameError, match="must be one of a, b, got 'c'"):
        load_array(f"{two}:c")
    with pytest.raises(InvalidInputError, match="`key` must not be given"):
        load_array(f"{two}:b", "a")


def test_a_name_for_an_npy_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", A)
    with pytest.raises(InvalidInputError, match="which is one array, got 'x'"):
        load_array(tmp_path / "a.npy", "x")


@posix_only
def test_a_file_with_a_colon_in_its_name_goes_first(tmp_path):
    save_npz(tmp_path / "a.npz", b=B)
    save_npz(tmp_path / "a.npz:b", x=A)
    assert split_name(tmp_path / "a.npz:b") == (tmp_path / "a.npz:b", None)
    np.testing.assert_array_equal(load_array(tmp_path / "a.npz:b"), A)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_array(tmp_path / "none.npy")
    with pytest.raises(FileNotFoundError):
        load_array(tmp_path / "none.npz:a")


def test_an_npz_without_arrays(tmp_path):
    save_npz(tmp_path / "none.npz")
    with pytest.raises(InvalidInputError, match="holds no array"):
        load_array(tmp_path / "none.npz")


class Bomb:
    """Pickled, it would end the process that reads it."""

    def __reduce__(self):
        return sys.exit, (99,)


def test_pickled_files_are_refused_and_not_run(tmp_path):
    bombs = np.array([Bomb()], dtype=object)
    np.save(tmp_path / "bomb.npy", bombs, allow_pickle=True)
    np.savez(tmp_path / "bomb.npz", a=bombs)
    (tmp_path / "bare.npy").write_bytes(bombs.dumps())
    for name in ("bomb.npy", "bomb.npz"):
        with pytest.raises(FileFormatError, match="got: pickled Python objects"):
            load_array(tmp_path / name)
    with pytest.raises(FileFormatError, match="must be an npy, npz, safetensors or parquet file"):
        load_array(tmp_path / "bare.npy")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.safetensors"])
def test_truncated_files(tmp_path, name):
    whole = tmp_path / "whole"
    if name.endswith("npy"):
        with whole.open("wb") as file:
            np.save(file, A)
    elif name.endswith("npz"):
        save_npz(whole, a=A)
    else:
        save_file({"a": A}, whole)
    content = whole.read_bytes()
    for length in (0, 5, 7, 9, 20, len(content) // 2, len(content) - 1):
        (tmp_path / name).write_bytes(content[:length])
        with pytest.raises(FileFormatError, match="must be"):
            load_array(tmp_path / name)


def test_damaged_npz(tmp_path):
    save_npz(tmp_path / "a.npz", a=A)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[content.index(A.tobytes()) + 3] ^= 255
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(FileFormatError, match="CRC"):
        load_array(tmp_path / "a.npz")


def test_npz_that_inflates_without_end(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(4_000_000))
    assert load_array(tmp_path / "a.npz").shape == (4_000_000,)  # equal labels are no attack
    monkeypatch.setattr(reading, "SMALL", 1 << 20)
    with pytest.raises(FileFormatError, match="inflate to 32,000,128, more than 100 times"):
        load_array(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", a=np.zeros(4_000_000))
    assert load_array(tmp_path / "b.npz").shape == (4_000_000,)


def npy(header):
    text = header.encode() if isinstance(header, str) else header
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4",  # TokenError
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 4), }",
        "(" * 5000,
        b"\xff\xfe" * 20,
        "[]",
    ],
)
def test_broken_headers(tmp_path, header):
    (tmp_path / "a.npy").write_bytes(npy(header) + bytes(48))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", npy(header) + bytes(48))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(FileFormatError, match="must be a whole file of plain arrays"):
            load_array(tmp_path / name)


def test_text_is_not_an_array(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,3\n", encoding="utf-8")
    with pytest.raises(
        FileFormatError, match=r"npy, npz, safetensors or parquet file, got .*1,2,3"
    ):
        load_array(tmp_path / "a.csv")


# safetensors


@given(
    array=hnp.arrays(
        st.sampled_from(["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_safetensors_equals_what_its_package_wrote(tmp_path_factory, array):
    file = tmp_path_factory.mktemp("safetensors") / "a.safetensors"
    save_file({"a": array, "pad": np.zeros(3, np.uint8)}, file, metadata={"by": "test"})
    read = load_array(file, "a")
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


def test_safetensors_is_mapped_from_disk(tmp_path):
    save_file({"a": A}, tmp_path / "a.safetensors")
    assert isinstance(load_array(tmp_path / "a.safetensors"), np.memmap)


def test_bfloat16_becomes_float32(tmp_path):
    values = np.array([[1.0, -2.5], [0.15625, 3e38]], np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2")
    header = {"x": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes(header, halves.tobytes()))
    read = load_array(tmp_path / "x.safetensors")
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, values, rtol=2**-7)
    np.testing.assert_array_equal(read[0], values[0])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{not json", "not JSON"),
        (b"[1, 2, 3]", "not a JSON object"),
        (b'{"a":' * 100_000, "not JSON"),
        ({"x": 3}, "no dtype, shape and data_offsets for 'x'"),
        ({"x": {"dtype": "F32", "shape": [2]}}, "no dtype, shape"),
        ({"x": {"dtype": "F32", "shape": "ab", "data_offsets": [0, 8]}}, "no dtype, shape"),
        ({"x": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}}, "got F8_E4M3"),
        ({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, "offsets 0, 8"),
        ({"x": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}}, "offsets 0, 8"),
        ({"x": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}, "offsets -8, 0"),
        ({"x": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, "too few bytes"),
    ],
)
def test_broken_safetensors(tmp_path, header, message):
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes(header, bytes(8)))
    with pytest.raises(FileFormatError, match=message):
        load_array(tmp_path / "x.safetensors")
