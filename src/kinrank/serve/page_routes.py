"""What the page asks: rows, their pictures, two rankings of a query, curves."""

from __future__ import annotations

import threading
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kinrank.serve import bodies, explore
from kinrank.serve.curves import Curves, draw
from kinrank.serve.explore import Ranked
from kinrank.serve.page_models import (
    CompareAnswer,
    CompareRequest,
    CurvesAnswer,
    DescribeAnswer,
    ItemsPage,
)
from kinrank.serve.pictures import SIDES
from kinrank.serve.problems import Problem
from kinrank.serve.routes import (
    ItemId,
    answer_json,
    body_of,
    described,
    problems,
    service_of,
    stopped_with,
    work,
)
from kinrank.serve.service import Service, View
from kinrank.serve.work import until

router = APIRouter(tags=["page"], responses=problems())
_KINDS = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}
_drawing = threading.Lock()


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """The page; whoever looks at it will move its sliders."""
    service = service_of(request)
    service.refits(service.index.engine.state).prepare()
    return _static("index.html")


@router.get("/static/{name}", include_in_schema=False)
async def static(name: str) -> Response:
    """A part of the page."""
    return _static(name)


def _static(name: str) -> Response:
    # Only names that are there: what was typed never becomes a path.
    found = {file.name: file for file in files("kinrank.serve").joinpath("static").iterdir()}
    if name not in found or name.rpartition(".")[2] not in _KINDS:
        raise Problem(404, "not-found", "There is no such part of the page.")
    kind = _KINDS[name.rpartition(".")[2]]
    headers = {"Cache-Control": "no-cache"}
    return Response(found[name].read_bytes(), media_type=kind, headers=headers)


@router.get("/v1/items", summary="Look for rows", response_model=ItemsPage)
async def items(
    request: Request,
    search: Annotated[str, Query(max_length=200, description="part of a name or a label")] = "",
    order: Annotated[
        Literal["given", "worst"], Query(description="worst: those that were asked, by their AP")
    ] = "given",
    offset: Annotated[int, Query(ge=0, le=100_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 60,
) -> Response:
    """By name or label; the worst first when labels are known."""
    return await work(request, _items, service_of(request), search, order, offset, limit)


def _items(service: Service, search: str, order: str, offset: int, limit: int) -> Response:
    view, wanted = service.view, search.strip().lower()
    precisions: dict[int, tuple[float, float]] = {}
    chosen: Any = range(len(view.keys))
    if order == "worst":
        precisions = curves_of(service).precisions
        chosen = sorted(precisions, key=lambda name: precisions[name][1])
    if wanted:
        labelled = [name for name in chosen if view.labels[name].lower() == wanted]
        named = [name for name in chosen if wanted in view.names[name].lower()]
        chosen = list(dict.fromkeys([*labelled, *named]))
    some = [_item(view, name, precisions.get(name)) for name in chosen[offset : offset + limit]]
    return answer_json(ItemsPage, {"total": len(chosen), "items": some})


def _item(view: View, name: int, precision: tuple[float, float] | None = None) -> dict[str, Any]:
    before, after = precision or (None, None)
    known = {"id": view.keys[name], "name": view.names[name], "label": view.labels[name]}
    return {**known, "before": before, "after": after}


@router.get(
    "/v1/items/{id:path}/image",
    summary="The picture of a row",
    response_class=Response,
    responses={
        **problems(404),
        200: {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}},
    },
)
async def image(
    request: Request,
    id: ItemId,  # noqa: A002
    size: Annotated[int, Query(ge=SIDES[0], le=SIDES[1], description="pixels of a side")] = 160,
) -> Response:
    """Only from the folder that the service was given."""
    return await work(request, _image, service_of(request), id, size)


def _image(service: Service, key: str, size: int) -> Response:
    view = service.view
    name = view.names[int(view.state.table.places([service.typed(key)])[0])]
    found = None if service.pictures is None else service.pictures.read(name, size)
    if found is None:
        raise Problem(404, "no-picture", f"There is no picture of {key!r} in the folder.")
    headers = {"Cache-Control": "private, max-age=300"}
    return Response(found.content, media_type=found.media_type, headers=headers)


@router.post(
    "/v1/describe",
    summary="The vector of a picture",
    response_model=DescribeAnswer,
    responses=problems(408, 413, 415, 501),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def describe(request: Request) -> Response:
    """By the model that the service was given."""
    service, kind = service_of(request), bodies.media_type(request)
    if not kind.startswith(bodies.IMAGE):
        raise bodies.wrong_media(kind, "image/*")
    body = await bodies.read_body(request, service.settings)
    return await work(request, _describe, service, body)


def _describe(service: Service, body: bytes) -> Response:
    vector = described(service, body)[0].tolist()
    assert service.describer is not None
    return answer_json(DescribeAnswer, {"vector": vector, "model": service.describer.name})


@router.post(
    "/v1/compare",
    summary="One query, ranked in two ways",
    response_model=CompareAnswer,
    responses=problems(404, 408, 413, 415),
    openapi_extra=body_of(
        CompareRequest,
        {"query": {"id": "a.jpg"}, "right": {"method": "cas", "params": {"k1": 30}}, "k": 5},
    ),
)
async def compare(request: Request) -> Response:
    """By the plain distance, by the index, or by a method.

    Other parameters of CAS rank all rows when they are known for them, as an index that was built
    with them would, and first the rows around the query; other methods rank the nearest rows. With
    `whole`, which may take seconds, all rows are ranked by CAS in any case.
    """
    service, kind = service_of(request), bodies.media_type(request)
    if kind != bodies.JSON:
        raise bodies.wrong_media(kind, bodies.JSON)
    body = await bodies.read_body(request, service.settings)
    sent = await work(request, bodies.parse_json, CompareRequest, body, service.settings)
    async with stopped_with(request) as stop:
        return await work(request, _compare, service, sent, stop, slow=sent.whole)


def _compare(service: Service, sent: CompareRequest, stop: threading.Event) -> Response:
    with until(stop):
        return _compared(service, sent)


def _compared(service: Service, sent: CompareRequest) -> Response:
    view = service.view
    key, vector = sent.query.id, sent.query.vector
    outside = "vector" in sent.query.model_fields_set
    rows = bodies.checked_rows(vector[None], "vector", service.index.width, 1) if outside else None
    query = explore.query_of(service, view, None if outside else key, rows)
    sides = [
        explore.ranked(service, view, query, one.method, one.params, whole=sent.whole)
        for one in (sent.left, sent.right)
    ]
    code = int(view.codes[query.name]) if query.name >= 0 else -1
    answer: dict[str, Any] = {
        "query": None if query.name < 0 else _item(view, query.name),
        "left": _side(view, sides[0], sides[1], code, sent.k),
        "right": _side(view, sides[1], sides[0], code, sent.k),
    }
    if sent.cluster:
        right = sent.right
        found = explore.cluster(service, view, query, right.method, right.params)
        members = [_member(view, one, code) for one in found["members"]]
        answer["cluster"] = {"members": members, "edges": found["edges"]}
    return answer_json(CompareAnswer, answer)


def _side(view: View, one: Ranked, other: Ranked, code: int, k: int) -> dict[str, Any]:
    ranks = other.ranks(len(view.keys))
    results = []
    for at, name in enumerate(one.order[:k].tolist()):
        known = {"id": view.keys[name], "name": view.names[name], "label": view.labels[name]}
        distance = float(one.distances[at]) if at < len(one.distances) else None
        right = _right(view, name, code)
        rank = int(ranks[name])
        results.append({**known, "distance": distance, "right": right, "other_rank": rank})
    return {
        "results": results,
        "average_precision": one.average_precision(view.codes, code),
        "scope": one.scope,
        "whole": one.whole,
        "milliseconds": one.milliseconds,
    }


def _member(view: View, one: dict[str, Any], code: int) -> dict[str, Any]:
    name = one["name"]
    inside = 0 <= name < len(view.keys)
    return {
        "id": view.keys[name] if inside else None,
        "name": view.names[name] if inside else "the query" if name < 0 else "context",
        "label": view.labels[name] if inside else "",
        "right": _right(view, name, code) if inside else None,
        **{key: one[key] for key in ("confident", "similarity", "smoothed")},
    }


def _right(view: View, name: int, code: int) -> bool | None:
    return None if code < 0 or view.codes[name] < 0 else bool(view.codes[name] == code)


@router.get("/v1/curves", summary="Many queries at once", response_model=CurvesAnswer)
async def curves(request: Request) -> Response:
    """Average precision before and after, distances, and what thresholds would let through."""
    service = service_of(request)
    return await work(request, lambda: answer_json(CurvesAnswer, curves_of(service).answer))


def curves_of(service: Service) -> Curves:
    """Computed when first asked for, and again when the rows have changed."""
    view = service.view
    with _drawing:
        known = service.drawn
        if known is None or known.view is not view:
            known = service.drawn = draw(service, view)
        return known
