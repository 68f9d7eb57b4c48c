"""An index that follows its store: what came, changed and went is found, and applied.

The store says which rows it has. Vectors are fetched some at a time and compared with those of the
index, or with their fingerprints where the index keeps no vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.cas import CAS
from kinrank.errors import InvalidInputError, StoreError, UnknownIdError
from kinrank.filters import Mask
from kinrank.index.attributes import Attributes
from kinrank.index.ids import Ids, IdTable, as_ids, refuse_duplicates
from kinrank.index.index import Index
from kinrank.index.search import StoreSearch
from kinrank.search.searcher import FilteringStore, Store, checked_fetch
from kinrank.stores.attach import attach, fingerprints_of, rows_as_queries
from kinrank.types import Floats, Ints, Longs
from kinrank.validation import check_bool, check_int

__all__ = ["Followed"]

_NOTE = "followed"  # where the mark is among the notes of an index
_ROWS = 1024  # fetched at a time
_BATCH = 100_000  # rows that are applied at a time
_ROUNDING = 2.0**-21  # of a row's largest value: engines that divide by the norm round again
_MOST_GONE = 1 / 2  # of the rows, above which a store is questioned


@dataclass(frozen=True)
class Followed:
    """What following a store has done to an index.

    came, changed, gone : rows; changed are those with another vector
    revalued : rows that got other attributes alone
    whole : whether all of the store was looked at; False where it was stopped
    """

    came: int = 0
    changed: int = 0
    gone: int = 0
    revalued: int = 0
    whole: bool = True

    @property
    def rows(self) -> int:
        """How many rows came, changed or went."""
        return self.came + self.changed + self.gone + self.revalued

    def followed_by(self, other: Followed) -> Followed:
        """Both, one after the other; whole if the second was the last."""
        return Followed(
            self.came + other.came,
            self.changed + other.changed,
            self.gone + other.gone,
            self.revalued + other.revalued,
            other.whole,
        )

    def __str__(self) -> str:
        text = f"{self.came:,} came, {self.changed:,} changed, {self.gone:,} went"
        if self.revalued:
            text += f", {self.revalued:,} have other attributes"
        return text if self.whole else f"{text}; stopped before the end"


@dataclass(frozen=True, eq=False, kw_only=True)
class StoreChange:
    """Differences between a store and an index that are applied together.

    ids, attributes : of rows that came or changed
    vectors : theirs; None where rows have other attributes alone
    removed : ids of rows that went
    count : how many rows of each kind; its ``whole`` says that this is the last change
    note : what the next round begins from; None leaves it as it is
    """

    ids: Ids
    vectors: Floats | None
    attributes: dict[str, Any] | None
    removed: Ids
    count: Followed
    note: dict[str, Any] | None = None

    def apply(self, index: Index, threads: int | None = None) -> None:
        """Change an index; it stays as it was if that fails."""
        if self.vectors is None:
            index.update(self.ids, attributes=self.attributes)
        elif len(self.ids) or len(self.removed):
            index.upsert(
                self.vectors,
                self.ids,
                removed=self.removed,
                attributes=self.attributes,
                threads=threads,
            )
        if self.note is not None:
            index.notes = {**index.notes, _NOTE: self.note}


def follow(
    index: Index,
    store: Store,
    *,
    changed_column: str | None = None,
    confirm: bool = False,
    applied: Callable[[Followed], None] | None = None,
    stop: Callable[[], bool] | None = None,
    batch_size: int = _BATCH,
    threads: int | None = None,
) -> Followed:
    """Bring an index up to date with the store that its vectors are kept in.

    Rows that came into the store are added, rows with another vector are updated, rows that went
    are removed; the result is that of a fresh build over what the store has. An index of
    ``kinrank.attach``, which keeps no vectors, is attached again if anything is different. Call it
    from time to time, and save the index; ``kinrank index follow --every 60`` does both.

    Changes are applied by batches, each whole or not at all. A store that fails in the middle
    leaves the index with those that were applied, and the next call goes on from there.

    Parameters
    ----------
    index : made over the vectors of the store with its ids, or by ``attach``
    store : of ``kinrank.stores``, or an object of the same form
    changed_column : an attribute of the rows that grows whenever one of them changes, such as a
        time or a version: rows whose value is below the largest of the last call are not fetched.
        None fetches all rows and compares them
    confirm : that more than half of the rows of the index really went; without it that is a
        ``StoreError``, and nothing changes
    applied : called after each batch with what it did, to save the index for example
    stop : asked between blocks of rows; True ends the call, and another one goes on
    batch_size : how many rows that came or changed are held and applied at a time
    threads : how many threads compute

    Returns
    -------
    Followed
        How many rows came, changed and went.

    Examples
    --------
    >>> import faiss, kinrank
    >>> gallery = kinrank.datasets.load("toy").gallery.features
    >>> engine = faiss.IndexFlatL2(8)
    >>> engine.add(gallery)
    >>> index = kinrank.CAS().fit(gallery[:300])
    >>> print(kinrank.follow(index, kinrank.stores.FaissStore(engine)))
    30 came, 0 changed, 0 went
    >>> len(index)
    330
    """
    if not isinstance(store, Store):
        raise InvalidInputError(
            "`store` must be a store of kinrank.stores, or have its metric, width, ids, search "
            f"and fetch, got {type(store).__name__}."
        )
    index.check_writable()
    check_bool("confirm", confirm)
    check_int("batch_size", batch_size, 1)
    stop = stop or _never
    if isinstance(index.engine.searcher, StoreSearch):
        done = _attach_again(index, store, changed_column, confirm, stop, threads)
        if applied is not None and done.rows:
            applied(done)
        return done
    total = Followed(whole=False)
    for change in changes_of_store(
        index,
        store,
        changed_column=changed_column,
        confirm=confirm,
        stop=stop,
        batch_size=batch_size,
    ):
        change.apply(index, threads)
        total = total.followed_by(change.count)
        if applied is not None and (change.count.rows or change.note is not None):
            applied(change.count)
    return total


def changes_of_store(
    index: Index,
    store: Store,
    *,
    changed_column: str | None = None,
    confirm: bool = False,
    stop: Callable[[], bool] | None = None,
    batch_size: int = _BATCH,
) -> Iterator[StoreChange]:
    """What is different in the store, as changes of the index to be applied in their order.

    The parameters are those of ``follow``. Each change is to be applied before the next is asked
    for; rows that went are in the first one.
    """
    _check_width(store, index.width)
    rows = _StoreRows.of(index, store, changed_column)
    removed = rows.gone(confirm)
    differing = np.zeros(len(rows.ids), np.bool_)
    batch: list[tuple[Ids, Floats]] = []
    stop = stop or _never
    suspects = np.flatnonzero(rows.suspect)
    with progress.stage("following", len(suspects)) as advance:
        for low in range(0, len(suspects), _ROWS):
            if stop():
                return
            places, vectors = _fetched(store, rows.ids, suspects[low : low + _ROWS])
            differs = _differs(index, rows.ids[places], vectors)
            differing[places] = differs
            batch.append((rows.ids[places[differs]], vectors[differs]))
            if sum(len(ids) for ids, _ in batch) >= batch_size:
                yield rows.change(batch, removed)
                batch = []
                removed = removed[:0]
            advance(min(_ROWS, len(suspects) - low))
    yield rows.change(batch, removed)
    yield rows.revaluation(~differing)


def _attach_again(
    index: Index,
    store: Store,
    changed_column: str | None,
    confirm: bool,
    stop: Callable[[], bool],
    threads: int | None,
) -> Followed:
    """Let an index that keeps no vectors be what ``attach`` makes of the store now."""
    state = index.engine.state
    _check_width(store, state.scaling.dims)
    rows = _StoreRows.of(index, store, changed_column)
    gone = rows.gone(confirm)
    came = int(np.count_nonzero(rows.in_index < 0))
    others = len(gone) + came > 0 or _has_other_vectors(index, store, rows, stop)
    if others is None:
        return Followed(whole=False)
    draft = index.draft()
    done = Followed()
    if others:
        searcher = index.engine.searcher
        assert isinstance(searcher, StoreSearch)
        assert isinstance(state.unresolved, CAS)
        new = attach(store, state.unresolved, refine=searcher.refine, threads=threads)
        is_new = state.id_table.find(new.ids) < 0
        changed = 0
        if index.fingerprints is not None and new.fingerprints is not None:
            before = index.fingerprints[state.id_table.find(new.ids)]
            changed = int(np.count_nonzero((before != new.fingerprints) & ~is_new))
        left = int(np.count_nonzero(IdTable(new.ids).find(state.ids) < 0))
        done = Followed(int(is_new.sum()), changed, left)
        draft.engine = new.engine.with_attributes(
            Attributes.of(rows.values_of(new.ids), len(new.ids))
        )
        draft.fingerprints = new.fingerprints
    revaluation = rows.revaluation(np.ones(len(rows.ids), np.bool_))
    if not others:
        revaluation.apply(draft)
        done = revaluation.count
    elif revaluation.note is not None:
        draft.notes[_NOTE] = revaluation.note
    index.adopt(draft)
    return done


def _has_other_vectors(
    index: Index, store: Store, rows: _StoreRows, stop: Callable[[], bool]
) -> bool | None:
    """Whether a row of the index has another fingerprint now; None if stopped before that is known.

    Without fingerprints rows count as others.
    """
    if index.fingerprints is None:
        return True
    method = index.engine.state.unresolved
    suspects = np.flatnonzero(rows.suspect)
    with progress.stage("following", len(suspects)) as advance:
        for low in range(0, len(suspects), _ROWS):
            if stop():
                return None
            places = suspects[low : low + _ROWS]
            vectors = rows_as_queries(store, method, rows.ids[places])
            if (fingerprints_of(vectors) != index.fingerprints[rows.in_index[places]]).any():
                return True
            advance(len(places))
    return False


@dataclass(frozen=True, eq=False, kw_only=True)
class _StoreRows:
    """What a store says of its rows beside their vectors, and which of them the index has.

    index : as it was when the rows were listed
    ids : (n,) of all rows of the store
    in_index : (n,) where each row is in the index, -1 for those that came
    columns : by name, (n,) values of the attributes that the index has; None for no value
    suspect : (n,) rows that came, or may have another vector
    note : what the next round begins from; None for nothing new
    """

    index: Index
    ids: Ids
    in_index: Ints
    columns: dict[str, npt.NDArray[Any]]
    suspect: Mask
    note: dict[str, Any] | None

    @classmethod
    def of(cls, index: Index, store: Store, changed_column: str | None) -> _StoreRows:
        """Ask a store for its ids and attributes."""
        names = list(index.attributes)
        if changed_column is not None and changed_column not in names:
            names.append(changed_column)
        columns: dict[str, Any] = {}
        if names and isinstance(store, FilteringStore):
            listed, columns = store.attributes(names)
            ids = refuse_duplicates(as_ids(listed))
        elif changed_column is not None:
            raise InvalidInputError(
                f"`changed_column` needs a store that tells attributes of its rows, and "
                f"{type(store).__name__} does not: leave it out."
            )
        else:
            ids = refuse_duplicates(as_ids(store.ids()))
        table = index.engine.state.id_table
        if len(ids) and (ids.dtype.kind == "U") != (table.ids.dtype.kind == "U"):
            kinds = ("text", "integers") if ids.dtype.kind == "U" else ("integers", "text")
            raise InvalidInputError(
                f"The ids of the store are {kinds[0]}, those of the index are {kinds[1]}: an index "
                "follows the store that it was made from."
            )
        in_index = table.find(ids)
        suspect = np.ones(len(ids), np.bool_)
        note = None
        if changed_column is not None:
            times = _as_objects(columns[changed_column])
            before = index.notes.get(_NOTE)
            if isinstance(before, dict) and before.get("column") == changed_column:
                suspect = (in_index < 0) | _not_below(times, before["mark"])
            note = {"column": changed_column, "mark": _largest(changed_column, times)}
            if note == before:
                note = None
        return cls(
            index=index,
            ids=ids,
            in_index=in_index,
            columns={name: _as_objects(columns[name]) for name in columns},
            suspect=suspect,
            note=note,
        )

    def gone(self, confirm: bool) -> Ids:
        """Ids of the index that the store has no more; an error if these are too many.

        confirm : that they are not
        """
        kept = self.index.ids
        gone = kept[IdTable(self.ids).find(kept) < 0]
        if len(gone) > _MOST_GONE * len(kept) and not confirm:
            raise StoreError(
                f"The store has {len(kept) - len(gone):,} of the {len(kept):,} rows of the index: "
                f"{len(gone):,} went. The index stays as it was. If they really went, say so: "
                "confirm=True, or --confirm."
            )
        return gone

    def change(self, batch: list[tuple[Ids, Floats]], removed: Ids) -> StoreChange:
        """Rows that came or have another vector, and rows that went."""
        width = self.index.width
        vectors = [np.empty((0, width), np.float32), *(block for _, block in batch)]
        filled = [ids for ids, _ in batch if len(ids)]
        ids = np.concatenate(filled) if filled else self.ids[:0]
        came = int(np.count_nonzero(self.in_index[IdTable(self.ids).find(ids)] < 0))
        return StoreChange(
            ids=ids,
            vectors=np.concatenate(vectors),
            attributes=self.values_of(ids) if len(ids) else None,
            removed=removed,
            count=Followed(came, len(ids) - came, len(removed), whole=False),
        )

    def revaluation(self, unchanged: Mask) -> StoreChange:
        """Rows of the index that have other attributes; the last change of a round.

        unchanged : (n,) rows whose vectors are what they were
        """
        differs = np.zeros(len(self.ids), np.bool_)
        now_in_index = self.index.engine.state.id_table.find(self.ids)
        there = np.flatnonzero(unchanged & (now_in_index >= 0))
        for name, kept in self.index.attributes.items():
            if name in self.columns:
                values = self.columns[name][there]
                before = kept[now_in_index[there]].astype(object)
                differs[there] |= (values != before) & (values != None)  # noqa: E711  of each
        ids = self.ids[differs]
        return StoreChange(
            ids=ids,
            vectors=None if len(ids) else np.empty((0, self.index.width), np.float32),
            attributes=self.values_of(ids) if len(ids) else None,
            removed=ids[:0],
            count=Followed(revalued=len(ids)),
            note=self.note,
        )

    def values_of(self, ids: Ids) -> dict[str, Any] | None:
        """The attributes of some rows, of the store or else as the index has them."""
        if not self.columns:
            return None
        places = IdTable(self.ids).find(ids)
        if (places < 0).any():
            raise StoreError("Rows came into the store meanwhile: follow it again.")
        in_index = self.index.engine.state.id_table.find(ids)
        out: dict[str, Any] = {}
        for name, kept in self.index.attributes.items():
            values = self.columns[name][places]
            for row in np.flatnonzero(values == None):  # noqa: E711  of each
                if in_index[row] < 0:
                    raise InvalidInputError(
                        f"The row {ids[row].item()!r} of the store has no {name!r}, which every "
                        "row of the index has as an attribute: give it one in the store."
                    )
                values[row] = kept[in_index[row]].item()
            out[name] = values.tolist()
        return out or None


def _check_width(store: Store, width: int) -> None:
    if store.width != width:
        raise InvalidInputError(
            f"The vectors of the store must be as long as those of the index ({width}), got "
            f"{store.width}."
        )


def _fetched(store: Store, ids: Ids, places: Longs) -> tuple[Longs, Floats]:
    """The vectors of some rows, without those that have left the store since it was asked."""
    try:
        return places, checked_fetch(store, ids[places], store.width)
    except UnknownIdError:
        if len(places) == 1:
            return places[:0], np.empty((0, store.width), np.float32)
    middle = len(places) // 2
    first, first_vectors = _fetched(store, ids, places[:middle])
    second, second_vectors = _fetched(store, ids, places[middle:])
    return np.concatenate([first, second]), np.concatenate([first_vectors, second_vectors])


def _differs(index: Index, ids: Ids, vectors: Floats) -> Mask:
    """Which rows are not in the index, or there with another vector."""
    state = index.engine.state
    rows = state.id_table.find(ids)
    differs: Mask = rows < 0
    there = np.flatnonzero(~differs)
    if len(there):
        scaled = state.scaling.apply("vectors", vectors[there])
        kept = state.vectors[state.position[rows[there]]]
        largest = np.abs(kept).max(axis=1, keepdims=True)
        differs[there] = (np.abs(scaled - kept) > _ROUNDING * largest).any(axis=1)
    return differs


def _as_objects(values: Any) -> npt.NDArray[Any]:
    """One value per row, None for none, as Python has them."""
    out = np.empty(len(values), object)
    out[:] = values.tolist() if isinstance(values, np.ndarray) else values
    return out


def _not_below(times: npt.NDArray[Any], mark: Any) -> Mask:
    """Rows that changed at the mark or later, or do not say when."""
    same_kind = str if isinstance(mark, str) else (int, float)
    return np.array([not isinstance(time, same_kind) or time >= mark for time in times], np.bool_)


def _largest(name: str, times: npt.NDArray[Any]) -> Any:
    """The largest time or version of all rows."""
    known = [time for time in times if time is not None]
    if all(isinstance(time, str) for time in known) or not any(
        isinstance(time, (str, bool)) for time in known
    ):
        return max(known, default=0)
    raise InvalidInputError(
        f"`changed_column` must hold all numbers or all text that grow with each change, and "
        f"{name!r} holds values of several kinds."
    )


def _never() -> bool:
    return False
