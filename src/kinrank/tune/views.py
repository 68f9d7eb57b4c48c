"""Whether neighbours confirm each other: two halves of the features, each judged by the other.

Halves see the rows as if by two networks: what both say is structure, what only one says is noise.
One half ranks the rows, before and after re-ranking; what the other half finds counts as right. The
features are turned at random first, so that it does not matter how they were stored.

All rows of a small collection are ranked, whole regions of a large one. Leaving out rows at random
would make every group smaller. A region, the nearest rows of one row, keeps its groups whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.search.exact import ExactSearch, exact_search
from kinrank.stages.distances import VectorDistances
from kinrank.tune.look import unit_rows
from kinrank.types import Floats, Ints, Values

MOST_ROWS = 999  # of a collection that is ranked as a whole
# of a larger one
REGIONS = 6
REGION_SIZE = 100
ASKED = 96  # rows that are ranked for
WIDEST = 256  # columns of a half: of turned features, any tell about all
DEPTH = 20  # first results that both rankings of a half must have
NEAR = 0.7  # divergence within which rows belong together
LISTED = 100  # results of a ranking that are looked at

Marks = npt.NDArray[np.bool_]
Places = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one half of the features says of rankings by the other, by divergence alone.

    better : share of rows that rank what belongs together better after re-ranking, less those
        that rank it worse
    gained, before : average precision of it that is gained, and before
    agreed, agreed_error : what is gained of results that both rankings of the other half have
        first, and its standard error
    sizes : (m,) how many rows belong together with each that is asked for, itself counted
    """

    better: float
    gained: float
    before: float
    agreed: float
    agreed_error: float
    sizes: Ints


def draw(
    vectors: Floats, n_queries: int, random: np.random.Generator, run: Runner
) -> tuple[Ints, int]:
    """Rows of [queries; gallery] to rank, and how many of the first are asked for.

    These are queries if there are enough.
    """
    n = len(vectors)
    first = n_queries if n_queries >= ASKED // 2 else len(vectors)
    if n <= MOST_ROWS:
        every: Places = np.arange(n)
        asked: Places = random.choice(first, min(ASKED, first, n // 4), replace=False)
    else:
        centres = vectors[random.choice(first, REGIONS, replace=False)]
        every = exact_search(np.ascontiguousarray(centres), vectors, REGION_SIZE, run).indices
        asked = np.unique(every[:, : ASKED // REGIONS])
    rest = np.setdiff1d(every, asked)
    return np.concatenate([np.sort(asked), rest]).astype(np.int32), len(asked)


def cross_examine(
    rows: Floats, n_asked: int, random: np.random.Generator, *, unit: bool
) -> Evidence:
    """Rank the rows by each half of the features, and judge it by the other.

    rows : (n, d), at least two columns, those asked for first
    unit : make the rows of a half unit vectors again
    """
    run = Runner(1, len(rows))  # of so few rows, sharing the work is more work than the work
    views = [_view(half, n_asked, run) for half in halves(rows, random, unit=unit)]
    near = []
    agreed = []
    for ranked, judge in (views, views[::-1]):
        near.append(_both(ranked, judge.near))
        agreed.append(_both(ranked, judge.agreed))
    before, after = np.concatenate(near, axis=1)
    first, again = np.concatenate(agreed, axis=1)
    return Evidence(
        better=_mean(np.sign(after - before)),
        gained=_mean(after - before),
        before=_mean(before),
        agreed=_mean(again - first),
        agreed_error=_error(again - first),
        sizes=1 + np.concatenate([view.near.sum(axis=1) for view in views]),
    )


def _both(ranked: View, right: Marks) -> Values:
    """Average precision before and after, (2, rows for which something is right)."""
    known = right.any(axis=1)
    orders = ranked.before[known], ranked.after[known]
    return np.stack([precision(order, right[known]) for order in orders])


def _mean(values: Values) -> float:
    return float(values.mean()) if len(values) else 0.0


def _error(values: Values) -> float:
    return float(values.std() / np.sqrt(len(values))) if len(values) else 0.0


class View(NamedTuple):
    """The first of the later rows for each of the first, and marks of what belongs to them."""

    before: Ints
    after: Ints
    near: Marks
    agreed: Marks


def _view(rows: Floats, n_asked: int, run: Runner) -> View:
    n = len(rows)
    kept = min(LISTED, n - n_asked)
    method = CASMethod(omega=0.0).resolved(n)
    # So long that enough is left without the rows that are asked for.
    longer = max(kept + n_asked, method.list_length())
    search = ExactSearch(rows, run)
    lists = search.neighbors_and_more(method.list_length(), n_asked, longer)
    encoded = method.compare(VectorDistances.of(*lists, rows), n_asked, run)
    after = method.order(encoded, n_asked, kept, run)
    later_first = np.argsort(lists[1].indices < n_asked, axis=1, kind="stable")[:, :kept]
    before = np.take_along_axis(lists[1].indices, later_first, axis=1) - n_asked
    near, first, again = np.zeros((3, n_asked, n - n_asked), np.bool_)
    np.put_along_axis(near, after.indices, after.distances < NEAR, axis=1)
    np.put_along_axis(first, before[:, :DEPTH], True, axis=1)
    np.put_along_axis(again, after.indices[:, :DEPTH], True, axis=1)
    return View(before, after.indices, near, first & again)


def precision(order: Ints, right: Marks) -> Values:
    """Average precision of each row; what is right and not listed counts as not found.

    order : (m, k) columns, best first; right : (m, n), 1 to k in each row
    """
    hits = np.take_along_axis(right, order, axis=1)
    shares = hits.cumsum(axis=1) / np.arange(1, order.shape[1] + 1)
    mean: Values = (hits * shares).sum(axis=1) / right.sum(axis=1)
    return mean


def halves(rows: Floats, random: np.random.Generator, *, unit: bool) -> tuple[Floats, Floats]:
    """Two halves of the features, on random other axes: signs, a cosine transform, an order."""
    width = rows.shape[1]
    signs = random.choice(np.array([-1, 1], np.float32), width)
    turned = _cosine_transform(rows * signs)[:, random.permutation(width)]
    sides = turned[:, : width // 2], turned[:, width // 2 :]
    one, other = (np.ascontiguousarray(side[:, :WIDEST]) for side in sides)
    return (unit_rows(one), unit_rows(other)) if unit else (one, other)


def _cosine_transform(rows: Floats) -> Floats:
    """The orthogonal cosine transform, by a Fourier transform of even places, then odd ones."""
    width = rows.shape[1]
    half = rows.shape[1] // 2
    waves = np.fft.rfft(np.concatenate([rows[:, ::2], rows[:, 1::2][:, ::-1]], axis=1))
    scale = np.exp(-0.5j * np.pi * np.arange(half + 1) / width) * np.sqrt(2 / width)
    scale[0] *= np.sqrt(0.5)
    waves *= scale.astype(waves.dtype)
    # The later ones are the earlier ones' other parts, backwards.
    rest = -waves.imag[:, width - half - 1 : 0 : -1]
    return np.concatenate([waves.real, rest], axis=1).astype(np.float32)
