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
from kinrank.index.state import State
from kinrank.stages.sparse import take
from kinrank.validation import as_array, check_float

Rates = npt.NDArray[np.float64]

BINS = 1000
_RATES = ("false_match_rate", "false_matches", "precision", "recall")


@dataclass(frozen=True, eq=False)
class Calibration:
    """Rates at thresholds 0, 0.001, ... 1: a row counts as a match at a distance up to that.

    false_match_rate : of the rows that do not belong to a query, the share that counts as a match
    false_matches : how many that are, for each query
    precision, recall : of what counts as a match, the share that is right; of what is right, the
        share that counts as one. None without labels.
    n_queries : rows of the gallery that were asked, each without itself
    presence : what tells how probable it is that a query shows something of the gallery, from rows
        that were taken out of it alone and with all their like; None for a gallery too small
    """

    thresholds: Rates
    false_match_rate: Rates
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
            named["presence"] = np.array([self.presence.bias, self.presence.slope])
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Calibration | None:
        """What ``arrays`` made; None of nothing."""
        if not arrays:
            return None
        lengths = {"n_queries": 1, "presence": 2}
        for name, array in arrays.items():
            right = array.shape == (lengths.get(name, BINS + 1),) and array.dtype == np.float64
            if not right or not np.isfinite(array).all() or name not in {*_RATES, *lengths}:
                raise ValueError(f"a calibration with {name!r} of {array.dtype} {array.shape}")
        rate, matches, *shares = (arrays.get(name) for name in _RATES)
        if rate is None or matches is None or "n_queries" not in arrays:
            raise ValueError("half a calibration")
        presence = PresenceModel(*arrays["presence"].tolist()) if "presence" in arrays else None
        count = int(arrays["n_queries"][0])
        return cls(np.arange(BINS + 1) / BINS, rate, matches, shares[0], shares[1], count, presence)

    def threshold(self, false_match_rate: float) -> float:
        """The largest threshold with a false-match rate of no more than that."""
        below = np.flatnonzero(self.false_match_rate <= false_match_rate)
        return float(self.thresholds[below[-1]]) if len(below) else 0.0

    def at(self, threshold: float) -> dict[str, float]:
        """All rates at a threshold."""
        place = int(np.clip(round(threshold * BINS), 0, BINS))
        rates = {"threshold": self.thresholds}
        rates |= {name: getattr(self, name) for name in _RATES if getattr(self, name) is not None}
        return {name: float(rate[place]) for name, rate in rates.items()}


def threshold_of(
    calibration: Calibration | None, threshold: float | None, false_match_rate: float | None
) -> float | None:
    """The largest distance of a result, given as such or by a rate; None for any distance."""
    if threshold is not None and false_match_rate is not None:
        raise InvalidInputError("`threshold` or `false_match_rate` must be given, got both.")
    if threshold is not None:
        return check_float("threshold", threshold, 0)
    if false_match_rate is None:
        return None
    if calibration is None:
        raise InvalidInputError(
            "`false_match_rate` must be used after `calibrate`, which tells what distances mean; "
            "`save` keeps it."
        )
    return calibration.threshold(check_float("false_match_rate", false_match_rate, 0, 1))


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
    alike = []
    right = np.zeros(BINS + 1, np.int64)
    wrong = np.zeros(BINS + 1, np.int64)
    with progress.stage("calibration", len(asked)) as advance:
        for row in asked:
            distances = row_distances(engine, int(row))
            others = gallery[gallery != row]
            same = _same(state, known, int(row), others)
            alike.append(np.append(state.order[others[same]], state.order[row]))
            # A distance counts from the first threshold that is not below it.
            bins = np.clip(np.ceil(distances[others] * BINS), 0, BINS).astype(np.int64)
            right += np.bincount(bins[same], minlength=BINS + 1)
            wrong += np.bincount(bins[~same], minlength=BINS + 1)
            advance(1)
    rates = _rates(right, wrong, len(asked), labelled=known is not None)
    # In an order of its own: neighbours lie side by side, and would be taken out together.
    order = np.random.default_rng(0).permutation(len(asked))
    model = fit_presence(engine, [alike[at] for at in order], state.order[asked[order]])
    return replace(rates, presence=model)


def _labels(labels: Any, state: State) -> npt.NDArray[Any]:
    """Labels by name; given as an array in that order, or by id."""
    if isinstance(labels, Mapping):
        ids = state.ids.tolist()
        missing = [key for key in ids if key not in labels]
        if missing:
            raise InvalidInputError(
                f"`labels` must have every id of the index, got none for {missing[0]!r}."
            )
        return as_array("labels", [labels[key] for key in ids])
    array = as_array("labels", labels)
    if array.shape != (state.n_gallery,):
        raise InvalidInputError(
            f"`labels` must be one per gallery row ({state.n_gallery}), got shape {array.shape}."
        )
    return array


def _same(
    state: State, labels: npt.NDArray[Any] | None, row: int, others: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Which rows belong to the one that is asked."""
    if labels is not None:
        return np.asarray(labels[state.order[others]] == labels[state.order[row]])
    return np.isin(others, take(state.f or state.smoothed, np.array([row], np.int32)).indices)


def _rates(right: Any, wrong: Any, n_queries: int, *, labelled: bool) -> Calibration:
    true, false = np.cumsum(right), np.cumsum(wrong)
    precision = recall = None
    if labelled:
        precision = np.where(true + false > 0, true / np.maximum(true + false, 1), 1.0)
        recall = true / max(int(true[-1]), 1)
    rate = false / max(int(false[-1]), 1)
    thresholds = np.arange(BINS + 1) / BINS
    return Calibration(thresholds, rate, false / n_queries, precision, recall, n_queries)
