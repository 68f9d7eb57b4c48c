"""What every method promises, as checks that run on a class of your own.

kinrank.testing.check_method(MyMethod)
kinrank.testing.check_method(MyMethod, k1=8)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from functools import partial
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError, KinrankError, KinrankWarning
from kinrank.methods.base import Method
from kinrank.runs.run import Run
from kinrank.types import Floats, Ranking

N_QUERIES = 12
N_GALLERY = 120
WIDTH = 16

Make = Callable[..., Any]  # a method with these parameters, and those that a user gave


def check_method(cls: type[Method], **params: Any) -> None:
    """Run all checks on a class; the first promise that it breaks is an ``AssertionError``.

    Parameters
    ----------
    cls : a frozen, keyword-only dataclass derived from ``kinrank.Method`` or
        ``kinrank.DistanceMethod``
    **params : parameters that suit 120 gallery rows of 16 columns, where the defaults do not
    """

    def make(**others: Any) -> Any:
        return cls(**{**params, **others})

    for name, check in METHOD_CHECKS.items():
        try:
            check(make)
        except Exception as error:
            raise AssertionError(
                f"{cls.__name__} breaks the contract of methods, {name!r}: "
                f"{str(error) or type(error).__name__}"
            ) from error


def check_ranking(ranking: Ranking, n_queries: int, k: int, n_gallery: int) -> None:
    """Whether a ranking without filters is whole: each row once, ascending, nothing missing."""
    shape = (n_queries, k)
    _expect(isinstance(ranking, Ranking), f"a Ranking, got {type(ranking).__name__}")
    _expect(
        ranking.indices.shape == shape, f"indices of shape {shape}, got {ranking.indices.shape}"
    )
    _expect(ranking.indices.dtype == np.int32, f"indices of int32, got {ranking.indices.dtype}")
    _expect(ranking.distances.dtype == np.float32, "distances of float32")
    _expect(ranking.indices.min() >= 0, "no missing results")
    _expect(ranking.indices.max() < n_gallery, "row numbers of the gallery")
    _expect(bool(np.isfinite(ranking.distances).all()), "finite distances")
    _expect(bool((np.diff(ranking.distances, axis=1) >= 0).all()), "distances that ascend")
    each_once = all(len(np.unique(row)) == k for row in ranking.indices)
    _expect(each_once, "each row of the gallery at most once")


def sample_rows() -> tuple[Floats, Floats]:
    """Queries and gallery: ten clusters that overlap."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(10, WIDTH)) * 1.5
    n = N_QUERIES + N_GALLERY
    rows = (centres[rng.integers(0, 10, n)] + rng.normal(size=(n, WIDTH))).astype(np.float32)
    return rows[:N_QUERIES], rows[N_QUERIES:]


def first_k_of_the_whole(make: Make) -> None:
    """The first k are those of the whole ranking."""
    queries, gallery = sample_rows()
    whole = make().rerank(queries, gallery)
    check_ranking(whole, N_QUERIES, N_GALLERY, N_GALLERY)
    for k in (1, 10, N_GALLERY - 1):
        first = make().rerank(queries, gallery, k)
        check_ranking(first, N_QUERIES, k, N_GALLERY)
        _expect_equal(first, whole.top(k), f"the first {k} of the whole ranking")


def same_for_threads_and_blocks(make: Make) -> None:
    """Threads and blocks change no bit."""
    queries, gallery = sample_rows()
    expected = make().rerank(queries, gallery, 20, threads=1)
    for threads, block_size in ((4, None), (2, 7), (1, 1)):
        run = Run(block_size=block_size)
        ranking = make().rerank(queries, gallery, 20, threads=threads, run=run)
        _expect_equal(ranking, expected, f"the same bits with threads={threads}, {block_size=}")


def metric(make: Make) -> None:
    """With metric="cosine" the lengths of vectors do not matter; others are refused."""
    queries, gallery = sample_rows()
    cosine = make(metric="cosine").rerank(queries, gallery, 10)
    longer = make(metric="cosine").rerank(queries, 2 * gallery, 10)
    _expect(
        np.array_equal(cosine.indices, longer.indices), "the same order for vectors twice as long"
    )
    _refuses(lambda: make(metric="manhattan"), "`metric` must be", KinrankError)


def input_of_any_kind(make: Make) -> None:
    """Inputs are left alone, and may be of any real type, in any layout, and lists."""
    queries, gallery = sample_rows()
    before = queries.copy(), gallery.copy()
    expected = make().rerank(queries, gallery, 10)
    unchanged = np.array_equal(queries, before[0]) and np.array_equal(gallery, before[1])
    _expect(unchanged, "inputs that are left alone")
    wide = make().rerank(queries.astype(np.float64), np.asfortranarray(gallery), 10)
    _expect(
        np.array_equal(wide.indices, expected.indices), "the same for float64 and Fortran's order"
    )
    half = make().rerank(queries.astype(np.float16), gallery.astype(np.float16).tolist(), 10)
    check_ranking(half, N_QUERIES, 10, N_GALLERY)


def bad_input(make: Make) -> None:
    """Bad input is refused in words."""
    queries, gallery = sample_rows()
    broken = gallery.copy()
    broken[5, 2] = np.nan
    _refuses(lambda: make().rerank(queries, broken), "`gallery` must be finite")
    _refuses(lambda: make().rerank(queries[:, :5], gallery), "as many columns")
    _refuses(lambda: make().rerank(queries[0], gallery), "two-dimensional")
    for k in (0, 2.5, True):
        _refuses(partial(make().rerank, queries, gallery, k), "`k` must be an integer")


def large_k(make: Make) -> None:
    """A k beyond the gallery is reduced with a warning."""
    queries, gallery = sample_rows()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ranking = make().rerank(queries, gallery, 500)
    check_ranking(ranking, N_QUERIES, N_GALLERY, N_GALLERY)
    told = any(
        issubclass(w.category, KinrankWarning) and "`k` is 500" in str(w.message) for w in caught
    )
    _expect(told, "a KinrankWarning that k is reduced")


def tiny_sets(make: Make) -> None:
    """A handful of rows is enough."""
    queries, gallery = sample_rows()
    for n_queries, n_gallery in ((1, 1), (1, 3), (4, 2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KinrankWarning)
            ranking = make().rerank(queries[:n_queries], gallery[:n_gallery])
        check_ranking(ranking, n_queries, n_gallery, n_gallery)


def copies(make: Make) -> None:
    """Copies of rows, in the gallery and among the queries, are ranked like others."""
    queries, gallery = sample_rows()
    many = np.concatenate([gallery[:20], np.repeat(gallery[20:22], 40, axis=0)])
    asked = np.concatenate([queries, many[:2]])
    check_ranking(make().rerank(asked, many, 30), N_QUERIES + 2, 30, 100)


def conditions(make: Make) -> None:
    """``allowed`` and ``exclude`` strike rows out of the ranking and change nothing else."""
    queries, gallery = sample_rows()
    whole = make().rerank(queries, gallery)
    mask = np.arange(N_GALLERY) % 3 == 0
    allowed = make().rerank(queries, gallery, 10, allowed=mask)
    excluded = make().rerank(queries, gallery, 10, exclude=~mask)
    for row in range(N_QUERIES):
        left = whole.indices[row][mask[whole.indices[row]]][:10]
        _expect(np.array_equal(allowed.indices[row], left), "the ranking with rows struck out")
        _expect(np.array_equal(excluded.indices[row], left), "the same by `exclude`")


def rows_among_themselves(make: Make) -> None:
    """Without a gallery each row asks all others."""
    gallery = sample_rows()[1]
    ranking = make().rerank(gallery, k=10)
    check_ranking(ranking, N_GALLERY, 10, N_GALLERY)
    itself = (ranking.indices == np.arange(N_GALLERY)[:, None]).any()
    _expect(not itself, "no row among its own results")


def parameters(make: Make) -> None:
    """Parameters are fields of a frozen dataclass, with defaults."""
    method = make()
    _expect(isinstance(method, Method), "a class derived from kinrank.Method")
    names = [field.name for field in fields(method)]
    _expect(set(method.parameters()) == set(names), "`parameters` that are the fields")
    try:
        setattr(method, names[0], None)
    except FrozenInstanceError:
        return
    _expect(False, "a frozen dataclass: @dataclass(frozen=True, kw_only=True)")


METHOD_CHECKS: dict[str, Callable[[Make], None]] = {
    check.__name__: check
    for check in (
        parameters,
        first_k_of_the_whole,
        same_for_threads_and_blocks,
        metric,
        input_of_any_kind,
        bad_input,
        large_k,
        tiny_sets,
        copies,
        conditions,
        rows_among_themselves,
    )
}


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(f"expected {promise}.")


def _expect_equal(ranking: Ranking, expected: Ranking, promise: str) -> None:
    _expect(ranking.indices.tobytes() == expected.indices.tobytes(), promise)
    _expect(ranking.distances.tobytes() == expected.distances.tobytes(), f"{promise} (distances)")


def _refuses(
    call: Callable[[], Any], message: str, kind: type[KinrankError] = InvalidInputError
) -> None:
    try:
        call()
    except kind as error:
        _expect(message in str(error), f"an error with {message!r}, got {str(error)!r}")
        return
    _expect(False, f"a {kind.__name__} with {message!r}, got none")
