"""What is sent and what is answered, as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

LIMIT = 1e15  # squares of larger numbers do not fit
Number: TypeAlias = Annotated[float, Field(ge=-LIMIT, le=LIMIT, allow_inf_nan=False)]
Vector: TypeAlias = Annotated[list[Number], Field(min_length=1, max_length=65536)]
Id: TypeAlias = int | str
# Sizes and steps of a method are work: they have a limit.
Parameter: TypeAlias = bool | Annotated[int, Field(ge=0, le=5000)] | Number | str | None
K: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]


class Sent(BaseModel):
    """A body: fields that are not known and values of other types are refused."""

    model_config = ConfigDict(strict=True, extra="forbid")


class SearchRequest(Sent):
    """One vector or several; give exactly one of the two."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["vector"]}, {"required": ["vectors"]}]}
    )

    vector: Vector = Field(default=[], description="one query")
    vectors: Annotated[list[Vector], Field(min_length=1)] = Field(
        default=[], description="several queries"
    )
    k: K = Field(10, description="results per query")
    base: bool = Field(False, description="by the plain distance, to compare with")

    @model_validator(mode="after")
    def _one_of_both(self) -> SearchRequest:
        if len({"vector", "vectors"} & self.model_fields_set) != 1:
            raise ValueError("exactly one of `vector` and `vectors` must be given")
        return self

    def rows(self) -> list[list[float]]:
        """The vectors, however many."""
        return self.vectors or [self.vector]


class RerankRequest(Sent):
    """A query and what a search found for it."""

    query: Vector
    candidates: Annotated[list[Vector], Field(min_length=1)]
    ids: list[Id] | None = Field(None, description="names of the candidates, one each")
    k: K = 10
    method: str = Field("cas", description="a name of kinrank.methods()")
    params: dict[str, Parameter] = Field(default={}, description="parameters of the method")


class ItemsRequest(Sent):
    """Rows to add."""

    vectors: Annotated[list[Vector], Field(min_length=1)]
    ids: list[Id] | None = Field(
        None, description="new ids of the rows, of the kind that the index has; text must be given"
    )
    update: bool = Field(False, description="the ids are there: give them other vectors")


class RankingAnswer(BaseModel):
    """Results of each query, nearest first; missing ones have the index -1 and no distance."""

    ids: list[list[Id | None]] = Field(examples=[[["a.jpg", "b.jpg"]]])
    distances: list[list[float | None]] = Field(examples=[[[0.02, 0.31]]])
    indices: list[list[int]] = Field(examples=[[[17, 4]]])


class MemberAnswer(BaseModel):
    """A row of the query's local cluster."""

    id: Id | None
    role: Literal["query", "gallery", "context"]
    confident: bool
    similarity: float
    guide: float
    smoothed: float


class SharedAnswer(BaseModel):
    """A row that both are similar to."""

    id: Id | None
    role: Literal["query", "gallery", "context"]
    query_weight: float
    item_weight: float
    gain: float


class ExplainAnswer(BaseModel):
    """How the distance between a query and an item came about."""

    id: Id
    distance: float
    plain: float
    modified: float
    omega: float
    anchor: float
    in_cluster: bool
    stages: dict[str, float]
    members: list[MemberAnswer]
    shared: list[SharedAnswer]
    text: str = Field(description="the same to be read")


class ItemsAnswer(BaseModel):
    """What the index holds after a change."""

    rows: int = Field(examples=[1797])


class HealthAnswer(BaseModel):
    """That the service is there."""

    status: Literal["ok"]
    version: str
    rows: int


class LimitsAnswer(BaseModel):
    """How much may be asked at a time."""

    body: int
    batch: int
    k: int
    pool: int
    seconds: float


class InfoAnswer(BaseModel):
    """What is served."""

    title: str
    rows: int
    columns: int
    ids: Literal["text", "integers"]
    parameters: dict[str, Any]
    labels: bool
    images: bool
    model: str | None = Field(description="what describes uploaded pictures")
    writable: bool
    methods: list[str]
    limits: LimitsAnswer
