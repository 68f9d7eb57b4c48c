"""What products call: search, re-rank, neighbours, explanations, items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from kinrank._version import __version__
from kinrank.index.explorer import Explorer
from kinrank.index.explorer import Query as AskedQuery
from kinrank.pool import rerank_pool
from kinrank.serve import bodies, metrics, models
from kinrank.serve.bodies import IMAGE, JSON, NPY, checked_rows, parse_json
from kinrank.serve.changes import ItemsChange
from kinrank.serve.explore import served_method, served_methods
from kinrank.serve.models import ExplainAnswer, ItemsAnswer, RankingAnswer
from kinrank.serve.problems import Problem, documented
from kinrank.serve.service import Service
from kinrank.types import Ranking

T = TypeVar("T")
ItemId = Annotated[str, Path(min_length=1, description="the id of an item")]
Results = Annotated[int, Query(ge=1, le=1_000_000, description="how many results")]
BODY = (408, 413, 415)  # what a route answers to wrong bodies
BINARY = {"schema": {"type": "string", "format": "binary"}}
_adapter = cache(TypeAdapter)
router = APIRouter(responses=documented())


def about(tag: str, summary: str, answer: Any, *statuses: int) -> dict[str, Any]:
    """What the description of a route says; statuses : its errors beside those that all have."""
    responses = documented(*statuses)
    return {"tags": [tag], "summary": summary, "response_model": answer, "responses": responses}


def takes(body: type[models.RequestBody] | None, *others: str) -> dict[str, Any]:
    """A request body that is read by hand, for the description: JSON, and files of other kinds."""
    content: dict[str, Any] = dict.fromkeys(others, BINARY)
    if body is not None:
        schema = {"$ref": f"#/components/schemas/{body.__name__}"}
        content = {JSON: {"schema": schema, "examples": {"one": {"value": body.example}}}} | content
    return {"requestBody": {"required": True, "content": content}}


def service_of(request: Request) -> Service:
    """What is served."""
    service: Service = request.app.state.service
    return service


async def received(request: Request, *kinds: str) -> tuple[Service, str, bytes]:
    """What is served, and a body with its kind, one of ``kinds``."""
    kind = bodies.media_type(request, *kinds)
    return service_of(request), kind, await bodies.read_body(request)


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
        ids=ids.tolist(),
        distances=distances.tolist(),
        indices=ranking.indices.tolist(),
        presence=None if ranking.presence is None else ranking.presence.tolist(),
    )
    return Response(answer.model_dump_json(), media_type=JSON)


def asked_query(
    service: Service, explorer: Explorer, key: str | None, vector: Any = None
) -> AskedQuery:
    """A row by its id, or a vector (1, d), as a query."""
    if vector is not None:
        return explorer.vector_query(checked_rows(vector, "vector", service.index.width, 1))
    assert key is not None
    return explorer.row_query(explorer.position(service.typed(key)))


def check_k(k: int, service: Service) -> None:
    """Refuse more results than the service gives."""
    most = service.settings.max_k
    if not 1 <= k <= most:
        raise Problem(422, "too-many", f"`k` must be between 1 and {most:,}, got {k:,}.")


@router.get("/health", tags=["state"], summary="Whether the service is there")
async def health(request: Request) -> models.HealthAnswer:
    """Answers without a token, and without waiting for a thread."""
    rows = len(service_of(request).index)
    return models.HealthAnswer(status="ok", version=__version__, rows=rows)


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
    index = service.index.info()
    text = service.metrics.text(
        rows=index["rows"],
        columns=index["columns"],
        index_bytes=sum(index["bytes"].values()),
    )
    return Response(text, headers={"Content-Type": metrics.MEDIA_TYPE})


@router.get("/v1/info", tags=["state"], summary="What is served, and its limits")
async def info(request: Request) -> models.InfoAnswer:
    """Rows, parameters, whether there are labels and pictures, and how much may be asked."""
    service = service_of(request)
    settings = service.settings
    limits = {name: getattr(settings, f"max_{name}") for name in ("body", "batch", "k", "pool")}
    return models.InfoAnswer.model_validate(
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
    **about("search", "Rank the index for vectors or a picture", RankingAnswer, 404, *BODY, 501),
    openapi_extra=takes(models.SearchRequest, NPY, IMAGE),
)
async def search(request: Request, k: Results = 10, base: bool = False) -> Response:
    """Vectors as JSON, or the bytes of an npy file, or of a picture when a model is known.

    `k` and `base` in the address are for npy files and pictures; JSON has its own, and takes
    conditions: which rows may be answers, how near, several vectors of one thing, and answers that
    are right and wrong.
    """
    check_k(k, service_of(request))  # though JSON has its own
    return await work(request, _search, *await received(request, JSON, NPY, IMAGE), k, base)


def _search(service: Service, kind: str, body: bytes, k: int, base: bool) -> Response:
    if kind == JSON:
        sent = parse_json(models.SearchRequest, body, service.settings)
        check_k(sent.k, service)
    else:
        rows = bodies.parse_npy(body, service.settings) if kind == NPY else service.describe(body)
        sent = models.SearchRequest.model_construct(vectors=rows, k=k, base=base)
    rows = checked_rows(sent.rows(), "vectors", service.index.width, service.settings.max_batch)
    service.metrics.searched(len(rows))
    asked = {"base": sent.base, "threads": 1, **sent.conditions()}
    return ranking_json(service.index.search(rows, sent.k, **asked))


@router.post(
    "/v1/rerank",
    **about("search", "Re-rank what another search found", RankingAnswer, 404, *BODY, 501),
    openapi_extra=takes(models.RerankRequest, NPY),
)
async def rerank(request: Request, k: Results = 10) -> Response:
    """A query and its candidates, of any width; the index plays no part.

    As an npy file: the query is the first row, the candidates are the others.
    """
    check_k(k, service_of(request))
    return await work(request, _rerank, *await received(request, JSON, NPY), k)


def _rerank(service: Service, kind: str, body: bytes, k: int) -> Response:
    if kind == JSON:
        sent = parse_json(models.RerankRequest, body, service.settings)
        check_k(sent.k, service)
    else:
        rows = bodies.parse_npy(body, service.settings)
        if len(rows) < 2:
            raise Problem(422, "invalid-input", "The array must have a query and candidates.")
        sent = models.RerankRequest.model_construct(query=rows[0], candidates=rows[1:], k=k)
    query = checked_rows(sent.query[None], "query", None, 1)
    limit = service.settings.max_pool
    candidates = checked_rows(sent.candidates, "candidates", query.shape[1], limit)
    service.metrics.searched(1)
    ranking = rerank_pool(
        query[0],
        candidates,
        served_method(sent.method, sent.params),
        min(sent.k, len(candidates)),
        ids=sent.ids,
        allowed=sent.allowed,
        exclude=sent.exclude,
        threads=1,
    )
    return ranking_json(ranking)


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
    explorer = service.index.explorer()
    rows = None if vector is None else bodies.parse_vector(vector)
    asked = asked_query(service, explorer, query, rows)
    explanation = explorer.explain(asked, service.typed(item))
    return answer_json(ExplainAnswer, {**asdict(explanation), "text": str(explanation)})


@router.post(
    "/v1/items",
    **about("items", "Add rows", ItemsAnswer, 404, 409, *BODY, 501, 507),
    openapi_extra=takes(models.ItemsRequest, IMAGE),
)
async def add(
    request: Request,
    id: Annotated[str | None, Query(max_length=1000, description="of the picture")] = None,  # noqa: A002
    label: Annotated[str | None, Query(max_length=1000, description="of the picture")] = None,
    update: bool = False,
) -> Response:
    """Vectors as JSON, or the bytes of a picture when a model is known.

    With `update`, items that are there get other vectors, other attributes, or both; attributes
    alone compute nothing again. Changes are saved when this is answered. Needs a service that was
    started with --writable.
    `id`, `label` and `update` in the address are for pictures; JSON has its own.
    """
    _check_writable(request)
    service, kind, body = await received(request, JSON, IMAGE)
    if kind == JSON:
        sent = await work(request, parse_json, models.ItemsRequest, body, service.settings)
    else:
        sent = models.ItemsRequest.model_construct(
            vectors=await work(request, service.describe, body),
            update=update,
            ids=None if id is None else [service.typed(id)],
            labels=None if label is None else [label],
        )
    given = {name: getattr(sent, name) for name in sent.model_fields_set}
    limit = service.settings.max_batch
    if "vectors" in given:
        given["vectors"] = checked_rows(sent.vectors, "vectors", service.index.width, limit)
    elif len(sent.ids or ()) > limit:
        words = f"`ids` must be at most {limit:,}, got {len(sent.ids or ()):,}."
        raise Problem(422, "too-many", words)
    count = await request.app.state.workers.write(service.apply, ItemsChange(**given))
    return answer_json(ItemsAnswer, {"rows": count})


@router.delete("/v1/items/{id:path}", **about("items", "Remove a row", ItemsAnswer, 404, 409, 507))
async def remove(request: Request, id: ItemId) -> Response:  # noqa: A002
    """It is gone when this is answered. Needs a service that was started with --writable."""
    _check_writable(request)
    service = service_of(request)
    change = ItemsChange(removed=service.typed(id))
    count = await request.app.state.workers.write(service.apply, change)
    return answer_json(ItemsAnswer, {"rows": count})


def _check_writable(request: Request) -> None:
    if not service_of(request).settings.writable:
        raise Problem(403, "read-only", "The service must be started with --writable for that.")
