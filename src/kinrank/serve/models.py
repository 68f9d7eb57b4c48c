"""What is sent and what is answered, as JSON."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

LIMIT = 1e15  # squares of larger numbers do not fit
Number: TypeAlias = Annotated[float, Field(ge=-LIMIT, le=LIMIT, allow_inf_nan=False)]
Vector: TypeAlias = Annotated[list[Number], Field(min_length=1, max_length=65536)]
Id: TypeAlias = int | str
# Sizes and steps of a method are work: they have a limit.
Parameter: TypeAlias = bool | Annotated[int, Field(ge=0, le=5000)] | Number | str | None
# For JSON 10.0 is an integer too.
WHOLE = BeforeValidator(
    lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
)
K: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000), WHOLE]


class Sent(BaseModel):
    """A body: fields that are not known and values of other types are refused."""

    model_config = ConfigDict(strict=True, extra="forbid")


class EitherOr(Sent):
    """A body of which exactly one of two fields must be given."""

    either: ClassVar[tuple[str, str]]

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if len({*self.either} & self.model_fields_set) != 1:
            names = " and ".join(f"`{name}`" for name in self.either)
            raise ValueError(f"exactly one of {names} must be given")
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        return {**schema, "oneOf": [{"required": [name]} for name in cls.either]}


class SearchRequest(EitherOr):
    """One vector or several; give exactly one of the two."""

    either = ("vector", "vectors")

    vector: Vector = Field(default=[], description="one query")
    vectors: Annotated[list[Vector], Field(min_length=1)] = Field(
        default=[], description="several queries"
    )
    k: K = Field(10, description="results per query")
    base: bool = Field(False, description="by the plain distance, to compare with")

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
    labels: list[str] | None = Field(None, description="labels of the rows; saved with the index")
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
