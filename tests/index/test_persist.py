"""Indexes in files: whole or refused, one writer, many readers."""

import errno
import gc
import json
import os
import subprocess
import sys
import zlib

import numpy as np
import pytest

import kinrank
from index_data import QUERIES, ROWS
from kinrank import CAS
from kinrank.errors import FileFormatError, InvalidInputError, LockedError
from kinrank.index import file as index_file
from kinrank.index import write_lock
from kinrank.io import replacing

METHODS = [CAS(k1=10, k2=4), CAS(k1=8, k2=3, variant="paper", metric="cosine")]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "an.index"
    CAS(k1=10, k2=4).fit(ROWS[:200], context=ROWS[300:]).save(file)
    return file


@pytest.mark.parametrize("method", [*METHODS, CAS(k1=10, k2=4, smoothing="aqe")], ids=range(3))
def test_what_is_opened_answers_as_what_was_saved(method, tmp_path):
    index = method.fit(ROWS + 3.0, ids=[f"r{n}" for n in range(len(ROWS))], context=QUERIES + 3.0)
    index.save(tmp_path / "an.index")
    again = kinrank.open(tmp_path / "an.index")
    a, b = index.search(QUERIES + 3.0, k=40), again.search(QUERIES + 3.0, k=40)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a.distances, b.distances)
    assert again.info() == index.info()
    assert repr(again.method) == repr(index.method)


def test_changes_go_on_after_opening(path):
    with kinrank.open(path, writable=True) as index:
        index.add(ROWS[200:210])
        index.remove([0])
        index.save()
    again = kinrank.open(path)
    left = np.arange(1, 210)
    fresh = CAS(k1=10, k2=4).fit(ROWS[left], ids=left, context=ROWS[300:])
    np.testing.assert_allclose(
        again.search(QUERIES).distances, fresh.search(QUERIES).distances, atol=1e-5
    )


def test_an_index_open_for_reading_is_not_changed(path):
    index = kinrank.open(path)
    with pytest.raises(InvalidInputError, match="writable=True"):
        index.add(ROWS[200:201])
    with pytest.raises(InvalidInputError, match="no file is open for writing"):
        index.save()


def test_readers_keep_what_they_opened(path):
    reader = kinrank.open(path)
    before = reader.search(QUERIES, k=9).distances
    with kinrank.open(path, writable=True) as writer:
        writer.add(ROWS[200:260])
        writer.save()
        assert len(kinrank.open(path)) == 260
    np.testing.assert_array_equal(reader.search(QUERIES, k=9).distances, before)
    assert len(reader) == 200


def test_a_second_writer_is_refused(path):
    with kinrank.open(path, writable=True) as writer:
        with pytest.raises(LockedError, match="is open for writing in another process"):
            kinrank.open(path, writable=True)
        with pytest.raises(LockedError):
            CAS(k1=10, k2=4).fit(ROWS[:50]).save(path)
        script = f"import kinrank; kinrank.open({str(path)!r}, writable=True)"
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert b"LockedError" in other.stderr
        writer.save(path)
    kinrank.open(path, writable=True).close()


def test_cut_off_anywhere(path):
    whole = path.read_bytes()
    for size in [0, 1, 11, 20, 39, 40, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(FileFormatError):
            kinrank.open(path, verify=False)
    path.write_bytes(whole + b"x")
    with pytest.raises(FileFormatError, match="cut off or added to"):
        kinrank.open(path, verify=False)


def test_a_changed_byte_anywhere(path):
    whole = path.read_bytes()
    stored = index_file.read(path)
    used = sum(array.nbytes for array in stored.arrays.values())
    assert used > 0.9 * len(whole)
    rng = np.random.default_rng(0)
    for place in rng.choice(len(whole), size=60, replace=False):
        broken = bytearray(whole)
        broken[place] ^= 0x10
        path.write_bytes(broken)
        try:
            kinrank.open(path)
        except FileFormatError:
            continue
        # Only bytes between the arrays belong to nobody.
        assert broken[place] == 0x10


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY", b"PK\x03\x04" + bytes(90)])
def test_foreign_files(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FileFormatError, match="must be an index saved by kinrank"):
        kinrank.open(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        kinrank.open(tmp_path / "none")


def rewritten(path, change):
    """The file with another table, and its checksum right."""
    whole = path.read_bytes()
    magic, version, place, length, _ = index_file._PREFIX.unpack(whole[: index_file._PREFIX.size])
    table = json.loads(whole[place : place + length])
    change(table)
    text = json.dumps(table).encode()
    head = index_file._PREFIX.pack(magic, version, place, len(text), zlib.crc32(text))
    path.write_bytes(head + whole[len(head) : place] + text)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t["arrays"].pop("vectors"),
        lambda t: t["arrays"].pop("smoothed.indptr"),
        lambda t: t["arrays"]["vectors"].update(dtype="|O"),
        lambda t: t["arrays"]["vectors"].update(shape=[10**9, 10**9]),
        lambda t: t["arrays"]["vectors"].update(offset=10**12),
        lambda t: t["arrays"]["order"].update(shape=[3]),
        lambda t: t["description"]["method"].update(k1=-3),
        lambda t: t["description"].update(rows=7),
        lambda t: t.pop("description"),
    ],
)
def test_a_table_that_lies(path, change):
    rewritten(path, change)
    with pytest.raises(FileFormatError):
        kinrank.open(path, verify=False)


def test_another_version(path):
    whole = bytearray(path.read_bytes())
    whole[12] = 9
    path.write_bytes(whole)
    with pytest.raises(FileFormatError, match="must be an index of format 1, got 9"):
        kinrank.open(path)


def test_what_a_killed_writer_left_is_cleared_away(path):
    left = path.with_name(f".{path.name}.0123abcd.tmp")
    left.write_bytes(b"half")
    with kinrank.open(path, writable=True) as index:
        index.save()
    assert not left.exists()


@pytest.mark.parametrize("names", [("a", "a.index"), ("a[12]", "a1"), ("a*", "ab"), ("a", "a.b[c")])
def test_saving_touches_no_temporary_file_of_another_index(tmp_path, names):
    one, other = (tmp_path / name for name in names)
    index = CAS(k1=10, k2=4).fit(ROWS[:60])
    with replacing(other) as file:
        index.save(one)
        file.write(b"whole")
    assert other.read_bytes() == b"whole"
    left = one.with_name(f".{one.name}.0123abcd.tmp")
    left.write_bytes(b"half")
    index.save(one)
    assert not left.exists()
    assert len(kinrank.open(one)) == 60


def test_notes_larger_than_a_table_may_be(path, monkeypatch):
    monkeypatch.setattr(index_file, "_MAX_TABLE", 20_000)
    with kinrank.open(path, writable=True) as index:
        index.notes["labels"] = {str(n): "label" for n in range(10_000)}
        index.save()
        assert kinrank.open(path).notes == index.notes
        whole = path.read_bytes()
        index.recipe = "x" * 20_000
        with pytest.raises(InvalidInputError, match="must have at most 20,000 bytes"):
            index.save()
        index.recipe, index.notes = None, {"a": object()}
        with pytest.raises(InvalidInputError, match="`notes` must be what can be written as JSON"):
            index.save()
        index.notes = 7
        with pytest.raises(InvalidInputError, match="`notes` must be a dict, got 7"):
            index.save()
    assert path.read_bytes() == whole
    assert sorted(file.name for file in path.parent.iterdir()) == ["an.index"]


def test_a_recipe_that_is_no_json_leaves_the_file(path):
    with kinrank.open(path, writable=True) as index:
        index.recipe = object()
        with pytest.raises(InvalidInputError, match="`recipe` must be what JSON can hold"):
            index.save()
    assert kinrank.open(path).recipe is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("columns.indptr", 2_000_000_000, "`columns` with a row"),
        ("smoothed.indices", 2_000_000_000, "`smoothed` with numbers from"),
        ("smoothed.indices", 0, "`smoothed` with entries that are not ascending"),
        ("order", -5, "`order` with numbers from -5"),
        ("order", 7, "`order` with numbers that are not different"),
        ("neighbors.indices", 2_000_000_000, "`neighbors` with numbers from"),
        ("neighbors.distances", np.nan, "`neighbors` that are not lists"),
        ("vectors", np.nan, "`vectors` with values that are not finite"),
        ("vectors", 1e30, "`vectors` with values that are not finite, or too large"),
        ("entropies", np.inf, "`entropies` with values that are not finite"),
    ],
)
def test_wrong_numbers_under_right_checksums(path, name, value, message):
    stored = index_file.read(path)
    stored.arrays[name].reshape(-1)[30:40] = value
    index_file.write(path, stored.description, stored.arrays)
    with pytest.raises(FileFormatError, match=message) as refused:
        kinrank.open(path)
    assert str(path) in str(refused.value)
    index = kinrank.open(path, verify=False)  # as for a large file: before the first use
    assert len(index) == index.info()["rows"] == 200
    for use in (lambda: index.search(QUERIES), lambda: index.neighbors(3)):
        with pytest.raises(FileFormatError, match=message):
            use()


def test_no_lock_file_stays_behind(path):
    lock = path.with_name(f"{path.name}.lock")
    with kinrank.open(path, writable=True) as index:
        assert lock.exists()
        index.save()
        with pytest.raises(LockedError):
            kinrank.open(path, writable=True)
        assert lock.exists()
    assert not lock.exists()
    kinrank.open(path).save(path.with_name("copy"))
    index = kinrank.open(path, writable=True)
    del index
    gc.collect()
    script = f"import kinrank; kept = kinrank.open({str(path)!r}, writable=True)"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert sorted(file.name for file in path.parent.iterdir()) == ["an.index", "copy"]


def test_a_lock_that_was_removed_meanwhile_is_taken_again(tmp_path, monkeypatch):
    """A file that its last holder removed between our opening and locking it locks nobody out."""
    plain, left = write_lock.take_lock, [3]

    def take(file):
        if left[0]:
            left[0] -= 1
            (tmp_path / "x.lock").unlink()
        plain(file)

    monkeypatch.setattr(write_lock, "take_lock", take)
    held = write_lock.WriteLock(tmp_path / "x")
    assert left == [0]
    with pytest.raises(LockedError):
        write_lock.WriteLock(tmp_path / "x")
    held.release()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_to(path, monkeypatch, error):
    def refused(self, *_):
        raise OSError(error, os.strerror(error), str(self))

    index = kinrank.open(path)
    monkeypatch.setattr(write_lock.Path, "open", refused)
    for use in (lambda: kinrank.open(path, writable=True), lambda: index.save(path)):
        with pytest.raises(InvalidInputError, match="cannot be opened for writing"):
            use()
