"""What the page of groups sends and is answered. Ids are text, as in addresses."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, Field

from kinrank.serve.models import RequestBody, Words, described

Number: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
Numbers: TypeAlias = Annotated[list[Number], Field(fail_fast=True, max_length=1000)]
Kind: TypeAlias = Literal[
    "merge", "split", "move", "remove", "name", "confirm", "together", "apart", "undo"
]


class Item(BaseModel):
    """A row: its id as text, and what people call it."""

    id: str
    name: str


class GroupCard(BaseModel):
    """A group as it stands in the list."""

    number: int
    name: str | None
    size: int
    confirmed: bool
    cohesion: float = described("how close its rows are on average, 0 to 1")
    cover: list[Item] = described("its most central rows")
    state: str = described("changes whenever the group does; corrections say which one was seen")


class GroupsAnswer(BaseModel):
    """One part of the list of groups, and what can be said of all of them."""

    rows: int
    groups: int = described("groups of two rows and more")
    singles: int = described("rows that belong to no group")
    sure: bool = described("whether the vectors tell who is the same")
    verdict: str
    can_correct: bool
    total: int = described("groups that the search and the filter leave")
    listed: list[GroupCard]


class LinkAnswer(BaseModel):
    """How strongly two rows are linked, 0 to 1."""

    one: Item
    other: Item
    strength: float


class NeighborGroup(BaseModel):
    """Another group, and how strongly it is linked."""

    number: int
    name: str | None
    size: int
    link: float
    cover: Item


class LeaningRow(BaseModel):
    """A row that is linked to another group more than to its own."""

    row: Item
    group: NeighborGroup


class GroupAnswer(BaseModel):
    """A group with its reasons, and one part of its rows."""

    group: GroupCard
    text: str = described("why these rows are together, in words")
    weakest: LinkAnswer | None
    nearest: NeighborGroup | None
    leaning: list[LeaningRow]
    members: list[Item]


class SingleRow(BaseModel):
    """A row that belongs to no group, and the groups it may belong to."""

    row: Item
    number: int
    state: str
    candidates: list[NeighborGroup]


class SinglesAnswer(BaseModel):
    """One part of the single rows."""

    total: int
    listed: list[SingleRow]


class QuestionAnswer(BaseModel):
    """Two rows of which a person can tell whether they are the same."""

    one: Item
    other: Item
    one_group: GroupCard
    other_group: GroupCard
    chance: float = described("that they are the same, 0 to 1")
    text: str


class QuestionsAnswer(BaseModel):
    """Questions, the most useful first."""

    listed: list[QuestionAnswer]


class PairAnswer(BaseModel):
    """Why two rows are together or apart."""

    together: bool
    link: float
    through: list[Item]
    text: str


class CorrectionRequest(RequestBody):
    """What a person says of groups."""

    example: ClassVar[dict[str, Any]] = {"kind": "merge", "groups": [3, 8]}
    kind: Kind = described("what to do", ...)
    groups: Numbers = described("the groups it is about", [])
    ids: Words = described("the rows it is about", [])
    to: Number | None = described("the group that rows move to; None founds a new one")
    name: Annotated[str, Field(max_length=200)] | None = described("the name of the group")
    seen: Annotated[dict[str, str], Field(max_length=1000)] = described(
        "the `state` of each of these groups as the person saw it", {}
    )
    author: Annotated[str, Field(max_length=100)] | None = described("who says so")


class CorrectionAnswer(BaseModel):
    """What came of a correction."""

    text: str
    groups: list[GroupCard] = described("the groups that are others now")
    gone: list[int] = described("numbers of groups that are no more")
