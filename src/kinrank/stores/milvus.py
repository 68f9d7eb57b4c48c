"""Collections of Milvus as stores (extra ``milvus``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.index.ids import Ids, as_ids
from kinrank.optional import require
from kinrank.search.searcher import Metric
from kinrank.stores.base import (
    TableStore,
    chosen_vectors,
    distances_of_scores,
    engine_errors,
)
from kinrank.stores.where import AttributeKind, Wanted
from kinrank.types import Floats, Longs

__all__ = ["MilvusStore"]

_METRICS: dict[str, Metric] = {"L2": "euclidean", "COSINE": "cosine", "IP": "inner"}
_MOST = 16_384  # results of a query that Milvus answers
_PAGE = 4096  # rows in one answer of an iterator
_INTEGERS = 2**63


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
        self._vector = chosen_vectors("vector_field", vector_field, vectors)
        self.width = vectors[self._vector]
        key = next(field for field in fields if field.get("is_primary"))
        self._id = key["name"]
        self._text = key["type"] == module.DataType.VARCHAR
        kinds = _kinds_by_type(module.DataType)
        self._kinds = {f["name"]: kinds[f["type"]] for f in fields if f["type"] in kinds}
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

    def _pages(self, names: list[str], conditions: list[Any]) -> Iterator[list[tuple[Any, ...]]]:
        for page in self._records([self._id, *names], " and ".join(conditions)):
            yield [(row[self._id], *(row.get(name) for name in names)) for row in page]

    def _records(self, fields: list[str], expression: str = "") -> Iterator[list[dict[str, Any]]]:
        """All rows that an expression allows, some at a time."""
        if self._text and len(self) <= _MOST:
            # Its iterator goes on from the last id, and cannot write one with a quote in it.
            with _errors():
                yield self._client.query(
                    self._collection, filter=expression, limit=_MOST, output_fields=fields
                )
            return
        with _errors():
            iterator = self._client.query_iterator(
                self._collection, batch_size=_PAGE, filter=expression, output_fields=fields
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

    def _expression(self, wanted: Wanted) -> str | None:
        """Fields of the schema in Milvus's expressions; those that are only in rows are checked."""
        kind = self._kinds.get(wanted.name)
        if kind is None:
            return None
        wanted = wanted.of_kind(kind)
        if kind == "integers":
            # Beyond 64 bits there is no integer, and Milvus reads none.
            if any(abs(number) >= _INTEGERS for number in wanted.numbers):
                return None
        elif kind == "numbers" and not (wanted.fits_float64 and wanted.fits_float32):
            return None
        if wanted.values is not None:
            return f"{wanted.name} in {_written(list(wanted.values))}"
        assert wanted.between is not None
        ends = ((">=", wanted.between.low), ("<=", wanted.between.high))
        parts = [f"{wanted.name} {sign} {_written(end)}" for sign, end in ends if end is not None]
        return " and ".join(parts)

    def _nearest(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        if min(k, len(self)) > _MOST:
            return self._nearest_of_all(rows, k)
        return super()._nearest(rows, k)

    def _lists(self, rows: Floats, k: int) -> Iterator[tuple[list[Any], list[float]]]:
        with _errors():
            answers = self._client.search(
                self._collection,
                data=rows.tolist(),
                limit=k,
                anns_field=self._vector,
                output_fields=[self._id],
            )
        for answer in answers:
            distances = distances_of_scores(self.metric, [hit["distance"] for hit in answer])
            yield [hit[self._id] for hit in answer], distances.tolist()

    def _nearest_of_all(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        """The same from all rows, a page at a time."""
        names: list[Any] = []
        blocks = []
        for page in self._records([self._id, self._vector]):
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
                filter=f"{self._id} in {_written(ids.tolist())}",
                output_fields=[self._id, self._vector],
            )
        vectors = np.array([row[self._vector] for row in rows], np.float32)
        return [row[self._id] for row in rows], vectors.reshape(len(rows), self.width)


def _kinds_by_type(types: Any) -> dict[Any, AttributeKind]:
    """What the values of a field are, by its type."""
    kinds: dict[Any, AttributeKind] = {types.VARCHAR: "text", types.BOOL: "True or False"}
    kinds |= dict.fromkeys((types.FLOAT, types.DOUBLE), "numbers")
    return kinds | dict.fromkeys((types.INT8, types.INT16, types.INT32, types.INT64), "integers")


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


def _written(value: Any) -> str:
    """A value in an expression of Milvus."""
    return json.dumps(value, ensure_ascii=False)


def _errors() -> AbstractContextManager[None]:
    # Client and server raise errors of several packages.
    return engine_errors("Milvus", Exception)
