"""What the page asks: rows, their pictures, two rankings of a query, curves."""

from __future__ import annotations

import threading
import time
from importlib.resources import files
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kinrank.index.explorer import ClusterMember, Explorer, RankedRows
from kinrank.index.explorer import Query as QueryRow
from kinrank.serve import explore, models
from kinrank.serve.bodies import IMAGE, JSON, parse_json
from kinrank.serve.curves import Curves, draw
from kinrank.serve.opening import largest_gains
from kinrank.serve.pictures import SIDES
from kinrank.serve.problems import Problem, documented
from kinrank.serve.routes import (
    BINARY,
    BODY,
    ItemId,
    about,
    answer_json,
    asked_query,
    received,
    service_of,
    takes,
    work,
)
from kinrank.serve.service import RowView, Service
from kinrank.serve.work import stopped_with, until

router = APIRouter(responses=documented())
_KINDS = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}
_drawing = threading.Lock()


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """The page; whoever looks at it will move its sliders."""
    service_of(request).index.explorer().prepare()
    return await static("index.html")


@router.get("/static/{name}", include_in_schema=False)
async def static(name: str) -> Response:
    """A part of the page."""
    # Only names that are there: what was typed never becomes a path.
    known = {file.name: file for file in files("kinrank.serve").joinpath("static").iterdir()}
    kind = _KINDS.get(name.rpartition(".")[2])
    if name not in known or kind is None:
        raise Problem(404, "not-found", "There is no such part of the page.")
    headers = {"Cache-Control": "no-cache"}
    return Response(known[name].read_bytes(), media_type=kind, headers=headers)


@router.get("/v1/items", **about("page", "Look for rows", models.ItemsPageAnswer))
async def items(
    request: Request,
    search: Annotated[str, Query(max_length=200, description="part of a name or a label")] = "",
    order: Annotated[
        Literal["given", "worst", "gained"],
        Query(
            description="worst: a sample of the rows, lowest AP first; "
            "gained: a sample, those first whose results gain most by re-ranking"
        ),
    ] = "given",
    offset: Annotated[int, Query(ge=0, le=100_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 60,
) -> Response:
    """By name or label; where labels are known, the worst first or those that gain most."""
    return await work(request, _items, service_of(request), search, order, offset, limit)


def _items(service: Service, search: str, order: str, offset: int, limit: int) -> Response:
    view = service.view
    wanted = search.strip().lower()
    precisions: dict[int, tuple[float, float]] = {}
    chosen: Any = range(len(view.keys))
    if order == "worst":
        precisions = curves_of(service).precisions
        chosen = sorted(precisions, key=lambda position: precisions[position][1])
    elif order == "gained":
        with _drawing:
            gains = largest_gains(view)
        precisions = {gain.position: (gain.before, gain.after) for gain in gains}
        chosen = list(precisions)
    if wanted:
        labelled = [position for position in chosen if view.labels[position].lower() == wanted]
        named = [position for position in chosen if wanted in view.names[position].lower()]
        chosen = list(dict.fromkeys([*labelled, *named]))
    listed = []
    for position in chosen[offset : offset + limit]:
        before, after = precisions.get(position, (None, None))
        listed.append({**_row(view, position), "before": before, "after": after})
    return answer_json(models.ItemsPageAnswer, {"total": len(chosen), "items": listed})


def _row(view: RowView, position: int) -> dict[str, Any]:
    names = view.names
    labels = view.labels
    return {"id": view.keys[position], "name": names[position], "label": labels[position]}


@router.get(
    "/v1/items/{id:path}/image",
    tags=["page"],
    summary="The picture of a row",
    response_class=Response,
    responses={**documented(404), 200: {"content": {IMAGE: BINARY}}},
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
    name = view.names[view.explorer.position(service.typed(key))]
    picture = None if service.pictures is None else service.pictures(name, size)
    if picture is None:
        raise Problem(404, "no-picture", f"There is no picture of {key!r} in the folder.")
    headers = {"Cache-Control": "private, max-age=300"}
    return Response(picture[0], media_type=picture[1], headers=headers)


@router.post(
    "/v1/describe",
    **about("page", "The vector of a picture", models.DescribeAnswer, *BODY, 501),
    openapi_extra=takes(None, IMAGE),
)
async def describe(request: Request) -> Response:
    """By the model that the service was given."""
    service, _, body = await received(request, IMAGE)
    vector = (await work(request, service.describe, body))[0].tolist()
    assert service.describer is not None
    return answer_json(models.DescribeAnswer, {"vector": vector, "model": service.describer.name})


@router.post(
    "/v1/compare",
    **about("page", "One query, ranked in two ways", models.CompareAnswer, 404, *BODY),
    openapi_extra=takes(models.CompareRequest),
)
async def compare(request: Request) -> Response:
    """By the plain distance, by the index, or by a method.

    Other parameters of CAS rank all rows when they are known for them, as an index that was built
    with them would, and first the rows around the query; other methods rank the nearest rows. With
    `whole`, which may take seconds, all rows are ranked by CAS in any case.
    """
    service, _, body = await received(request, JSON)
    sent = await work(request, parse_json, models.CompareRequest, body, service.settings)
    async with stopped_with(request) as stop:
        return await work(request, _compare, service, sent, stop, slow=sent.whole)


def _compare(service: Service, sent: models.CompareRequest, stop: threading.Event) -> Response:
    with until(stop):
        view = service.view
        threads = service.settings.threads
        explorer = view.explorer
        asked = sent.query
        vector = asked.vector[None] if "vector" in asked.model_fields_set else None
        query = asked_query(service, explorer, asked.id, vector)
        ids = (sent.right_ids, sent.wrong_ids)
        marks = [[service.typed(item) for item in said] for said in ids] if any(ids) else None

        left, left_time = _timed(explorer, query, sent.left, None, sent, threads)
        right, right_time = _timed(explorer, query, sent.right, marks, sent, threads)
        # Marks change the order. Each row keeps its distance from the query, so that the numbers
        # before and after a mark can be compared.
        measured = right if marks is None else explorer.rank(query)
        position = query.position
        answer: dict[str, Any] = {
            "query": None if position < 0 else _row(view, position),
            "left": _side(view, position, left, left, left_time, right, sent.k),
            "right": _side(view, position, right, measured, right_time, left, sent.k),
        }
        if sent.cluster:
            way = sent.right
            local = explore.cluster(explorer, query, way.method, way.params, threads)
            members = [_member(view, position, member) for member in local.members]
            answer["cluster"] = {"members": members, "edges": local.edges}
        return answer_json(models.CompareAnswer, answer)


def _timed(
    explorer: Explorer,
    query: QueryRow,
    way: models.MethodBody,
    marks: list[list[int | str]] | None,
    sent: models.CompareRequest,
    threads: int | None,
) -> tuple[RankedRows, float]:
    """A ranking, and the milliseconds that it took."""
    begun = time.perf_counter()
    ranked = explore.rank(
        explorer, query, way.method, way.params, marks, whole=sent.whole, threads=threads
    )
    return ranked, 1000 * (time.perf_counter() - begun)


def _side(
    view: RowView,
    query: int,
    ranked: RankedRows,
    measured: RankedRows,
    milliseconds: float,
    other: RankedRows,
    k: int,
) -> dict[str, Any]:
    """One of the two lists.

    query : its position, -1 for a vector from outside
    measured : the ranking whose distances are shown; the same one unless somebody marked results
    """
    ranks = np.zeros(len(view.keys), np.int64)
    ranks[other.order] = np.arange(1, len(other.order) + 1)
    distances = np.full(len(view.keys), np.nan)
    distances[measured.order[: len(measured.distances)]] = measured.distances
    results = [
        {
            **_row(view, position),
            "distance": None if np.isnan(distances[position]) else float(distances[position]),
            "right": _right(view, query, position),
            "other_rank": int(ranks[position]),
        }
        for position in ranked.order[:k].tolist()
    ]
    code = -1 if query < 0 else view.codes[query]
    return {
        "results": results,
        "average_precision": None if code < 0 else ranked.average_precision(view.codes == code),
        "scope": ranked.scope,
        "whole": ranked.whole,
        "milliseconds": milliseconds,
    }


def _member(view: RowView, query: int, member: ClusterMember) -> dict[str, Any]:
    position = member.position
    row: dict[str, Any] = {"id": None, "name": "the query" if position < 0 else "context"}
    row |= {"label": "", "right": None}
    if 0 <= position < len(view.keys):
        row = {**_row(view, position), "right": _right(view, query, position)}
    return {**vars(member), **row}


def _right(view: RowView, query: int, position: int) -> bool | None:
    """Whether a row has the label of the query; None where nobody knows."""
    known = query >= 0 and view.codes[query] >= 0 and view.codes[position] >= 0
    return bool(view.codes[position] == view.codes[query]) if known else None


@router.get("/v1/curves", **about("page", "Many queries at once", models.CurvesAnswer))
async def curves(request: Request) -> Response:
    """Average precision before and after, distances, and what thresholds would let through."""
    service = service_of(request)
    return await work(request, lambda: answer_json(models.CurvesAnswer, curves_of(service).answer))


def curves_of(service: Service) -> Curves:
    """Computed when first asked for, and again when the rows have changed."""
    view = service.view
    with _drawing:
        view.curves = view.curves or draw(service, view)
        return view.curves
