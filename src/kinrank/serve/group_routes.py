"""What the page of groups asks: groups with their reasons, single rows, questions, corrections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from kinrank.groups import Groups
from kinrank.groups.exporting import as_csv, as_json
from kinrank.serve import group_models as models
from kinrank.serve.bodies import JSON, parse_json
from kinrank.serve.page_routes import static
from kinrank.serve.problems import Problem, documented
from kinrank.serve.routes import BODY, about, answer_json, received, service_of, takes, work
from kinrank.serve.service import RowView, Service
from kinrank.serve.sorting import QUESTIONS, Sorting, state_of

router = APIRouter(responses=documented())
COVER = 8  # rows that stand for a group
GroupNumber = Annotated[int, Path(ge=0, le=2**53, description="the number of a group")]
Offset = Annotated[int, Query(ge=0, le=100_000_000)]
Limit = Annotated[int, Query(ge=1, le=500)]
Key = Annotated[str, Query(min_length=1, max_length=1000, description="the id of an item")]
Sorted = Literal["unsure", "largest", "smallest", "name"]


def sorting_of(request: Request) -> Sorting:
    """The groups of what is served."""
    sorting: Sorting = request.app.state.sorting
    return sorting


@router.get("/groups", include_in_schema=False)
async def page() -> Response:
    """The page to sort rows into groups."""
    return await static("groups.html")


@router.get("/v1/groups", **about("groups", "The groups of the rows", models.GroupsAnswer))
async def groups(
    request: Request,
    search: Annotated[str, Query(max_length=200, description="part of a name")] = "",
    order: Annotated[
        Sorted, Query(description="unsure: large groups that are least sure first")
    ] = "unsure",
    open_only: Annotated[bool, Query(description="leave out those that are confirmed")] = False,
    offset: Offset = 0,
    limit: Limit = 60,
) -> Response:
    """Of two rows and more. The first call groups the rows, which may take a while."""
    sorting = sorting_of(request)
    slow = not sorting.ready

    def listed() -> Response:
        return _listed(service_of(request), sorting, search, order, open_only, offset, limit)

    return await work(request, listed, slow=slow)


def _listed(
    service: Service,
    sorting: Sorting,
    search: str,
    order: Sorted,
    open_only: bool,
    offset: int,
    limit: int,
) -> Response:
    found = sorting.current()
    view = service.view
    sizes = {number: len(found.members(number)) for number in found.numbers.tolist()}
    chosen = [number for number, size in sizes.items() if size > 1]
    n_groups = len(chosen)
    if open_only:
        chosen = [number for number in chosen if number not in found.confirmed]
    wanted = search.strip().lower()
    if wanted:
        chosen = [number for number in chosen if _mentions(view, found, number, wanted)]
    if order in ("largest", "smallest"):
        chosen.sort(key=lambda number: sizes[number], reverse=order == "largest")
    elif order == "name":
        chosen.sort(key=lambda number: (number not in found.names, found.names.get(number, "")))
    answer = {
        "rows": len(view.keys),
        "groups": n_groups,
        "singles": len(found.singles),
        "sure": found.verdict.sure,
        "verdict": found.verdict.text,
        "can_correct": _can_correct(service),
        "total": len(chosen),
        "listed": [_card(view, found, number) for number in chosen[offset : offset + limit]],
    }
    return answer_json(models.GroupsAnswer, answer)


def _mentions(view: RowView, groups: Groups, number: int, wanted: str) -> bool:
    """Whether a text is part of the group's name, or of the name of one of its rows."""
    if wanted in groups.names.get(number, "").lower():
        return True
    return any(wanted in view.names[row].lower() for row in groups.members(number).tolist())


def _card(view: RowView, groups: Groups, number: int) -> dict[str, Any]:
    about_it = groups.describe(number)
    members = groups.members(number).tolist()
    return {
        "number": number,
        "name": about_it.name,
        "size": len(members),
        "confirmed": about_it.confirmed,
        "cohesion": about_it.cohesion,
        "cover": [_item(view, row) for row in members[:COVER]],
        "state": state_of(groups, number),
    }


def _item(view: RowView, row: int) -> dict[str, str]:
    return {"id": view.keys[row], "name": view.names[row]}


def _item_of(view: RowView, item: Any) -> dict[str, str]:
    """By an id of the index."""
    return _item(view, view.explorer.position(item))


def _neighbor(view: RowView, groups: Groups, number: int, link: float) -> dict[str, Any]:
    members = groups.members(number)
    return {
        "number": number,
        "name": groups.names.get(number),
        "size": len(members),
        "link": link,
        "cover": _item(view, int(members[0])),
    }


@router.get(
    "/v1/groups/why",
    **about("groups", "Why two rows are together or apart", models.PairAnswer, 404),
)
async def why(request: Request, one: Key, other: Key) -> Response:
    """With the rows that link them."""
    return await work(request, _why, service_of(request), sorting_of(request), one, other)


def _why(service: Service, sorting: Sorting, one: str, other: str) -> Response:
    pair = sorting.current().why(service.typed(one), service.typed(other))
    view = service.view
    answer = {
        "together": pair.together,
        "link": pair.link,
        "through": [_item_of(view, item) for item in pair.through],
        "text": pair.text,
    }
    return answer_json(models.PairAnswer, answer)


@router.get("/v1/groups/singles", **about("groups", "Rows of no group", models.SinglesAnswer))
async def singles(request: Request, offset: Offset = 0, limit: Limit = 60) -> Response:
    """Each with the groups that it may belong to, the likeliest first."""
    return await work(request, _singles, service_of(request), sorting_of(request), offset, limit)


def _singles(service: Service, sorting: Sorting, offset: int, limit: int) -> Response:
    found = sorting.current()
    view = service.view
    listed = []
    for row in found.singles[offset : offset + limit].tolist():
        number = int(found.labels[row])
        likely = found.candidates(found.ids[row].item(), 3)
        listed.append(
            {
                "row": _item(view, row),
                "number": number,
                "state": state_of(found, number),
                "candidates": [_neighbor(view, found, near.number, near.link) for near in likely],
            }
        )
    return answer_json(models.SinglesAnswer, {"total": len(found.singles), "listed": listed})


@router.get(
    "/v1/groups/questions", **about("groups", "What to ask a person", models.QuestionsAnswer)
)
async def questions(
    request: Request, limit: Annotated[int, Query(ge=1, le=QUESTIONS)] = 10
) -> Response:
    """Pairs of rows, ordered by what an answer is worth."""
    return await work(request, _questions, service_of(request), sorting_of(request), limit)


def _questions(service: Service, sorting: Sorting, limit: int) -> Response:
    found = sorting.current()
    view = service.view
    listed = [
        {
            "one": _item_of(view, question.one_id),
            "other": _item_of(view, question.other_id),
            "one_group": _card(view, found, question.one),
            "other_group": _card(view, found, question.other),
            "chance": question.chance,
            "text": question.text,
        }
        for question in found.questions(limit)
    ]
    return answer_json(models.QuestionsAnswer, {"listed": listed})


@router.get(
    "/v1/groups/export",
    tags=["groups"],
    summary="Who is who, as a file",
    response_class=Response,
    responses={**documented(), 200: {"content": {"text/csv": {}, JSON: {}}}},
)
async def export(request: Request, kind: Literal["csv", "json"] = "csv") -> Response:
    """One line for each row: its id, its group, the group's name and size."""
    return await work(request, _export, sorting_of(request), kind)


def _export(sorting: Sorting, kind: str) -> Response:
    groups = sorting.current()
    headers = {"Content-Disposition": f'attachment; filename="groups.{kind}"'}
    if kind == "json":
        return Response(as_json(groups), headers=headers, media_type=JSON)
    return Response(as_csv(groups), headers=headers, media_type="text/csv")


@router.get(
    "/v1/groups/{number}",
    **about("groups", "One group with its reasons", models.GroupAnswer, 404),
)
async def group(
    request: Request, number: GroupNumber, offset: Offset = 0, limit: Limit = 200
) -> Response:
    """Its rows, the most central first."""
    sorting = sorting_of(request)
    return await work(request, _group, service_of(request), sorting, number, offset, limit)


def _group(service: Service, sorting: Sorting, number: int, offset: int, limit: int) -> Response:
    found = sorting.current()
    view = service.view
    if number not in set(found.numbers.tolist()):
        raise Problem(404, "no-group", f"There is no group with the number {number}.")
    about_it = found.describe(number)
    weakest = about_it.weakest
    nearest = about_it.nearest
    members = found.members(number)[offset : offset + limit]
    answer = {
        "group": _card(view, found, number),
        "text": about_it.text,
        "weakest": None
        if weakest is None
        else {
            "one": _item_of(view, weakest.one_id),
            "other": _item_of(view, weakest.other_id),
            "strength": weakest.strength,
        },
        "nearest": None
        if nearest is None
        else _neighbor(view, found, nearest.number, nearest.link),
        "leaning": [
            {
                "row": _item_of(view, lean.id),
                "group": _neighbor(view, found, lean.number, lean.link),
            }
            for lean in about_it.leaning
        ],
        "members": [_item(view, row) for row in members.tolist()],
    }
    return answer_json(models.GroupAnswer, answer)


@router.post(
    "/v1/groups/corrections",
    **about("groups", "Correct groups", models.CorrectionAnswer, 404, 409, *BODY, 507),
    openapi_extra=takes(models.CorrectionRequest),
)
async def correct(request: Request) -> Response:
    """Kept beside the index when this is answered, and applied to every later grouping.

    Needs a service that was started with --writable, or an index that is in memory alone.
    """
    service, _, body = await received(request, JSON)
    if not _can_correct(service):
        raise Problem(403, "read-only", "The service must be started with --writable for that.")
    sent = await work(request, parse_json, models.CorrectionRequest, body, service.settings)
    return await work(request, _correct, service, sorting_of(request), sent)


def _can_correct(service: Service) -> bool:
    return service.settings.writable or service.index.path is None


def _correct(service: Service, sorting: Sorting, sent: models.CorrectionRequest) -> Response:
    try:
        before, after = sorting.correct(sent)
    except OSError as error:
        words = f"The correction could not be saved ({error.strerror or error}): nothing changed."
        raise Problem(507, "not-saved", words) from error
    view = service.view
    left = set(after.numbers.tolist())
    numbers = sorted(_touched(before, after))
    answer = {
        "text": _words(sent),
        "groups": [_card(view, after, number) for number in numbers if number in left],
        "gone": [number for number in numbers if number not in left],
    }
    return answer_json(models.CorrectionAnswer, answer)


def _touched(before: Groups, after: Groups) -> Iterable[int]:
    """Numbers of the groups that a correction has changed."""
    moved = before.labels != after.labels
    numbers = {*before.labels[moved].tolist(), *after.labels[moved].tolist()}
    numbers |= {number for number, _ in before.names.items() ^ after.names.items()}
    return numbers | (set(before.confirmed) ^ set(after.confirmed))


def _words(sent: models.CorrectionRequest) -> str:
    """What was done, as a person would say it."""
    rows = "1 item" if len(sent.ids) == 1 else f"{len(sent.ids)} items"
    return {
        "merge": f"Merged {len(sent.groups)} groups.",
        "split": f"Split {rows} off.",
        "move": f"Moved {rows}.",
        "remove": f"Took {rows} out.",
        "name": "Named the group.",
        "confirm": "Confirmed the group.",
        "together": "Noted: the same.",
        "apart": "Noted: not the same.",
        "undo": "Took the last correction back.",
    }[sent.kind]
