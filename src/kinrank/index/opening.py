"""An index from its file."""

from __future__ import annotations

import os

from kinrank.index import file
from kinrank.index.calibrate import Calibration
from kinrank.index.chosen import Chosen
from kinrank.index.contents import check_contents, load_beside, load_notes, load_state
from kinrank.index.engine import Engine
from kinrank.index.index import Index
from kinrank.index.search import search_of
from kinrank.io import PathLike
from kinrank.reading import reading
from kinrank.search.searcher import Store
from kinrank.validation import check_bool, check_path

# Files up to this size are read and verified when they are opened; larger ones when asked.
_VERIFIED = 1 << 28


def open_index(
    path: PathLike, *, writable: bool = False, store: Store | None = None,
    refine: bool = True, verify: bool | None = None,
) -> Index:  # fmt: skip
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
    lock = file.WriteLock(path) if writable and os.path.exists(path) else None  # noqa: PTH110
    try:
        stored = file.read(path, writable=lock is not None)
        whole = verify or (verify is None and stored.size <= _VERIFIED)
        if whole:
            stored.verify()
        state = load_state(stored)
        if whole:
            check_contents(stored.path, state)
        attributes, rates = load_beside(stored, state.n_gallery)
        with reading(stored.path, "an index with a whole calibration"):
            calibration = Calibration.from_arrays(rates)
        engine = Engine(state, search_of(state, store, refine), attributes)
        unchecked = None if whole else stored.path
        index = Index(engine, unchecked, os.path.realpath(path), lock)
        index.notes, index.calibration = load_notes(stored), calibration
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    recipe = stored.about.get("recipe")
    index.recipe = recipe if isinstance(recipe, str) else None
    index.chosen = Chosen.read(stored.about.get("chosen"))
    return index
