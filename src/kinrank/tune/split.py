"""What parameters are tried on: rows of a collection, and two halves of their features.

All rows of a small collection, whole regions of a large one. Leaving out rows at random would make
every cluster smaller, and with it the sizes that suit it. A region, the nearest rows of one row,
keeps its clusters whole.

Halves of the features see the rows as if by two networks: what both say is structure, what only one
says is noise. The features are turned at random first, so that it does not matter how they were
stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.methods.base import Method
from kinrank.methods.cas import CAS, EncodedRows
from kinrank.methods.common import InductiveMethod, JointMethod, JointRows
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors_and_more, exact_search
from kinrank.stages.distance import VectorDistances
from kinrank.types import Floats, Ints, Neighbors

MAX_ROWS = 6000  # of a collection that is looked at as a whole
ASKED = 126  # of its rows, whose results are compared
REGIONS = 4  # of a larger collection, at a time: rows of many regions reach each other by chance
REGION_SIZE = 200
CORE = 8  # rows of a region, its middle, that are asked for


class Sample(NamedTuple):
    """Rows of a collection (numbers in [queries; gallery]), the ``n_asked`` queries first."""

    rows: Ints
    n_asked: int


def sample_size(n_rows: int) -> int:
    """How many rows are looked at at a time."""
    return n_rows if n_rows <= MAX_ROWS else REGIONS * REGION_SIZE


def draw(
    vectors: Floats, n_queries: int, count: int, random: np.random.Generator, run: Runner
) -> Iterator[Sample]:
    """Rows to look at, ``count`` times.

    As many of those asked for are queries as gallery rows, if there are.
    """
    n = len(vectors)
    if n <= MAX_ROWS:
        for _ in range(count):
            asked = _mixed(n, n_queries, min(ASKED, n // 4), random)
            yield _sample(asked, np.ones(n, np.bool_))
        return
    centres = _mixed(n, n_queries, count * REGIONS, random)
    nearest = exact_search(np.ascontiguousarray(vectors[centres]), vectors, REGION_SIZE, run)
    for number in range(count):
        regions = nearest.indices[number::count]
        taken = np.zeros(n, np.bool_)
        taken[regions] = True
        yield _sample(np.unique(regions[:, :CORE]), taken)


def _mixed(n: int, n_queries: int, count: int, random: np.random.Generator) -> Ints:
    half = min(n_queries, count // 2)
    queries = random.choice(n_queries, half, replace=False) if half else np.empty(0, np.int64)
    gallery = random.choice(n - n_queries, min(count - half, n - n_queries), replace=False)
    return np.concatenate([queries, n_queries + gallery]).astype(np.int32)


def _sample(asked: Ints, taken: npt.NDArray[np.bool_]) -> Sample:
    taken[asked] = False
    rest = np.flatnonzero(taken).astype(np.int32)
    return Sample(np.concatenate([asked.astype(np.int32), rest]), len(asked))


@dataclass(frozen=True, eq=False)
class KnownRows(JointRows):
    """Rows whose neighbours were searched before, at least as many as any method asks for."""

    known: VectorDistances = field(kw_only=True)

    def distances(self, length: int, *_: Any) -> VectorDistances:
        """As of JointRows; lists are known."""
        lists = self.neighbors(length)
        return VectorDistances.of(lists, self.known.query_lists, self.vectors)

    def neighbors(self, length: int, *_: Any) -> Neighbors:
        """As of JointRows."""
        lists = self.known.neighbors
        indices = np.ascontiguousarray(lists.indices[:, :length])
        return Neighbors(indices, np.ascontiguousarray(lists.distances[:, :length]), lists.farthest)


@dataclass(frozen=True, eq=False)
class FeatureView:
    """Rows with their nearest; the first of them are those that are asked for."""

    rows: KnownRows
    compared: dict[CAS, EncodedRows] = field(default_factory=dict)

    def first(self, method: Method, k: int, run: Runner) -> Ints:
        """The first ``k`` of the later rows by ``method``, for each of the first rows."""
        rows, n = self.rows, len(self.rows)
        k = min(k, n - rows.n_queries)
        if isinstance(method, CAS):
            return self._cas(method.resolved(n), k, run)
        if isinstance(method, JointMethod):
            return method.ranked_rows(rows, k, run).indices
        assert isinstance(method, InductiveMethod)
        return method.fitted(rows.gallery, run).answer(rows.queries, k, run).indices

    def _cas(self, method: CAS, k: int, run: Runner) -> Ints:
        """CAS by the stages of the call before, as far as they would be the same."""
        same = method.replace(geodesic=False, omega=0.0)
        if same not in self.compared:
            self.compared.clear()
            self.compared[same] = method.compare(self.rows.known, self.rows.n_queries, run)
        return method.order(self.compared[same], self.rows.n_queries, k, run).indices


@dataclass(frozen=True, eq=False)
class Pair:
    """Both halves of the features of the same rows."""

    one: FeatureView
    other: FeatureView

    def first(self, method: Method, k: int, run: Runner) -> tuple[Ints, Ints]:
        """What each half finds."""
        return self.one.first(method, k, run), self.other.first(method, k, run)


def split(
    vectors: Floats, n_first: int, length: int, random: np.random.Generator, run: Runner,
    *, unit: bool,
) -> Pair:  # fmt: skip
    """Two random halves of the features of ``vectors``.

    Parameters
    ----------
    vectors : (n, d), at least two columns
    n_first : how many of the rows will be asked for
    length : of the neighbour lists, the row itself counted
    unit : make the rows of a half unit vectors again
    """
    width = vectors.shape[1]
    # Random other axes: signs, a cosine transform and an order at random.
    signs = random.choice(np.array([-1, 1], np.float32), width)
    order = random.permutation(width)
    turned = _cosine_transform(vectors * signs)[:, order]
    halves = (turned[:, : width // 2], turned[:, width // 2 :])
    return Pair(*(view(_unit(h) if unit else h, n_first, length, run) for h in halves))


def _cosine_transform(rows: Floats) -> Floats:
    """The orthogonal cosine transform, by a Fourier transform of even places, then odd ones."""
    width = rows.shape[1]
    turned = np.fft.fft(np.concatenate([rows[:, ::2], rows[:, 1::2][:, ::-1]], axis=1))
    turned *= np.exp(-0.5j * np.pi * np.arange(width) / width) * np.sqrt(2 / width)
    turned[:, 0] *= np.sqrt(0.5)
    return turned.real.astype(np.float32)


def _unit(rows: Floats) -> Floats:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norm > 0, norm, 1)).astype(np.float32)


def view(vectors: Floats, n_first: int, length: int, run: Runner) -> FeatureView:
    """A view of all features in ``vectors``; see ``split``."""
    vectors = np.ascontiguousarray(vectors)
    lists = exact_neighbors_and_more(vectors, length, n_first, length, run)
    known = VectorDistances.of(*lists, vectors)
    return FeatureView(KnownRows(vectors, n_first, known=known))


def list_length(method: Method) -> int:
    """How long the neighbour lists must be that ``method`` takes, the row itself counted."""
    if isinstance(method, CAS):
        return method.list_length()
    sizes = [getattr(method, parameter.name) for parameter in fields(method)]
    return 1 + max(size for size in sizes if isinstance(size, int))
