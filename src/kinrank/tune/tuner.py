"""`kinrank.tune`: parameters chosen without labels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.arrays import Arrays
from kinrank.compiling import prepare
from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.index.auto_parameters import UNSURE
from kinrank.methods.base import Method
from kinrank.methods.common import measures_angles
from kinrank.parallel import Runner
from kinrank.projection.kinds import VIEWS, fit_kind, projection_for
from kinrank.projection.projection import Projection
from kinrank.registry import make_method
from kinrank.runs.execution import Execution
from kinrank.tune.agreement import UnderMap, look_under_map
from kinrank.tune.diagnosis import WILL_HELP, WILL_NOT_HELP, Diagnosis, expected_gain, judge
from kinrank.tune.lists import Lists
from kinrank.tune.look import look
from kinrank.tune.result import Tuning
from kinrank.tune.rules import SAME_NORM, can_be_learnt_from, check_tunable, choose
from kinrank.tune.views import cross_examine, draw
from kinrank.types import Floats
from kinrank.validation import (
    Matrices,
    as_vectors,
    check_float,
    check_int,
    same_width,
)

LEAST_ROWS = 64  # with fewer there is nothing to learn from
BUDGET = 10.0
ASKED = 50  # rows for each unit of the budget, whose neighbours are looked at
UNKNOWN = Diagnosis(
    cluster_sizes=(0, 0, 0),
    singletons=0.0,
    hubness=0.0,
    common=0.0,
    better=0.0,
    verdict=UNSURE,
    reason="There are too few rows to tell.",
)


def run_tuning(
    queries: Any,
    gallery: Any,
    execution: Execution,
    method: str = "cas",
    budget: float = BUDGET,
    seed: int = 0,
    fixed: Mapping[str, Any] = MappingProxyType({}),
) -> Tuning:
    """See ``kinrank.tune``; execution : where long arrays lie, and how many threads work."""
    begun = time.perf_counter()
    prepare("tune")
    check_tunable(method)
    n_asked = max(1, round(ASKED * check_float("budget", budget, 0, low_open=True)))
    random = np.random.default_rng(check_int("seed", seed, 0))
    named = ([] if queries is None else [("queries", queries)]) + [("gallery", gallery)]
    matrices = same_width(*named)
    given = make_method(method, **fixed)
    projection = projection_for(given.whiten, matrices[-1:], execution.runner.threads)
    vectors = _vectors(matrices, given, projection, execution.arrays)
    n = len(vectors)
    tuning = Tuning(
        method=method,
        params=dict(fixed),
        reasons={},
        gain=0.0,
        diagnosis=UNKNOWN,
        seconds=0.0,
        n_rows=n,
        n_sampled=0,
        seed=seed,
        projection=projection,
    )
    if n < LEAST_ROWS:
        _warn(f"There are only {n} rows, too few to choose parameters from: the defaults are used.")
        return tuning
    tuning = replace(tuning, n_sampled=min(n_asked, n))
    tuning = _tuned(tuning, vectors, matrices[-1:], random, execution.runner)
    diagnosis = tuning.diagnosis
    if diagnosis.verdict == WILL_NOT_HELP:
        _warn(f"Re-ranking is not expected to help here. {diagnosis.reason}")
    if diagnosis.verdict == UNSURE:
        _warn(f"Whether re-ranking helps here is unsure. {diagnosis.reason}")
    return replace(tuning, seconds=time.perf_counter() - begun)


def _warn(text: str) -> None:
    warnings.warn(text, KinrankWarning, stacklevel=4)  # where `kinrank.tune` was called


def _tuned(
    empty: Tuning,
    vectors: Floats,
    gallery: Matrices,
    random: np.random.Generator,
    run: Runner,
) -> Tuning:
    """The rules, and the verdict.

    vectors : (n, d) of the collection, queries first; gallery : the rows of users behind these
    """
    n_queries = len(vectors) - len(gallery[0][1])
    lists = Lists(vectors, run)
    with progress.stage("looking at neighbours", 1), _quiet():
        seen = look(lists, empty.n_sampled, random)
    with progress.stage("verdict", 1), _quiet():
        sample, n_asked = draw(vectors, n_queries, random, run)
        rows = vectors[sample]
        norms = np.linalg.norm(rows, axis=1)
        unit = bool(np.ptp(norms) <= SAME_NORM * norms.max())
        evidence = cross_examine(rows, n_asked, random, unit=unit)
        diagnosis = judge(seen, evidence)
    projection = empty.projection
    mapped = UnderMap()
    if "whiten" not in empty.params and can_be_learnt_from(seen, vectors):
        with progress.stage("learning a projection", 1), _quiet():
            projection = fit_kind(gallery, VIEWS, None, run)
            mapped = look_under_map(lists, n_queries, projection, random)
    choice = choose(empty.method, empty.params, seen, mapped, evidence, vectors)
    if choice.params["whiten"] != VIEWS:
        projection = empty.projection
    gain = expected_gain(seen, evidence) if diagnosis.verdict == WILL_HELP else 0.0
    return replace(
        empty,
        params=choice.params,
        reasons=choice.reasons,
        diagnosis=diagnosis,
        gain=gain,
        projection=projection,
    )


def _vectors(
    matrices: Matrices, method: Method, projection: Projection | None, arrays: Arrays
) -> Floats:
    """The rows as the method compares them, one matrix above the other."""
    cosine = measures_angles(method)
    vectors = as_vectors(*matrices, cosine=cosine, empty=arrays.empty, onto=projection)
    if vectors.shape[1] < 2:
        raise InvalidInputError(
            "`gallery` must have at least 2 columns, so that features can be split, got 1."
        )
    return vectors


@contextmanager
def _quiet() -> Iterator[None]:
    """What is tried neither reports its stages nor warns that sizes are reduced."""
    with warnings.catch_warnings(), progress.listen(lambda *_: None):
        warnings.simplefilter("ignore", KinrankWarning)
        yield
