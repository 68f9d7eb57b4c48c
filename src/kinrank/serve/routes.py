"""What products call: search, re-rank, neighbours, explanations, items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, TypeAdapter
from starlette.responses import Response

from kinrank._version import __version__
from kinrank.serve import metrics
from kinrank.serve.bodies import (
    IMAGE,
    JSON,
    NPY,
    checked_rows,
    media_type,
    parse_json,
    parse_npy,
    parse_vector,
    read_body,
)
from kinrank.serve.explore import served_methods
from kinrank.serve.models import (
    ExplainAnswer,
    HealthAnswer,
    InfoAnswer,
    ItemsAnswer,
    ItemsRequest,
    RankingAnswer,
    RerankRequest,
    SearchRequest,
)
from kinrank.serve.problems import Problem, documented
from kinrank.serve.service import Service
from kinrank.types import Ranking

T = TypeVar("T")
ItemId = Annotated[str, Path(min_length=1, description="the id of an item")]
Results = Annotated[int, Query(ge=1, le=1_000_000, description="how many results")]
BINARY = {"schema": {"type": "string", "format": "binary"}}
_adapter = cache(TypeAdapter)
router = APIRouter(responses=documented())


def about(tag: str, summary: str, answer: Any, *statuses: int) -> dict[str, Any]:
    """What the description of a route says; statuses : its errors beside those that all have."""
    responses = documented(*statuses)
    return {"tags": [tag], "summary": summary, "response_model": answer, "responses": responses}


def body_of(model: type[BaseModel], example: Any, *others: str) -> dict[str, Any]:
    """A request body that is read by hand, for the description."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content: dict[str, Any] = {JSON: {"schema": schema, "examples": {"one": {"value": example}}}}
    content |= dict.fromkeys(others, BINARY)
    return {"requestBody": {"required": True, "content": content}}


def service_of(request: Request) -> Service:
    """What is served."""
    service: Service = request.app.state.service
    return service


async def work(request: Request, function: Callable[..., T], *args: Any, slow: bool = False) -> T:
    """``function(*args)`` on a thread of the service; slow work has one of its own."""
    answer: T = await request.app.state.workers.run(function, *args, slow=slow)
    return answer


def answer_json(model: type[Any], content: Any) -> Response:
    """An answer that is written on the thread that computed it."""
    adapter: TypeAdapter[Any] = _adapter(model)  # type: ignore[arg-type]  # classes have hashes
    return Response(adapter.dump_json(adapter.validate_python(content)), media_type=JSON)


def ranking_json(ranking: Ranking) -> Response:
    """A ranking as JSON."""
    missing = ranking.indices < 0
    ids = np.empty(ranking.indices.shape, object)
    ids[...] = ranking.indices if ranking.ids is None else ranking.ids
    distances = ranking.distances.astype(np.float64).astype(object)
    ids[missing] = distances[missing] = None
    answer = RankingAnswer.model_construct(
        ids=ids.tolist(), distances=distances.tolist(), indices=ranking.indices.tolist(),
        known=None if ranking.known is None else ranking.known.tolist(),
    )  # fmt: skip
    return Response(answer.model_dump_json(), media_type=JSON)


def check_k(k: int, service: Service) -> None:
    """Refuse more results than the service gives."""
    most = service.settings.max_k
    if not 1 <= k <= most:
        raise Problem(422, "too-many", f"`k` must be between 1 and {most:,}, got {k:,}.")


@router.get("/health", tags=["state"], summary="Whether the service is there")
async def health(request: Request) -> HealthAnswer:
    """Answers without a token, and without waiting for a thread."""
    rows = len(service_of(request).index)
    return HealthAnswer(status="ok", version=__version__, rows=rows)


@router.get(
    "/metrics",
    tags=["state"],
    summary="Counts and times for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def prometheus(request: Request) -> Response:
    """Requests by route and status, a histogram of their times, the size of the index."""
    index = service_of(request).index.info()
    gauges = {
        "index_rows": ("Rows of the index.", index["rows"]),
        "index_columns": ("Columns of a vector.", index["columns"]),
        "index_bytes": ("Bytes of the index.", sum(index["bytes"].values())),
    }
    text = service_of(request).metrics.text(gauges)
    return Response(text, headers={"Content-Type": metrics.MEDIA_TYPE})


@router.get("/v1/info", tags=["state"], summary="What is served, and its limits")
async def info(request: Request) -> InfoAnswer:
    """Rows, parameters, whether there are labels and pictures, and how much may be asked."""
    service = service_of(request)
    settings = service.settings
    limits = {name: getattr(settings, f"max_{name}") for name in ("body", "batch", "k", "pool")}
    return InfoAnswer.model_validate(
        {
            **service.index.info(),
            "title": service.title,
            "labels": bool(service.labels.words),
            "images": service.pictures is not None,
            "model": None if service.describer is None else service.describer.name,
            "writable": settings.writable,
            "methods": served_methods(),
            "limits": {**limits, "seconds": settings.timeout},
        }
    )


@router.post(
    "/v1/search",
    **about(
        "search", "Rank the index for vectors or a picture", RankingAnswer, 404, 408, 413, 415, 501
    ),
    openapi_extra=body_of(SearchRequest, {"vector": [0.1, 0.7, 0.2], "k": 3}, NPY, IMAGE),
)
async def search(request: Request, k: Results = 10, base: bool = False) -> Response:
    """Vectors as JSON, or the bytes of an npy file, or of a picture when a model is known.

    `k` and `base` in the address are for npy files and pictures; JSON has its own, and takes
    conditions: which rows may be answers, how near, several vectors of one thing, and answers that
    are right and wrong.
    """
    service, kind = service_of(request), media_type(request, JSON, NPY, IMAGE)
    check_k(k, service)  # though JSON has its own
    return await work(request, _search, service, kind, await read_body(request), k, base)


def _search(service: Service, kind: str, body: bytes, k: int, base: bool) -> Response:
    rows: Any
    conditions: dict[str, Any] = {}
    if kind == JSON:
        sent = parse_json(SearchRequest, body, service.settings)
        rows, k, base, conditions = sent.rows(), sent.k, sent.base, sent.conditions()
        check_k(k, service)
    else:
        rows = parse_npy(body, service.settings) if kind == NPY else service.describe(body)
    array = checked_rows(rows, "vectors", service.index.width, service.settings.max_batch)
    return ranking_json(service.search(array, k, base=base, **conditions))


@router.post(
    "/v1/rerank",
    **about("search", "Re-rank what another search found", RankingAnswer, 404, 408, 413, 415, 501),
    openapi_extra=body_of(
        RerankRequest,
        {
            "query": [0.1, 0.9],
            "candidates": [[0.2, 0.8], [0.9, 0.1], [0.1, 1.0], [0.8, 0.3]],
            "ids": ["a", "b", "c", "d"],
            "k": 2,
            "params": {"k1": 2, "k2": 2},
        },
        NPY,
    ),
)
async def rerank(request: Request, k: Results = 10) -> Response:
    """A query and its candidates, of any width; the index plays no part.

    As an npy file: the query is the first row, the candidates are the others.
    """
    service, kind = service_of(request), media_type(request, JSON, NPY)
    check_k(k, service)
    return await work(request, _rerank, service, kind, await read_body(request), k)


def _rerank(service: Service, kind: str, body: bytes, k: int) -> Response:
    options: dict[str, Any] = {"k": k}
    query: Any
    candidates: Any
    if kind == JSON:
        sent = parse_json(RerankRequest, body, service.settings)
        query, candidates = sent.query[None], sent.candidates
        names = ("k", "method", "params", "ids", "allowed", "exclude")
        options = {name: getattr(sent, name) for name in names}
        check_k(sent.k, service)
    else:
        rows = parse_npy(body, service.settings)
        query, candidates = rows[:1], rows[1:]
        if len(candidates) == 0:
            raise Problem(422, "invalid-input", "The array must have a query and candidates.")
    query = checked_rows(query, "query", None, 1)
    limit = service.settings.max_pool
    candidates = checked_rows(candidates, "candidates", query.shape[1], limit)
    return ranking_json(service.rerank(query[0], candidates, **options))


@router.get(
    "/v1/items/{id:path}/neighbors",
    **about("search", "The rows nearest to a row", RankingAnswer, 404),
)
async def neighbors(request: Request, id: ItemId, k: Results = 10) -> Response:  # noqa: A002
    """As the graph knows them, the row itself left out."""
    service = service_of(request)
    check_k(k, service)
    return await work(request, lambda: ranking_json(service.index.neighbors(service.typed(id), k)))


@router.get("/v1/explain", **about("search", "Why an item has its distance", ExplainAnswer, 404))
async def explain(
    request: Request,
    item: Annotated[str, Query(min_length=1, max_length=1000, description="the id of the item")],
    query: Annotated[
        str | None, Query(max_length=1000, description="the id of the row that asks")
    ] = None,
    vector: Annotated[
        str | None, Query(description="or a vector: numbers with commas", max_length=50_000)
    ] = None,
) -> Response:
    """The query's local cluster, what smoothing did to it, and what each stage said."""
    if (query is None) == (vector is None):
        raise Problem(422, "invalid-input", "Exactly one of `query` and `vector` must be given.")
    return await work(request, _explain, service_of(request), query, vector, item)


def _explain(service: Service, query: str | None, vector: str | None, item: str) -> Response:
    rows = None
    if vector is not None:
        rows = checked_rows(parse_vector(vector), "vector", service.index.width, 1)
    explanation = service.explain(query, rows, item)
    return answer_json(ExplainAnswer, {**asdict(explanation), "text": str(explanation)})


@router.post(
    "/v1/items",
    **about("items", "Add rows", ItemsAnswer, 404, 408, 409, 413, 415, 501, 507),
    openapi_extra=body_of(ItemsRequest, {"vectors": [[0.1, 0.7, 0.2]], "ids": ["new.jpg"]}, IMAGE),
)
async def add(
    request: Request,
    id: Annotated[str | None, Query(max_length=1000, description="of the picture")] = None,  # noqa: A002
    label: Annotated[str | None, Query(max_length=1000, description="of the picture")] = None,
    update: bool = False,
) -> Response:
    """Vectors as JSON, or the bytes of a picture when a model is known.

    They are saved when this is answered. Needs a service that was started with --writable.
    `id`, `label` and `update` in the address are for pictures; JSON has its own.
    """
    service = _writable(request)
    kind, body = media_type(request, JSON, IMAGE), await read_body(request)
    if kind == JSON:
        sent = await work(request, parse_json, ItemsRequest, body, service.settings)
        rows, ids, labels, update = sent.vectors, sent.ids, sent.labels, sent.update
        attributes = sent.attributes
    else:
        rows = await work(request, service.describe, body)
        ids = None if id is None else [service.typed(id)]
        labels, attributes = None if label is None else [label], None
    array = checked_rows(rows, "vectors", service.index.width, service.settings.max_batch)
    change = partial(service.add, array, ids, labels, update=update, attributes=attributes)
    return answer_json(ItemsAnswer, {"rows": await request.app.state.workers.write(change)})


@router.delete("/v1/items/{id:path}", **about("items", "Remove a row", ItemsAnswer, 404, 409, 507))
async def remove(request: Request, id: ItemId) -> Response:  # noqa: A002
    """It is gone when this is answered. Needs a service that was started with --writable."""
    service = _writable(request)
    rows = await request.app.state.workers.write(service.remove, id)
    return answer_json(ItemsAnswer, {"rows": rows})


def _writable(request: Request) -> Service:
    service = service_of(request)
    if not service.settings.writable:
        raise Problem(403, "read-only", "The service must be started with --writable for that.")
    return service
