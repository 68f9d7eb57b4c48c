"""Measuring rankings the way the field does."""

from __future__ import annotations

from kinrank.evaluate.draws import single_shot
from kinrank.evaluate.protocols import reid, retrieval, revisited
from kinrank.evaluate.results import (
    Evaluation,
    LevelEvaluation,
    ReidEvaluation,
    RetrievalEvaluation,
    RevisitedEvaluation,
)

__all__ = [
    "Evaluation",
    "LevelEvaluation",
    "ReidEvaluation",
    "RetrievalEvaluation",
    "RevisitedEvaluation",
    "reid",
    "retrieval",
    "revisited",
    "single_shot",
]
