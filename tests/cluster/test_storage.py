"""Where arrays lie: names that are none, and files that others change."""

import gc
import os
import shutil

import numpy as np
import pytest

from kinrank import ClusterError, InvalidInputError
from kinrank.runs.ray import tasks
from kinrank.runs.ray.storage import FolderStorage, UrlStorage, make_storage

VALUES = np.arange(50_000)

CHANGES = {
    "shortened": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "not an array": lambda path: path.write_bytes(b"\x93NUMPY\x01\x00" + bytes(range(200))),
    "pickled": lambda path: np.save(path, np.array([{}], object), allow_pickle=True),
    "of another shape": lambda path: np.save(path, VALUES[:10]),
    "of another type": lambda path: np.save(path, VALUES.astype(np.float64)),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_were_changed_are_refused(tmp_path, change):
    storage = FolderStorage(tmp_path / "shared")
    handle = storage.keep(VALUES)
    np.testing.assert_array_equal(handle.open(), VALUES)
    CHANGES[change](next(tmp_path.glob("*/*.npy")))
    with pytest.raises(ClusterError, match=r"must keep what is put there, got for .*1\.npy"):
        handle.open()
    storage.close()


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "gone"])
def test_copies_of_files_that_were_changed_are_refused(tmp_path, change):
    storage = UrlStorage(tmp_path.as_uri())
    handle = storage.keep(VALUES)
    CHANGES[change](next(tmp_path.glob("*/*.npy")))
    try:
        with pytest.raises(ClusterError, match="must keep what is put there"):
            handle.open()
    finally:
        tasks.clear(storage.session)
        storage.close()


NOWHERE = [
    "",
    "\0",
    5,
    b"x",
    "/dev/null",
    "/proc",
    "memory://",
    "file://",
    "file:///",
    "://",
    "x://",
]


@pytest.mark.parametrize("where", NOWHERE, ids=repr)
def test_places_that_are_none(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match="`storage` must"):
        make_storage(where, None)
    assert list(tmp_path.iterdir()) == []  # nothing is made beside the place that was meant


@pytest.mark.parametrize("kind", ["folder", "url"])
@pytest.mark.parametrize("closed_first", [True, False])
def test_storage_that_is_gone_is_closed_quietly(tmp_path, kind, closed_first):
    place = tmp_path / "shared"
    place.mkdir()
    storage = make_storage(place if kind == "folder" else place.as_uri(), None)
    values = VALUES.copy()
    storage.keep(values)
    shutil.rmtree(place)
    if closed_first:
        storage.close()
    del values
    gc.collect()  # what was kept is forgotten, and its file is not there to be removed
    storage.close()
