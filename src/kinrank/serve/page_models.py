"""What the page asks and gets. Ids are text here, as they stand in addresses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from kinrank.serve.models import WHOLE, EitherOr, Parameter, Sent, Vector


class Asked(EitherOr):
    """A query: give the id of a row, or a vector."""

    either = ("id", "vector")

    id: str = ""
    vector: Vector = Field(default=[])


class Setting(Sent):
    """How to rank: "plain", "index", or a method; of "cas" the index has what is left out."""

    method: str = Field("index", examples=["plain", "index", "cas", "kreciprocal"])
    params: dict[str, Parameter] = Field(default={}, examples=[{"k1": 30, "omega": 0.2}])


class CompareRequest(Sent):
    """One query, ranked in two ways."""

    query: Asked
    left: Setting = Setting(method="plain")
    right: Setting = Setting(method="index")
    k: Annotated[int, Field(ge=1, le=1000), WHOLE] = 20
    cluster: bool = Field(False, description="with the local cluster of the right setting")
    whole: bool = Field(
        False, description="rank all rows by other parameters of cas too, which may take seconds"
    )


class Item(BaseModel):
    """A row."""

    id: str
    name: str
    label: str
    before: float | None = Field(None, description="average precision by the plain distance")
    after: float | None = Field(None, description="and by the index")


class ItemsPage(BaseModel):
    """Some of the rows that were looked for."""

    total: int
    items: list[Item]


class Result(BaseModel):
    """A row in a ranking."""

    id: str
    name: str
    label: str
    distance: float | None
    right: bool | None = Field(description="null where nobody knows")
    other_rank: int = Field(description="its rank in the other list, from 1 on")


class Side(BaseModel):
    """One of the two rankings."""

    results: list[Result]
    average_precision: float | None
    scope: str = Field(examples=["all rows", "3,000 rows around it", "the 500 nearest rows"])
    whole: bool = Field(description="whether all rows were ranked by the setting")
    milliseconds: float


class Member(BaseModel):
    """A row of the local cluster; no id is the query."""

    id: str | None
    name: str
    label: str
    confident: bool
    similarity: float
    smoothed: float
    right: bool | None


class Cluster(BaseModel):
    """The local cluster as a graph."""

    members: list[Member]
    edges: list[tuple[int, int, float]]


class CompareAnswer(BaseModel):
    """Two rankings of one query."""

    query: Item | None
    left: Side
    right: Side
    cluster: Cluster | None = None


class Counts(BaseModel):
    """A histogram of distances in [0, 1]."""

    right: list[int]
    wrong: list[int]


class Calibration(BaseModel):
    """Rates at thresholds of the distance."""

    thresholds: list[float]
    false_match_rate: list[float]
    false_matches: list[float]
    precision: list[float] | None
    recall: list[float] | None


class AskedPrecision(BaseModel):
    """Average precision of one query."""

    id: str
    label: str
    before: float
    after: float


class CurvesAnswer(BaseModel):
    """What is known of many queries."""

    asked: int = Field(description="how many rows, evenly spread over them")
    rows: int = Field(description="how many there are")
    labelled: bool
    queries: list[AskedPrecision]
    histograms: dict[Literal["before", "after"], Counts]
    calibration: Calibration


class DescribeAnswer(BaseModel):
    """The vector of a picture."""

    vector: list[float]
    model: str
