"""Collections of Qdrant as stores (extra ``qdrant``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.index.ids import Ids, IdTable, as_ids
from kinrank.optional import require
from kinrank.search.searcher import Metric
from kinrank.stores.base import (
    TableStore,
    as_lists,
    chosen_vectors,
    distances_of_scores,
    engine_errors,
    squared_between_rows,
)
from kinrank.stores.where import Wanted
from kinrank.types import Floats, Neighbors
from kinrank.validation import check_bool, check_int

__all__ = ["QdrantStore"]

_METRICS: dict[str, Metric] = {"euclid": "euclidean", "cosine": "cosine", "dot": "inner"}
_PAGE = 4096  # points in one answer


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
        self._id_fields = [] if id_field is None else [id_field]
        self._exact = check_bool("exact", exact)
        with _errors():
            params = client.get_collection(collection).config.params.vectors
        self._vector = vector
        if isinstance(params, Mapping):
            self._vector = chosen_vectors("vector", vector, params)
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
        points = self._scrolled(1, None)[0]
        self._text = bool(points) and isinstance(self._id_of(points[0]), str)

    def __len__(self) -> int:
        with _errors():
            return int(self._client.count(self._collection, exact=True).count)

    def neighbors(self, k: int) -> Iterator[tuple[Ids, Neighbors]]:
        """See ListingStore: by Qdrant's search matrix, in one answer."""
        count = check_int("k", k, 1)
        with _errors():
            matrix = self._client.search_matrix_offsets(
                self._collection, limit=count, sample=max(len(self), 1), using=self._vector
            )
        points = as_ids(matrix.ids)
        owners = np.asarray(matrix.offsets_row, np.int64)
        columns = np.asarray(matrix.offsets_col, np.int64)
        distances = squared_between_rows(self.metric, self._distances(matrix.scores))
        names = points if self._id_field is None else self._ids_of_points(points)
        order = np.lexsort((distances, owners))
        owners = owners[order]
        listed = as_lists(len(names), count, owners, names[columns[order]], distances[order])
        yield names, listed

    def _ids_of_points(self, points: Ids) -> Ids:
        """What the payload says of points."""
        names: list[Any] = []
        numbers: list[Any] = []
        offset = None
        while True:
            page, offset = self._scrolled(_PAGE, offset)
            numbers += [point.id for point in page]
            names += [self._id_of(point) for point in page]
            if offset is None:
                break
        return as_ids(names)[IdTable(as_ids(numbers)).rows(points)]

    def _pages(self, names: list[str], conditions: list[Any]) -> Iterator[list[tuple[Any, ...]]]:
        offset = None
        while True:
            points, offset = self._scrolled(_PAGE, offset, names, conditions)
            yield [
                (self._id_of(point), *((point.payload or {}).get(name) for name in names))
                for point in points
            ]
            if offset is None:
                return

    def _scrolled(
        self, limit: int, offset: Any, names: Sequence[str] = (), conditions: Sequence[Any] = ()
    ) -> tuple[list[Any], Any]:
        """Some points with these fields of the payload, and where the next ones begin."""
        with _errors():
            points, following = self._client.scroll(
                self._collection,
                scroll_filter=self._models.Filter(must=list(conditions)) if conditions else None,
                limit=limit,
                offset=offset,
                with_payload=[*self._id_fields, *names] or False,
                with_vectors=False,
            )
        return points, following

    def _expression(self, wanted: Wanted) -> Any | None:
        """Numbers as ranges, which Qdrant compares as float64; text of a range is checked here."""
        if not wanted.fits_float64:
            return None
        field = partial(self._models.FieldCondition, key=wanted.name)
        if wanted.values is None:
            assert wanted.between is not None
            if wanted.between.of_text:
                return None
            return field(range=self._models.Range(gte=wanted.between.low, lte=wanted.between.high))
        any_of = [field(range=self._models.Range(gte=one, lte=one)) for one in wanted.numbers]
        others = [value for value in wanted.values if isinstance(value, (str, bool))]
        any_of += [field(match=self._models.MatchValue(value=value)) for value in others]
        if not any_of:  # a filter of nothing would allow all
            return self._models.HasIdCondition(has_id=[])
        return self._models.Filter(should=any_of)

    def _id_of(self, point: Any) -> Any:
        if self._id_field is None:
            return point.id
        value = (point.payload or {}).get(self._id_field)
        if value is None:
            raise InvalidInputError(
                f"Every point must have {self._id_field!r} in its payload, got {point.id} without."
            )
        return value

    def _lists(self, rows: Floats, k: int) -> Iterator[tuple[list[Any], list[float]]]:
        requests = [
            self._models.QueryRequest(
                query=row.tolist(),
                using=self._vector,
                limit=k,
                params=self._models.SearchParams(exact=True) if self._exact else None,
                with_payload=self._id_fields or False,
            )
            for row in rows
        ]
        with _errors():
            answers = self._client.query_batch_points(self._collection, requests)
        for answer in answers:
            names = [self._id_of(point) for point in answer.points]
            yield names, self._distances([point.score for point in answer.points]).tolist()

    def _distances(self, scores: Any) -> npt.NDArray[np.float64]:
        """Distances as ``squared_distances`` takes them; Qdrant does not square."""
        values = distances_of_scores(self.metric, scores)
        return values**2 if self.metric == "euclidean" else values

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
                    with_payload=self._id_fields,
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


def _errors() -> AbstractContextManager[None]:
    # Local and remote clients raise errors of several packages.
    return engine_errors("Qdrant", Exception)
