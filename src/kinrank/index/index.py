"""The index: a gallery that is kept and may change, and queries that come one at a time.

``Index`` is what users have. What computes is an ``Engine`` (``kinrank.index.engine``) over a
``State``, which is never changed: ``add``, ``remove`` and ``update`` compute another state
(``kinrank.index.change``) and put an engine over it in the place of the old one.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kinrank.compiling import prepare
from kinrank.conditions import Conditions
from kinrank.errors import InvalidInputError, KinrankWarning, UnsupportedError
from kinrank.index.attributes import Attributes, locked
from kinrank.index.auto_parameters import AutoParameters
from kinrank.index.build import build_from_lists, build_from_vectors, relearnt_kind
from kinrank.index.calibrate import Calibration, calibrate, least_evidence_of, threshold_of
from kinrank.index.change import changed
from kinrank.index.distances import row_distances
from kinrank.index.engine import Engine
from kinrank.index.explain import Explanation, explain
from kinrank.index.ids import Ids, as_ids, ids_at, joined, refuse_duplicates
from kinrank.index.item_queries import ItemQueries, rank_items
from kinrank.index.search import search_of
from kinrank.index.state import State
from kinrank.index.state_file import (
    ATTRIBUTE,
    CALIBRATION,
    FINGERPRINTS,
    check_contents,
    save_state,
)
from kinrank.index.write_lock import WriteLock
from kinrank.io import PathLike
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.projection.projection import Projection
from kinrank.runs.run import Run, as_run
from kinrank.search.searcher import Store
from kinrank.types import Floats, Longs, Ranking
from kinrank.validation import as_array, as_matrix, check_bool, check_int, check_path

if TYPE_CHECKING:
    from kinrank.groups import Constraints, Corrections, Groups
    from kinrank.index.explorer import Explorer


_NEED_VECTORS = (
    "add",
    "calibrate",
    "explorer",
    "neighbors",
    "remove",
    "update",
    "upsert",
    "vectors",
)


class Index:
    """A method fitted to a gallery: online mode. Made by ``CAS.fit`` and ``kinrank.open``.

    Answers do not depend on which other queries are asked, or with how many together. Several
    threads may search while one changes the index; each search sees it before or after a change.

    Distances lie in [0, 1] and are comparable between queries; ``calibrate`` tells what they mean.

    ``recipe`` may be set to how the vectors were made (``kinrank.features.Recipe`` as text); it is
    saved with the rest, so that new pictures can be described in the same way. So are ``notes``:
    what can be written as JSON, for those who know more of the rows. ``chosen`` tells what
    ``fit(gallery, params="auto")`` chose and why, and is None where parameters were given.

    An index is not pickled: ``save`` it, and ``kinrank.open`` the file wherever it is needed.

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> index = kinrank.CAS().fit(data.gallery.features)
    >>> index
    <Index of 330 rows, 8 columns>
    >>> index.add(data.query.features[:2])
    >>> index.remove([0])
    >>> len(index)
    331
    >>> index.search(data.query.features, k=3).ids[0].tolist()
    [330, 284, 7]
    """

    def __init__(
        self,
        engine: Engine,
        unchecked: Path | None = None,
        path: str | None = None,
        lock: WriteLock | None = None,
    ) -> None:
        """Users call ``CAS.fit``, ``kinrank.open`` and ``from_neighbors``.

        unchecked : the file whose numbers have to be checked before the engine is used; None for
            nothing to check
        path, lock : the file that it was opened from, and the right to write to it
        """
        self._engine = engine
        self._unchecked = unchecked
        self._change_lock = threading.Lock()
        self._save_lock = threading.Lock()  # shared with drafts, which save to the same file
        self._explorer: Explorer | None = None
        self._path = path
        self._lock = lock
        self.recipe: str | None = None
        self.chosen: AutoParameters | None = None
        self.notes: dict[str, Any] = {}
        self.calibration: Calibration | None = None
        # (n,) of the vectors in a store, by which ``kinrank.follow`` sees that some are others.
        self.fingerprints: Longs | None = None

    @classmethod
    def fit(
        cls,
        method: CASMethod,
        gallery: Any,
        ids: Any = None,
        context: Any = None,
        *,
        attributes: Any = None,
        threads: int | None = None,
        run: Run | None = None,
    ) -> Index:
        """See ``CAS.fit``."""
        prepare("index")  # compiles kernels that are not compiled yet
        matrix = as_matrix("gallery", gallery)
        checked = Attributes.of(attributes, len(matrix))
        more = None if context is None else as_matrix("context", context)
        with as_run(run).keeping("fit", (method, matrix, more), threads) as execution:
            state = build_from_vectors(method, matrix, ids, more, execution)
        return cls(Engine(state, search_of(state), checked))

    @classmethod
    def from_neighbors(
        cls,
        method: CASMethod,
        distances: Any,
        indices: Any,
        *,
        ids: Any = None,
        vectors: Any = None,
        store: Store | None = None,
        refine: bool = True,
        squared: bool = False,
        farthest: Any = None,
        attributes: Any = None,
        threads: int | None = None,
    ) -> Index:
        """An index over neighbour lists that are known, such as those of a vector database.

        Parameters
        ----------
        method : a CAS
        distances, indices : (n, K) nearest rows of every row, in any order, with or without the
            row itself; -1 for none, so that lists may be of any length, also empty. Where the
            longest, the row itself counted, is below ``list_length(method, n)``, k1 and other
            sizes are reduced.
        ids : (n,) the store's ids of the rows; None numbers them
        vectors : (n, d) the rows; queries are then searched among them, exactly
        store : else where queries are searched, and vectors fetched
        refine : as in ``kinrank.attach``
        squared, farthest : as in ``CAS.rerank_neighbors``; without ``farthest`` it is estimated
            from some of the vectors
        attributes : as in ``CAS.fit``
        """
        prepare("index")
        state = build_from_lists(
            method,
            distances,
            indices,
            ids=ids,
            vectors=vectors,
            store=store,
            squared=squared,
            farthest=farthest,
            run=Runner.of(threads),
        )
        checked = Attributes.of(attributes, state.n_gallery)
        return cls(Engine(state, search_of(state, store, refine), checked))

    @property
    def engine(self) -> Engine:
        """What computes, with the state of the rows; its numbers are checked."""
        if self._unchecked is not None:  # several threads may do it at once, with one result
            check_contents(self._unchecked, self._engine.state)
            self._unchecked = None
        return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._engine = engine
        self._unchecked = None

    @property
    def path(self) -> str | None:
        """The file that it was opened from; None for one that was made here."""
        return self._path

    @property
    def method(self) -> CASMethod:
        """The method, with sizes that fit the rows."""
        return self._engine.state.method

    @property
    def ids(self) -> Ids:
        """(n,) the ids of the gallery rows as ``Ranking.indices`` count them; read-only."""
        return locked(self._engine.state.ids)

    @property
    def attributes(self) -> dict[str, Any]:
        """(n,) values of each attribute in the order of ``ids``; read-only, see ``update``."""
        return self._engine.attributes.read_only()

    @property
    def recall(self) -> float:
        """Of the neighbour lists, measured when they were found; 1 for the exact search."""
        return self._engine.state.recall

    @property
    def width(self) -> int:
        """The number of columns of a vector that comes in."""
        return self._engine.state.scaling.width

    @property
    def projection(self) -> Projection | None:
        """What every vector is projected by, as it was fitted or given; None without ``whiten``."""
        return self._engine.state.scaling.projection

    def __len__(self) -> int:
        return self._engine.state.n_gallery

    def __contains__(self, item: object) -> bool:
        try:
            return bool(self._engine.state.id_table.find(as_ids([item]))[0] >= 0)
        except InvalidInputError:  # neither text nor an integer
            return False

    def __repr__(self) -> str:
        state = self._engine.state
        context = len(state) - state.n_gallery
        more = f" and {context:,} of context" if context else ""
        store = "" if len(state.vectors) else ", over a store"
        return f"<Index of {state.n_gallery:,} rows{more}, {self.width} columns{store}>"

    def info(self) -> dict[str, Any]:
        """What the index holds: rows, columns, parameters, bytes of each part.

        unavailable : the methods that an index over a store lacks, as it keeps no vectors
        """
        state = self._engine.state
        return {
            "unavailable": [] if len(state.vectors) else list(_NEED_VECTORS),
            "rows": state.n_gallery,
            "context": len(state) - state.n_gallery,
            "columns": self.width,
            "ids": "text" if state.ids.dtype.kind == "U" else "integers",
            "attributes": sorted(self._engine.attributes.columns),
            "search": "exact" if self._engine.searcher.exact else "approximate",
            "recall": state.recall,
            "parameters": state.method.parameters(),
            "projection": None if self.projection is None else str(self.projection),
            "recipe": self.recipe,
            "chosen": None if self.chosen is None else self.chosen.as_dict(state.n_gallery),
            "bytes": state.sizes(),
        }

    def search(
        self,
        queries: Any,
        k: int | None = 100,
        *,
        allowed: Any = None,
        exclude: Any = None,
        where: Any = None,
        differ: Any = None,
        threshold: float | None = None,
        pair_false_match_rate: float | None = None,
        unknown_rate: float | None = None,
        items: Any = None,
        right: Any = None,
        wrong: Any = None,
        base: bool = False,
        threads: int | None = None,
    ) -> Ranking:
        """Rank the gallery for each query on its own (online).

        Parameters
        ----------
        queries : (n_queries, d), or one vector (d,), array of any real dtype, or a torch tensor
        k : how many results per query, at most as many as there are rows; None is all of them
        allowed, exclude : rows that may be answers, that may not: ids or a boolean mask in the
            order of ``Index.ids``; for each query a list of ids, or a mask (n_queries, n), which
            may be a sparse matrix of scipy. Other rows stay in the graph.
        where : attributes that answers must have: a value, ``{"species": "lynx"}``, any of several,
            ``{"species": ["lynx", "fox"]}``, or a range with both its ends,
            ``{"price": {"min": 0, "max": 0.5}}``, of which one may be left out. Of an index over a
            store, names that are no attributes of the index are asked of the store
        differ : attributes that answers must not share with the query, one value per query:
            ``{"camera": [3]}``
        threshold : the largest distance of an answer
        pair_false_match_rate : instead, the share of wrong rows of the gallery that may count as
            answers to a query; ``calibrate`` tells the threshold. In 50,000 rows 0.001 is 50 rows.
        unknown_rate : of the queries whose item is not in the gallery, the share that may get an
            answer; all others get none. ``calibrate`` tells the evidence that an answer needs.
        items : which item each query is a picture of, such as ``[0, 0, 0, 1, 1]``: one ranking for
            each item, in the order of its first picture, by the mean distance of its pictures. A
            row that is not allowed for one of them is no answer.
        right, wrong : ids that a person said are right and wrong answers to the query: rows near
            the right ones come nearer, rows near the wrong ones go away. Right ones come first, at
            distance 0, wrong ones not at all. For several queries (or items) a list of lists.
        base : answer by the plain distance instead, to compare with
        threads : how many threads to use; never changes the result

        Returns
        -------
        Ranking
            With ``ids``, and with ``presence`` after ``calibrate``; ``indices`` are positions in
            ``Index.ids``. Where no more rows are allowed or near enough, or an approximate search
            knows no more: -1, infinity, and the id -1 or "".
        """
        prepare("index")
        engine = self.engine
        state = engine.state
        check_bool("base", base)
        self._check_rates(base, pair_false_match_rate, unknown_rate)
        conditions = Conditions(
            allowed=allowed,
            exclude=exclude,
            where=where,
            differ=differ,
            threshold=threshold_of(self.calibration, threshold, pair_false_match_rate),
        )
        least_evidence = None
        if unknown_rate is not None:
            least_evidence = least_evidence_of(self.calibration, unknown_rate)
        array = as_array("queries", queries)
        vectors = state.scaling.apply("queries", array[None] if array.ndim == 1 else array)
        k = state.n_gallery if k is None else min(check_int("k", k, 1), state.n_gallery)
        row_filter = conditions.filter(
            len(vectors),
            state.n_gallery,
            rows_of_ids=state.id_table.rows,
            attributes=engine.attribute_rules,
        )
        runner = Runner.of(threads)
        pictures = None
        if items is None and right is None and wrong is None:
            ranking = engine.search(vectors, k, runner, row_filter, plain=base)
        else:
            item_queries = ItemQueries.of(engine, vectors, items, right, wrong)
            ranking = rank_items(engine, item_queries, k, row_filter, runner, plain=base)
            pictures = item_queries.pictures
        evidence = None
        presence = None
        model = None if self.calibration is None else self.calibration.presence
        if model is not None and not base:
            evidence = model.evidence_of(engine, vectors, ranking, pictures)
            presence = model.probability(evidence)
        ids = ids_at(state.ids, ranking.indices)
        ranking = Ranking(ranking.indices, ranking.distances, ids, presence)
        if evidence is not None and least_evidence is not None:
            ranking = _without_results(ranking, ~(evidence > least_evidence))
        return conditions.near_enough(ranking)

    def _check_rates(
        self, base: bool, pair_false_match_rate: float | None, unknown_rate: float | None
    ) -> None:
        """Raise for rates with ``base``, or over a store; parameters are those of ``search``."""
        given = {"pair_false_match_rate": pair_false_match_rate, "unknown_rate": unknown_rate}
        names = [f"`{name}`" for name, rate in given.items() if rate is not None]
        if not names:
            return
        if base:
            raise InvalidInputError(
                f"{names[0]} is a rate of re-ranked distances, and `base=True` asks for plain "
                "ones: use `threshold`."
            )
        self.engine.state.check_vectors(f"{names[0]} is not available")

    def neighbors(self, item: Any, k: int | None = 10) -> Ranking:
        """The gallery rows nearest to one of them, itself left out, as a ranking of one query.

        item : the id of the row
        k : how many; None is all of them
        """
        engine = self.engine
        state = engine.state
        index = int(state.id_table.rows([item])[0])
        state.check_vectors("`neighbors` is not available: use `search` with the item's vector")
        k = state.n_gallery - 1 if k is None else min(check_int("k", k, 1), state.n_gallery - 1)
        distances = row_distances(engine, int(state.position[index]))[state.position]
        order = np.argsort(distances[: state.n_gallery], kind="stable")[:k].astype(np.int32)
        return Ranking(order[None], distances[order][None], ids_at(state.ids, order[None]))

    def vectors(self, ids: Any) -> Floats:
        """The vectors of the rows with these ids as the index keeps them, (len(ids), d) float32.

        Scaled for metric="cosine", and projected where there is a ``projection``.
        """
        state = self.engine.state
        state.check_vectors("`vectors` is not available: fetch them from the store")
        return state.vectors[state.position[state.id_table.rows(ids)]].copy()

    def explain(self, query: Any, item: Any) -> Explanation:
        """Why a row of the gallery has its distance from a query; ``str()`` of it can be read.

        Parameters
        ----------
        query : (d,) or (1, d)
        item : its id
        """
        engine = self.engine
        index = int(engine.state.id_table.rows([item])[0])
        array = np.atleast_2d(as_array("query", query))
        if len(array) != 1:
            raise InvalidInputError(f"`query` must be one vector, got {len(array)}.")
        explanation = explain(engine, engine.state.scaling.apply("query", array), index)
        if self.chosen is None:
            return explanation
        return replace(explanation, chosen=self.chosen.reasons)

    def explorer(self) -> Explorer:
        """The rows as they are now, to be ranked for one query under any parameters.

        The same object as long as the index stays as it is; what it computed is kept with it.
        """
        from kinrank.index.explorer import Explorer  # few need it, and its kernels take a while

        engine = self.engine
        explorer = self._explorer
        if explorer is None or explorer.engine.state is not engine.state:
            engine.state.check_vectors("`explorer` is not available")
            explorer = Explorer(engine)
            self._explorer = explorer
        return explorer

    def calibrate(self, labels: Any = None, *, sample: int = 500) -> Calibration:
        """What a threshold of the distance would let through, from the gallery itself.

        It is kept, and saved with the index: ``search`` then takes ``unknown_rate`` and
        ``pair_false_match_rate``, and tells ``presence``. After many changes calibrate again.

        Parameters
        ----------
        labels : (n,) in the order of ``ids``, or a dict by id: adds precision and recall, and says
            which rows show the same item. Without them groups of similar rows stand for items,
            which answers more cautiously.
        sample : how many rows are asked, each without itself, and about how many are taken out with
            all rows of their item to see what unknown queries look like: 500 tell rates from 0.003
        """
        prepare("change")  # of an index without some of its rows
        self.calibration = calibrate(self.engine, labels, check_int("sample", sample, 1))
        return self.calibration

    def groups(
        self,
        *,
        strictness: float = 0.5,
        threshold: float | None = None,
        constraints: Constraints | None = None,
        corrections: Corrections | PathLike | None = None,
        threads: int | None = None,
    ) -> Groups:
        """Say who is the same among the rows; see ``kinrank.group``.

        Rows are ranked with the parameters of the index. Corrections are kept beside its file
        (``groups.corrections_beside``) unless another file is given; an index that was not opened
        from a file keeps them in memory.
        """
        from kinrank.groups.given import refuse_zero_rows
        from kinrank.groups.run import corrections_beside, group_rows

        prepare("group")
        state = self.engine.state
        state.check_vectors("`groups` is not available: use `kinrank.group` with the vectors")
        if corrections is None and self._path is not None:
            corrections = corrections_beside(self._path)
        vectors = self.vectors(self.ids)
        if vectors.any():
            refuse_zero_rows(vectors)
        return group_rows(
            vectors,
            self.ids,
            self.method.replace(whiten=None),
            strictness=strictness,
            threshold=threshold,
            constraints=constraints,
            corrections=corrections,
            threads=threads,
        )

    def add(
        self, vectors: Any, ids: Any = None, *, attributes: Any = None, threads: int | None = None
    ) -> None:
        """Add rows to the gallery; the result is that of a fresh build with them at its end.

        A ``projection`` stays what it was: the fresh build is one with ``whiten=index.projection``.

        ids : new ones; None continues behind the largest integer
        attributes : of the new rows, all that the index has
        """
        with self._changing() as state:
            rows = state.scaling.apply("vectors", vectors)
            if ids is None and state.ids.dtype.kind == "U":
                raise InvalidInputError(
                    "`ids` is missing: the ids of this index are text, so new items cannot be "
                    "numbered."
                )
            first = int(state.ids.max()) + 1 if ids is None else 0
            new_ids = as_ids(ids, len(rows), first)
            all_ids = joined(state.ids, new_ids)
            all_attributes = self._changed_attributes(all_ids, new_ids, attributes)
            no_ids = as_ids([])
            new_state = changed(state, no_ids, rows, new_ids, Runner.of(threads))
            self._replace(new_state, all_attributes)
            self._warn_if_outgrown(state.n_gallery)

    def remove(self, ids: Any, *, threads: int | None = None) -> None:
        """Remove rows from the gallery; unknown ids are an error, and then nothing is removed."""
        with self._changing() as state:
            no_vectors = np.empty((0, state.scaling.dims), np.float32)
            no_ids = as_ids([])
            new_state = changed(state, _given_ids(ids), no_vectors, no_ids, Runner.of(threads))
            self._replace(new_state, self._changed_attributes(new_state.ids, no_ids, None))

    def update(
        self, ids: Any, vectors: Any = None, *, attributes: Any = None, threads: int | None = None
    ) -> None:
        """Give rows that are there other vectors, other attributes, or both.

        ids : the rows; those whose vectors change become the last ones
        vectors : (n, d), one for each; None leaves them as they are, and nothing is computed again
        attributes : other values, one for each of these rows; names that are left out stay
        """
        if vectors is None:
            self._update_attributes(ids, attributes)
            return
        with self._changing() as state:
            rows = state.scaling.apply("vectors", vectors)
            row_ids = refuse_duplicates(_given_ids(ids, len(rows)))
            self._changed_attributes(state.ids, row_ids, attributes)  # refused before the work
            new_state = changed(state, row_ids, rows, row_ids, Runner.of(threads))
            new_attributes = self._changed_attributes(new_state.ids, row_ids, attributes)
            self._replace(new_state, new_attributes)

    def upsert(
        self,
        vectors: Any,
        ids: Any,
        *,
        removed: Any = (),
        attributes: Any = None,
        threads: int | None = None,
    ) -> None:
        """Add rows, change those that are there, and remove others, all in one step.

        No search sees a part of it, and it costs less than three steps. Rows whose vectors came
        become the last ones.

        vectors, ids : (n, d), and an id for each, new or there already
        removed : ids of rows that go
        attributes : of the rows that come, all that the index has; rows that are there alone may
            leave names out
        """
        with self._changing() as state:
            arriving = refuse_duplicates(_given_ids(ids))
            rows = np.empty((0, state.scaling.dims), np.float32)
            if len(arriving):
                rows = state.scaling.apply("vectors", vectors)
                as_ids(arriving, len(rows))  # one for each
            present = arriving[state.id_table.find(arriving) >= 0]
            leaving = joined(as_ids(removed), present)
            self._changed_attributes(arriving, arriving, attributes)  # refused before the work
            new_state = changed(state, leaving, rows, arriving, Runner.of(threads))
            new_attributes = self._changed_attributes(new_state.ids, arriving, attributes)
            self._replace(new_state, new_attributes)
            self._warn_if_outgrown(state.n_gallery)

    def _update_attributes(self, ids: Any, attributes: Any) -> None:
        """Give the rows with these ids other attributes, parameters as in ``update``."""
        if attributes is None:
            raise InvalidInputError(
                "`vectors` or `attributes` must be given: `update` needs something to change."
            )
        with self._writing():
            engine = self.engine
            rows = engine.state.id_table.rows(refuse_duplicates(_given_ids(ids)))
            self.engine = engine.with_attributes(engine.attributes.with_values(rows, attributes))

    def relearn(
        self,
        vectors: Any,
        context: Any = None,
        *,
        whiten: Any = None,
        threads: int | None = None,
        run: Run | None = None,
    ) -> None:
        """Learn the projection again, from all that the gallery has become, and build with it.

        Ids, attributes, notes and parameters stay, and searches are answered as before until all
        is there. A calibration is dropped, as distances are others: ``calibrate`` again.

        Parameters
        ----------
        vectors : (n, d) of all items, in the order of ``ids``; the index keeps what its projection
            left of them, which is not enough to learn from
        context : (m, d) as in ``CAS.fit``
        whiten : what to learn; None is what the index was made with
        threads, run : as in ``CAS.fit``

        Examples
        --------
        >>> import kinrank
        >>> gallery = kinrank.datasets.load("toy").gallery.features
        >>> index = kinrank.CAS(whiten="pairs").fit(gallery[:200])
        >>> index.add(gallery[200:])
        >>> index.relearn(gallery)
        >>> index.projection.rows
        330
        """
        with self._changing() as state:
            kind = relearnt_kind(state, whiten)
            matrix = as_matrix("vectors", vectors)
            if len(matrix) != state.n_gallery:
                raise InvalidInputError(
                    f"`vectors` must be those of all {state.n_gallery:,} items, in the order of "
                    f"`ids`, got {len(matrix):,}."
                )
            if context is None and len(state) > state.n_gallery:
                raise InvalidInputError(
                    f"`context` is missing: this index has {len(state) - state.n_gallery:,} rows "
                    "of it, which are learnt from and built with."
                )
            more = None if context is None else as_matrix("context", context)
            method = state.unresolved.replace(whiten=kind)
            with as_run(run).keeping("relearn", (method, matrix, more), threads) as execution:
                learnt = build_from_vectors(method, matrix, state.ids, more, execution)
            self._replace(learnt, self.engine.attributes)
            self.calibration = None

    def draft(self) -> Index:
        """A copy to change and save in this one's place, which stays as it is until ``adopt``."""
        copy = Index(self.engine, None, self._path, self._lock)
        copy.recipe = self.recipe
        copy.chosen = self.chosen
        copy.calibration = self.calibration
        copy.notes = dict(self.notes)
        copy.fingerprints = self.fingerprints
        copy._save_lock = self._save_lock
        return copy

    def adopt(self, draft: Index) -> None:
        """Become what a draft has become."""
        self.engine = draft.engine
        self.notes = draft.notes
        self.fingerprints = draft.fingerprints
        self.recipe = draft.recipe
        self.chosen = draft.chosen
        self.calibration = draft.calibration

    def _warn_if_outgrown(self, before: int) -> None:
        """Warn when a change makes the gallery too large for what was chosen or learnt from it.

        before : how many rows the gallery had before the change
        """
        projection = self.projection
        is_outgrown = projection is not None and projection.outgrown(len(self))
        if projection is not None and is_outgrown and not projection.outgrown(before):
            warnings.warn(
                f"The gallery has grown from {projection.rows:,} to {len(self):,} rows since its "
                "projection was learnt: learn again, with index.relearn(vectors).",
                KinrankWarning,
                stacklevel=3,
            )
        chosen = self.chosen
        if chosen is not None and not chosen.outgrown(before) and chosen.outgrown(len(self)):
            warnings.warn(chosen.advice(len(self)), KinrankWarning, stacklevel=3)

    def _changed_attributes(self, ids: Ids, added: Ids, given: Any) -> Attributes:
        """The attributes of the gallery rows after a change.

        ids : of all gallery rows after it
        added : of the rows whose vectors came with it
        given : attributes of these rows as the user gave them, see ``add``
        """
        engine = self.engine
        return engine.attributes.changed(engine.state.id_table, ids, added, given)

    def _replace(self, state: State, attributes: Attributes) -> None:
        """Search another state from now on, with the attributes of its gallery rows."""
        self.engine = Engine(state, search_of(state), attributes)

    @contextmanager
    def _changing(self) -> Iterator[State]:
        """Hold the right to change rows, one thread at a time, inside ``with``; gives the state.

        Searches go on meanwhile.
        """
        prepare("change")
        with self._writing():
            self.engine.state.check_vectors(
                "it cannot change: change the store, and let it follow (kinrank.follow)"
            )
            yield self.engine.state

    def check_writable(self) -> None:
        """Raise if it is of a file that was opened for reading only."""
        if self._path is not None and self._lock is None:
            raise InvalidInputError(
                f"{self._path} is open for reading only. Open it with "
                "kinrank.open(path, writable=True) to change it."
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the right to change anything, one thread at a time, inside ``with``."""
        self.check_writable()
        with self._change_lock:
            yield

    def save(self, path: PathLike | None = None) -> None:
        """Write the index to a file, whole or not at all; readers keep what they opened.

        path : None is the file that was opened for writing
        """
        if path is not None:
            check_path("path", path)
        if self._lock is not None and self._opened_from(path):
            # A forked process would wait for ever for a thread that it does not have.
            self._lock.check_process()
        # One save at a time takes the rows and writes them, so a later file never has older rows.
        with self._save_lock:
            held = self._lock if self._opened_from(path) else None
            target = self._path if held is not None else path
            if target is None:
                raise InvalidInputError(
                    "`path` is missing: say where to save, as no file is open for writing."
                )
            lock = WriteLock(target) if held is None else held
            try:
                self._write(target)
                lock.move_to_new_file()
            finally:
                if held is None:
                    lock.release()

    def _opened_from(self, path: PathLike | None) -> bool:
        """Whether to save to ``path`` means the file that was opened; None always does."""
        return path is None or self._path == os.path.realpath(path)

    def _write(self, target: PathLike) -> None:
        """Write everything to the file ``target``, whose lock is held."""
        engine = self.engine
        further_arrays = {
            ATTRIBUTE + name: column for name, column in engine.attributes.columns.items()
        }
        if self.calibration is not None:
            for name, array in self.calibration.arrays().items():
                further_arrays[CALIBRATION + name] = array
        if self.fingerprints is not None:
            further_arrays[FINGERPRINTS] = self.fingerprints
        save_state(
            target,
            engine.state,
            recipe=self.recipe,
            auto_parameters=self.chosen,
            notes=self.notes,
            further_arrays=further_arrays,
        )

    def close(self) -> None:
        """Let others write the file, after a save that is under way; what was not saved is lost."""
        if self._lock is None:
            return
        if self._lock.inherited:  # others write already; who was saving is not in this process
            self._lock = None
            return
        with self._save_lock:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def __reduce__(self) -> str:
        raise UnsupportedError(
            "An index cannot be pickled or copied: `save` it, and `kinrank.open` the file where it "
            "is needed; processes that open the same file share its memory."
        )

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _without_results(ranking: Ranking, is_unanswered: npt.NDArray[np.bool_]) -> Ranking:
    """A ranking without the results of some queries; is_unanswered : (n_queries,) which."""
    distances = np.where(is_unanswered[:, None], np.float32(np.inf), ranking.distances)
    unanswered = Ranking(ranking.indices, distances, ranking.ids, ranking.presence)
    return unanswered.within(float(np.finfo(np.float32).max))


def _given_ids(ids: Any, n: int | None = None) -> Ids:
    """The ids of rows that a user wants to change, which must be there; n : how many, if known."""
    if ids is None:
        raise InvalidInputError("`ids` is missing: name the items that are to change.")
    return as_ids(ids, n)
