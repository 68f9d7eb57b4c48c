"""The search of one shard, and the merging of what was found, as they run on the workers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kinrank.kernels import shards as kernels
from kinrank.kernels.search import merge
from kinrank.runs.ray.handles import Handle
from kinrank.runs.ray.tasks import Answer
from kinrank.search.tiles import SLACK, search_tiles, squared_norms
from kinrank.types import Floats, Ints


@dataclass(frozen=True)
class Shard:
    """Some of the rows, from number ``first`` on, at most ``size``."""

    handle: Handle
    first: int
    size: int


# A shard and the rows of it that are wanted.
Piece: TypeAlias = tuple[Shard, int, int]


@dataclass(frozen=True, eq=False)
class ShardLists:
    """What a shard knows of some rows.

    ids, values : (m, k) its nearest rows, ascending by (value, id)
    tops : (m,) the largest |y|^2 - 2 xy; least, most : (m,) exact distances of those near it
    margins : (m,) how near that is
    """

    ids: Ints
    values: Floats
    tops: Floats
    least: Floats
    most: Floats
    margins: Floats

    @classmethod
    def empty(cls, m: int, k: int) -> ShardLists:
        """Nothing known yet."""
        flat = [np.zeros(m, np.float32) for _ in range(4)]
        return cls(np.empty((m, k), np.int32), np.empty((m, k), np.float32), *flat)


def search_shard(pieces: list[Piece], shard: Shard, k: int, peak: float) -> ShardLists:
    """The ``k`` nearest rows of a shard, exactly; peak : the largest squared norm of all rows."""
    rows, vectors = _rows(pieces), shard.handle.open()
    found, m = ShardLists.empty(len(rows), min(k, len(vectors))), len(rows)
    found.margins[:] = 2 * SLACK * math.sqrt(rows.shape[1]) * (squared_norms(rows) + peak)
    found.tops[:] = -np.inf
    places = (m, kernels.CONTENDERS)
    race = (np.empty(places, np.float32), np.empty(places, np.int64), np.zeros(m, np.int64))

    def watch(part: slice, products: Floats, norms: Floats, first: int) -> None:
        state = (array[part] for array in (found.margins, found.tops, *race))
        kernels.race(0, len(products), products, norms, first, *state)

    search_tiles(rows, vectors, squared_norms(vectors), found.ids, found.values, watch=watch)
    kernels.settle_race(0, m, rows, vectors, *race[1:], found.least, found.most)
    found.ids[:] += np.int32(shard.first)
    return found


def merge_lists(start: int, k: int, *parts: ShardLists) -> Answer:
    """Lists of all shards as one: indices, distances, the farthest, and whether that is certain."""
    parts = tuple(_writable(part) for part in parts)
    m, ids, values = len(parts[0].ids), parts[0].ids, parts[0].values
    for part in parts[1:]:
        both = ids.shape[1] + part.ids.shape[1]
        merged = (np.empty((m, min(k, both)), np.int32), np.empty((m, min(k, both)), np.float32))
        merge(0, m, ids, values, part.ids, part.values, *merged)
        ids, values = merged
    lists = (np.empty((m, k), np.int32), np.empty((m, k), np.float32))
    kernels.own_first(0, m, start, ids, values, *lists)
    tops = np.stack([part.tops for part in parts])
    racing = tops >= tops.max(axis=0) - parts[0].margins
    least = np.where(racing, [part.least for part in parts], np.inf).min(axis=0)
    most = np.where(racing, [part.most for part in parts], -np.inf).max(axis=0)
    return Answer((*lists, most.astype(np.float32), least == most))


def _rows(pieces: list[Piece]) -> Floats:
    parts = [shard.handle.open()[low:high] for shard, low, high in pieces]
    rows: Floats = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return rows


def _writable(part: ShardLists) -> ShardLists:
    """What came through the object store, in arrays of the kind that kernels are compiled for."""
    facts: Any = vars(part)
    return ShardLists(**{name: np.array(array) for name, array in facts.items()})
