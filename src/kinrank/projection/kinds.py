"""The kinds of projections: ``kind`` of ``Projection.fit``, and ``whiten`` of methods."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kinrank import progress
from kinrank.arrays import IN_MEMORY, Arrays
from kinrank.errors import InvalidInputError, shown
from kinrank.parallel import Runner
from kinrank.projection.arrays import Wide, unit_around
from kinrank.projection.evidence import CERTAIN, CLEARER, COUPLED, certainty, contrast, couples
from kinrank.projection.learning import Coordinates, learnt_matrix
from kinrank.projection.pairs import Pairs, found_pairs, label_numbers, with_labels
from kinrank.projection.powers import FULL, refuse_too_wide, scaled, whitening
from kinrank.projection.projection import Projection, identity
from kinrank.projection.sample import Sample, learning_rows, unit_rows_at
from kinrank.search.blas import one_blas_thread
from kinrank.types import Floats, Longs
from kinrank.validation import Matrices, check_float

Kind: TypeAlias = str | float
Whiten: TypeAlias = str | float | Projection | None

VIEWS = "views"
LEARNT = ("pairs", VIEWS)
HALF = 0.25  # the power of half-whitening
FEWEST_ROWS = 800  # with fewer, maps lose more often than they gain
FEWEST_LABELLED = 8
FEWEST_PAIRS = 8
_WORDS = "'pairs', 'views' or a power between 0 and 0.5"


def check_kind(name: str, value: Any) -> Kind:
    """What ``kind`` may be."""
    if isinstance(value, str) and value in LEARNT:
        return value
    try:
        return check_float(name, float(value) if isinstance(value, str) else value, 0, FULL)
    except (ValueError, InvalidInputError):
        raise InvalidInputError(f"`{name}` must be {_WORDS}, got {shown(value)}.") from None


def check_whiten(name: str, value: Any) -> Whiten:
    """What ``whiten`` may be: None, a kind, a fitted projection, or a file with one."""
    if value is None or isinstance(value, Projection):
        return value
    if isinstance(value, str | Path) and value not in LEARNT:
        try:
            value = float(str(value))
        except ValueError:
            if str(value) and Path(value).is_file():
                return Projection.load(value)
    try:
        return check_kind(name, value)
    except InvalidInputError:
        raise InvalidInputError(
            f"`{name}` must be None, {_WORDS}, a Projection or a file of one, got {shown(value)}."
        ) from None


def projection_for(
    whiten: Whiten, matrices: Matrices, threads: int = 1, arrays: Arrays = IN_MEMORY
) -> Projection | None:
    """The projection that ``whiten`` is for checked rows: fitted to them if it is a kind.

    threads : of this process, which learns it wherever else the run is: from a few thousand rows
    arrays : remembers it for a run that goes on later
    """
    if whiten is None:
        return None
    name, first = matrices[0]
    if isinstance(whiten, Projection):
        if whiten.width != first.shape[1] or whiten.dims < 1:
            raise InvalidInputError(
                f"`whiten` must be a projection of {first.shape[1]} columns, as `{name}` has, "
                f"got one of {whiten.width} to {whiten.dims}."
            )
        return whiten

    @cache
    def fitted() -> Projection:
        return fit_kind(matrices, whiten, None, Runner(threads))

    def mean_and_matrix() -> Any:
        return np.concatenate([fitted().mean[None], fitted().matrix])

    def words() -> Any:
        return np.frombuffer(json.dumps(fitted().words).encode(), np.uint8)

    kept = arrays.kept("projection", mean_and_matrix)
    text = arrays.kept("projection.words", words)
    return Projection.of_words(kept[0], kept[1:], json.loads(text.tobytes()))


def fit_kind(matrices: Matrices, kind: Kind, ids: Any, run: Runner) -> Projection:
    """The projection of a kind for checked rows; see ``Projection.fit``."""
    name, first = matrices[0]
    if not isinstance(kind, str):
        if ids is not None:
            raise InvalidInputError(
                f"`ids` are for kind='pairs' and 'views', got kind={kind}: a power of whitening "
                "learns nothing from labels."
            )
        mean, matrix = whitening(matrices, kind)
        reason = f"Whitening of the power {kind:g}, fitted to {_count(matrices):,} rows."
        whitened = _projection(mean, [matrix], f"{kind:g}", reason)
        return replace(whitened, rows=_count(matrices))
    width = first.shape[1]
    refuse_too_wide(name, width)
    labels = None if ids is None else label_numbers(ids, _count(matrices))
    if labels is not None and labels.max() < 0:  # no row has one
        labels = None
    with progress.stage("projection", 1), one_blas_thread(wait=True):
        try:
            learnt = _learn(matrices, kind, labels, run)
        except NothingToLearnError as nothing:
            learnt = identity(width, str(nothing))
    return replace(learnt, rows=_count(matrices))


class NothingToLearnError(Exception):
    """Why a collection teaches nothing, in a sentence; never leaves this module."""


def _learn(matrices: Matrices, kind: str, labels: Longs | None, run: Runner) -> Projection:
    """Learn from pairs."""
    sample = learning_rows(matrices, run)  # reads all rows, and refuses NaN
    rows = unit_rows_at(matrices, sample.rows)
    _refuse_few(matrices, labels)
    _refuse_copies(rows, labels)
    mean = rows.mean(axis=0, dtype=np.float64)
    space = Coordinates.of(unit_around(rows, mean))
    if labels is None:
        _refuse_couples(space, sample)
    searched = space.unit_rows
    found_in = "rows"
    half_whitened = space.half_whitened
    if contrast(half_whitened) >= CLEARER * contrast(searched):
        searched = half_whitened
        found_in = "half-whitened rows"
    pairs = found_pairs(searched, run)
    source = "CAS found"
    if labels is None:
        _refuse_chance(space, pairs, run)
    else:
        source = "their labels make"
        pairs = with_labels(pairs, labels[sample.rows])
    pairs = _of_different_rows(pairs, rows)
    among = f"among {len(rows):,} {found_in}"
    if len(pairs) < FEWEST_PAIRS:
        raise NothingToLearnError(f"{len(pairs)} pairs were found {among}: too few to learn.")
    matrix = learnt_matrix(space, pairs, run)
    if not len(matrix):
        raise NothingToLearnError("No direction tells kinds apart: partners differ as others do.")
    learnt_from = f"{len(pairs):,} pairs that {source} {among}"
    if kind == VIEWS:
        half = scaled(space.variances, space.directions, HALF)
        reason = f"Half-whitened, and learnt from {learnt_from}, side by side."
        return _projection(mean, [half, matrix], kind, reason)
    return _projection(mean, [matrix], kind, f"Learnt from {learnt_from}.")


def _fewest(labels: Longs | None) -> int:
    """How many rows must differ from each other."""
    return FEWEST_ROWS if labels is None else FEWEST_LABELLED


def _refuse_few(matrices: Matrices, labels: Longs | None) -> None:
    """Refuse vectors that are too short or too few."""
    n = _count(matrices)
    if matrices[0][1].shape[1] < 2:
        raise NothingToLearnError("Vectors of one column have no directions to choose from.")
    if n < _fewest(labels):
        raise NothingToLearnError(
            f"{n} rows are too few to learn from ({_fewest(labels)} at least)."
        )


def _refuse_copies(rows: Floats, labels: Longs | None) -> None:
    """Refuse copies of a few rows."""
    distinct = len({row.tobytes() for row in rows})
    if distinct == 1:
        raise NothingToLearnError("All rows are equal.")
    if distinct < _fewest(labels):
        raise NothingToLearnError(
            f"Only {distinct} rows differ from each other ({_fewest(labels)} at least)."
        )


def _refuse_couples(space: Coordinates, sample: Sample) -> None:
    """Refuse rows of which each has one partner."""
    coupled = couples(space.unit_rows, sample.drawn)
    if coupled >= COUPLED:
        raise NothingToLearnError(
            "Rows seem to come in twos, and one partner says too little of directions: the step "
            f"from the nearest row to the second is {coupled:.1f} times what it is where rows have "
            f"no partner or several (less than {COUPLED} to learn)."
        )


def _refuse_chance(space: Coordinates, pairs: Pairs, run: Runner) -> None:
    """Refuse pairs such as rows without kinds have them too."""
    certain = certainty(space, pairs, run)
    if certain < CERTAIN:
        raise NothingToLearnError(
            "There seem to be no kinds to learn from: partners are hardly more certain than in a "
            f"normal distribution of the same covariance ({certain:.1f} times, {CERTAIN} is the "
            "least)."
        )


def _of_different_rows(pairs: Pairs, rows: Floats) -> Pairs:
    """Without copies of one row, which say nothing of directions."""
    numbers: dict[bytes, int] = {}
    copy_of = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows])
    kept = copy_of[pairs.first] != copy_of[pairs.second]
    return Pairs(pairs.first[kept], pairs.second[kept], pairs.weight[kept])


def _projection(mean: Wide, blocks: list[Wide], kind: str, reason: str) -> Projection:
    return Projection(
        mean.astype(np.float32),
        np.concatenate(blocks).astype(np.float32),
        tuple(len(block) for block in blocks),
        kind=kind,
        reason=reason,
    )


def _count(matrices: Matrices) -> int:
    return sum(len(matrix) for _, matrix in matrices)
