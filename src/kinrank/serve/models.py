"""What is sent and what is answered, as JSON."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from kinrank.serve.lists import LIMIT, WIDEST

_NUMBER = {"type": "number", "minimum": -LIMIT, "maximum": LIMIT}
_VECTOR = {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": WIDEST}
_VECTORS = {"type": "array", "items": _VECTOR, "minItems": 1}
# A vector is an array, and so are several of one length; see ``lists``, which reads them.
Vector: TypeAlias = Annotated[
    Any, PlainValidator(lambda value, info: info.context.row(value)), WithJsonSchema(_VECTOR)
]
Vectors: TypeAlias = Annotated[
    Any, PlainValidator(lambda value, info: info.context.rows(value)), WithJsonSchema(_VECTORS)
]
_SENT = BeforeValidator(lambda value, info: info.context.values(value))
Number: TypeAlias = Annotated[float, Field(ge=-LIMIT, le=LIMIT, allow_inf_nan=False)]
Id: TypeAlias = int | str
Ids: TypeAlias = Annotated[list[Id], Field(fail_fast=True), _SENT]
Words: TypeAlias = Annotated[list[str], Field(fail_fast=True), _SENT]
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
    vectors: Vectors = Field(default=[], description="several queries")
    k: K = Field(10, description="results per query")
    base: bool = Field(False, description="by the plain distance, to compare with")

    def rows(self) -> Any:
        """The vectors, however many, (n, d)."""
        return self.vectors if len(self.vectors) else self.vector[None]


class RerankRequest(Sent):
    """A query and what a search found for it."""

    query: Vector
    candidates: Vectors
    ids: Ids | None = Field(None, description="names of the candidates, one each")
    k: K = 10
    method: str = Field("cas", description="a name of kinrank.methods()")
    params: dict[str, Parameter] = Field(default={}, description="parameters of the method")


class ItemsRequest(Sent):
    """Rows to add."""

    vectors: Vectors
    ids: Ids | None = Field(
        None, description="new ids of the rows, of the kind that the index has; text must be given"
    )
    labels: Words | None = Field(None, description="labels of the rows; saved with the index")
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
