"""One ranking of several vectors: pictures of one thing, and rows called right or wrong.

The distance of a row is the mean of those from all pictures and right rows, and

    0.6 (1 - the distance from the nearest wrong row)

more. Rows called right come first, at distance 0; rows called wrong are no answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from kinrank.conditions import Condition, Mask, rows_per_query
from kinrank.errors import InvalidInputError, shown
from kinrank.filters import Filter, empty_ranking
from kinrank.index.engine import Engine
from kinrank.index.ids import IdTable
from kinrank.index.search import StoreSearch
from kinrank.search.searcher import checked_fetch
from kinrank.things import Things, put_nearest
from kinrank.types import Floats, Ints, Longs, Ranking

# Ranks vectors: the first k of each that are allowed.
Rank: TypeAlias = Callable[[Floats, int, Filter | None], Ranking]

_WRONG = np.float32(0.6)
_DEEPER = 4  # times as many results of each vector as are wanted of all together


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked for together.

    vectors : (m, d), all of them; near, far : of each thing, the vectors that it is near, and far
    from; right : of each thing, gallery rows that come first; things : of each, its pictures
    """

    vectors: Floats
    near: Things
    far: Things
    right: list[Ints]
    things: Things

    @classmethod
    def alone(cls, vectors: Floats, things: Things) -> Asked:
        """Pictures of which nothing else is known."""
        none = [np.empty(0, np.int32) for _ in things]
        return cls(vectors, things, [np.empty(0, np.int64) for _ in things], none, things)

    def filtered(self, owners: Longs, n: int, allowed: Filter | None) -> Filter | None:
        """What is allowed for vectors of the things ``owners``."""
        if allowed is None:
            return None
        return Filter(len(owners), n, (ForThings(allowed, self.things, owners),))


@dataclass(frozen=True, eq=False)
class Marks:
    """Gallery rows that a person called right and wrong, of each thing."""

    right: list[Ints]
    wrong: list[Ints]

    @classmethod
    def of(cls, right: Any, wrong: Any, n_things: int, table: IdTable) -> Marks | None:
        """Checked; None if nothing was said."""
        if right is None and wrong is None:
            return None
        marks = cls(
            *(_lists(*named, n_things, table) for named in (("right", right), ("wrong", wrong)))
        )
        for yes, no in zip(marks.right, marks.wrong, strict=True):
            both = np.intersect1d(yes, no)
            if len(both):
                twice = table.ids[both[0]].item()
                raise InvalidInputError(
                    f"`right` and `wrong` must have no id in common, got {twice!r} in both."
                )
        return marks

    def not_wrong(self, things: Things, n_queries: int, n: int) -> Condition:
        """Rows called wrong are no answers, said of each picture."""
        lists = [np.empty(0, np.int32)] * n_queries
        for pictures, wrong in zip(things, self.wrong, strict=True):
            for picture in pictures:
                lists[picture] = wrong
        return rows_per_query(lists, n, wanted=False)

    def joined(self, engine: Engine, queries: Floats, things: Things) -> Asked:
        """Pictures and marked rows together."""
        vectors = [queries]
        near = []
        far = []
        at = len(queries)
        for pictures, right, wrong in zip(things, self.right, self.wrong, strict=True):
            both = np.concatenate([right, wrong])
            if len(both):
                vectors.append(row_vectors(engine, both))
            split = at + len(right)
            near.append(np.concatenate([pictures, np.arange(at, split)]))
            far.append(np.arange(split, at + len(both)))
            at += len(both)
        return Asked(np.concatenate(vectors), near, far, self.right, things)


def row_vectors(engine: Engine, names: Ints) -> Floats:
    """The vectors of gallery rows, from the index or from its store."""
    state = engine.state
    search = engine.search
    if isinstance(search, StoreSearch):
        fetched = checked_fetch(search.opened(), state.ids[names], state.scaling.dims)
        return state.scaling.of_stored.apply("vectors", fetched)
    return np.ascontiguousarray(state.vectors[state.places[names]])


def _lists(name: str, given: Any, n_things: int, table: IdTable) -> list[Ints]:
    """One list of rows for each thing; of a single one the ids alone may be given."""
    if given is None:
        return [np.empty(0, np.int32)] * n_things
    if isinstance(given, np.ndarray) and given.ndim == 2:
        given = list(given)
    nested = isinstance(given, (list, tuple)) and any(_is_list(entry) for entry in given)
    several = given if nested or n_things > 1 else [given]
    of_lists = isinstance(several, (list, tuple)) and (n_things == 1 or all(map(_is_list, several)))
    if not of_lists or len(several) != n_things:
        raise InvalidInputError(
            f"`{name}` must be one list of ids for each of the {n_things} queries, such as "
            f"[[3], [], [5, 8]], got {shown(given)}."
        )
    return [_marked(ids, table) for ids in several]


def _is_list(entry: Any) -> bool:
    """Whether it stands for the ids of one query; None does for no id."""
    return entry is None or isinstance(entry, (list, tuple, set, frozenset, np.ndarray))


def _marked(ids: Any, table: IdTable) -> Ints:
    """The rows of one thing: ids, a single id, or None."""
    if ids is None:
        return np.empty(0, np.int32)
    one = isinstance(ids, (str, Integral)) and not isinstance(ids, bool)
    return np.unique(table.places([ids] if one else ids)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class ForThings:
    """Rows that are allowed for all pictures of a thing.

    base : what is allowed for each picture; things : these; owners : the thing of each vector asked
    """

    base: Filter
    things: Things
    owners: Longs

    @property
    def share(self) -> float:
        return self.base.share

    @property
    def listed(self) -> int:
        return self.base.listed * max(map(len, self.things))

    def keeps(self, queries: Longs, rows: Ints) -> Mask:
        keep = np.ones(rows.shape, np.bool_)
        for at, query in enumerate(queries):
            for picture in self.things[self.owners[query]]:
                keep[at] &= self.base.allows(np.array([picture]), rows[at : at + 1])[0]
        return keep

    def mask(self, query: int) -> Mask:
        masks = [self.base.mask(int(picture)) for picture in self.things[self.owners[query]]]
        return np.asarray(np.logical_and.reduce(masks))

    def part(self, queries: Longs, rows: Longs) -> ForThings:
        pictures = np.arange(self.base.n_queries)
        return ForThings(self.base.part(pictures, rows), self.things, self.owners[queries])


def rank_together(rank: Rank, asked: Asked, n: int, k: int, allowed: Filter | None) -> Ranking:
    """The first ``k`` of ``n`` gallery rows for each thing; allowed : for each picture.

    The first rows of every vector are looked at together. One that is among the first of no vector
    is no nearer to the thing than the mean of the last ones; where that does not settle it, lists
    are longer.
    """
    found = empty_ranking(len(asked.near), k)
    waiting = np.arange(len(asked.near))
    depth = min(n, _DEEPER * k)
    while len(waiting):
        near = [asked.near[thing] for thing in waiting]
        owners = np.repeat(waiting, [len(vectors) for vectors in near])
        joined = np.concatenate(near)
        first = rank(asked.vectors[joined], depth, asked.filtered(owners, n, allowed))
        rows = [np.unique(np.append(first.indices[owners == thing], -1))[1:] for thing in waiting]
        exact = _exact(rank, asked, waiting, rows, n)
        bounds = [float(first.distances[owners == thing, -1].mean()) for thing in waiting]
        for thing, members, values in zip(waiting, rows, exact, strict=True):
            put_nearest(found, int(thing), members, values)
        settled = found.distances[waiting, -1] < bounds
        waiting = waiting[~settled & np.isfinite(bounds)] if depth < n else waiting[:0]
        depth = min(n, _DEEPER * depth)
    return found


def _exact(rank: Rank, asked: Asked, things: Longs, rows: list[Ints], n: int) -> list[Floats]:
    """The distances of some things to ``rows`` of each."""
    vectors = [np.concatenate([asked.near[thing], asked.far[thing]]) for thing in things]
    lists = [members for members, own in zip(rows, vectors, strict=True) for _ in own]
    longest = max(len(members) for members in lists)
    if longest == 0:
        return [np.empty(0, np.float32) for _ in things]
    only = Filter(len(lists), n, (rows_per_query(lists, n, wanted=True),))
    ranking = rank(asked.vectors[np.concatenate(vectors)], longest, only)
    at = 0
    out = []
    for thing, members, own in zip(things, rows, vectors, strict=True):
        order = np.argsort(ranking.indices[at : at + len(own), : len(members)], axis=1)
        distances = np.take_along_axis(ranking.distances[at : at + len(own)], order, axis=1)
        near, far = np.split(distances, [len(asked.near[thing])])
        values = near.mean(axis=0, dtype=np.float64).astype(np.float32)
        if len(far):
            values += _WRONG * (1 - far.min(axis=0))
        values[np.isin(members, asked.right[thing])] = 0
        out.append(values)
        at += len(own)
    return out
