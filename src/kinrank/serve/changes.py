"""Changes of the rows that are served. Those that wait are applied together, and saved once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError, shown
from kinrank.index import Index
from kinrank.serve.labels import Labels


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemsChange:
    """What one request asks for.

    vectors : (n, d) of rows that are added or, with ``update``, changed; None where rows that are
        there get other attributes alone
    ids, labels, attributes : of these rows, as ``Index.add`` and ``Index.update`` take them
    removed : an id that goes; all else is then left out
    """

    vectors: Any = None
    ids: Any = None
    labels: list[str] | None = None
    update: bool = False
    attributes: Mapping[str, Any] | None = None
    removed: int | str | None = None

    def check(self) -> None:
        """Refuse labels that do not fit the rows."""
        count = len(self.ids or ()) if self.vectors is None else len(self.vectors)
        if self.labels is not None and len(self.labels) != count:
            raise InvalidInputError(
                f"`labels` must be one for each item ({count}), got {len(self.labels)}."
            )

    def apply(self, draft: Index, labels: Labels) -> Labels:
        """Change a draft; returns the labels after it."""
        if self.removed is not None:
            draft.remove([self.removed], threads=1)
            return labels.after_removing(self.removed)
        self.check()
        if self.update:
            ids = [] if self.ids is None else self.ids
            draft.update(ids, self.vectors, attributes=self.attributes, threads=1)
            if self.vectors is None:
                return labels.after_naming(ids, self.labels)
        else:
            draft.add(self.vectors, self.ids, attributes=self.attributes, threads=1)
        # New rows are the last ones, and so are those whose vectors changed.
        last = draft.ids[len(draft) - len(self.vectors) :].tolist()
        return labels.after_change(last, self.labels, update=self.update)


def can_join(first: ItemsChange, second: ItemsChange) -> bool:
    """Whether two changes are rows to add that can be added at once."""
    for change in (first, second):
        if change.removed is not None or change.update or change.vectors is None:
            return False
    same_ids = (first.ids is None) == (second.ids is None)
    return same_ids and set(first.attributes or ()) == set(second.attributes or ())


def joined_add(changes: list[ItemsChange], draft: Index, labels: Labels) -> Labels:
    """Add the rows of several changes at once; returns the labels after it."""
    for change in changes:
        change.check()
    ids = None
    if changes[0].ids is not None:
        ids = [item for change in changes for item in change.ids]
    attributes = None
    if changes[0].attributes:
        attributes = {
            name: [value for change in changes for value in _values(change, name)]
            for name in changes[0].attributes
        }
    vectors = np.concatenate([change.vectors for change in changes])
    draft.add(vectors, ids, attributes=attributes, threads=1)
    end = len(draft) - len(vectors)
    for change in changes:
        start = end
        end += len(change.vectors)
        new_ids = draft.ids[start:end].tolist()
        labels = labels.after_change(new_ids, change.labels, update=False)
    return labels


def _values(change: ItemsChange, name: str) -> list[Any]:
    """The values of an attribute, one for each row of the change."""
    assert change.attributes is not None
    values = change.attributes[name]
    if not isinstance(values, list) or len(values) != len(change.vectors):
        raise InvalidInputError(
            f"`attributes[{name!r}]` must be a list of one value per row ({len(change.vectors)}), "
            f"got {shown(values)}."
        )
    return values
