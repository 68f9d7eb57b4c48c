"""Collections of Chroma as stores (extra ``chroma``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.index.ids import Ids
from kinrank.optional import require
from kinrank.search.searcher import Metric
from kinrank.stores.base import TableStore, engine_errors
from kinrank.stores.where import Wanted
from kinrank.types import Floats

__all__ = ["ChromaStore"]

_METRICS: dict[str, Metric] = {"l2": "euclidean", "cosine": "cosine", "ip": "inner"}
_PAGE = 4096  # rows in one answer


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

    def _pages(self, names: list[str], conditions: list[Any]) -> Iterator[list[tuple[Any, ...]]]:
        offset = 0
        where = {"$and": conditions} if len(conditions) > 1 else next(iter(conditions), None)
        while True:
            with _errors():
                page = self._collection.get(
                    where=where,
                    limit=_PAGE,
                    offset=offset,
                    include=["metadatas"] if names else [],
                )
            ids = page["ids"]
            records = page["metadatas"] if names else [None] * len(ids)
            yield [
                (name, *((record or {}).get(field) for field in names))
                for name, record in zip(ids, records, strict=True)
            ]
            offset += len(ids)
            if len(ids) < _PAGE:
                return

    def _expression(self, wanted: Wanted) -> dict[str, Any] | None:
        """Chroma keeps integers apart from other numbers, and ranges are of one of them alone."""
        if wanted.values is None or wanted.numbers or not wanted.values:
            return None
        any_of = [{wanted.name: {"$eq": value}} for value in wanted.values]
        return {"$or": any_of} if len(any_of) > 1 else any_of[0]

    def _lists(self, rows: Floats, k: int) -> Iterator[tuple[list[Any], list[float]]]:
        with _errors():
            answer = self._collection.query(
                query_embeddings=rows, n_results=k, include=["distances"]
            )
        for names, distances in zip(answer["ids"], answer["distances"], strict=True):
            values = np.asarray(distances, np.float64)
            if self.metric == "inner":
                values = values - 1  # Chroma answers 1 - xy
            yield names, values.tolist()

    def _rows_of(self, ids: Ids) -> tuple[list[Any], Floats]:
        with _errors():
            found = self._collection.get(ids=ids.tolist(), include=["embeddings"])
        names: list[Any] = found["ids"]
        vectors = np.asarray(found["embeddings"], np.float32).reshape(len(names), self.width)
        return names, vectors


def _errors() -> AbstractContextManager[None]:
    # Its engine raises errors of several packages.
    return engine_errors("Chroma", Exception)
