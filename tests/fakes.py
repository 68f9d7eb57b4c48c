"""Stand-ins that tests register or pass."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.methods.base import Method
from kinrank.types import Ranking
from kinrank.validation import as_matrix, check_float, check_int


@dataclass(frozen=True, kw_only=True)
class Fake(Method):
    """Plain Euclidean order, with a parameter
    of every kind.

    More about it.
    """

    k1: int = field(default=20, metadata={"help": "Size of the neighbourhood."})
    sigma: float = field(default=0.5, metadata={"help": "Width."})
    keep: int | None = field(default=None, metadata={"help": "Entries kept."})
    mu: float | None = None
    symmetric: bool = field(default=True, metadata={"help": "Use both directions."})
    guide: bool | None = None
    clusters: Literal["knn", "reciprocal"] = field(default="knn", metadata={"help": "Clusters."})
    smoothing: Literal["neighbors", "aqe", None] = "neighbors"
    start: Literal["zero", "none"] = "zero"
    solver: Literal["local", "dense"] | None = None
    geodesic_k: int | Literal["all"] = "all"
    fusion: Literal["squared", "euclidean"] | None = "squared"
    limit: int | None = 7
    regularizer: Any = field(default="identity", metadata={"cli": ("identity", "graph")})
    matrix: Any = field(default=None, metadata={"cli": False})
    pause: float = 0.0

    def __post_init__(self):
        check_int("k1", self.k1, 1)
        check_float("sigma", self.sigma, 0)

    def ranked(self, queries, gallery, k, execution, allowed=None):
        queries, gallery = as_matrix("queries", queries), as_matrix("gallery", gallery)
        k = len(gallery) if k is None else check_int("k", k, 1, len(gallery))
        if self.k1 > len(gallery):
            warnings.warn(f"`k1` is {self.k1}: {len(gallery)} is used.", KinrankWarning, 2)
        with progress.stage("neighbors", len(queries)) as advance:
            distances = ((queries[:, None] - gallery) ** 2).sum(axis=2)
            advance(len(queries))
        if "KINRANK_FAKE_STARTED" in os.environ:
            Path(os.environ["KINRANK_FAKE_STARTED"]).touch()
        with progress.stage("diffuse", 10) as advance:
            for _ in range(10):
                time.sleep(self.pause / 10)
                advance(1)
        indices = np.argsort(distances, axis=1, kind="stable")[:, :k]
        return Ranking(indices, np.take_along_axis(distances, indices, axis=1))


@dataclass(frozen=True, kw_only=True)
class Broken(Method):
    """Never ranks anything."""

    def ranked(self, queries, gallery, k, execution, allowed=None):
        raise InvalidInputError("it cannot")
