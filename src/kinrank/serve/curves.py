"""What is known of many queries at once: average precision, distances, thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.serve.models import CalibrationAnswer
from kinrank.serve.service import RowView, Service

QUERIES = 300  # rows that are asked, each without itself
BINS = 40
_WORK = 20_000_000  # rows times queries, so that large collections are asked less


@dataclass(frozen=True, eq=False)
class Curves:
    """What ``/v1/curves`` tells, for one state of the index.

    precisions : name of a row -> average precision before and after; empty without labels
    """

    precisions: dict[int, tuple[float, float]]
    answer: dict[str, Any]


def draw(service: Service, view: RowView) -> Curves:
    """Ask some rows, each without itself."""
    explorer = view.explorer
    n = len(view.keys)
    sample = max(1, min(QUERIES, n, _WORK // n))
    labelled = bool((view.codes >= 0).any())
    precisions: dict[int, tuple[float, float]] = {}
    counts = np.zeros((2, 2, BINS), np.int64)  # before and after, right and wrong
    names = np.unique(np.linspace(0, n - 1, sample).astype(np.int64))
    for name in names:
        query = explorer.row_query(int(name))
        code = view.codes[name]
        same = (view.codes == code) & (code >= 0)
        both = (explorer.plain(query), explorer.rank(query))
        for side, one in enumerate(both):
            right = same[one.order]
            for kind, chosen in enumerate((right, ~right)):
                counts[side, kind] += np.histogram(one.distances[chosen], BINS, (0, 1))[0]
        before, after = (one.average_precision(same) for one in both)
        if before is not None and after is not None:
            precisions[int(name)] = (before, after)
    rates = service.index.calibrate(view.labels if labelled else None, sample=sample)
    listed = {name: getattr(rates, name) for name in CalibrationAnswer.model_fields}
    listed = {name: None if v is None else v[::10].tolist() for name, v in listed.items()}
    queries = [
        {"id": view.keys[name], "label": view.labels[name], "before": before, "after": after}
        for name, (before, after) in precisions.items()
    ]
    histograms = [{"right": right.tolist(), "wrong": wrong.tolist()} for right, wrong in counts]
    answer = {
        "asked": len(names),
        "rows": n,
        "labelled": labelled,
        "queries": queries,
        "histograms": dict(zip(("before", "after"), histograms, strict=True)),
        "calibration": listed,
    }
    return Curves(precisions, answer)
