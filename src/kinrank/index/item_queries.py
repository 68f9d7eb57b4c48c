"""One ranking for an item that several vectors describe: its pictures, and rows of the gallery that
a person called right or wrong.

The distance of a gallery row from the item is the mean of its distances from all pictures and right
rows, plus 0.6 (1 - its distance from the nearest wrong row). Rows called right come first, at
distance 0; rows called wrong are no results.

This calls ``Engine.search`` with all vectors as queries; the engine knows nothing of items.
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
# Each vector is ranked four times as deep as the item, and again four times deeper where that does
# not settle which rows are the first of the item.
_DEPTH_FACTOR = 4


@dataclass(frozen=True, eq=False)
class ItemQueries:
    """Items whose results are wanted, each described by several vectors.

    vectors : (m, d) float32, scaled; the pictures of all items, and behind them their marked rows
    pictures : for each item the positions of its pictures in ``vectors``
    near : for each item the positions of its pictures and right rows, which results are near to
    far : for each item the positions of its wrong rows, which results are far from
    right, wrong : for each item gallery indices that a person called so, ascending
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
    def of(cls, engine: Engine, queries: Floats, items: Any, right: Any, wrong: Any) -> ItemQueries:
        """From what users gave to ``Index.search``, checked.

        queries : (n_queries, d) float32, scaled
        items : (n_queries,) which item each query is a picture of; None where each is an item
        right, wrong : ids; for several items one list for each; None for none
        """
        if items is None:
            pictures = [np.array([query]) for query in range(len(queries))]
        else:
            pictures = pictures_of_items(items, len(queries))
        table = engine.state.id_table
        right_rows = _marked_rows("right", right, len(pictures), table)
        wrong_rows = _marked_rows("wrong", wrong, len(pictures), table)
        for in_both in map(np.intersect1d, right_rows, wrong_rows):
            if len(in_both):
                raise InvalidInputError(
                    "`right` and `wrong` must have no id in common, got "
                    f"{table.ids[in_both[0]].item()!r} in both."
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
        """Put the vectors of marked rows behind the queries, item by item.

        right, wrong : for each item gallery indices
        """
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
        """Which rows may be results of some vectors; None for all.

        owners : (p,) the item that each of these vectors belongs to
        row_filter : which rows may be results of each picture; None for all
        """
        rules: list[Rule] = []
        if row_filter is not None:
            rules.append(AllowedForItem(row_filter, self.pictures, owners))
        if any(len(rows) for rows in self.wrong):
            wrong = [self.wrong[item] for item in owners]
            rules.append(PerQuery.of_lists(wrong, n_gallery, is_allow_list=False))
        return Filter(len(owners), n_gallery, tuple(rules)) if rules else None


def _row_vectors(engine: Engine, indices: Ints) -> Floats:
    """The scaled vectors of the gallery rows ``indices``, from the index or from its store."""
    state = engine.state
    if isinstance(engine.searcher, StoreSearch):
        store = engine.searcher.opened()
        fetched = checked_fetch(store, state.ids[indices], state.scaling.dims)
        return state.scaling.after_projection.apply("vectors", fetched)
    return np.ascontiguousarray(state.vectors[state.position[indices]])


def _marked_rows(name: str, given: Any, n_items: int, table: IdTable) -> list[Ints]:
    """The gallery indices that a user marked, one array for each item.

    name : of the parameter, for messages
    given : a list of ids for each item; of a single item the ids alone; None for none
    table : finds the index of an id
    """
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
    """Whether an entry is a list of ids; None is an empty one."""
    return entry is None or isinstance(entry, (list, tuple, set, frozenset, np.ndarray))


def _rows_of_item(ids: Any, table: IdTable) -> Ints:
    """The gallery indices of ids, int32, ascending, each once; ids : several, one, or None."""
    if ids is None:
        return np.empty(0, np.int32)
    is_single = isinstance(ids, (str, Integral)) and not isinstance(ids, bool)
    return np.unique(table.rows([ids] if is_single else ids)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class AllowedForItem:
    """Allows the rows that are allowed for all pictures of an item; a ``Rule`` of a filter.

    row_filter : which rows are allowed for each picture
    pictures : for each item the positions of its pictures among the queries of ``row_filter``
    owners : (p,) the item of each vector; the rule's queries are these vectors
    """

    row_filter: Filter
    pictures: Pictures
    owners: Longs

    @property
    def share(self) -> float:
        """About the share of rows that are allowed."""
        return self.row_filter.share

    @property
    def most_excluded(self) -> int:
        """No query excludes more rows than this."""
        return self.row_filter.most_excluded * max(map(len, self.pictures))

    def allows(self, queries: Longs, rows: Ints) -> Mask:
        """Whether rows[t] are allowed for queries[t]; rows : (len(queries), k) gallery indices."""
        allowed = np.ones(rows.shape, np.bool_)
        for line, query in enumerate(queries):
            for picture in self.pictures[self.owners[query]]:
                rows_of_query = rows[line : line + 1]
                allowed[line] &= self.row_filter.allows(np.array([picture]), rows_of_query)[0]
        return allowed

    def mask(self, query: int) -> Mask:
        """(n_gallery,) which rows are allowed for a query."""
        pictures = self.pictures[self.owners[query]]
        masks = [self.row_filter.mask(int(picture)) for picture in pictures]
        return np.asarray(np.logical_and.reduce(masks))

    def restricted(self, queries: Longs, rows: Longs) -> AllowedForItem:
        """The rule for some queries and some rows alone, which are numbered anew."""
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
    """The first ``k`` gallery rows for each item, (len(items), k).

    The first rows of every vector are candidates. A row that no vector lists is farther from the
    item than the mean of the last distances of these lists; where that does not settle which rows
    are the first ``k``, the vectors are ranked deeper.

    row_filter : which rows may be results of each picture; None for all
    plain : rank by the plain distance, without re-ranking
    """
    n_gallery = engine.state.n_gallery
    ranking = empty_ranking(len(items), k)
    waiting = np.arange(len(items))  # items whose first k are not settled
    depth = min(n_gallery, _DEPTH_FACTOR * k)
    while len(waiting):
        near = [items.near[item] for item in waiting]
        counts = [len(vectors_of_item) for vectors_of_item in near]
        owners = np.repeat(waiting, counts)  # the item of each vector
        vectors = items.vectors[np.concatenate(near)]
        vector_filter = items.filter(owners, n_gallery, row_filter)
        lists = engine.search(vectors, depth, run, vector_filter, plain=plain)
        candidates = [
            np.unique(np.append(lists.indices[owners == item], -1))[1:] for item in waiting
        ]
        distances = _distances_of_items(engine, items, waiting, candidates, run, plain=plain)
        for item, rows, distances_of_item in zip(waiting, candidates, distances, strict=True):
            put_nearest(ranking, int(item), rows, distances_of_item)
        # What no vector lists is at least as far as this.
        bounds = np.array([float(lists.distances[owners == item, -1].mean()) for item in waiting])
        is_settled = ranking.distances[waiting, -1] < bounds
        if depth == n_gallery:
            break
        waiting = waiting[~is_settled & np.isfinite(bounds)]
        depth = min(n_gallery, _DEPTH_FACTOR * depth)
    return ranking


def _distances_of_items(
    engine: Engine,
    items: ItemQueries,
    positions: Longs,
    candidates: list[Ints],
    run: Runner,
    *,
    plain: bool,
) -> list[Floats]:
    """The distances from some items to the candidates of each.

    That of a row is the mean of d over the item's pictures and right rows, plus 0.6 (1 - m) with m
    the least d over its wrong rows, where it has any; 0 for right rows. d is the distance d* of the
    row from a single vector, in [0, 1].

    positions : (m,) where these items are in ``items``
    candidates : for each of these items gallery indices, ascending
    plain : d is the plain distance of the vectors, without re-ranking

    Returns for each of these items float32, one distance for each candidate; infinity where a store
    does not list the candidate for one of the pictures or right rows.
    """
    # For each item where its vectors are in ``items.vectors``, first those it has to be near to.
    vectors = [np.concatenate([items.near[item], items.far[item]]) for item in positions]
    allow_lists: list[Ints] = []  # for each vector the candidates of its item
    for rows, vectors_of_item in zip(candidates, vectors, strict=True):
        allow_lists += [rows] * len(vectors_of_item)
    most_candidates = max(len(rows) for rows in allow_lists)
    if most_candidates == 0:
        return [np.empty(0, np.float32) for _ in positions]
    n_gallery = engine.state.n_gallery
    rule = PerQuery.of_lists(allow_lists, n_gallery, is_allow_list=True)
    only_candidates = Filter(len(allow_lists), n_gallery, (rule,))
    every_vector = items.vectors[np.concatenate(vectors)]
    ranking = engine.search(every_vector, most_candidates, run, only_candidates, plain=plain)
    start = 0
    distances_of_items = []
    for item, rows, vectors_of_item in zip(positions, candidates, vectors, strict=True):
        lines = slice(start, start + len(vectors_of_item))
        start += len(vectors_of_item)
        d = _by_candidate(ranking.indices[lines], ranking.distances[lines], rows)
        n_near = len(items.near[item])
        distances = d[:n_near].mean(axis=0, dtype=np.float64).astype(np.float32)
        if len(d) > n_near:
            # A row that is not listed for any wrong row is far from all of them.
            distances += _WRONG_WEIGHT * (1 - np.minimum(d[n_near:].min(axis=0), 1))
        distances[np.isin(rows, items.right[item])] = 0
        distances_of_items.append(distances)
    return distances_of_items


def _by_candidate(indices: Ints, distances: Floats, candidates: Ints) -> Floats:
    """The distances of rankings by candidate, (n, len(candidates)) float32.

    indices, distances : (n, k) rankings of candidates alone, which may lack some of them: a store
        need not list every row; -1 for none
    candidates : gallery indices, ascending
    Returns infinity where a candidate is not listed.
    """
    by_candidate = np.full((len(indices), len(candidates)), np.inf, np.float32)
    lines, columns = np.nonzero(indices >= 0)
    places = np.searchsorted(candidates, indices[lines, columns])
    by_candidate[lines, places] = distances[lines, columns]
    return by_candidate
