"""The index: a gallery that lives, and queries that come one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.index.build import Given, build
from kinrank.index.frame import Frame
from kinrank.index.ids import Ids, as_ids, refuse_duplicates
from kinrank.index.online import Engine
from kinrank.index.searchers import ExactSearch
from kinrank.index.settings import check_online
from kinrank.index.state import State
from kinrank.methods.cas import CAS
from kinrank.neighbors.exact import exact_neighbors
from kinrank.parallel import Runner
from kinrank.types import Ranking
from kinrank.validation import check_int


class Index:
    """A method fitted to a gallery."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def fit(
        cls, method: CAS, gallery: Any, ids: Any = None, context: Any = None, *,
        threads: int | None = None,
    ) -> Index:  # fmt: skip
        """See ``CAS.fit``."""
        check_online(method)
        run = Runner.of(threads)
        named = [("gallery", gallery)] + ([] if context is None else [("context", context)])
        vectors, frame = Frame.of(*named, cosine=method.metric == "cosine")
        own = as_ids(ids, len(gallery))
        refuse_duplicates(own)
        fitted = method._fitted(len(vectors))
        neighbors = exact_neighbors(vectors, fitted._list_length(), run)
        given = Given(method, fitted, frame, own, neighbors, vectors)
        state = build(given, run)
        return cls(Engine(state, ExactSearch(state.vectors)))

    def __len__(self) -> int:
        return self._state.n_gallery

    @property
    def _state(self) -> State:
        return self._engine.state

    @property
    def ids(self) -> Ids:
        return self._state.ids

    def search(
        self, queries: Any, k: int | None = 100, *, base: bool = False, threads: int | None = None
    ) -> Ranking:
        engine = self._engine
        state = engine.state
        run = Runner.of(threads)
        rows = state.frame.place("queries", queries)
        k = state.n_gallery if k is None else min(check_int("k", k, 1), state.n_gallery)
        found = engine.base(rows, k, run) if base else engine.answer(rows, k, run)
        return Ranking(found.indices, found.distances, state.ids[np.maximum(found.indices, 0)])
