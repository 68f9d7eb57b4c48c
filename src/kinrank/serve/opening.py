"""Queries whose first results gain most by re-ranking: what the page opens on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.serve.service import RowView

FIRST = 20  # results that the page shows
_QUERIES = 100  # rows that are tried, so that the page opens soon
_WORK = 5_000_000  # rows times queries, so that in large collections fewer rows are tried


@dataclass(frozen=True)
class Gain:
    """What one row gains as a query.

    position : of the row in the ids
    results : right results among the first ``FIRST`` after re-ranking, less those before
    before, after : average precision
    """

    position: int
    results: int
    before: float
    after: float


def largest_gains(view: RowView) -> list[Gain]:
    """Evenly spread rows with a label, those that gain most first.

    Right results among the first count before average precision: they are what people see.
    """
    if view.gains is None:
        view.gains = _measure(view)
    return view.gains


def _measure(view: RowView) -> list[Gain]:
    explorer = view.explorer
    labelled = np.flatnonzero(view.codes >= 0)
    tried = min(_QUERIES, len(labelled), max(1, _WORK // max(1, len(view.keys))))
    gains = []
    for place in np.linspace(0, len(labelled) - 1, tried).astype(np.int64):
        position = int(labelled[place])
        same_label = view.codes == view.codes[position]
        query = explorer.row_query(position)
        plain = explorer.plain(query)
        reranked = explorer.rank(query)
        before = plain.average_precision(same_label)
        after = reranked.average_precision(same_label)
        if before is None or after is None:  # nothing else has this label
            continue
        right_before = int(same_label[plain.order[:FIRST]].sum())
        right_after = int(same_label[reranked.order[:FIRST]].sum())
        gains.append(Gain(position, right_after - right_before, before, after))
    return sorted(gains, key=lambda gain: (-gain.results, gain.before - gain.after))
