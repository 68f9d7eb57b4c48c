"""What a distance means: how many wrong rows, and how many right ones, lie below a threshold."""

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

BINS = 1000
_RATES = ("pair_false_match_rate", "false_matches", "precision", "recall")


@dataclass(frozen=True, eq=False)
class Calibration:
    """Rates at thresholds 0, 0.001, ... 1: a row counts as a match at a distance up to that.

    pair_false_match_rate : of all pairs of a query and a row that does not belong to it, the share
        that counts as a match (false match rate of biometrics, FMR)
    false_matches : how many that are, for each query
    precision, recall : of what counts as a match, the share that is right; of what is right, the
        share that counts as one. None without labels.
    n_queries : rows of the gallery that were asked, each without itself
    presence : what tells how probable it is that a query shows something of the gallery, from rows
        that were taken out of it alone and with all their like; None for a gallery too small
    """

    thresholds: Rates
    pair_false_match_rate: Rates
    false_matches: Rates
    precision: Rates | None
    recall: Rates | None
    n_queries: int
    presence: PresenceModel | None = None

    def arrays(self) -> dict[str, Rates]:
        """As files keep it."""
        named = {name: getattr(self, name) for name in _RATES}
        named["n_queries"] = np.array([self.n_queries], np.float64)
        if self.presence is not None:
            model = self.presence
            named["presence"] = np.array([model.bias, model.slope, model.removed])
            named["unknown"] = model.unknown
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Calibration | None:
        """What ``arrays`` made; None of nothing."""
        if not arrays:
            return None
        lengths = dict.fromkeys(_RATES, BINS + 1) | {"n_queries": 1, "presence": 3}
        for name, array in arrays.items():
            length = array.size if name == "unknown" else lengths.get(name, -1)
            finite = array.dtype == np.float64 and bool(np.isfinite(array).all())
            if array.shape != (length,) or not finite:
                raise ValueError(f"a calibration with {name!r} of {array.dtype} {array.shape}")
        rate, matches, *shares = (arrays.get(name) for name in _RATES)
        if rate is None or matches is None or "n_queries" not in arrays:
            raise ValueError("half a calibration")
        presence = _presence_model(arrays)
        count = int(arrays["n_queries"][0])
        return cls(np.arange(BINS + 1) / BINS, rate, matches, shares[0], shares[1], count, presence)

    def threshold(self, pair_false_match_rate: float) -> float:
        """The largest threshold with a rate of false pairs of no more than that."""
        below = np.flatnonzero(self.pair_false_match_rate <= pair_false_match_rate)
        return float(self.thresholds[below[-1]]) if len(below) else 0.0

    def least_presence(self, unknown_rate: float) -> float:
        """The ``Ranking.presence`` that ``search(unknown_rate=...)`` asks for."""
        limit = least_evidence_of(self, unknown_rate)
        assert self.presence is not None
        return float(self.presence.probability(np.array([limit]))[0])

    def at(self, threshold: float) -> dict[str, float]:
        """All rates at a threshold."""
        place = int(np.clip(round(threshold * BINS), 0, BINS))
        rates = {"threshold": self.thresholds}
        rates |= {name: getattr(self, name) for name in _RATES if getattr(self, name) is not None}
        return {name: float(rate[place]) for name, rate in rates.items()}


def _presence_model(arrays: dict[str, npt.NDArray[Any]]) -> PresenceModel | None:
    """The model of a file; None where it has none."""
    if "presence" not in arrays and "unknown" not in arrays:
        return None
    if "presence" not in arrays or "unknown" not in arrays:
        raise ValueError("half a calibration")
    bias, slope, removed = arrays["presence"].tolist()
    unknown = arrays["unknown"]
    if not 0 <= removed < 1 or (np.diff(unknown) > 0).any():
        raise ValueError("a calibration whose rows that were taken out are in no order")
    return PresenceModel(bias, slope, unknown, removed)


def least_evidence_of(calibration: Calibration | None, unknown_rate: float) -> float:
    """The evidence that a query must pass to be answered."""
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
    """Ask rows of the gallery, each without itself.

    Without labels, whatever lies outside the query's local cluster counts as wrong: of all other
    rows next to none belong to it, and those few make the rate look a little worse than it is.
    """
    state = engine.state
    state.check_vectors("`calibrate` is not available")
    known = None if labels is None else _labels(labels, state)
    gallery = np.flatnonzero(state.order < state.n_gallery)
    n_queries = min(sample, state.n_gallery)
    spread = np.linspace(0, state.n_gallery - 1, n_queries).astype(np.int32)
    asked = np.unique(state.position[spread])
    right = np.zeros(BINS + 1, np.int64)
    wrong = np.zeros(BINS + 1, np.int64)
    with progress.stage("calibration", len(asked)) as advance:
        for row in asked:
            distances = row_distances(engine, int(row))
            others = gallery[gallery != row]
            same = _same(state, known, int(row), others)
            # A distance counts from the first threshold that is not below it.
            bins = np.clip(np.ceil(distances[others] * BINS), 0, BINS).astype(np.int64)
            right += np.bincount(bins[same], minlength=BINS + 1)
            wrong += np.bincount(bins[~same], minlength=BINS + 1)
            advance(1)
    rates = _rates(right, wrong, len(asked), labelled=known is not None)
    # In an order of its own: rows of an item are often given one after the other.
    order = np.random.default_rng(0).permutation(state.n_gallery).astype(np.int32)
    rows_of_item = SameItemRows(engine).rows_of_item if known is None else _rows_of_label(known)
    return replace(rates, presence=fit_presence(engine, rows_of_item, order, sample))


def _labels(labels: Any, state: State) -> npt.NDArray[Any]:
    """Labels by name; given as an array in that order, or by id."""
    if isinstance(labels, Mapping):
        ids = state.ids.tolist()
        missing = [key for key in ids if key not in labels]
        if missing:
            raise InvalidInputError(
                f"`labels` must have every id of the index, got none for {missing[0]!r}."
            )
        labels = [labels[key] for key in ids]
    return as_labels("labels", labels, state.n_gallery, "rows of the index", "biufU")


def _rows_of_label(labels: npt.NDArray[Any]) -> RowsOfItem:
    """The rows that have the label of a row."""
    codes = np.unique(labels, return_inverse=True)[1].ravel()
    by_label = np.argsort(codes, kind="stable").astype(np.int32)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(codes))])

    def rows_of_item(row: int) -> Ints:
        code = codes[row]
        return by_label[bounds[code] : bounds[code + 1]]

    return rows_of_item


def _same(
    state: State, labels: npt.NDArray[Any] | None, row: int, others: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Which rows belong to the one that is asked."""
    if labels is not None:
        return np.asarray(labels[state.order[others]] == labels[state.order[row]])
    return np.isin(
        others, take(state.similarity or state.smoothed, np.array([row], np.int32)).indices
    )


def _rates(right: Any, wrong: Any, n_queries: int, *, labelled: bool) -> Calibration:
    true, false = np.cumsum(right), np.cumsum(wrong)
    precision = recall = None
    if labelled:
        precision = np.where(true + false > 0, true / np.maximum(true + false, 1), 1.0)
        recall = true / max(int(true[-1]), 1)
    rate = false / max(int(false[-1]), 1)
    thresholds = np.arange(BINS + 1) / BINS
    return Calibration(thresholds, rate, false / n_queries, precision, recall, n_queries)
