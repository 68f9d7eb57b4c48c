"""Every error of kinrank travels between processes, and keeps what it says."""

import copy
import importlib
import multiprocessing
import pickle
import pkgutil

import numpy as np
import pytest

import kinrank
from kinrank import errors
from kinrank.client import ServiceError
from kinrank.errors import KinrankError, KinrankWarning

REFUSAL = PermissionError(13, "Permission denied", "/nowhere/index.kin")
OFFERED = {
    "KinrankError": errors.KinrankError("`k` must be 1, got 0."),
    "InvalidInputError": errors.InvalidInputError("`k` must be 1, got 0."),
    "FileFormatError": errors.FileFormatError("It is no index."),
    "UnwritableError": errors.UnwritableError("Choose another folder.", REFUSAL),
    "UnknownNameError": errors.UnknownNameError("method", "casx", ["cas", "none"]),
    "UnknownIdError": errors.UnknownIdError("There is no row with the id 7."),
    "UnsupportedError": errors.UnsupportedError("It cannot."),
    "LockedError": errors.LockedError("Somebody else writes."),
    "StoreError": errors.StoreError("The store failed."),
    "ClusterError": errors.ClusterError("No machine answers."),
    "OptionalDependencyError": errors.OptionalDependencyError("torch", "torch", "Training"),
    "KinrankWarning": errors.KinrankWarning("`k` is 3."),
    "ServiceError": ServiceError(422, "invalid-input", "`k` must be 1, got 0."),
    "UnreadableError": None,  # made below: its module needs pillow
}
MADE = [
    *(error for error in OFFERED.values() if error is not None),
    errors.UnwritableError("Choose another folder."),
    errors.UnknownNameError("attribute", "stock", []),
    errors.UnknownNameError("method", None, ["cas"]),
    errors.InvalidInputError(),
    errors.InvalidInputError("one", 2, ("three",)),
]


def all_classes():
    """The classes of errors in all modules that can be imported here."""
    for module in pkgutil.walk_packages(kinrank.__path__, "kinrank."):
        if module.name.rpartition(".")[2] != "__main__":
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue
    waiting = [KinrankError, KinrankWarning]
    for cls in waiting:
        waiting += cls.__subclasses__()
    return {cls for cls in waiting if cls.__module__.startswith("kinrank")}


def sent(error, protocol=pickle.DEFAULT_PROTOCOL):
    """What another process gets."""
    return pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own


def same(error, other):
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert other.args == error.args
    assert vars(other) == vars(error)
    for name in ("errno", "strerror", "filename", "status", "kind"):
        assert getattr(other, name, None) == getattr(error, name, None)


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled(error, protocol):
    same(error, sent(error, protocol))


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_copied(error):
    same(error, copy.copy(error))
    same(error, copy.deepcopy(error))


def test_notes_travel():
    error = errors.UnknownNameError("method", "casx", ["cas"])
    error.add_note("in the third file")
    assert sent(error).__notes__ == ["in the third file"]


def test_no_class_is_left_out():
    """A new class of errors gets an instance above, or this fails."""
    assert {cls.__name__ for cls in all_classes()} <= set(OFFERED)


def test_one_of_pictures():
    images = pytest.importorskip("kinrank.features.images")
    error = images.UnreadableError("It is no picture.")
    same(error, sent(error))


def _fails(how):
    rows = np.eye(4, dtype=np.float32)
    if how == "name":
        kinrank.rerank(rows, rows, method="casx")
    if how == "parameter":
        kinrank.CAS(k1=0)
    raise errors.UnwritableError("Choose another folder.", REFUSAL)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ("name", errors.UnknownNameError, "casx"),
        ("parameter", errors.InvalidInputError, "k1"),
        ("folder", errors.UnwritableError, "Choose another folder"),
    ],
)
def test_through_a_pool_of_processes(how, kind, words):
    """An error that cannot be unpickled kills the thread of a pool that collects results."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        waiting = pool.apply_async(_fails, (how,))
        with pytest.raises(kind, match=words):
            waiting.get(timeout=120)
