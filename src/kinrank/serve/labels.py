"""Labels of the rows, kept with an index whose rows come and go.

A file of labels counts the rows as they were when it was made. So an index that is changed here
keeps all labels that are known, and which rows came later; both are saved together with the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
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
            words = {item: str(word) for item, word in note["words"] if item in known}
            return cls(words, frozenset(note["added"]) & known, bool(note["moved"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"The labels that are kept with the index must be pairs, got: {error!r}"
            ) from error

    def keep(self, index: Index) -> None:
        """Let an index save them with the rest."""
        pairs = [list(pair) for pair in self.words.items()]
        index.notes[_NOTE] = {"words": pairs, "added": list(self.added), "moved": self.moved}

    def by_row(self, what: str, index: Index, values: Any) -> dict[Any, str]:
        """A file's words by id: one for each row, or for each that did not come later.

        values : in the order of the ids; None is no file
        """
        if values is None:
            return {}
        words = [str(value) for value in np.asarray(values).tolist()]
        ids = index.ids.tolist()
        # Rows that are no longer in their order cannot be told by counting.
        earlier = [] if self.moved else [item for item in ids if item not in self.added]
        for rows in (ids, earlier):
            if len(words) == len(rows):
                return dict(zip(rows, words, strict=True))
        hint = "; without the file those that are kept with the index count"
        raise InvalidInputError(
            f"`{what}` must be one for each row of the index ({len(ids)}), got {len(words)}"
            f"{hint if what == _NOTE and self.words else ''}."
        )

    def with_file(self, index: Index, values: Any) -> Labels:
        """With those of a file; rows that it is not about need a label of their own."""
        if values is None:
            return self
        given = self.by_row(_NOTE, index, values)
        ids = index.ids.tolist()
        bare = [item for item in ids if item not in given and item not in self.words]
        if bare:
            raise InvalidInputError(
                f"`labels` must be one for each row of the index ({len(ids)}), got {len(given)}, "
                f"and {len(bare)} of the {len(self.added)} rows that were added later have no "
                f"label of their own, such as {bare[0]!r}."
            )
        other = sum(self.words.get(item, word) != word for item, word in given.items())
        if self.moved and other:
            warnings.warn(
                f"The file says other labels than are kept with the index for {other:,} rows, and "
                "counts. Rows were removed or changed since labels were first given: leave the "
                "file out if it is from before.",
                KinrankWarning,
                stacklevel=2,
            )
        return self._labelled(given)

    def after_change(self, ids: list[Any], words: list[str] | None, *, update: bool) -> Labels:
        """With rows that are new or went behind the others; without words these keep theirs."""
        known = self if words is None else self._labelled(dict(zip(ids, words, strict=True)))
        if update:
            return replace(known, moved=self.moved or bool(set(ids) - self.added))
        return replace(known, added=self.added | set(ids))

    def after_naming(self, ids: list[Any], words: list[str] | None) -> Labels:
        """With other words for rows that stay where they are; None leaves them theirs."""
        return self if words is None else self._labelled(dict(zip(ids, words, strict=True)))

    def after_removing(self, item: Any) -> Labels:
        words = {row: word for row, word in self.words.items() if row != item}
        return Labels(words, self.added - {item}, self.moved or item not in self.added)

    def _labelled(self, words: Mapping[Any, str]) -> Labels:
        """With other words, without those that say nothing."""
        both = {**self.words, **words}
        return replace(self, words={item: word for item, word in both.items() if word})
