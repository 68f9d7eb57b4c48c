"""A search under conditions: who may be an answer, how near, and what is asked for together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.filters import Filter, filter_of
from kinrank.index.calibrate import Calibration
from kinrank.index.engine import Engine
from kinrank.index.ids import named
from kinrank.index.presence import evidence
from kinrank.index.several import Asked, Marks, rank_together
from kinrank.parallel import Runner
from kinrank.things import Things, things_of
from kinrank.types import Floats, Ranking
from kinrank.validation import as_array, check_bool, check_float, check_int


class Conditions(NamedTuple):
    """See ``Index.search``."""

    allowed: Any = None
    exclude: Any = None
    where: Any = None
    differ: Any = None
    threshold: float | None = None
    false_match_rate: float | None = None
    of: Any = None
    right: Any = None
    wrong: Any = None
    base: bool = False


def ask(
    engine: Engine, calibration: Calibration | None, queries: Any, k: int | None,
    given: Conditions, run: Runner,
) -> Ranking:  # fmt: skip
    """The first ``k`` rows for each query, or for each thing that queries show."""
    state, limit = engine.state, _threshold(calibration, given)
    array = as_array("queries", queries)
    rows = state.scaling.apply("queries", array[None] if array.ndim == 1 else array)
    k = state.n_gallery if k is None else min(check_int("k", k, 1), state.n_gallery)
    things = None if given.of is None else things_of(given.of, len(rows))
    count = len(rows) if things is None else len(things)
    marks = Marks.of(given.right, given.wrong, count, state.table)
    if marks is not None and things is None:
        things = [np.array([row]) for row in range(len(rows))]
    filtered = _filter(engine, len(rows), given, marks, things)

    def rank(vectors: Floats, depth: int, allowed: Filter | None) -> Ranking:
        by = engine.base if given.base else engine.answer
        return by(vectors, depth, run, allowed)

    check_bool("base", given.base)
    if things is None:
        found = rank(rows, k, filtered)
    else:
        asked = Asked.alone(rows, things)
        asked = asked if marks is None else marks.joined(engine, rows, things)
        found = rank_together(rank, asked, state.n_gallery, k, filtered)
    found = Ranking(found.indices, found.distances, named(state.ids, found.indices))
    if calibration is not None and calibration.presence is not None and not given.base:
        proof = _evidence(engine, rows, found, things)
        found = replace(found, presence=calibration.presence.probability(proof))
    return found.within(limit) if limit < math.inf else found


def _filter(
    engine: Engine, n_queries: int, given: Conditions, marks: Marks | None, things: Things | None
) -> Filter | None:
    """What may be an answer to each query."""
    state, known = engine.state, engine.attributes
    more = [*known.where(given.where), *known.differ(given.differ, n_queries)]
    if marks is not None and things is not None:
        more.append(marks.not_wrong(things, n_queries, state.n_gallery))
    sizes, places = (n_queries, state.n_gallery), state.table.places
    return filter_of(*sizes, given.allowed, given.exclude, places=places, more=more)


def _evidence(engine: Engine, rows: Floats, found: Ranking, things: Things | None) -> Any:
    """That each query, or thing, is known: for a thing the mean over its pictures."""
    if things is None:
        return evidence(engine, rows, found)
    owners = np.repeat(np.arange(len(things)), [len(pictures) for pictures in things])
    each = Ranking(found.indices[owners, :1], found.distances[owners, :1])
    values = evidence(engine, rows[np.concatenate(things)], each)
    return np.array([values[owners == thing].mean() for thing in range(len(things))])


def _threshold(calibration: Calibration | None, given: Conditions) -> float:
    """The largest distance of an answer."""
    threshold, rate = given.threshold, given.false_match_rate
    if threshold is not None and rate is not None:
        raise InvalidInputError("`threshold` or `false_match_rate` must be given, got both.")
    if rate is None:
        return math.inf if threshold is None else check_float("threshold", threshold, 0)
    if calibration is None:
        raise InvalidInputError(
            "`false_match_rate` must be used after `calibrate`, which tells what distances mean; "
            "`save` keeps it."
        )
    return calibration.threshold(check_float("false_match_rate", rate, 0, 1))
