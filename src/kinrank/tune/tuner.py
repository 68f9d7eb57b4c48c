"""`kinrank.tune`: parameters chosen without labels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from kinrank import progress
from kinrank.compiling import prepare
from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.methods.base import Method
from kinrank.methods.common import measures_angles
from kinrank.parallel import Runner
from kinrank.registry import make_method
from kinrank.search.exact import exact_search
from kinrank.search.stored import whitening_for
from kinrank.tune.diagnosis import Diagnosis, Evidence, judge, look
from kinrank.tune.param_grid import ParamGrid, param_grid
from kinrank.tune.result import Tuning
from kinrank.tune.scoring import DEPTHS, agreement, expected_gain
from kinrank.tune.search import Search, allowed_values
from kinrank.tune.split import Pair, draw, list_length, sample_size, split, view
from kinrank.types import Floats, Ints
from kinrank.validation import as_matrix, as_vectors, check_float, check_int, same_width

LEAST_ROWS = 64  # with fewer there is nothing to learn from
PAIR_ROWS, PAIR_RUNS = 5000, 10  # a pair of halves of so many rows costs at most so many runs
MOST_PAIRS = 4
LISTED = 4  # the gain is measured on so many times the results that both halves are asked for
SAME_NORM = 0.01  # how far norms of unit vectors may differ; half precision makes them
Look: TypeAlias = tuple[Floats, Pair]  # rows, and both halves of their features
UNKNOWN = Diagnosis(
    cluster_sizes=(0, 0, 0), singletons=0.0, hubness=0.0, intrinsic_dimension=0.0, helps=True,
    reason="There are too few rows to tell.",
)  # fmt: skip


def run_tuning(
    queries: Any, gallery: Any, method: str, budget: float, seed: int, threads: int | None,
    block_size: int | None, fixed: dict[str, Any],
) -> Tuning:  # fmt: skip
    """See ``kinrank.tune``."""
    begun = time.perf_counter()
    prepare("tune")
    grid, run = param_grid(method), Runner.of(threads, block_size)
    check_float("budget", budget, 0, low_open=True)
    random = np.random.default_rng(check_int("seed", seed, 0))
    vectors = _vectors(queries, gallery, make_method(method, **fixed))
    n_queries = 0 if queries is None else len(as_matrix("queries", queries))
    tuning = Tuning(
        method=method, params=fixed, curves=(), gain=0.0, gain_error=0.0, diagnosis=UNKNOWN,
        seconds=0.0, n_rows=len(vectors), n_sampled=0, n_pairs=0, seed=seed,
    )  # fmt: skip
    if len(vectors) < LEAST_ROWS:
        _warn(
            f"There are only {len(vectors)} rows, too few to choose parameters from: "
            "the defaults are used."
        )
        return tuning
    tuning = _tuned(tuning, vectors, n_queries, grid, budget, random, run)
    if not tuning.diagnosis.helps:
        _warn(f"Re-ranking is not expected to help here. {tuning.diagnosis.reason}")
    return replace(tuning, seconds=time.perf_counter() - begun)


def _warn(text: str) -> None:
    warnings.warn(text, KinrankWarning, stacklevel=4)  # where `kinrank.tune` was called


def _tuned(
    empty: Tuning, vectors: Floats, n_queries: int, grid: ParamGrid, budget: float,
    random: np.random.Generator, run: Runner,
) -> Tuning:  # fmt: skip
    """The search itself: first the size, then options at that size, then what it all brings."""
    n, fixed = len(vectors), empty.params
    # How many pairs of halves the budget pays for; small collections are cheap.
    share = budget / PAIR_RUNS * PAIR_ROWS / sample_size(n)
    n_pairs = int(np.clip(round(share), 1, MOST_PAIRS))
    # All pairs are of the same rows, or each is of other regions and too few to tell much alone.
    tested = 1 if sample_size(n) == n else n_pairs
    sizes = [size for size in grid.values if size <= n // 2]
    values = allowed_values(empty.method, fixed, grid.size, sizes)
    length = _length(empty, grid, values)
    with progress.stage("diagnosis", 1):
        groups, hubs = look(vectors, random, run)
    with progress.stage("halves", n_pairs):
        looks = _looks(vectors, n_queries, n_pairs, length, random, run)
    n_options = sum(len(options) - 1 for options in grid.rest.values())
    n_trials = len(values) * n_pairs + (n_options + 1) * tested
    with progress.stage("trials", n_trials + 1) as advance, _quiet():
        pairs, effort = [pair for _, pair in looks], share / tested
        search = Search(empty.method, fixed, grid, pairs, tested, effort, run, advance)
        curves = [] if grid.size in fixed else [search.size(values, groups.size)]
        size = int(curves[0].chosen if curves else fixed[grid.size])
        curves += search.options(size)
        params = {**fixed, **{curve.parameter: curve.chosen for curve in curves}}
        evidence, gain, error = _brings(search.make(**params), size, looks[:tested], length, run)
    diagnosis = judge(groups, hubs, evidence)
    return replace(
        empty, params=params, curves=tuple(curves), diagnosis=diagnosis,
        gain=gain if diagnosis.helps else 0.0, gain_error=error if diagnosis.helps else 0.0,
        n_sampled=len(looks[0][0]), n_pairs=n_pairs,
    )  # fmt: skip


def _looks(
    vectors: Floats, n_queries: int, count: int, length: int, random: np.random.Generator,
    run: Runner,
) -> list[Look]:  # fmt: skip
    """Rows to look at, those that are asked for first, and halves of their features."""
    norms = np.linalg.norm(vectors[:: max(1, len(vectors) // 1000)], axis=1)
    unit = bool(np.ptp(norms) <= SAME_NORM * norms.max())  # as far as a few rows tell
    looks = []
    for sample in draw(vectors, n_queries, count, random, run):
        rows = vectors[sample.rows]
        pair = split(rows, sample.n_asked, min(length, len(rows)), random, run, unit=unit)
        looks.append((rows, pair))
    return looks


def _brings(
    method: Method, size: int, looks: list[Look], length: int, run: Runner
) -> tuple[Evidence, float, float]:
    """What the method makes of the first rows; the expected gain and its standard error."""
    room = min(len(rows) - pair.one.rows.n_queries for rows, pair in looks)
    depth = min(max(size, DEPTHS[-1]), room)
    listed = min(LISTED * depth, room)
    rankings = [_rankings(method, depth, listed, look, length, run) for look in looks]
    one, other, plain_one, plain_other, before, after = map(
        np.concatenate, zip(*rankings, strict=True)
    )
    few, many = DEPTHS[-1:], (depth,)
    more = agreement(one, other, few) - agreement(plain_one, plain_other, few)
    evidence = Evidence(
        more=float(more.mean()),
        error=float(more.std() / np.sqrt(len(more))),
        before=float(agreement(plain_one, plain_other, many).mean()),
        after=float(agreement(one, other, many).mean()),
        chance=depth / room,
    )
    return evidence, *expected_gain(before, after, one, other)


def _rankings(
    method: Method, depth: int, listed: int, look: Look, length: int, run: Runner
) -> tuple[Ints, ...]:
    """Of both halves by the method, of both by plain search; by all features, before and after."""
    rows, pair = look
    n_asked = pair.one.rows.n_queries
    plain = (
        exact_search(half.rows.queries, half.rows.gallery, depth, run).indices
        for half in (pair.one, pair.other)
    )
    before = exact_search(rows[:n_asked], rows[n_asked:], listed, run).indices
    whole = view(rows, n_asked, min(length, len(rows)), run)
    return *pair.first(method, depth, run), *plain, before, whole.first(method, listed, run)


def _vectors(queries: Any, gallery: Any, method: Method) -> Floats:
    named = ([] if queries is None else [("queries", queries)]) + [("gallery", gallery)]
    onto = whitening_for(method.whiten, same_width(*named)[-1:])
    vectors = as_vectors(*named, cosine=measures_angles(method), onto=onto)
    if vectors.shape[1] < 2:
        raise InvalidInputError(
            "`gallery` must have at least 2 columns, so that features can be split, got 1."
        )
    return vectors


def _length(empty: Tuning, grid: ParamGrid, values: list[int]) -> int:
    """The longest neighbour lists that any trial asks for."""
    tried = [{}, *({name: options[-1]} for name, options in grid.rest.items())]
    return max(
        list_length(make_method(empty.method, **{grid.size: values[-1], **params, **empty.params}))
        for params in tried
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Trials neither report their stages nor warn that sizes are reduced."""
    with warnings.catch_warnings(), progress.listen(lambda *_: None):
        warnings.simplefilter("ignore", KinrankWarning)
        yield
