"""faiss indexes, in memory or on disk, as stores (extra ``ann``)."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import FileFormatError, InvalidInputError, KinrankWarning, UnknownIdError
from kinrank.index.ids import Ids, IdTable, as_ids, refuse_duplicates
from kinrank.optional import require
from kinrank.stores.protocol import Metric, checked_queries, squared_distances
from kinrank.types import Floats, Ints, Longs
from kinrank.validation import as_matrix, check_int


class FaissStore:
    """A trained faiss index with its rows in it.

    Parameters
    ----------
    index : L2 or inner product, of any type; settings such as ``nprobe`` and ``efSearch`` are its
        own. Labels given with ``add_with_ids`` are the ids.
    ids : (n,) other names for its rows, in the order in which they were added
    vectors : (n, d) its rows, for an index that cannot give them back, or only roughly so because
        it is compressed; may be memory-mapped

    Vectors of an IVF index are read through its direct map, which is made when first needed.
    """

    def __init__(self, index: Any, ids: Any = None, vectors: Any = None) -> None:
        self._faiss = _faiss()
        if not isinstance(index, self._faiss.Index):
            raise InvalidInputError(f"`index` must be a faiss index, got {type(index).__name__}.")
        outer = self._faiss.downcast_index(index)
        self._index, self._labels, own = self._unwrapped(outer)
        self.index = index  # as it was given: its settings may be changed
        self.metric: Metric = self._metric()
        if ids is not None:
            if (own != np.arange(len(own))).any():
                raise InvalidInputError("`ids` must be left out: the index has labels of its own.")
            own = as_ids(ids, len(own))
        refuse_duplicates(own)
        self._table, self._lock, self._warned = IdTable(own), Lock(), False
        self._vectors = None if vectors is None else as_matrix("vectors", vectors)
        if self._vectors is not None and self._vectors.shape != (len(own), self.width):
            raise InvalidInputError(
                f"`vectors` must be the rows of the index, {(len(own), self.width)}, "
                f"got {self._vectors.shape}."
            )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        ids: Any = None,
        vectors: Any = None,
        *,
        mmap: bool = True,
    ) -> FaissStore:
        """An index that ``faiss.write_index`` wrote; mapped, so that lists are read as needed."""
        faiss = _faiss()
        if not Path(path).exists():
            raise FileNotFoundError(os.fspath(path))
        flags = faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if mmap else 0
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

    def search(self, queries: Any, k: int) -> tuple[Ids, Floats]:
        """See Store."""
        rows, k = checked_queries(queries, self.width, self.metric), check_int("k", k, 1)
        values, labels = self._index.search(rows, k)
        places, known = self._places(labels)
        values = np.where(known, -values if self.metric == "inner" else values, np.inf)
        squared = squared_distances(self.metric, rows, values.astype(np.float32))
        order = np.argsort(squared, axis=1, kind="stable")  # rows that came later go to the end
        places = np.take_along_axis(places, order, axis=1)
        return self._table.ids[places], np.take_along_axis(squared, order, axis=1)

    def fetch(self, ids: Any) -> Floats:
        """See Store."""
        places = self._table.places(ids)
        if self._vectors is not None:
            return np.asarray(self._vectors[places], np.float32)
        return self._reconstructed(places)

    def _reconstructed(self, places: Ints) -> Floats:
        """Vectors as the index remembers them."""
        labels = places.astype(np.int64) if self._labels is None else self._labels[places]
        kind, inverted = type(self._index).__name__, self._inverted(self._index)
        with self._lock:
            if inverted is not None and inverted.direct_map.no():
                inverted.set_direct_map_type(self._faiss.DirectMap.Hashtable)
        try:
            vectors: Floats = self._index.reconstruct_batch(labels)
        except RuntimeError as error:
            gone = ~np.isin(labels, self._unwrapped(self._index)[2])
            if gone.any():
                first = self._table.ids[places[gone][0]].item()
                raise UnknownIdError(f"There is no row with the id {first!r} any more.") from error
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

    def _metric(self) -> Metric:
        known: dict[int, Metric] = {
            self._faiss.METRIC_L2: "euclidean",
            self._faiss.METRIC_INNER_PRODUCT: "inner",
        }
        if self._index.metric_type not in known:
            raise InvalidInputError(
                "`index` must measure L2 or inner product, got faiss metric "
                f"{self._index.metric_type}."
            )
        return known[self._index.metric_type]

    def _unwrapped(self, index: Any) -> tuple[Any, Longs | None, Ids]:
        """The index that searches, its labels (None: 0 to n - 1), and the ids of its rows."""
        if isinstance(index, (self._faiss.IndexIDMap, self._faiss.IndexIDMap2)):
            own = self._faiss.vector_to_array(index.id_map)
            return self._faiss.downcast_index(index.index), None, own
        inverted = self._inverted(index)
        numbers = np.arange(index.ntotal, dtype=np.int64)
        if inverted is None:
            return index, None, numbers
        lists = inverted.invlists
        parts = [
            self._faiss.rev_swig_ptr(lists.get_ids(cell), lists.list_size(cell)).copy()
            for cell in range(lists.nlist)
            if lists.list_size(cell)
        ]
        labels = np.sort(np.concatenate(parts)) if parts else numbers
        return (index, None, numbers) if (labels == numbers).all() else (index, labels, labels)

    def _inverted(self, index: Any) -> Any:
        """The IVF index inside, or None."""
        return self._faiss.try_extract_index_ivf(index)

    def _places(self, labels: Longs) -> tuple[Longs, npt.NDArray[np.bool_]]:
        """Rows of the table, and whether they are in it; rows may have been added since."""
        last = len(self) - 1
        if self._labels is None:
            return np.clip(labels, 0, last), (labels >= 0) & (labels <= last)
        places = np.minimum(np.searchsorted(self._labels, labels), last)
        return places, self._labels[places] == labels


def _faiss() -> Any:
    return require("faiss", extra="ann", purpose="A faiss store")
