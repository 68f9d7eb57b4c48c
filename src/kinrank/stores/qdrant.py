"""Collections of Qdrant as stores (extra ``qdrant``)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, UnknownNameError
from kinrank.index.ids import Ids
from kinrank.optional import require
from kinrank.search.searcher import Metric
from kinrank.stores.base import TableStore, engine_errors
from kinrank.types import Floats, Longs
from kinrank.validation import check_bool

__all__ = ["QdrantStore"]

_METRICS: dict[str, Metric] = {"euclid": "euclidean", "cosine": "cosine", "dot": "inner"}
_PAGE = 4096  # points in one answer
_QUERIES = 64  # in one request


class QdrantStore(TableStore):
    """A collection of Qdrant.

    Parameters
    ----------
    client : a ``qdrant_client.QdrantClient``
    collection : its name
    vector : the name of the vectors, where points have several; None is the only one
    id_field : the field of the payload that holds the ids, text or integers, each once; None takes
        the ids of the points. Give it a payload index, or ``fetch`` reads the collection.
    exact : compare with all points, not by Qdrant's graph

    Cosine collections keep vectors at unit norm, so these are what ``fetch`` gives.
    """

    _FETCH = 1024

    def __init__(
        self,
        client: Any,
        collection: str,
        *,
        vector: str | None = None,
        id_field: str | None = None,
        exact: bool = False,
    ) -> None:
        module = require("qdrant_client", extra="qdrant", purpose="A Qdrant store")
        if not isinstance(client, module.QdrantClient):
            raise InvalidInputError(
                f"`client` must be a qdrant_client.QdrantClient, got {type(client).__name__}."
            )
        self._client = client
        self._models = module.models
        self._collection = collection
        self._id_field = id_field
        self._exact = check_bool("exact", exact)
        with _errors():
            params = client.get_collection(collection).config.params.vectors
        self._vector = vector
        if isinstance(params, Mapping):
            self._vector = _chosen_name(vector, params)
            params = params[self._vector]
        elif vector is not None:
            raise InvalidInputError(
                f"`vector` must be None, as points of {collection!r} have one vector without a "
                f"name, got {vector!r}."
            )
        kind = str(params.distance.value).lower()
        if kind not in _METRICS:
            raise InvalidInputError(
                f"The collection {collection!r} must measure by Euclid, Cosine or Dot, got {kind}."
            )
        self.metric: Metric = _METRICS[kind]
        self.width = int(params.size)
        ids = self._page(1, None)[0]
        self._text = bool(ids) and isinstance(ids[0], str)

    def __len__(self) -> int:
        with _errors():
            return int(self._client.count(self._collection, exact=True).count)

    def _all_ids(self) -> list[Any]:
        ids: list[Any] = []
        offset = None
        while True:
            page, offset = self._page(_PAGE, offset)
            ids += page
            if offset is None:
                return ids

    def _page(self, limit: int, offset: Any) -> tuple[list[Any], Any]:
        """Ids of some points, and where the next ones begin."""
        with _errors():
            points, following = self._client.scroll(
                self._collection,
                limit=limit,
                offset=offset,
                with_payload=self._payload(),
                with_vectors=False,
            )
        return [self._id_of(point) for point in points], following

    def _payload(self) -> Any:
        return False if self._id_field is None else [self._id_field]

    def _id_of(self, point: Any) -> Any:
        if self._id_field is None:
            return point.id
        value = (point.payload or {}).get(self._id_field)
        if value is None:
            raise InvalidInputError(
                f"Every point must have {self._id_field!r} in its payload, got {point.id} without."
            )
        return value

    def _nearest(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        owners: list[int] = []
        names: list[Any] = []
        scores: list[float] = []
        k = min(k, max(len(self), 1))
        params = self._models.SearchParams(exact=True) if self._exact else None
        for low in range(0, len(rows), _QUERIES):
            requests = [
                self._models.QueryRequest(
                    query=row.tolist(),
                    using=self._vector,
                    limit=k,
                    params=params,
                    with_payload=self._payload(),
                )
                for row in rows[low : low + _QUERIES]
            ]
            with _errors():
                answers = self._client.query_batch_points(self._collection, requests)
            for query, answer in enumerate(answers, low):
                owners += [query] * len(answer.points)
                names += [self._id_of(point) for point in answer.points]
                scores += [point.score for point in answer.points]
        values = np.array(scores, np.float64)
        if self.metric == "euclidean":
            values = values**2
        else:  # the larger, the nearer
            values = 1 - values if self.metric == "cosine" else -values
        return np.array(owners, np.int64), names, values

    def _rows_of(self, ids: Ids) -> tuple[list[Any], Floats]:
        wanted = ids.tolist()
        with _errors():
            if self._id_field is None:
                possible = [name for name in wanted if self._text or name >= 0]
                points = self._client.retrieve(
                    self._collection, possible, with_payload=False, with_vectors=True
                )
            else:
                match = self._models.MatchAny(any=wanted)
                condition = self._models.FieldCondition(key=self._id_field, match=match)
                points = self._client.scroll(
                    self._collection,
                    scroll_filter=self._models.Filter(must=[condition]),
                    limit=len(wanted),
                    with_payload=[self._id_field],
                    with_vectors=True,
                )[0]
        vectors = [self._vector_of(point) for point in points]
        return [self._id_of(point) for point in points], np.array(vectors, np.float32).reshape(
            len(points), self.width
        )

    def _vector_of(self, point: Any) -> Any:
        vector = point.vector if self._vector is None else (point.vector or {}).get(self._vector)
        if vector is None:
            raise InvalidInputError(f"Every point must have a vector, got {point.id} without.")
        return vector


def _chosen_name(vector: str | None, params: Mapping[str, Any]) -> str:
    """The name of the vectors to take."""
    if not params:
        raise InvalidInputError("The collection must have vectors, got one without.")
    if vector is None and len(params) > 1:
        raise InvalidInputError(
            f"Points have {len(params)} vectors ({', '.join(params)}): say which, as in "
            f"vector={next(iter(params))!r}."
        )
    name = next(iter(params)) if vector is None else vector
    if name not in params:
        raise UnknownNameError("vector", name, list(params))
    return name


def _errors() -> AbstractContextManager[None]:
    # Local and remote clients raise errors of several packages.
    return engine_errors("Qdrant", Exception)
