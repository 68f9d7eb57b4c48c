"""A collection seen twice: two halves of its features, as if by two networks.

What both halves say is structure, what only one says is noise. The features are turned at random
first, so that it does not matter how they were stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from kinrank.methods.base import Method
from kinrank.methods.cas import CAS, EncodedRows
from kinrank.methods.common import InductiveMethod, JointMethod, JointRows
from kinrank.neighbors.exact import exact_neighbors_and_more
from kinrank.parallel import Runner
from kinrank.stages.distance import VectorDistances
from kinrank.types import Floats, Ints, Neighbors


@dataclass(frozen=True, eq=False)
class KnownRows(JointRows):
    """Rows whose neighbours were searched before, at least as many as any method asks for."""

    known: VectorDistances = field(kw_only=True)

    def distances(self, length: int, *_: Any) -> VectorDistances:
        """As of JointRows; lists are known."""
        return VectorDistances.of(
            _cut(self.known.neighbors, length), self.known.query_lists, self.vectors
        )

    def neighbors(self, length: int, run: Runner) -> Neighbors:  # noqa: ARG002
        """As of JointRows."""
        return _cut(self.known.neighbors, length)


@dataclass(frozen=True, eq=False)
class View:
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
        compared = self.compared[same]
        return method.order(compared, self.rows.n_queries, k, run).indices


@dataclass(frozen=True, eq=False)
class Pair:
    """Both halves of the features of the same rows."""

    one: View
    other: View

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
    turned = _turned(vectors, random)
    middle = vectors.shape[1] // 2
    one, other = (
        view(_unit(half) if unit else half, n_first, length, run)
        for half in (turned[:, :middle], turned[:, middle:])
    )
    return Pair(one, other)


def _turned(vectors: Floats, random: np.random.Generator) -> Floats:
    """The rows in random other axes: signs, a cosine transform and an order at random."""
    width = vectors.shape[1]
    signs = random.choice(np.array([-1, 1], np.float32), width)
    order = random.permutation(width)
    return _cosine_transform(vectors * signs)[:, order]


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


def view(vectors: Floats, n_first: int, length: int, run: Runner) -> View:
    """A view of all features in ``vectors``; see ``split``."""
    vectors = np.ascontiguousarray(vectors)
    lists = exact_neighbors_and_more(vectors, length, n_first, length, run)
    known = VectorDistances.of(*lists, vectors)
    return View(KnownRows(vectors, n_first, known=known))


def list_length(method: Method) -> int:
    """How long the neighbour lists must be that ``method`` takes, the row itself counted."""
    if isinstance(method, CAS):
        return method.list_length()
    sizes = [getattr(method, parameter.name) for parameter in fields(method)]
    return 1 + max(size for size in sizes if isinstance(size, int))


def _cut(lists: Neighbors, length: int) -> Neighbors:
    return Neighbors(
        np.ascontiguousarray(lists.indices[:, :length]),
        np.ascontiguousarray(lists.distances[:, :length]),
        lists.farthest,
    )
