"""faiss indexes, in memory or on disk, as stores (extra ``ann``)."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import numpy as np

from kinrank.errors import FileFormatError, InvalidInputError, KinrankWarning, UnknownIdError
from kinrank.index.ids import Ids, IdTable, as_ids, ids_at, refuse_duplicates
from kinrank.io import PathLike
from kinrank.optional import require
from kinrank.search.searcher import Metric
from kinrank.stores.base import checked_queries, engine_errors, squared_distances
from kinrank.types import Floats, Ints, Longs, Neighbors
from kinrank.validation import as_matrix

__all__ = ["FaissStore"]


class FaissStore:
    """A trained faiss index with its rows in it.

    Vectors of an IVF index are read through its direct map, which is made when first needed.

    Parameters
    ----------
    index : L2 or inner product, of any type; settings such as ``nprobe`` and ``efSearch`` are its
        own. Labels given with ``add_with_ids`` are the ids.
    ids : (n,) other names for its rows, in the order in which they were added
    vectors : (n, d) its rows, for an index that cannot give them back, or only roughly so because
        it is compressed; may be memory-mapped

    Examples
    --------
    >>> import faiss, kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> engine = faiss.IndexFlatL2(8)
    >>> engine.add(data.gallery.features)
    >>> store = kinrank.stores.FaissStore(engine)
    >>> store.search(data.query.features[:1], 3).indices.tolist()
    [[284, 7, 58]]
    """

    def __init__(self, index: Any, ids: Any = None, vectors: Any = None) -> None:
        self._faiss = faiss = _faiss()
        if not isinstance(index, faiss.Index):
            raise InvalidInputError(f"`index` must be a faiss index, got {type(index).__name__}.")
        inner = self._index = faiss.downcast_index(index)
        while isinstance(inner, faiss.IndexPreTransform):
            inner = faiss.downcast_index(inner.index)
        labelled = isinstance(inner, (faiss.IndexIDMap, faiss.IndexIDMap2))
        if labelled and inner is not self._index:
            raise InvalidInputError(
                "`index` must have its IDMap outermost (as in 'IDMap,PCA64,Flat'), got one inside."
            )
        self.index = index  # as it was given: its settings may be changed
        self._map = inner if labelled else None  # gives labels to the rows of another
        self._inverted = faiss.try_extract_index_ivf(inner)  # the IVF index inside, or None
        metrics: dict[int, Metric] = {faiss.METRIC_L2: "euclidean"}
        metrics[faiss.METRIC_INNER_PRODUCT] = "inner"
        if self._index.metric_type not in metrics:
            raise InvalidInputError(
                "`index` must measure L2 or inner product, got faiss metric "
                f"{self._index.metric_type}."
            )
        self.metric = metrics[self._index.metric_type]
        labels = np.array(self._current_labels())
        if (labels == -1).any():
            raise InvalidInputError(
                "A row has the label -1, by which faiss means none: give it another."
            )
        plain = bool((labels == np.arange(len(labels))).all())
        self._labels = None if plain else IdTable(labels)
        if ids is not None and not plain:
            raise InvalidInputError("This faiss index has labels of its own: leave out `ids`.")
        names = labels if ids is None else as_ids(ids, len(labels))
        refuse_duplicates(names)
        self._table = IdTable(names)
        self._lock = Lock()
        self._warned = False
        self._vectors = None if vectors is None else as_matrix("vectors", vectors)
        if self._vectors is not None and self._vectors.shape != (len(names), self.width):
            raise InvalidInputError(
                f"`vectors` must be the rows of the index, {(len(names), self.width)}, "
                f"got {self._vectors.shape}."
            )

    @classmethod
    def open(
        cls, path: PathLike, ids: Any = None, vectors: Any = None, *, mmap: bool = True
    ) -> FaissStore:
        """An index that ``faiss.write_index`` wrote; mapped, so that lists are read as needed."""
        faiss = _faiss()
        if not Path(path).exists():
            raise FileNotFoundError(os.fspath(path))
        mapped = mmap and sys.platform != "win32"  # faiss reads the whole file there
        flags = faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if mapped else 0
        try:
            index = faiss.read_index(os.fspath(path), flags)
        except RuntimeError as error:
            raise FileFormatError(
                f"{os.fspath(path)} must be an index written by faiss, got: {error}"
            ) from error
        return cls(index, ids, vectors)

    @property
    def width(self) -> int:
        """The length of the vectors."""
        return int(self._index.d)

    def __len__(self) -> int:
        return len(self._table)

    def ids(self) -> Ids:
        """See Store."""
        return self._table.ids

    def search(self, queries: Any, k: int) -> Neighbors:
        """See Store."""
        rows, k = checked_queries(queries, k, self.width, self.metric)
        self._refuse_renumbered()
        with engine_errors("The search of the faiss index", RuntimeError, AssertionError):
            values, labels = self._index.search(rows, k)
        places = self._places(labels)
        values = -values if self.metric == "inner" else values
        values = np.where((places >= 0) & ~np.isnan(values), values, np.inf)
        squared = squared_distances(self.metric, rows, values.astype(np.float32))
        order = np.argsort(squared, axis=1, kind="stable")  # rows that came later go to the end
        squared = np.take_along_axis(squared, order, axis=1)
        places = np.take_along_axis(places, order, axis=1)
        places = np.where(np.isinf(squared), -1, places)
        return Neighbors(ids_at(self._table.ids, places), squared)

    def fetch(self, ids: Any) -> Floats:
        """See Store."""
        places = self._table.rows(ids)
        self._refuse_renumbered()
        if self._vectors is not None:
            with np.errstate(over="ignore"):  # infinity is refused where it is used
                return np.asarray(self._vectors[places], np.float32)
        return self._reconstructed(places)

    def _reconstructed(self, places: Ints) -> Floats:
        """Vectors as the index remembers them."""
        index, labels = self._stored(places)
        kind = type(index).__name__
        inverted = self._inverted
        with self._lock:
            if inverted is not None and inverted.direct_map.no():
                inverted.set_direct_map_type(self._faiss.DirectMap.Hashtable)
        try:
            vectors: Floats = index.reconstruct_batch(labels)
        except RuntimeError as error:
            gone = ~np.isin(self._label_of(places), self._current_labels())
            if gone.any():
                self._refuse_gone(places[gone], error)
            raise InvalidInputError(
                f"The vectors of this faiss index ({kind}) cannot be read back: give them as "
                "`vectors`."
            ) from error
        if "Flat" not in kind and not self._warned:
            self._warned = True
            warnings.warn(
                f"This faiss index ({kind}) gives back vectors that are not quite those that were "
                "added: give those as `vectors`.",
                KinrankWarning,
                stacklevel=3,
            )
        return vectors

    def _current_labels(self) -> Longs:
        """The labels of the rows that the index has now, in the order of its rows if it has one."""
        if self._map is not None and self._index.ntotal:
            names = self._map.id_map
            labels: Longs = self._faiss.rev_swig_ptr(names.data(), names.size())
            return labels
        if self._map is not None or self._inverted is None:
            return np.arange(self._index.ntotal, dtype=np.int64)
        lists = self._inverted.invlists
        cells = [np.empty(0, np.int64)]
        for cell in range(lists.nlist):
            if lists.list_size(cell):
                ids = self._faiss.rev_swig_ptr(lists.get_ids(cell), lists.list_size(cell))
                cells.append(ids.copy())
        return np.sort(np.concatenate(cells))

    def _label_of(self, places: Ints) -> Longs:
        return places.astype(np.int64) if self._labels is None else self._labels.ids[places]

    def _stored(self, places: Ints) -> tuple[Any, Longs]:
        """The index that remembers vectors, and the numbers that it knows rows by."""
        labels = self._label_of(places)
        if self._map is None:
            return self._index, labels
        now = self._current_labels()
        at = places.astype(np.int64)
        if len(at) and (at.max() >= len(now) or (now[at] != labels).any()):  # rows were removed
            at = IdTable(now).find(labels).astype(np.int64)
            if (at < 0).any():
                self._refuse_gone(places[at < 0], None)
        return self._faiss.downcast_index(self._map.index), at

    def _refuse_gone(self, places: Ints, error: Exception | None) -> NoReturn:
        first = self._table.ids[places[0]].item()
        raise UnknownIdError(f"There is no row with the id {first!r} any more.") from error

    def _refuse_renumbered(self) -> None:
        """Rows of a plain index are known by their numbers, which removing others changes."""
        plain = self._map is None and self._inverted is None
        if plain and self._index.ntotal < len(self):
            raise InvalidInputError(
                f"The faiss index has {self._index.ntotal} rows, and had {len(self)} when this "
                "store was made. Removing rows gives others new numbers: make a new store."
            )

    def _places(self, labels: Longs) -> Ints:
        """Rows of the table; -1 for none and for rows that were added since."""
        if self._labels is None:
            return np.where(labels < len(self), labels, -1).astype(np.int32)
        return self._labels.find(labels.ravel()).reshape(labels.shape)


def _faiss() -> Any:
    return require("faiss", extra="ann", purpose="A faiss store")
