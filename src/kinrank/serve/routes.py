"""What products call: search, re-rank, neighbours, explanations, items."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from kinrank.serve import bodies, metrics
from kinrank.serve.bodies import checked_rows
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
from kinrank.serve.problems import MEDIA_TYPE, Problem, ProblemDetails
from kinrank.serve.service import Service
from kinrank.serve.settings import Settings
from kinrank.types import Ranking

T = TypeVar("T")
_LOOK = 0.02  # seconds after which it is seen that a caller has gone
ItemId = Annotated[str, Path(min_length=1, description="the id of an item")]
Results = Annotated[int, Query(ge=1, le=1_000_000, description="how many results")]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for its description."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    words = {
        400: "A request that cannot be understood",
        401: "No token, or another one",
        403: "A page of another site, or not allowed here",
        404: "No such item",
        408: "The body took too long",
        409: "Somebody else is writing the index",
        413: "The body is too large",
        415: "A body of another kind",
        422: "Something given cannot be used",
        501: "An extra is not installed",
        503: "Too busy, or it took too long",
        507: "The index could not be saved; nothing was changed",
    }
    common = (400, 401, 403, 422, 503)
    chosen = sorted({*statuses, *common})
    return {
        status: {"description": words[status], "content": content, "model": ProblemDetails}
        for status in chosen
    }


def body_of(model: type[BaseModel], example: Any, **others: Any) -> dict[str, Any]:
    """A request body that is read by hand, for the description."""
    content = {
        "application/json": {
            "schema": {"$ref": f"#/components/schemas/{model.__name__}"},
            "examples": {"one": {"value": example}},
        },
        **others,
    }
    return {"requestBody": {"required": True, "content": content}}


_BINARY = {"schema": {"type": "string", "format": "binary"}}
router = APIRouter(responses=problems())


def service_of(request: Request) -> Service:
    """What is served."""
    service: Service = request.app.state.service
    return service


async def work(request: Request, function: Callable[..., T], *args: Any, slow: bool = False) -> T:
    """``function(*args)`` on a thread of the service; slow work has one of its own."""
    workers = request.app.state.workers
    answer: T = await (workers.run_slowly if slow else workers.run)(function, *args)
    return answer


@asynccontextmanager
async def stopped_with(request: Request) -> AsyncIterator[threading.Event]:
    """An event that is set when the caller goes away, or has its answer."""
    stop = threading.Event()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(_LOOK)
        stop.set()

    watching = asyncio.ensure_future(watch())
    try:
        yield stop
    finally:
        stop.set()
        watching.cancel()


def answer_json(model: type[BaseModel], content: Any) -> Response:
    """An answer that is written on the thread that computed it."""
    text = model.model_validate(content).model_dump_json()
    return Response(text, media_type="application/json")


def ranking_json(found: Ranking) -> Response:
    """A ranking as JSON."""
    missing = found.indices < 0
    ids = np.empty(found.indices.shape, object)
    ids[...] = found.indices if found.ids is None else found.ids
    distances = found.distances.astype(object)
    if missing.any():
        ids[missing] = distances[missing] = None
    answer = RankingAnswer.model_construct(
        ids=ids.tolist(),
        distances=[[None if one is None else float(one) for one in row] for row in distances],
        indices=found.indices.tolist(),
    )
    return Response(answer.model_dump_json(), media_type="application/json")


@router.get("/health", tags=["state"], summary="Whether the service is there")
async def health(request: Request) -> HealthAnswer:
    """Answers without a token, and without waiting for a thread."""
    return HealthAnswer(**service_of(request).health())


@router.get(
    "/metrics",
    tags=["state"],
    summary="Counts and times for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def prometheus(request: Request) -> Response:
    """Requests by route and status, a histogram of their times, the size of the index."""
    service = service_of(request)
    text = service.metrics.text(service.gauges())
    return Response(text, headers={"Content-Type": metrics.MEDIA_TYPE})


@router.get("/v1/info", tags=["state"], summary="What is served, and its limits")
async def info(request: Request) -> InfoAnswer:
    """Rows, parameters, whether there are labels and pictures, and how much may be asked."""
    return InfoAnswer(**service_of(request).info())


@router.post(
    "/v1/search",
    tags=["search"],
    summary="Rank the index for vectors or a picture",
    response_model=RankingAnswer,
    responses=problems(408, 413, 415, 501),
    openapi_extra=body_of(
        SearchRequest,
        {"vector": [0.1, 0.7, 0.2], "k": 3},
        **{"application/x-npy": _BINARY, "image/*": _BINARY},
    ),
)
async def search(request: Request, k: Results = 10, base: bool = False) -> Response:
    """Vectors as JSON, or the bytes of an npy file, or of a picture when a model is known.

    `k` and `base` in the address are for npy files and pictures; JSON has its own.
    """
    service, kind = service_of(request), bodies.media_type(request)
    known = kind == bodies.JSON or kind in bodies.NPY or kind.startswith(bodies.IMAGE)
    if not known:
        raise bodies.wrong_media(kind, bodies.JSON, bodies.NPY[0], "image/*")
    check_k(k, service.settings)  # though JSON has its own
    body = await bodies.read_body(request, service.settings)
    return await work(request, _search, service, kind, body, k, base)


def _search(service: Service, kind: str, body: bytes, k: int, base: bool) -> Response:
    rows: Any
    if kind == bodies.JSON:
        sent = bodies.parse_json(SearchRequest, body, service.settings)
        rows, k, base = sent.rows(), sent.k, sent.base
    elif kind in bodies.NPY:
        rows = bodies.parse_npy(body, service.settings)
    else:
        rows = described(service, body)
    check_k(k, service.settings)
    array = checked_rows(rows, "vectors", service.index.width, service.settings.max_batch)
    return ranking_json(service.search(array, k, base=base))


def described(service: Service, picture: bytes) -> Any:
    """The vector of an uploaded picture."""
    if service.describer is None:
        raise Problem(
            415, "no-model", "Pictures need a model, which this index does not know: start the "
            "service with --model, or send vectors.",
        )  # fmt: skip
    return service.describer.describe(picture)


def check_k(k: int, settings: Settings) -> None:
    """Refuse more results than the service gives."""
    if not 1 <= k <= settings.max_k:
        raise Problem(422, "too-many", f"`k` must be between 1 and {settings.max_k:,}, got {k:,}.")


@router.post(
    "/v1/rerank",
    tags=["search"],
    summary="Re-rank what another search found",
    response_model=RankingAnswer,
    responses=problems(408, 413, 415, 501),
    openapi_extra=body_of(
        RerankRequest,
        {
            "query": [0.1, 0.9],
            "candidates": [[0.2, 0.8], [0.9, 0.1], [0.1, 1.0], [0.8, 0.3]],
            "ids": ["a", "b", "c", "d"],
            "k": 2,
            "params": {"k1": 2, "k2": 2},
        },
        **{"application/x-npy": _BINARY},
    ),
)
async def rerank(request: Request, k: Results = 10) -> Response:
    """A query and its candidates, of any width; the index plays no part.

    As an npy file: the query is the first row, the candidates are the others.
    """
    service, kind = service_of(request), bodies.media_type(request)
    if kind != bodies.JSON and kind not in bodies.NPY:
        raise bodies.wrong_media(kind, bodies.JSON, bodies.NPY[0])
    check_k(k, service.settings)
    body = await bodies.read_body(request, service.settings)
    return await work(request, _rerank, service, kind, body, k)


def _rerank(service: Service, kind: str, body: bytes, k: int) -> Response:
    options: dict[str, Any] = {"k": k, "method": "cas", "params": {}}
    query: Any
    candidates: Any
    if kind == bodies.JSON:
        sent = bodies.parse_json(RerankRequest, body, service.settings)
        query, candidates = sent.query[None], sent.candidates
        options = {"k": sent.k, "method": sent.method, "params": sent.params, "ids": sent.ids}
    else:
        rows = bodies.parse_npy(body, service.settings)
        query, candidates = rows[:1], rows[1:]
        if len(candidates) == 0:
            raise Problem(422, "invalid-input", "The array must have a query and candidates.")
    check_k(options["k"], service.settings)
    query = checked_rows(query, "query", None, 1)
    limit = service.settings.max_pool
    candidates = checked_rows(candidates, "candidates", query.shape[1], limit)
    return ranking_json(service.rerank(query[0], candidates, **options))


@router.get(
    "/v1/items/{id:path}/neighbors",
    tags=["search"],
    summary="The rows nearest to a row",
    response_model=RankingAnswer,
    responses=problems(404),
)
async def neighbors(request: Request, id: ItemId, k: Results = 10) -> Response:  # noqa: A002
    """As the graph knows them, the row itself left out."""
    service = service_of(request)
    check_k(k, service.settings)
    return await work(request, lambda: ranking_json(service.index.neighbors(service.typed(id), k)))


@router.get(
    "/v1/explain",
    tags=["search"],
    summary="Why an item has its distance",
    response_model=ExplainAnswer,
    responses=problems(404),
)
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
    service = service_of(request)
    return await work(request, _explain, service, query, vector, item)


def _explain(service: Service, query: str | None, vector: str | None, item: str) -> Response:
    rows = None if vector is None else _numbers(vector, service.index.width)
    found = service.explain(query, rows, item)
    return answer_json(ExplainAnswer, {**found.as_dict(), "text": str(found)})


def _numbers(text: str, width: int) -> Any:
    try:
        rows = np.array([[float(word) for word in text.split(",")]])
    except ValueError:
        raise Problem(
            422, "invalid-input", "`vector` must be numbers with commas, got other words."
        ) from None
    return checked_rows(rows, "vector", width, 1)


@router.post(
    "/v1/items",
    tags=["items"],
    summary="Add rows",
    response_model=ItemsAnswer,
    responses=problems(404, 408, 409, 413, 415, 501, 507),
    openapi_extra=body_of(
        ItemsRequest,
        {"vectors": [[0.1, 0.7, 0.2]], "ids": ["new.jpg"]},
        **{"image/*": _BINARY},
    ),
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
    service, kind = service_of(request), bodies.media_type(request)
    _check_writable(service)
    write = request.app.state.workers.write
    if kind != bodies.JSON and not kind.startswith(bodies.IMAGE):
        raise bodies.wrong_media(kind, bodies.JSON, "image/*")
    body = await bodies.read_body(request, service.settings)
    if kind == bodies.JSON:
        sent = await work(request, bodies.parse_json, ItemsRequest, body, service.settings)
        rows, ids, labels, update = sent.vectors, sent.ids, sent.labels, sent.update
    else:
        rows = await work(request, described, service, body)
        ids = None if id is None else [service.typed(id)]
        labels = None if label is None else [label]
    limit = service.settings.max_batch
    array = checked_rows(rows, "vectors", service.index.width, limit)
    count = await write(partial(service.add, array, ids, labels, update=update))
    return answer_json(ItemsAnswer, {"rows": count})


@router.delete(
    "/v1/items/{id:path}",
    tags=["items"],
    summary="Remove a row",
    response_model=ItemsAnswer,
    responses=problems(404, 409, 507),
)
async def remove(request: Request, id: ItemId) -> Response:  # noqa: A002
    """It is gone when this is answered. Needs a service that was started with --writable."""
    service = service_of(request)
    _check_writable(service)
    rows = await request.app.state.workers.write(service.remove, id)
    return answer_json(ItemsAnswer, {"rows": rows})


def _check_writable(service: Service) -> None:
    if not service.settings.writable:
        raise Problem(403, "read-only", "The service must be started with --writable for that.")
