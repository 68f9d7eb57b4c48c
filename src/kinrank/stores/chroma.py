"""Collections of Chroma as stores (extra ``chroma``)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.index.ids import Ids
from kinrank.optional import require
from kinrank.search.searcher import Metric
from kinrank.stores.base import TableStore, engine_errors
from kinrank.types import Floats, Longs

__all__ = ["ChromaStore"]

_METRICS: dict[str, Metric] = {"l2": "euclidean", "cosine": "cosine", "ip": "inner"}
_PAGE = 4096  # rows in one answer
_QUERIES = 64  # in one request


class ChromaStore(TableStore):
    """A collection of Chroma; its ids are text, its metric is that of its index.

    Parameters
    ----------
    collection : of ``chromadb.PersistentClient(...).get_collection(...)``
    """

    _FETCH = 1024
    _text = True

    def __init__(self, collection: Any) -> None:
        module = require("chromadb", extra="chroma", purpose="A Chroma store")
        if not isinstance(collection, module.Collection):
            raise InvalidInputError(
                f"`collection` must be a chromadb.Collection, got {type(collection).__name__}."
            )
        self._collection = collection
        with _errors():
            configuration = collection.configuration_json
            first = collection.get(limit=1, include=["embeddings"])
        kind = next(
            (
                str(configuration[index].get("space"))
                for index in ("hnsw", "spann")
                if configuration.get(index)
            ),
            "l2",
        )
        if kind not in _METRICS:
            raise InvalidInputError(f"The collection must measure by l2, cosine or ip, got {kind}.")
        self.metric: Metric = _METRICS[kind]
        vectors = first["embeddings"]
        if vectors is None or len(vectors) == 0:
            raise InvalidInputError(
                "The collection must have rows, as an empty one does not know its width."
            )
        self.width = len(vectors[0])

    def __len__(self) -> int:
        with _errors():
            return int(self._collection.count())

    def _all_ids(self) -> list[Any]:
        ids: list[Any] = []
        while True:
            with _errors():
                page = self._collection.get(limit=_PAGE, offset=len(ids), include=[])["ids"]
            ids += page
            if len(page) < _PAGE:
                return ids

    def _nearest(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        owners: list[int] = []
        names: list[Any] = []
        values: list[float] = []
        k = min(k, max(len(self), 1))
        for low in range(0, len(rows), _QUERIES):
            with _errors():
                answer = self._collection.query(
                    query_embeddings=rows[low : low + _QUERIES],
                    n_results=k,
                    include=["distances"],
                )
            for query, (ids, distances) in enumerate(
                zip(answer["ids"], answer["distances"], strict=True), low
            ):
                owners += [query] * len(ids)
                names += ids
                values += list(distances)
        measured = np.array(values, np.float64)
        if self.metric == "inner":
            measured = measured - 1  # Chroma answers 1 - xy
        return np.array(owners, np.int64), names, measured

    def _rows_of(self, ids: Ids) -> tuple[list[Any], Floats]:
        with _errors():
            found = self._collection.get(ids=ids.tolist(), include=["embeddings"])
        names: list[Any] = found["ids"]
        vectors = np.asarray(found["embeddings"], np.float32).reshape(len(names), self.width)
        return names, vectors


def _errors() -> AbstractContextManager[None]:
    # Its engine raises errors of several packages.
    return engine_errors("Chroma", Exception)
