"""Labels of the rows, kept with an index whose rows come and go.

A file of labels counts the rows as they were when it was made. So an index that is changed here
keeps all labels that are known, and which rows came later; both are saved together with the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinrank.errors import FileFormatError, InvalidInputError, KinrankWarning
from kinrank.index import Index

_NOTE = "labels"  # where they are among the notes of an index


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known.

    words : by id, only of rows that have one
    added : ids of rows that came later; moved : whether earlier ones were removed or changed, so
        that the rest no longer lie where a file says
    """

    words: Mapping[Any, str] = field(default_factory=dict)
    added: frozenset[Any] = frozenset()
    moved: bool = False

    @classmethod
    def kept(cls, index: Index) -> Labels:
        """Those that are saved with an index."""
        note = index.notes.get(_NOTE)
        if note is None:
            return cls()
        try:
            known = set(index.ids.tolist())
            words = {one: str(word) for one, word in note["words"] if one in known}
            return cls(words, frozenset(note["added"]) & known, bool(note["moved"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"The labels that are kept with the index must be pairs, got: {error!r}"
            ) from error

    def keep(self, index: Index) -> None:
        """Let an index save them with the rest."""
        pairs = [[one, word] for one, word in self.words.items()]
        index.notes[_NOTE] = {"words": pairs, "added": list(self.added), "moved": self.moved}

    def with_file(self, index: Index, values: Any) -> Labels:
        """With those of a file: one for each row, or for each that did not come later.

        values : in the order of the ids; None leaves them as they are
        """
        if values is None:
            return self
        given, ids = words_of(values), index.ids.tolist()
        if len(given) != len(ids):
            ids = self._earlier(ids, len(given))
        found = dict(zip(ids, given, strict=True))
        other = sum(self.words[one] != word for one, word in found.items() if one in self.words)
        if self.moved and other:
            warnings.warn(
                f"The file says other labels than are kept with the index for {other:,} rows, and "
                "counts. Rows were removed or changed since labels were first given: leave the "
                "file out if it is from before.",
                KinrankWarning,
                stacklevel=2,
            )
        return replace(self, words=_said({**self.words, **found}))

    def _earlier(self, ids: list[Any], count: int) -> list[Any]:
        """The rows that a shorter file is about."""
        wanted = f"`labels` must be one for each row of the index ({len(ids)}), got {count}"
        earlier = self.earlier(ids)
        if count != len(earlier):
            instead = "; without the file those that are kept with the index count"
            raise InvalidInputError(f"{wanted}{instead if self.words else ''}.")
        bare = [one for one in ids if one in self.added and one not in self.words]
        if bare:
            raise InvalidInputError(
                f"{wanted}, and {len(bare)} of the {len(self.added)} rows that were added later "
                f"have no label of their own, such as {bare[0]!r}."
            )
        return earlier

    def earlier(self, ids: list[Any]) -> list[Any]:
        """The rows without those that came later; none if they are no longer in their order."""
        return [] if self.moved else [one for one in ids if one not in self.added]

    def after_adding(self, ids: Iterable[Any], words: list[str] | None) -> Labels:
        """With new rows and their labels."""
        own = list(ids)
        return replace(self._said_of(own, words), added=self.added | set(own))

    def after_update(self, ids: Iterable[Any], words: list[str] | None) -> Labels:
        """With rows that changed and went behind the others; without words they keep theirs."""
        own = list(ids)
        return replace(self._said_of(own, words), moved=self.moved or bool(set(own) - self.added))

    def after_removing(self, one: Any) -> Labels:
        """Without a row."""
        words = {name: word for name, word in self.words.items() if name != one}
        return Labels(words, self.added - {one}, self.moved or one not in self.added)

    def _said_of(self, ids: list[Any], words: list[str] | None) -> Labels:
        if words is None:
            return self
        return replace(self, words=_said({**self.words, **dict(zip(ids, words, strict=True))}))


def words_of(values: Any) -> list[str]:
    """An array or a list as text."""
    return [str(value) for value in np.asarray(values).tolist()]


def _said(words: Mapping[Any, str]) -> dict[Any, str]:
    """Only those that say something."""
    return {one: word for one, word in words.items() if word}
