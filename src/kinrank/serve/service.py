"""What is served: an index, and what is known of its rows."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank.errors import InvalidInputError, KinrankError, UnknownIdError
from kinrank.index import Index
from kinrank.index.explorer import Explorer
from kinrank.serve.changes import ItemsChange, can_join, joined_add
from kinrank.serve.describe import Describer
from kinrank.serve.labels import Labels
from kinrank.serve.metrics import Metrics
from kinrank.serve.pictures import Pictures
from kinrank.serve.problems import Problem
from kinrank.serve.settings import Settings
from kinrank.stores.follow import StoreChange
from kinrank.types import Floats, Longs

if TYPE_CHECKING:
    from kinrank.serve.curves import Curves
    from kinrank.serve.opening import Gain


@dataclass(eq=False)
class RowView:
    """The rows of an index as people know them, in the order of its ids.

    keys : ids as text; names : what they are called; labels : "" where none is known
    codes : (n,) a number for each label, -1 for none; curves, gains : once they were asked for
    """

    explorer: Explorer
    keys: list[str]
    names: list[str]
    labels: list[str]
    curves: Curves | None = None
    gains: list[Gain] | None = None

    @cached_property
    def codes(self) -> Longs:
        if not any(self.labels):
            return np.full(len(self.labels), -1, np.int64)
        words = np.array(self.labels)
        codes = np.unique(words, return_inverse=True)[1].astype(np.int64).ravel()
        codes[words == ""] = -1
        return codes


@dataclass(eq=False)
class Service:
    """An index with names, labels and pictures of its rows.

    Parameters
    ----------
    index : with its own vectors
    settings : limits, and whether rows may change
    title : what the page calls it
    labels : saved with the index when it changes
    names : by id; rows without a name are called by their id
    pictures, describer : None where there are none
    """

    index: Index
    settings: Settings
    title: str = "index"
    labels: Labels = field(default_factory=Labels)
    names: Mapping[Any, str] = field(default_factory=dict)
    pictures: Pictures | None = None
    describer: Describer | None = None
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        try:
            self.index.explorer()
        except InvalidInputError:
            raise InvalidInputError(
                "This index was built over a store and keeps no vectors, so it cannot be served."
            ) from None
        self._view: RowView | None = None
        self._viewing = threading.Lock()

    @property
    def view(self) -> RowView:
        explorer = self.index.explorer()
        with self._viewing:
            if self._view is None or self._view.explorer is not explorer:
                ids = explorer.ids.tolist()
                words = self.labels.words
                names = [str(self.names.get(item, item)) for item in ids]
                labels = [words.get(item, "") for item in ids]
                self._view = RowView(explorer, [str(item) for item in ids], names, labels)
            return self._view

    def warm(self) -> None:
        """Load or compile what answers need, so that the first of them takes no longer."""
        first = self.index.ids[:1]
        for base in (False, True):
            self.index.search(self.index.vectors(first), 1, base=base, threads=1)
        self.index.neighbors(first[0], 1)

    def typed(self, text: str) -> int | str:
        """An id from a path, as those of the index."""
        if self.index.ids.dtype.kind == "U":
            return text
        try:
            return int(text)
        except ValueError:
            raise UnknownIdError(f"There is no row with the id {text!r}.") from None

    def describe(self, picture: bytes) -> Floats:
        """The vector of an uploaded picture, (1, d)."""
        if self.describer is None:
            words = "Pictures need a model, which this index does not know: start the service "
            raise Problem(415, "no-model", f"{words}with --model, or send vectors.")
        return self.describer.describe(picture)

    def apply(self, changes: list[ItemsChange]) -> list[int | Exception]:
        """Make several changes in their order, and save once.

        Rows to add that follow each other are added at once. Returns for each change how many rows
        there are then, or why it was not made; the others are made all the same.
        """
        draft = self.index.draft()  # what is served stays if this fails
        labels = self.labels
        outcomes: list[Exception | None] = []
        for group in _groups(changes):
            if len(group) > 1:
                try:
                    labels = joined_add(group, draft, labels)
                    outcomes += [None] * len(group)
                    continue
                except KinrankError:
                    pass  # one by one, each has its own error
            for change in group:
                try:
                    labels = change.apply(draft, labels)
                    outcomes.append(None)
                except Exception as error:  # noqa: BLE001  of this change alone
                    outcomes.append(error)
        if None in outcomes:
            try:
                self._save(draft, labels)
            except Problem as problem:
                return [problem if error is None else error for error in outcomes]
        return [len(self.index) if error is None else error for error in outcomes]

    def follow(self, change: StoreChange) -> None:
        """Make a change that the store of the vectors asks for, and save."""
        draft = self.index.draft()
        change.apply(draft, threads=1)
        labels = self.labels
        for item in change.removed.tolist():
            labels = labels.after_removing(item)
        if change.vectors is not None:
            ids = change.ids.tolist()
            known = [item for item in ids if item in self.index]
            labels = labels.after_change(known, None, update=True)
            labels = labels.after_change(list(set(ids) - set(known)), None, update=False)
        self._save(draft, labels)

    def _save(self, draft: Index, labels: Labels) -> None:
        """Save a draft, and serve it from then on, so that memory, file and answer agree."""
        if draft.path is not None:  # one that was made in memory stays there
            labels.keep(draft)
            try:
                draft.save()
            except OSError as error:
                words = f"The index could not be saved ({error.strerror or error}), so nothing was "
                words += "changed. Send it again when that is put right."
                raise Problem(507, "not-saved", words) from error
        with self._viewing:
            self.index.adopt(draft)
            self.labels = labels
            self._view = None


def _groups(changes: list[ItemsChange]) -> list[list[ItemsChange]]:
    """Changes in their order; those that follow each other and can be made at once, together."""
    groups: list[list[ItemsChange]] = []
    for change in changes:
        if groups and can_join(groups[-1][-1], change):
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups
