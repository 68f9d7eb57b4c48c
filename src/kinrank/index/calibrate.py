"""What a distance means: how many wrong rows, and how many right ones, lie below a threshold.

Rows of the gallery stand for queries. The *presence* of a query's item in the gallery is estimated
in ``kinrank.index.presence``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.index.distances import row_distances
from kinrank.index.engine import Engine
from kinrank.index.presence import PresenceModel, fit_presence
from kinrank.index.same_item import RowsOfItem, SameItemRows
from kinrank.index.state import State
from kinrank.stages.sparse import take
from kinrank.types import Ints
from kinrank.validation import as_labels, check_float

Rates = npt.NDArray[np.float64]

BINS = 1000  # between thresholds 0 and 1
_RATES = ("pair_false_match_rate", "false_matches", "precision", "recall")


@dataclass(frozen=True, eq=False)
class Calibration:
    """Rates at thresholds 0, 0.001, ... 1: a row counts as a match at a distance up to that.

    thresholds : (1001,), as long as all rates
    pair_false_match_rate : of all pairs of a query and a row that does not belong to it, the share
        that counts as a match (false match rate of biometrics, FMR)
    false_matches : how many such rows there are for each query
    precision, recall : of the pairs that count as a match, the share that is right; of the right
        pairs, the share that counts as a match. None without labels.
    n_queries : how many rows of the gallery stood for queries, each without itself
    presence : what tells how probable it is that a query's item is in the gallery; None where the
        gallery is too small
    """

    thresholds: Rates
    pair_false_match_rate: Rates
    false_matches: Rates
    precision: Rates | None
    recall: Rates | None
    n_queries: int
    presence: PresenceModel | None = None

    def arrays(self) -> dict[str, Rates]:
        """All of it as float64 arrays by name, as files keep it; ``from_arrays`` reads them."""
        arrays = {name: getattr(self, name) for name in _RATES}
        arrays["n_queries"] = np.array([self.n_queries], np.float64)
        if self.presence is not None:
            model = self.presence
            arrays["presence"] = np.array([model.bias, model.slope, model.removed])
            arrays["unknown"] = model.unknown
        return {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Calibration | None:
        """From what ``arrays`` returned, checked; None where there are none."""
        if not arrays:
            return None
        lengths = dict.fromkeys(_RATES, BINS + 1) | {"n_queries": 1, "presence": 3}
        for name, array in arrays.items():
            length = array.size if name == "unknown" else lengths.get(name, -1)
            is_finite = array.dtype == np.float64 and bool(np.isfinite(array).all())
            if array.shape != (length,) or not is_finite:
                raise ValueError(f"a calibration with {name!r} of {array.dtype} {array.shape}")
        if not {"pair_false_match_rate", "false_matches", "n_queries"} <= set(arrays):
            raise ValueError("half a calibration")
        return cls(
            thresholds=np.arange(BINS + 1) / BINS,
            pair_false_match_rate=arrays["pair_false_match_rate"],
            false_matches=arrays["false_matches"],
            precision=arrays.get("precision"),
            recall=arrays.get("recall"),
            n_queries=int(arrays["n_queries"][0]),
            presence=_presence_model(arrays),
        )

    def threshold(self, pair_false_match_rate: float) -> float:
        """The largest threshold whose ``pair_false_match_rate`` is at most this; 0 if none is."""
        allowed = np.flatnonzero(self.pair_false_match_rate <= pair_false_match_rate)
        return float(self.thresholds[allowed[-1]]) if len(allowed) else 0.0

    def least_presence(self, unknown_rate: float) -> float:
        """The ``Ranking.presence`` that a query needs to get answers with this ``unknown_rate``."""
        limit = least_evidence_of(self, unknown_rate)
        assert self.presence is not None
        return float(self.presence.probability(np.array([limit]))[0])

    def at(self, threshold: float) -> dict[str, float]:
        """All rates at a threshold, by name, and the "threshold" itself, which is rounded."""
        step = int(np.clip(round(threshold * BINS), 0, BINS))
        rates = {"threshold": self.thresholds}
        rates |= {name: getattr(self, name) for name in _RATES if getattr(self, name) is not None}
        return {name: float(rate[step]) for name, rate in rates.items()}


def _presence_model(arrays: dict[str, npt.NDArray[Any]]) -> PresenceModel | None:
    """The model of presence in the arrays of a calibration, checked; None where there is none."""
    if "presence" not in arrays and "unknown" not in arrays:
        return None
    if "presence" not in arrays or "unknown" not in arrays:
        raise ValueError("half a calibration")
    bias, slope, removed = arrays["presence"].tolist()
    unknown = arrays["unknown"]
    if not 0 <= removed < 1 or (np.diff(unknown) > 0).any():
        raise ValueError("a calibration whose evidence of unknown items does not descend")
    return PresenceModel(bias, slope, unknown, removed)


def least_evidence_of(calibration: Calibration | None, unknown_rate: float) -> float:
    """The evidence that a query must exceed to get answers; raises if nothing tells it."""
    if calibration is None:
        raise InvalidInputError(
            "`unknown_rate` must be used after `calibrate`, which tells what queries of other "
            "items look like; `save` keeps it."
        )
    if calibration.presence is None:
        raise InvalidInputError(
            "`unknown_rate` is not available: `calibrate` found too few rows of the same item to "
            "tell what queries of other items look like."
        )
    return calibration.presence.least_evidence(unknown_rate)


def threshold_of(
    calibration: Calibration | None, threshold: float | None, pair_false_match_rate: float | None
) -> float | None:
    """The largest distance of a result, given as such or by a rate; None for any distance."""
    if threshold is not None and pair_false_match_rate is not None:
        raise InvalidInputError("`threshold` or `pair_false_match_rate` must be given, got both.")
    if threshold is not None:
        return check_float("threshold", threshold, 0)
    if pair_false_match_rate is None:
        return None
    if calibration is None:
        raise InvalidInputError(
            "`pair_false_match_rate` must be used after `calibrate`, which tells what distances "
            "mean; `save` keeps it."
        )
    return calibration.threshold(check_float("pair_false_match_rate", pair_false_match_rate, 0, 1))


def calibrate(engine: Engine, labels: Any, sample: int) -> Calibration:
    """Take rows of the gallery as queries, each without itself, and count what lies how near.

    Without labels whatever lies outside the query's local cluster counts as wrong: of all other
    rows next to none belong to it, and those few make the rate look a little worse than it is.

    labels : as users give them to ``Index.calibrate``; None for none
    sample : how many rows are taken as queries
    """
    state = engine.state
    state.check_vectors("`calibrate` is not available")
    known_labels = None if labels is None else _labels_by_index(labels, state)
    gallery_rows = np.flatnonzero(state.order < state.n_gallery)
    n_queries = min(sample, state.n_gallery)
    spread_indices = np.linspace(0, state.n_gallery - 1, n_queries).astype(np.int32)
    query_rows = np.unique(state.position[spread_indices])
    # How many right and wrong pairs lie at each threshold, and at none below.
    right = np.zeros(BINS + 1, np.int64)
    wrong = np.zeros(BINS + 1, np.int64)
    with progress.stage("calibration", len(query_rows)) as advance:
        for row in query_rows:
            distances = row_distances(engine, int(row))
            others = gallery_rows[gallery_rows != row]
            is_right = _show_same_item(state, known_labels, int(row), others)
            # A distance counts from the first threshold that is not below it.
            bins = np.clip(np.ceil(distances[others] * BINS), 0, BINS).astype(np.int64)
            right += np.bincount(bins[is_right], minlength=BINS + 1)
            wrong += np.bincount(bins[~is_right], minlength=BINS + 1)
            advance(1)
    calibration = _rates(right, wrong, len(query_rows), labelled=known_labels is not None)
    # Shuffled: rows of an item are often given one after the other.
    order = np.random.default_rng(0).permutation(state.n_gallery).astype(np.int32)
    rows_of_item: RowsOfItem
    if known_labels is None:
        rows_of_item = SameItemRows(engine).rows_of_item
    else:
        rows_of_item = _rows_of_label(known_labels)
    return replace(calibration, presence=fit_presence(engine, rows_of_item, order, sample))


def _labels_by_index(labels: Any, state: State) -> npt.NDArray[Any]:
    """(n_gallery,) the labels by gallery index; given as such an array, or as a dict by id."""
    if isinstance(labels, Mapping):
        ids = state.ids.tolist()
        missing = [item_id for item_id in ids if item_id not in labels]
        if missing:
            raise InvalidInputError(
                f"`labels` must have every id of the index, got none for {missing[0]!r}."
            )
        labels = [labels[item_id] for item_id in ids]
    return as_labels("labels", labels, state.n_gallery, "rows of the index", "biufU")


def _rows_of_label(labels: npt.NDArray[Any]) -> RowsOfItem:
    """A function from a gallery index to the indices of all rows with its label."""
    codes = np.unique(labels, return_inverse=True)[1].ravel()  # labels as 0, 1, 2, ...
    by_label = np.argsort(codes, kind="stable").astype(np.int32)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(codes))])

    def rows_of_item(index: int) -> Ints:
        """The indices of the rows with the label of the row ``index``."""
        code = codes[index]
        return by_label[bounds[code] : bounds[code + 1]]

    return rows_of_item


def _show_same_item(
    state: State, labels: npt.NDArray[Any] | None, row: int, others: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Which of some other rows show the item of ``row``: by labels, or as they are in its cluster.

    labels : (n_gallery,) by gallery index; None for none. Returns (len(others),).
    """
    if labels is not None:
        return np.asarray(labels[state.order[others]] == labels[state.order[row]])
    rows_of_f = state.similarity or state.smoothed
    cluster = take(rows_of_f, np.array([row], np.int32)).indices
    return np.isin(others, cluster)


def _rates(right: Any, wrong: Any, n_queries: int, *, labelled: bool) -> Calibration:
    """A calibration without presence.

    right, wrong : (BINS + 1,) how many pairs lie between each threshold and the one below
    labelled : whether labels said so; only then there are precision and recall
    """
    right_below = np.cumsum(right)
    wrong_below = np.cumsum(wrong)
    precision = None
    recall = None
    if labelled:
        below = right_below + wrong_below
        precision = np.where(below > 0, right_below / np.maximum(below, 1), 1.0)
        recall = right_below / max(int(right_below[-1]), 1)
    return Calibration(
        thresholds=np.arange(BINS + 1) / BINS,
        pair_false_match_rate=wrong_below / max(int(wrong_below[-1]), 1),
        false_matches=wrong_below / n_queries,
        precision=precision,
        recall=recall,
        n_queries=n_queries,
    )
