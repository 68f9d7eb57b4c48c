"""Collections of Milvus as stores (extra ``milvus``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, UnknownNameError
from kinrank.index.ids import Ids, as_ids
from kinrank.optional import require
from kinrank.search.searcher import Metric
from kinrank.stores.base import TableStore, engine_errors
from kinrank.types import Floats, Longs

__all__ = ["MilvusStore"]

_METRICS: dict[str, Metric] = {"L2": "euclidean", "COSINE": "cosine", "IP": "inner"}
_MOST = 16_384  # results of a query that Milvus answers
_PAGE = 4096  # rows in one answer of an iterator
_QUERIES = 64  # in one request


class MilvusStore(TableStore):
    """A collection of Milvus, or of Milvus Lite in a file.

    Parameters
    ----------
    client : a ``pymilvus.MilvusClient``
    collection : its name; it must be loaded. Its primary key holds the ids, text or integers.
    vector_field : the field of vectors, where there are several; None is the only one

    Milvus answers at most 16,384 results of a query: for more, all rows are read and compared.
    """

    _FETCH = 1024

    def __init__(self, client: Any, collection: str, *, vector_field: str | None = None) -> None:
        module = require("pymilvus", extra="milvus", purpose="A Milvus store")
        if not isinstance(client, module.MilvusClient):
            raise InvalidInputError(
                f"`client` must be a pymilvus.MilvusClient, got {type(client).__name__}."
            )
        self._client = client
        self._collection = collection
        with _errors():
            fields = client.describe_collection(collection)["fields"]
        vectors = {
            field["name"]: int(field["params"]["dim"])
            for field in fields
            if field["type"] == module.DataType.FLOAT_VECTOR
        }
        self._vector = _chosen_field(vector_field, vectors)
        self.width = vectors[self._vector]
        key = next(field for field in fields if field.get("is_primary"))
        self._id = key["name"]
        self._text = key["type"] == module.DataType.VARCHAR
        self.metric: Metric = self._indexed()

    def __len__(self) -> int:
        with _errors():
            answer = self._client.query(self._collection, filter="", output_fields=["count(*)"])
        return int(answer[0]["count(*)"])

    def _indexed(self) -> Metric:
        """The metric of the index, without which Milvus does not search."""
        with _errors():
            for name in self._client.list_indexes(self._collection):
                index = self._client.describe_index(self._collection, name)
                if index["field_name"] == self._vector:
                    kind = str(index["metric_type"]).upper()
                    if kind in _METRICS:
                        return _METRICS[kind]
                    raise InvalidInputError(
                        f"The index of {self._vector!r} must measure by L2, COSINE or IP, got "
                        f"{kind}."
                    )
        raise InvalidInputError(f"The field {self._vector!r} must have an index, got none.")

    def _all_ids(self) -> list[Any]:
        return [row[self._id] for page in self._pages([self._id]) for row in page]

    def _pages(self, fields: list[str]) -> Iterator[list[dict[str, Any]]]:
        """All rows, some at a time."""
        if self._text and len(self) <= _MOST:
            # Its iterator goes on from the last id, and cannot write one with a quote in it.
            with _errors():
                yield self._client.query(
                    self._collection, filter="", limit=_MOST, output_fields=fields
                )
            return
        with _errors():
            iterator = self._client.query_iterator(
                self._collection, batch_size=_PAGE, filter="", output_fields=fields
            )
        try:
            while True:
                with _errors():
                    page = iterator.next()
                if not page:
                    return
                yield page
        finally:
            iterator.close()

    def _nearest(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        k = min(k, max(len(self), 1))
        if k > _MOST:
            return self._nearest_of_all(rows, k)
        owners: list[int] = []
        names: list[Any] = []
        values: list[float] = []
        for low in range(0, len(rows), _QUERIES):
            with _errors():
                answers = self._client.search(
                    self._collection,
                    data=rows[low : low + _QUERIES].tolist(),
                    limit=k,
                    anns_field=self._vector,
                    output_fields=[self._id],
                )
            for query, answer in enumerate(answers, low):
                owners += [query] * len(answer)
                names += [hit[self._id] for hit in answer]
                values += [hit["distance"] for hit in answer]
        measured = np.array(values, np.float64)
        if self.metric != "euclidean":  # the larger, the nearer
            measured = 1 - measured if self.metric == "cosine" else -measured
        return np.array(owners, np.int64), names, measured

    def _nearest_of_all(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        """The same from all rows, a page at a time."""
        names: list[Any] = []
        blocks = []
        for page in self._pages([self._id, self._vector]):
            names += [row[self._id] for row in page]
            vectors = np.array([row[self._vector] for row in page], np.float32)
            blocks.append(_measured(self.metric, rows, vectors))
        distances = np.concatenate(blocks, axis=1)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        owners = np.repeat(np.arange(len(rows)), order.shape[1])
        nearest = np.take_along_axis(distances, order, axis=1)
        return owners, as_ids(names)[order.ravel()], nearest.ravel()

    def _rows_of(self, ids: Ids) -> tuple[list[Any], Floats]:
        with _errors():
            # `get` writes ids of text into its filter as they are; quotes in them would end it.
            rows = self._client.query(
                self._collection,
                filter=f"{self._id} in {json.dumps(ids.tolist(), ensure_ascii=False)}",
                output_fields=[self._id, self._vector],
            )
        vectors = np.array([row[self._vector] for row in rows], np.float32)
        return [row[self._id] for row in rows], vectors.reshape(len(rows), self.width)


def _measured(metric: Metric, queries: Floats, rows: Floats) -> npt.NDArray[np.float64]:
    """Distances between queries and rows as ``squared_distances`` takes them."""
    wide = queries.astype(np.float64)
    products = wide @ rows.astype(np.float64).T
    if metric == "inner":
        return -products
    squares = np.einsum("ij,ij->i", wide, wide)[:, None]
    row_squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)[None]
    if metric == "cosine":
        norms: npt.NDArray[np.float64] = np.sqrt(squares * row_squares)
        return 1 - products / np.maximum(norms, np.finfo(np.float64).tiny)
    distances: npt.NDArray[np.float64] = np.maximum(squares + row_squares - 2 * products, 0)
    return distances


def _chosen_field(name: str | None, vectors: dict[str, int]) -> str:
    if not vectors:
        raise InvalidInputError("The collection must have a field of float vectors, got none.")
    if name is None and len(vectors) > 1:
        raise InvalidInputError(
            f"The collection has {len(vectors)} fields of vectors ({', '.join(vectors)}): say "
            f"which, as in vector_field={next(iter(vectors))!r}."
        )
    chosen = next(iter(vectors)) if name is None else name
    if chosen not in vectors:
        raise UnknownNameError("vector_field", chosen, list(vectors))
    return chosen


def _errors() -> AbstractContextManager[None]:
    # Client and server raise errors of several packages.
    return engine_errors("Milvus", Exception)
