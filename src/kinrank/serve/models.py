"""What is sent and what is answered, as JSON. For the page, ids are text as in addresses."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.dataclasses import dataclass

from kinrank.conditions import Conditions
from kinrank.index import Explanation
from kinrank.serve.bodies import LIMIT, WIDEST, read_row, read_rows

_NUMBER = {"type": "number", "minimum": -LIMIT, "maximum": LIMIT}
_VECTOR = {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": WIDEST}
_VECTORS = {"type": "array", "items": _VECTOR, "minItems": 1}
# A vector is an array, and so are several of one length; see ``bodies``, which reads them.
Vector: TypeAlias = Annotated[Any, PlainValidator(read_row), WithJsonSchema(_VECTOR)]
Vectors: TypeAlias = Annotated[
    Any, PlainValidator(lambda text, info: read_rows(text, info.context)), WithJsonSchema(_VECTORS)
]
Number: TypeAlias = Annotated[float, Field(ge=-LIMIT, le=LIMIT, allow_inf_nan=False)]
Id: TypeAlias = int | str
Ids: TypeAlias = Annotated[list[Id], Field(fail_fast=True)]
Words: TypeAlias = Annotated[list[str], Field(fail_fast=True)]
# Sizes and steps of a method are work: they have a limit.
Parameter: TypeAlias = bool | Annotated[int, Field(ge=0, le=5000)] | Number | str | None
# For JSON 10.0 is an integer too.
WHOLE = BeforeValidator(
    lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
)
K: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000), WHOLE]
# Of attributes: one value, or several.
Value: TypeAlias = bool | int | Number | str
Values: TypeAlias = Value | Annotated[list[Value], Field(fail_fast=True)]
Attributes: TypeAlias = dict[str, Values] | None
# The index says what is wrong with a range; here nobody would know that it was meant as one.
_END = {"type": ["number", "string", "null"]}
_RANGE = {
    "type": "object",
    "properties": {"min": _END, "max": _END},
    "minProperties": 1,
    "additionalProperties": False,
}
Range: TypeAlias = Annotated[dict[str, Value | None], WithJsonSchema(_RANGE)]
Wanted: TypeAlias = Value | Annotated[list[Value], Field(fail_fast=True)] | Range
Distance: TypeAlias = Annotated[float, Field(ge=0, le=LIMIT)] | None
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)] | None
_PLAIN = {"vector", "vectors", "k", "base"}  # of a search; all else are conditions


def described(text: str, default: Any = None) -> Any:
    """A field with its description; a default of ... is none."""
    return Field(default, description=text)


class RequestBody(BaseModel):
    """A body: fields that are not known and values of other types are refused."""

    model_config = ConfigDict(strict=True, extra="forbid")
    example: ClassVar[dict[str, Any]]  # for the description of a route


class EitherOr(RequestBody):
    """A body of which exactly one of two fields must be given."""

    model_config = ConfigDict(
        json_schema_extra=lambda schema, model: schema.update(
            oneOf=[{"required": [name]} for name in model.either]
        )
    )
    either: ClassVar[tuple[str, str]]

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if len({*self.either} & self.model_fields_set) != 1:
            names = " and ".join(f"`{name}`" for name in self.either)
            raise ValueError(f"exactly one of {names} must be given")
        return self


_TYPES_OF_CONDITIONS: dict[str, Any] = {
    "ids": Ids | None,
    "wanted values": dict[str, Wanted] | None,
    "values per query": Attributes,
    "distance": Distance,
}
# Whatever ``Index.search`` takes as a condition, the service takes.
_CONDITION_FIELDS: dict[str, Any] = {
    item.name: (_TYPES_OF_CONDITIONS[item.metadata["kind"]], described(item.metadata["help"]))
    for item in fields(Conditions)
}
SearchConditions: Any = create_model("SearchConditions", __base__=EitherOr, **_CONDITION_FIELDS)


class SearchRequest(SearchConditions):  # type: ignore[misc]  # a class that is made above
    """One vector or several; give exactly one of the two."""

    either = ("vector", "vectors")
    example: ClassVar[dict[str, Any]] = {"vector": [0.1, 0.7, 0.2], "k": 3}
    vector: Vector = described("one query", [])
    vectors: Vectors = described("several queries", [])
    k: K = described("results per query", 10)
    base: bool = described("by the plain distance, to compare with", False)
    pair_false_match_rate: Share = described(
        "instead, the share of wrong rows of the gallery that may count as answers to a query"
    )
    unknown_rate: Share = described(
        "of the queries whose item is not in the gallery, the share that may get an answer"
    )
    items: Ids | None = described(
        "which item each vector is a picture of: one ranking for each item"
    )
    right: Ids | None = described("ids that are right answers to the query")
    wrong: Ids | None = described("ids that are wrong answers to it")

    def conditions(self) -> dict[str, Any]:
        """What was asked beside the vectors, as ``Index.search`` takes it."""
        return {name: getattr(self, name) for name in self.model_fields_set - _PLAIN}

    def rows(self) -> Any:
        """The vectors, however many, (n, d)."""
        return self.vectors if len(self.vectors) else self.vector[None]


class RerankRequest(RequestBody):
    """A query and what a search found for it."""

    example = {
        "query": [0.1, 0.9],
        "candidates": [[0.2, 0.8], [0.9, 0.1], [0.1, 1.0], [0.8, 0.3]],
        "ids": ["a", "b", "c", "d"],
        "k": 2,
        "params": {"k1": 2, "k2": 2},
    }
    query: Vector
    candidates: Vectors
    ids: Ids | None = described("names of the candidates, one each")
    allowed: Ids | None = described("candidates that alone may be answers")
    exclude: Ids | None = described("candidates that may not be answers")
    k: K = 10
    method: str = described("a name of kinrank.methods()", "cas")
    params: dict[str, Parameter] = described("parameters of the method", {})


class ItemsRequest(RequestBody):
    """Rows to add, or with `update` to change."""

    example = {"vectors": [[0.1, 0.7, 0.2]], "ids": ["new.jpg"]}
    vectors: Vectors = described("may be left out to update attributes alone", [])
    ids: Ids | None = described(
        "new ids of the rows, of the kind that the index has; text must be given"
    )
    labels: Words | None = described("labels of the rows; saved with the index")
    update: bool = described("the ids are there: give them other vectors or attributes", False)
    attributes: Attributes = described(
        "a value for each row, of every attribute that the index has; to update, of some"
    )

    @model_validator(mode="after")
    def _something_to_do(self) -> Self:
        without = "vectors" not in self.model_fields_set
        if without and not (self.update and self.attributes is not None):
            raise ValueError("`vectors` must be given, unless `update` changes `attributes`")
        return self


class RankingAnswer(BaseModel):
    """Results of each query, nearest first; missing ones have the index -1 and no distance."""

    ids: list[list[Id | None]] = Field(examples=[[["a.jpg", "b.jpg"]]])
    distances: list[list[float | None]] = Field(examples=[[[0.02, 0.31]]])
    indices: list[list[int]] = Field(examples=[[[17, 4]]])
    presence: list[float] | None = described(
        "the probability that the index has what each query shows"
    )


@dataclass(frozen=True)
class ExplainAnswer(Explanation):
    """How the distance between a query and an item came about."""

    text: str = described("the same to be read", ...)


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
    attributes: list[str]
    chosen: dict[str, Any] | None = described("what was chosen without labels, and why", ...)
    labels: bool
    images: bool
    model: str | None = described("what describes uploaded pictures", ...)
    writable: bool
    methods: list[str]
    limits: LimitsAnswer


class QueryBody(EitherOr):
    """A query: give the id of a row, or a vector."""

    either = ("id", "vector")
    id: str = ""
    vector: Vector = Field(default=[])


class MethodBody(RequestBody):
    """How to rank: "plain", "index", or a method; of "cas" the index has what is left out."""

    method: str = Field("index", examples=["plain", "index", "cas", "kreciprocal"])
    params: dict[str, Parameter] = Field(default={}, examples=[{"k1": 30, "omega": 0.2}])


class CompareRequest(RequestBody):
    """One query, ranked in two ways."""

    example = {"query": {"id": "a.jpg"}, "right": {"method": "cas", "params": {"k1": 30}}, "k": 5}
    query: QueryBody
    left: MethodBody = MethodBody(method="plain")
    right: MethodBody = MethodBody(method="index")
    k: Annotated[int, Field(ge=1, le=1000), WHOLE] = 20
    cluster: bool = described("with the local cluster of the right setting", False)
    right_ids: Words = described("rows that are right answers, for the index on the right", [])
    wrong_ids: Words = described("and rows that are wrong ones", [])
    whole: bool = described(
        "rank all rows by other parameters of cas too, which may take seconds", False
    )


class RowAnswer(BaseModel):
    """A row."""

    id: str
    name: str
    label: str


class ItemAnswer(RowAnswer):
    """A row, and how well it finds others."""

    before: float | None = described("average precision by the plain distance")
    after: float | None = described("and by the index")


class ItemsPageAnswer(BaseModel):
    """Some of the rows that were looked for."""

    total: int
    items: list[ItemAnswer]


class ResultAnswer(RowAnswer):
    """A row in a ranking."""

    distance: float | None
    right: bool | None = described("null where nobody knows", ...)
    other_rank: int = described("its rank in the other list, from 1 on", ...)


class SideAnswer(BaseModel):
    """One of the two rankings."""

    results: list[ResultAnswer]
    average_precision: float | None
    scope: str = Field(examples=["all rows", "3,000 rows around it", "the 500 nearest rows"])
    whole: bool = described("whether all rows were ranked by the setting", ...)
    milliseconds: float


class ClusterRow(RowAnswer):
    """A row of the local cluster; no id is the query."""

    id: str | None  # type: ignore[assignment]  # the query may be no row
    confident: bool
    similarity: float
    smoothed: float
    right: bool | None


class ClusterAnswer(BaseModel):
    """The local cluster as a graph."""

    members: list[ClusterRow]
    edges: list[tuple[int, int, float]]


class CompareAnswer(BaseModel):
    """Two rankings of one query."""

    query: ItemAnswer | None
    left: SideAnswer
    right: SideAnswer
    cluster: ClusterAnswer | None = None


class CountsAnswer(BaseModel):
    """A histogram of distances in [0, 1]."""

    right: list[int]
    wrong: list[int]


class CalibrationAnswer(BaseModel):
    """Rates at thresholds of the distance."""

    thresholds: list[float]
    pair_false_match_rate: list[float]
    false_matches: list[float]
    precision: list[float] | None
    recall: list[float] | None


class PrecisionAnswer(BaseModel):
    """Average precision of one query."""

    id: str
    label: str
    before: float
    after: float


class CurvesAnswer(BaseModel):
    """What is known of many queries."""

    asked: int = described("how many rows, evenly spread over them", ...)
    rows: int = described("how many there are", ...)
    labelled: bool
    queries: list[PrecisionAnswer]
    histograms: dict[Literal["before", "after"], CountsAnswer]
    calibration: CalibrationAnswer


class DescribeAnswer(BaseModel):
    """The vector of a picture."""

    vector: list[float]
    model: str
