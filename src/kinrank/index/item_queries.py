"""One ranking of several vectors: pictures of one item, and rows that a person called right or
wrong.

The distance of a row is the mean of its distances from all pictures and right rows, and

    0.6 (1 - the distance from the nearest wrong row)

more. Rows called right come first, at distance 0; rows called wrong are no results.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError, shown
from kinrank.filters import Filter, Mask, PerQuery, Rule, empty_ranking
from kinrank.index.engine import Engine
from kinrank.index.ids import IdTable
from kinrank.index.search import StoreSearch
from kinrank.items import Pictures, pictures_of_items, put_nearest
from kinrank.parallel import Runner
from kinrank.search.searcher import checked_fetch
from kinrank.types import Floats, Ints, Longs, Ranking

_WRONG_WEIGHT = np.float32(0.6)
# Rank each vector four times as deep as the item, and four times deeper wherever that does not
# settle which rows are first.
_DEPTH_FACTOR = 4


@dataclass(frozen=True, eq=False)
class ItemQueries:
    """ItemQueries to be ranked, each by several vectors.

    vectors : (m, d) of all items
    pictures : of each item, its queries: these have conditions
    near, far : of each item, the vectors that results are near to, and far from
    right, wrong : of each item, gallery indices that a person called so
    """

    vectors: Floats
    pictures: Pictures
    near: list[Longs]
    far: list[Longs]
    right: list[Ints]
    wrong: list[Ints]

    def __len__(self) -> int:
        return len(self.pictures)

    @classmethod
    def of(cls, engine: Engine, queries: Floats, of: Any, right: Any, wrong: Any) -> ItemQueries:
        """What was given to ``Index.search``, checked."""
        if of is None:
            pictures = [np.array([query]) for query in range(len(queries))]
        else:
            pictures = pictures_of_items(of, len(queries))
        table = engine.state.id_table
        right_rows = _marked_rows("right", right, len(pictures), table)
        wrong_rows = _marked_rows("wrong", wrong, len(pictures), table)
        for both in map(np.intersect1d, right_rows, wrong_rows):
            if len(both):
                raise InvalidInputError(
                    "`right` and `wrong` must have no id in common, got "
                    f"{table.ids[both[0]].item()!r} in both."
                )
        return cls._with_marked_rows(engine, queries, pictures, right_rows, wrong_rows)

    @classmethod
    def _with_marked_rows(
        cls,
        engine: Engine,
        queries: Floats,
        pictures: Pictures,
        right: list[Ints],
        wrong: list[Ints],
    ) -> ItemQueries:
        """Put the vectors of marked rows behind the queries, item by item."""
        vectors = [queries]
        near = []
        far = []
        end = len(queries)
        for item, queries_of_item in enumerate(pictures):
            marked = np.concatenate([right[item], wrong[item]])
            if len(marked):
                vectors.append(_row_vectors(engine, marked))
            first_wrong = end + len(right[item])
            near.append(np.concatenate([queries_of_item, np.arange(end, first_wrong)]))
            end += len(marked)
            far.append(np.arange(first_wrong, end))
        return cls(np.concatenate(vectors), pictures, near, far, right, wrong)

    def filter(self, owners: Longs, n_gallery: int, row_filter: Filter | None) -> Filter | None:
        """What is allowed for vectors of the items ``owners``; row_filter : of the pictures."""
        rules: list[Rule] = []
        if row_filter is not None:
            rules.append(AllowedForItem(row_filter, self.pictures, owners))
        if any(len(rows) for rows in self.wrong):
            wrong = [self.wrong[item] for item in owners]
            rules.append(PerQuery.of_lists(wrong, n_gallery, is_allow_list=False))
        return Filter(len(owners), n_gallery, tuple(rules)) if rules else None


def _row_vectors(engine: Engine, indices: Ints) -> Floats:
    """The vectors of gallery rows, from the index or from its store."""
    state = engine.state
    if isinstance(engine.searcher, StoreSearch):
        store = engine.searcher.opened()
        fetched = checked_fetch(store, state.ids[indices], state.scaling.dims)
        return state.scaling.after_projection.apply("vectors", fetched)
    return np.ascontiguousarray(state.vectors[state.position[indices]])


def _marked_rows(name: str, given: Any, n_items: int, table: IdTable) -> list[Ints]:
    """One list of gallery indices for each item; of a single item the ids alone may be given."""
    if given is None:
        return [np.empty(0, np.int32)] * n_items
    if isinstance(given, np.ndarray) and given.ndim == 2:
        given = list(given)
    is_nested = isinstance(given, (list, tuple)) and any(_is_list(entry) for entry in given)
    lists = given if is_nested or n_items > 1 else [given]
    is_valid = isinstance(lists, (list, tuple)) and (n_items == 1 or all(map(_is_list, lists)))
    if not is_valid or len(lists) != n_items:
        raise InvalidInputError(
            f"`{name}` must be one list of ids for each of the {n_items} queries, such as "
            f"[[3], [], [5, 8]], got {shown(given)}."
        )
    return [_rows_of_item(ids, table) for ids in lists]


def _is_list(entry: Any) -> bool:
    """Whether it stands for the ids of one query; None stands for no id."""
    return entry is None or isinstance(entry, (list, tuple, set, frozenset, np.ndarray))


def _rows_of_item(ids: Any, table: IdTable) -> Ints:
    """Gallery indices, ascending; ids : several, a single one, or None."""
    if ids is None:
        return np.empty(0, np.int32)
    is_single = isinstance(ids, (str, Integral)) and not isinstance(ids, bool)
    return np.unique(table.rows([ids] if is_single else ids)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class AllowedForItem:
    """Rows that are allowed for all pictures of an item; a ``Rule``.

    row_filter : of the pictures; pictures : of each item; owners : the item of each vector
    """

    row_filter: Filter
    pictures: Pictures
    owners: Longs

    @property
    def share(self) -> float:
        return self.row_filter.share

    @property
    def most_excluded(self) -> int:
        return self.row_filter.most_excluded * max(map(len, self.pictures))

    def allows(self, queries: Longs, rows: Ints) -> Mask:
        allowed = np.ones(rows.shape, np.bool_)
        for at, query in enumerate(queries):
            for picture in self.pictures[self.owners[query]]:
                line = rows[at : at + 1]
                allowed[at] &= self.row_filter.allows(np.array([picture]), line)[0]
        return allowed

    def mask(self, query: int) -> Mask:
        pictures = self.pictures[self.owners[query]]
        masks = [self.row_filter.mask(int(picture)) for picture in pictures]
        return np.asarray(np.logical_and.reduce(masks))

    def restricted(self, queries: Longs, rows: Longs) -> AllowedForItem:
        every_picture = np.arange(self.row_filter.n_queries)
        row_filter = self.row_filter.restricted(every_picture, rows)
        return AllowedForItem(row_filter, self.pictures, self.owners[queries])


def rank_items(
    engine: Engine,
    items: ItemQueries,
    k: int,
    row_filter: Filter | None,
    run: Runner,
    *,
    plain: bool = False,
) -> Ranking:
    """The first ``k`` gallery rows for each item; row_filter : of the pictures.

    The first rows of every vector are candidates. A row that is among the first of no vector is no
    nearer to the item than the mean of the last ones; where that does not settle which rows are the
    first ``k``, the vectors are ranked deeper.
    """
    n_gallery = engine.state.n_gallery
    ranking = empty_ranking(len(items), k)
    waiting = np.arange(len(items))
    depth = min(n_gallery, _DEPTH_FACTOR * k)
    while len(waiting):
        near = [items.near[item] for item in waiting]
        owners = np.repeat(waiting, [len(vectors) for vectors in near])
        allowed = items.filter(owners, n_gallery, row_filter)
        vectors = items.vectors[np.concatenate(near)]
        first = engine.search(vectors, depth, run, allowed, plain=plain)
        candidates = [
            np.unique(np.append(first.indices[owners == item], -1))[1:] for item in waiting
        ]
        distances = _distances_of_items(engine, items, waiting, candidates, run, plain=plain)
        for item, rows, of_item in zip(waiting, candidates, distances, strict=True):
            put_nearest(ranking, int(item), rows, of_item)
        # What no vector lists is at least as far as this.
        bounds = np.array([float(first.distances[owners == item, -1].mean()) for item in waiting])
        is_settled = ranking.distances[waiting, -1] < bounds
        if depth == n_gallery:
            break
        waiting = waiting[~is_settled & np.isfinite(bounds)]
        depth = min(n_gallery, _DEPTH_FACTOR * depth)
    return ranking


def _distances_of_items(
    engine: Engine,
    items: ItemQueries,
    numbers: Longs,
    candidates: list[Ints],
    run: Runner,
    *,
    plain: bool,
) -> list[Floats]:
    """The distances from some items to the candidates of each."""
    vectors = [np.concatenate([items.near[item], items.far[item]]) for item in numbers]
    lists = [
        rows for rows, of_item in zip(candidates, vectors, strict=True) for _ in range(len(of_item))
    ]
    longest = max(len(rows) for rows in lists)
    if longest == 0:
        return [np.empty(0, np.float32) for _ in numbers]
    n_gallery = engine.state.n_gallery
    rule = PerQuery.of_lists(lists, n_gallery, is_allow_list=True)
    only_candidates = Filter(len(lists), n_gallery, (rule,))
    every_vector = items.vectors[np.concatenate(vectors)]
    ranking = engine.search(every_vector, longest, run, only_candidates, plain=plain)
    start = 0
    out = []
    for item, rows, of_item in zip(numbers, candidates, vectors, strict=True):
        lines = slice(start, start + len(of_item))
        start += len(of_item)
        # By row number, as the candidates are.
        order = np.argsort(ranking.indices[lines, : len(rows)], axis=1)
        by_row = np.take_along_axis(ranking.distances[lines], order, axis=1)
        n_near = len(items.near[item])
        distances = by_row[:n_near].mean(axis=0, dtype=np.float64).astype(np.float32)
        if len(by_row) > n_near:
            distances += _WRONG_WEIGHT * (1 - by_row[n_near:].min(axis=0))
        distances[np.isin(rows, items.right[item])] = 0
        out.append(distances)
    return out
