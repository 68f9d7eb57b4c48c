"""Files of the cache: found whole, under their own names, and only where nobody else can write."""

import os
import threading

import pytest

from kinrank import cache
from kinrank.cache import UntrustedError, read_entry, write_entry

CONTENT = bytes(range(256)) * 3
posix = pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "cache" / "kernels"
    write_entry(place, "one", CONTENT)
    return place


def test_every_flipped_bit_is_noticed(folder):
    path = folder / "one"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        assert read_entry(folder, "one") is None
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_entry(folder, "one") is None
    path.write_bytes(whole)
    assert read_entry(folder, "one") == CONTENT


def test_an_entry_under_another_name_is_noticed(folder):
    (folder / "one").rename(folder / "two")
    assert read_entry(folder, "two") is None


def test_writers_at_once_keep_what_is_theirs(folder):
    def keep(name):
        for _ in range(50):
            write_entry(folder, name, name.encode() * 1000)
            assert read_entry(folder, name) == name.encode() * 1000
        kept.append(name)

    kept = []
    names = [f"signature{number}" for number in range(4)] * 2
    threads = [threading.Thread(target=keep, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(kept) == sorted(names)
    assert sorted(path.name for path in folder.iterdir()) == ["one", *names[:4]]


@posix
@pytest.mark.parametrize("mask", [0, 0o002, 0o022, 0o077])
def test_what_is_kept_is_closed_to_others_whatever_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_entry(tmp_path / "kernels", "one", CONTENT)
    finally:
        os.umask(before)
    assert read_entry(tmp_path / "kernels", "one") == CONTENT
    for path in (tmp_path / "kernels", tmp_path / "kernels" / "one"):
        assert path.stat().st_mode & 0o022 == 0


@posix
@pytest.mark.parametrize("right", [0o020, 0o002])
@pytest.mark.parametrize("name", ["", "one"])
def test_what_others_can_write_is_refused(folder, name, right):
    path = folder / name
    path.chmod(path.stat().st_mode | right)
    with pytest.raises(UntrustedError, match="can be written to by other users"):
        read_entry(folder, "one")
    if name == "":
        with pytest.raises(UntrustedError, match="can be written to by other users"):
            write_entry(folder, "two", CONTENT)


@posix
def test_what_belongs_to_another_user_is_refused(folder, tmp_path, monkeypatch):
    owner = 12345 if os.geteuid() == 0 else os.geteuid()
    if os.geteuid() == 0:
        os.chown(folder / "one", owner, -1)
    monkeypatch.setattr(cache.os, "geteuid", lambda: owner + 1)
    with pytest.raises(UntrustedError, match=f"belongs to another user .uid {owner}"):
        read_entry(folder, "one")
    source = tmp_path / "source.py"
    source.write_text("")
    if os.geteuid() != owner:
        os.chown(source, owner, -1)
    assert read_entry(folder, "one", source) == CONTENT  # whose program runs here already
