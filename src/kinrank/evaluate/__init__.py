"""Measuring rankings the way the field does.

result = kinrank.evaluate.reid(ranking, query_ids, gallery_ids, query_cams, gallery_cams)
table = kinrank.evaluate.compare("all", [kinrank.datasets.load("digits")])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinrank.metrics.grouping import GroupingScores, score_grouping
from kinrank.metrics.judgements import judged
from kinrank.metrics.protocols import reid, retrieval, revisited, single_shot
from kinrank.metrics.results import (
    Evaluation,
    Interval,
    LevelEvaluation,
    ReidEvaluation,
    RetrievalEvaluation,
    RevisitedEvaluation,
    confidence_intervals,
    paired_difference,
)
from kinrank.trec import read_qrels

if TYPE_CHECKING:
    from kinrank.evaluate.ablation import ablate
    from kinrank.evaluate.comparison import compare
    from kinrank.evaluate.groupings import compare_groupings
    from kinrank.evaluate.reporting import report
    from kinrank.evaluate.search import Plain, Pooled

__all__ = [
    "Evaluation",
    "GroupingScores",
    "Interval",
    "LevelEvaluation",
    "Plain",
    "Pooled",
    "ReidEvaluation",
    "RetrievalEvaluation",
    "RevisitedEvaluation",
    "ablate",
    "compare",
    "compare_groupings",
    "confidence_intervals",
    "judged",
    "paired_difference",
    "read_qrels",
    "reid",
    "report",
    "retrieval",
    "revisited",
    "score_grouping",
    "single_shot",
]

# Loaded on first use: to measure a ranking needs none of them.
_LAZY = {
    "Plain": "kinrank.evaluate.search",
    "Pooled": "kinrank.evaluate.search",
    "ablate": "kinrank.evaluate.ablation",
    "compare": "kinrank.evaluate.comparison",
    "compare_groupings": "kinrank.evaluate.groupings",
    "report": "kinrank.evaluate.reporting",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'kinrank.evaluate' has no attribute {name!r}")
