"""An index from its file."""

from __future__ import annotations

import os

from kinrank.index import file
from kinrank.index.auto_parameters import AutoParameters
from kinrank.index.calibrate import Calibration
from kinrank.index.engine import Engine
from kinrank.index.index import Index
from kinrank.index.search import search_of
from kinrank.index.state_file import (
    calibration_arrays,
    check_contents,
    load_attributes,
    load_fingerprints,
    load_notes,
    load_state,
)
from kinrank.index.write_lock import WriteLock
from kinrank.io import PathLike
from kinrank.reading import reading
from kinrank.search.searcher import Store
from kinrank.validation import check_bool, check_path

# Files of up to so many bytes are read and verified when they are opened, larger ones on demand.
_MOST_VERIFIED = 1 << 28


def open_index(
    path: PathLike,
    *,
    writable: bool = False,
    store: Store | None = None,
    refine: bool = True,
    verify: bool | None = None,
) -> Index:
    """Open an index that was saved; it is mapped from disk, not read.

    Parameters
    ----------
    path : the file
    writable : whether it will be changed; only one may have it open so, until ``close``
    store : of an index that was made over one
    refine : as in ``kinrank.attach``
    verify : read everything, compare checksums and look at every number; None does so for files up
        to 256 MB. The numbers of others are looked at before the first search or change.

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> kinrank.CAS().fit(data.gallery.features).save("gallery.index")
    >>> kinrank.open("gallery.index")
    <Index of 330 rows, 8 columns>
    """
    check_path("path", path)
    check_bool("writable", writable)
    check_bool("verify", verify is not None and verify)
    lock = WriteLock(path) if writable and os.path.exists(path) else None  # noqa: PTH110
    try:
        return _open(path, lock, store, refine, verify)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _open(
    path: PathLike, lock: WriteLock | None, store: Store | None, refine: bool, verify: bool | None
) -> Index:
    """Read a file and make an index of it; parameters are those of ``open_index``.

    lock : the right to write the file, None to search alone
    """
    stored = file.read(path, writable=lock is not None)
    is_verified = verify or (verify is None and stored.size <= _MOST_VERIFIED)
    if is_verified:
        stored.verify()
    state = load_state(stored)
    if is_verified:
        check_contents(stored.path, state)
    attributes = load_attributes(stored, state.n_gallery)
    engine = Engine(state, search_of(state, store, refine), attributes)
    unchecked = None if is_verified else stored.path
    index = Index(engine, unchecked, os.path.realpath(path), lock)
    index.notes = load_notes(stored)
    index.fingerprints = load_fingerprints(stored, state.n_gallery)
    with reading(stored.path, "an index with a whole calibration"):
        index.calibration = Calibration.from_arrays(calibration_arrays(stored))
    recipe = stored.description.get("recipe")
    index.recipe = recipe if isinstance(recipe, str) else None
    index.chosen = AutoParameters.read(stored.description.get("chosen"))
    return index
