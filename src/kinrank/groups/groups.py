"""`Groups`: who is the same, why, and what a person says about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.arrays import IN_MEMORY, Arrays
from kinrank.errors import InvalidInputError, UnknownIdError, shown
from kinrank.groups import asking, explaining, exporting, joining
from kinrank.groups.constraints import Bound, Constraints, bind
from kinrank.groups.corrections import Agreed, Corrections, Event
from kinrank.groups.links import Links
from kinrank.groups.reasons import Group, Nearest, Pair, Question, Verdict
from kinrank.groups.singles import nearest_cosines
from kinrank.groups.tree import Tree, cut_at, cut_tree, grow_tree, numbered
from kinrank.io import PathLike
from kinrank.types import Longs
from kinrank.validation import as_list, check_float, check_int

SLIDE = 4.0  # the level at strictness 1 is this many times that at 0.5
HIGHEST = 0.95  # level


@dataclass(frozen=True, eq=False)
class Found:
    """What a run found, before anybody corrected it.

    tree : of merges without constraints
    level : at which groups end; see ``kinrank.groups.level``
    single_below : rows without a linked row of at least this cosine are single items; see
        ``kinrank.groups.singles``
    threshold : a person's own, instead
    """

    links: Links
    tree: Tree
    ids: npt.NDArray[Any]
    constraints: Constraints | None
    level: float
    single_below: float
    threshold: float | None
    verdict: Verdict


@dataclass(frozen=True, eq=False, repr=False)
class Groups:
    """The groups of a collection, made by ``kinrank.group`` and ``Index.groups``.

    It never changes: a correction is written to the file of corrections and gives new ``Groups``.
    Numbers of groups stay as they are through corrections: of merged groups the largest one's is
    kept, of parts the first one has it. Single items are groups of one row.

    Attributes
    ----------
    labels : (n,) int64, the number of each row's group
    tree : of merges, with all that must be together and apart
    corrections : the file of corrections
    strictness : where the slider stands, 0 generous to 1 cautious
    names : the names that people gave, by number
    confirmed : the groups that a person found right
    version : how many corrections are heeded
    contradictions : where what was given and what a person corrected differ, in words

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> random = np.random.default_rng(0)
    >>> people = np.repeat(random.normal(size=(12, 16)), 8, axis=0)
    >>> kinrank.group(people + 0.2 * random.normal(size=people.shape))
    <Groups of 96 rows: 12 groups of 2 and more, 0 single items>
    """

    found: Found
    tree: Tree
    corrections: Corrections
    labels: Longs
    strictness: float = 0.5
    names: dict[int, str] = field(default_factory=dict)
    confirmed: frozenset[int] = frozenset()
    version: int = 0
    contradictions: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many groups there are, single items among them."""
        return len(np.unique(self.labels))

    def __repr__(self) -> str:
        single = len(self.singles)
        return (
            f"<Groups of {len(self.labels):,} rows: {len(self) - single:,} groups of 2 and more, "
            f"{single:,} single items>"
        )

    @property
    def ids(self) -> npt.NDArray[Any]:
        """(n,) the ids of the rows."""
        return self.found.ids

    @property
    def verdict(self) -> Verdict:
        """What the features can tell."""
        return self.found.verdict

    @cached_property
    def _rows(self) -> dict[int, Longs]:
        """The rows of each group, ascending."""
        order = np.argsort(self.labels, kind="stable")
        borders = np.flatnonzero(np.diff(self.labels[order])) + 1
        return {int(self.labels[part[0]]): part for part in np.split(order, borders)}

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {value: row for row, value in enumerate(self.ids.tolist())}

    @cached_property
    def own_links(self) -> npt.NDArray[np.float64]:
        """(n,) the link of each row to the rest of its group; 1 for single items."""
        return explaining.own_links(self.found.links, self.labels)

    @cached_property
    def numbers(self) -> Longs:
        """Numbers of the groups in the order to look at: large and unsure first, singles last."""
        numbers, inverse, sizes = np.unique(self.labels, return_inverse=True, return_counts=True)
        doubt = np.bincount(inverse, 1 - self.own_links)
        seen = np.array([number in self.confirmed for number in numbers.tolist()], np.bool_)
        order = np.lexsort((numbers, -sizes, -doubt, seen, sizes == 1))
        return numbers[order].astype(np.int64)

    @property
    def singles(self) -> Longs:
        """Row numbers of single items."""
        _, inverse, sizes = np.unique(self.labels, return_inverse=True, return_counts=True)
        return np.flatnonzero(sizes[inverse] == 1)

    def rows(self, number: int) -> Longs:
        """Row numbers of a group, ascending."""
        rows = self._rows.get(check_int("number", number, 0))
        if rows is None:
            raise InvalidInputError(f"There is no group {number}.")
        return rows

    def rows_of(self, ids: Iterable[Any]) -> list[int]:
        """Row numbers of some ids; ids that no row has are left out."""
        return [self._places[value] for value in ids if value in self._places]

    def members(self, number: int) -> Longs:
        """Row numbers of a group, the most central first."""
        rows = self.rows(number)
        return rows[np.argsort(-self.own_links[rows], kind="stable")]

    def group_of(self, item: Any) -> int:
        """The group of a row, by its id."""
        return int(self.labels[self._place(item)])

    def _place(self, item: Any) -> int:
        item = item.item() if isinstance(item, np.generic) else item
        is_id = isinstance(item, (str, int)) and not isinstance(item, bool)
        row = self._places.get(item) if is_id else None
        if row is None:
            raise UnknownIdError(f"There is no row with the id {shown(item)}.")
        return row

    # Reasons

    def describe(self, number: int) -> Group:
        """A group and its reasons; ``str()`` of it can be read."""
        return explaining.describe(self, self.rows(number), number)

    def why(self, one: Any, other: Any) -> Pair:
        """Why two rows, by their ids, are together or apart."""
        return explaining.why(self, self._place(one), self._place(other))

    def candidates(self, item: Any, k: int = 5) -> tuple[Nearest, ...]:
        """The groups that a row has the strongest links to, its own left out."""
        return explaining.candidates(self, self._place(item), check_int("k", k, 1))

    def questions(self, k: int = 10) -> tuple[Question, ...]:
        """What to ask a person, the answer that is worth most first."""
        return asking.questions(self, check_int("k", k, 1))

    def answer(self, question: Question, same: bool, *, author: str | None = None) -> Groups:
        """The groups after a person answered a question."""
        if not isinstance(question, Question):
            raise InvalidInputError(
                f"`question` must be one of `questions()`, got {shown(question)}."
            )
        if not isinstance(same, (bool, np.bool_)):
            raise InvalidInputError(f"`same` must be True or False, got {shown(same)}.")
        one, other = (list(part) for part in question.parts)
        if not same:
            return self._correct("apart", author, parts=[one, other])
        return self._correct("merge", author, ids=one + other)

    # Other cuts, other rows

    def at(self, strictness: float) -> Groups:
        """The same links, cut more generously (towards 0) or more cautiously (towards 1).

        What people corrected stays. ``describe`` and ``len`` tell what it costs.
        """
        strictness = check_float("strictness", strictness, 0, 1)
        return arrange(self.found, self.corrections, strictness)

    def join(self, vectors: Any, ids: Any = None) -> Groups:
        """Rows that came later join groups or found some, without a new run.

        vectors : (m, d) as those that were grouped; ids : (m,) new ones, None numbers them
        """
        return joining.join(self, vectors, ids)

    # Corrections

    def merge(self, numbers: Sequence[int], *, author: str | None = None) -> Groups:
        """These groups are one."""
        listed = as_list("numbers", numbers, "numbers of groups")
        numbers = [check_int("numbers", number, 0) for number in listed]
        if len(set(numbers)) < 2:
            raise InvalidInputError(f"`numbers` must be two or more groups, got {shown(numbers)}.")
        rows = np.concatenate([self.rows(number) for number in dict.fromkeys(numbers)])
        return self._correct("merge", author, ids=self._named(rows))

    def split(
        self, number: int, parts: Sequence[Sequence[Any]], *, author: str | None = None
    ) -> Groups:
        """A group is several: lists of ids; rows that none of them names stay with the first."""
        rows = self.rows(number)
        listed = [self._in_group(number, part) for part in as_list("parts", parts, "lists of ids")]
        named = [row for part in listed for row in part]
        if not named:
            raise InvalidInputError("`parts` must name at least one row, got none.")
        if len(set(named)) < len(named):
            raise InvalidInputError("`parts` must name each row once, got one twice.")
        rest = [row for row in rows.tolist() if row not in set(named)]
        listed = [part for part in listed if part]
        if len(listed) == 1 and rest:
            listed = [rest, listed[0]]
        elif rest:
            listed[0] = listed[0] + rest
        if len(listed) < 2:
            raise InvalidInputError("`parts` must leave at least two parts with rows, got one.")
        return self._correct("split", author, parts=[self._named(part) for part in listed])

    def move(self, ids: Sequence[Any], to: int, *, author: str | None = None) -> Groups:
        """These rows belong to another group, and not to those that they are in."""
        target = self.rows(to)
        rows = [row for row in self._listed(ids) if self.labels[row] != to]
        if not rows:
            raise InvalidInputError(f"`ids` must name rows outside of group {to}, got none.")
        source = self._others(rows)
        return self._correct(
            "move",
            author,
            ids=self._named(rows),
            source=self._named(source),
            to=self._named(target),
        )

    def remove(self, ids: Sequence[Any], *, author: str | None = None) -> Groups:
        """These rows do not belong to their groups: each becomes a single item, and stays out."""
        rows = self._listed(ids)
        source = self._others(rows)
        if not len(source):
            raise InvalidInputError("`ids` must leave rows in their groups, got whole groups.")
        return self._correct("remove", author, ids=self._named(rows), source=self._named(source))

    def name(self, number: int, name: str, *, author: str | None = None) -> Groups:
        """Call a group something; "" takes its name away."""
        if not isinstance(name, str):
            raise InvalidInputError(f"`name` must be text, got {shown(name)}.")
        return self._correct("name", author, ids=self._named(self.rows(number)), name=name)

    def confirm(self, number: int, *, author: str | None = None) -> Groups:
        """A person looked at the group and found it right: its rows stay together."""
        return self._correct("confirm", author, ids=self._named(self.rows(number)))

    def undo(self, *, author: str | None = None) -> Groups:
        """Take back the last correction; that of ``author``, if one is given."""
        self.corrections.refresh()
        standing = self.corrections.standing()
        mine = [event for event in standing if author is None or event.author == author]
        if not mine:
            whose = "" if author is None else f" of {author!r}"
            raise InvalidInputError(f"There is no correction{whose} to take back.")
        self.corrections.append("undo", author=author, event=mine[-1].key)
        return arrange(self.found, self.corrections, self.strictness)

    def refreshed(self) -> Groups:
        """With what others have corrected meanwhile; itself if that is nothing."""
        self.corrections.refresh()
        new = self.corrections.events[self.version :]
        if not new:
            return self
        if any(event.kind == "undo" for event in new):
            return arrange(self.found, self.corrections, self.strictness)
        groups = self
        for event in new:
            groups = _applied(groups, event)
        return replace(groups, version=self.corrections.version)

    def _correct(self, kind: str, author: str | None, **fields: Any) -> Groups:
        if author is not None and not isinstance(author, str):
            raise InvalidInputError(f"`author` must be text, got {shown(author)}.")
        self.corrections.append(kind, author=author, **fields)
        return self.refreshed()

    def _named(self, rows: Iterable[int] | Longs) -> list[Any]:
        names: list[Any] = self.ids[np.asarray(rows, np.int64)].tolist()
        return names

    def _listed(self, ids: Any) -> list[int]:
        rows = [self._place(item) for item in as_list("ids", ids, "a list of ids")]
        if not rows:
            raise InvalidInputError("`ids` must name at least one row, got none.")
        return list(dict.fromkeys(rows))

    def _in_group(self, number: int, ids: Any) -> list[int]:
        rows = [self._place(item) for item in as_list("parts", ids, "lists of ids")]
        for row in rows:
            if self.labels[row] != number:
                raise InvalidInputError(
                    f"`parts` must name rows of group {number}, got {shown(self.ids[row].item())} "
                    f"of group {self.labels[row]}."
                )
        return rows

    def _others(self, rows: list[int]) -> Longs:
        """The rows that are in the groups of these, without them."""
        numbers = np.unique(self.labels[rows])
        beside = np.concatenate([self._rows[number] for number in numbers.tolist()])
        return np.setdiff1d(beside, rows)

    # Out

    def save(self, path: PathLike) -> None:
        """Write a table, .csv or .json, with a line for each row as in ``to_records``."""
        exporting.save(self, path)

    def link_files(self, files: PathLike, folder: PathLike) -> int:
        """Make a folder for each group with links to its files; returns how many links.

        Folders have the number and the name of their group; rows without a group are in
        "single items". Where symbolic links are not allowed, hard links are made.

        files : the folder that the ids are names of files in
        folder : a new or empty one
        """
        return exporting.link_files(self, files, folder)

    def to_records(self) -> list[dict[str, Any]]:
        """A dict for each row: ``id``, ``group``, ``name``, ``size``, ``single``, ``confirmed``."""
        sizes = {number: len(rows) for number, rows in self._rows.items()}
        return [
            {
                "id": value,
                "group": number,
                "name": self.names.get(number, ""),
                "size": sizes[number],
                "single": sizes[number] == 1,
                "confirmed": number in self.confirmed,
            }
            for value, number in zip(self.ids.tolist(), self.labels.tolist(), strict=True)
        ]


def arrange(
    found: Found, corrections: Corrections, strictness: float, arrays: Arrays = IN_MEMORY
) -> Groups:
    """Groups of what was found, with all corrections as constraints.

    arrays : where what is merged lies, if constraints ask for another tree

    Numbers are new; names and what was confirmed are matched by members.
    """
    agreed = corrections.agreed()
    tree = found.tree
    contradictions: tuple[str, ...] = ()
    if agreed.together or agreed.apart or found.constraints is not None:
        bound = bind(found.constraints, agreed, found.ids)
        contradictions = bound.contradictions
        tree = grow_tree(found.links, bound, _single(found, bound), arrays)
    if found.threshold is not None:
        labels = numbered(cut_at(tree, found.threshold))
    elif not found.verdict.sure:
        labels = numbered(tree.leaves)
    else:
        level = min(found.level * SLIDE ** (2 * strictness - 1), HIGHEST)
        labels = numbered(cut_tree(tree, level))
    names = _matched_names(agreed, found.ids, labels)
    return Groups(
        found=found,
        tree=tree,
        corrections=corrections,
        labels=labels,
        strictness=strictness,
        names=names,
        confirmed=_matched_confirmed(agreed, found.ids, labels),
        version=corrections.version,
        contradictions=contradictions,
    )


def _single(found: Found, bound: Bound) -> npt.NDArray[np.bool_]:
    """Rows that nobody is near, unless they must or should be together with others."""
    single = nearest_cosines(found.links) < found.single_below
    wanted = bound.wishes[bound.weights > 0]
    sizes = np.bincount(bound.leaves, minlength=bound.n_leaves)
    single &= sizes[bound.leaves] == 1
    single &= ~np.isin(bound.leaves, wanted)
    return single


def _matched_names(agreed: Agreed, ids: npt.NDArray[Any], labels: Longs) -> dict[int, str]:
    """Names for the groups that have most of the rows that were named; the largest share wins."""
    place = {value: row for row, value in enumerate(ids.tolist())}
    wanted = []
    for order, (name, members) in enumerate(agreed.names):
        rows = [place[value] for value in members if value in place]
        if rows:
            numbers, counts = np.unique(labels[rows], return_counts=True)
            best = int(np.argmax(counts))
            wanted.append((-int(counts[best]), -order, int(numbers[best]), name))
    names: dict[int, str] = {}
    for _, _, number, name in sorted(wanted):
        names.setdefault(number, name)
    return names


def _matched_confirmed(agreed: Agreed, ids: npt.NDArray[Any], labels: Longs) -> frozenset[int]:
    """Groups that are still what a person confirmed."""
    place = {value: row for row, value in enumerate(ids.tolist())}
    sizes = np.bincount(labels)
    confirmed = set()
    for members in agreed.confirmed:
        rows = [place[value] for value in members if value in place]
        if rows and (labels[rows] == labels[rows[0]]).all() and sizes[labels[rows[0]]] == len(rows):
            confirmed.add(int(labels[rows[0]]))
    return frozenset(confirmed)


def _applied(groups: Groups, event: Event) -> Groups:
    """One more correction, by changing the labels of the rows that it names."""
    labels = groups.labels.copy()
    names = dict(groups.names)
    confirmed = set(groups.confirmed)
    given = event.fields

    def rows_of(values: list[Any]) -> Longs:
        return np.array(groups.rows_of(values), np.int64)

    next_number = int(labels.max()) + 1
    if event.kind in ("merge", "confirm"):
        rows = rows_of(given["ids"])
        if len(rows):
            target = _main_group(labels, rows)
            whole = np.isin(labels, np.unique(labels[rows]))
            changed = rows if event.kind == "confirm" else np.flatnonzero(whole)
            merged = [number for number in np.unique(labels[changed]).tolist() if number in names]
            labels[changed] = target
            if merged:
                names.setdefault(target, names[merged[0]])
            if event.kind == "confirm":
                confirmed.add(target)
            else:
                confirmed.discard(target)
    elif event.kind in ("split", "apart"):
        parts = [rows_of(part) for part in given["parts"]]
        parts = [part for part in parts if len(part)]
        kept = {int(number) for number in np.unique(labels[parts[0]])} if parts else set()
        for part in parts[1:]:
            inside = part[np.isin(labels[part], list(kept))]
            if len(inside):
                confirmed -= set(np.unique(labels[inside]).tolist())
                labels[inside] = next_number
                next_number += 1
    elif event.kind in ("move", "remove"):
        rows = rows_of(given["ids"])
        confirmed -= set(np.unique(labels[rows]).tolist())
        target_rows = rows_of(given.get("to", []))
        if len(target_rows):
            labels[rows] = _main_group(labels, target_rows)
        else:
            labels[rows] = next_number + np.arange(len(rows))
    elif event.kind == "name":
        rows = rows_of(given["ids"])
        if len(rows):
            number = _main_group(labels, rows)
            names.pop(number, None)
            if given["name"]:
                names[number] = given["name"]
    there = set(np.unique(labels).tolist())
    return replace(
        groups,
        labels=labels,
        names={number: name for number, name in names.items() if number in there},
        confirmed=frozenset(confirmed & there),
        version=groups.version + 1,
    )


def _main_group(labels: Longs, rows: Longs) -> int:
    """The group that most of some rows are in; of several the largest, then the first."""
    numbers, counts = np.unique(labels[rows], return_counts=True)
    sizes = np.array([(labels == number).sum() for number in numbers])
    return int(numbers[np.lexsort((numbers, -sizes, -counts))[0]])
