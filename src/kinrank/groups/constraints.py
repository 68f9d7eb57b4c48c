"""What is known before: rows that must be together, and rows that cannot be one.

Rows that must be together are one leaf of the tree. Rows that cannot be one are marked in the
matrix of links, so that no merge joins them. What a person corrected goes before what was given;
where the two contradict each other it is said, by name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, UnknownIdError, shown
from kinrank.groups.corrections import Agreed
from kinrank.types import Ints, Longs
from kinrank.validation import as_array, as_list, check_float

MOST_PAIRS = 20_000_000  # that a column or overlapping times may make

Pairs = npt.NDArray[np.int64]  # (m, 2) row numbers
Wide = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What is known of rows before they are grouped.

    Parameters
    ----------
    together, apart : pairs of ids that are the same, that are not: ``[("a", "b"), ...]``. A third
        value makes a pair a wish with a weight instead: 1 counts as one sure link between the two.
    distinct : columns of which no two rows of one group share a value, such as
        ``{"photo": [...]}``: two faces of one photo are two people. None and "" are no value.
    intervals : ``(start, end)``, two numbers for each row: rows whose times overlap are not the
        same; an end at which another one starts does not overlap
    known : (n,) who the row is, None or "" where nobody knows: rows of one value are together,
        rows of two values apart

    Examples
    --------
    >>> import kinrank
    >>> kinrank.Constraints(apart=[("a", "b")], distinct={"photo": [1, 1, 2]}).apart
    [('a', 'b')]
    """

    together: Sequence[Any] = ()
    apart: Sequence[Any] = ()
    distinct: Mapping[str, Any] = field(default_factory=dict)
    intervals: tuple[Any, Any] | None = None
    known: Any = None


class LeafPairs(NamedTuple):
    """Pairs of leaves: leaf i with the leaves ids[ptr[i]:ptr[i + 1]].

    sums : what is added to the sum of a pair; apart : whether it must stay apart
    """

    ptr: Longs
    ids: Ints
    sums: Wide
    apart: npt.NDArray[np.bool_]

    @classmethod
    def none(cls, n_leaves: int) -> LeafPairs:
        """No pairs."""
        ptr = np.zeros(n_leaves + 1, np.int64)
        return cls(ptr, np.empty(0, np.int32), np.empty(0), np.empty(0, np.bool_))


@dataclass(frozen=True, eq=False)
class Bound:
    """Constraints over rows.

    leaves : (n,) the leaf of each row; rows that must be together have one
    anchors : (leaves,) which known value a leaf has, -1 for none
    apart : (m, 2) leaves that must not be one group
    wishes, weights : (w, 2) leaves, and what is added to the sum of their links
    contradictions : sentences about what was given and a person corrected
    """

    leaves: Longs
    anchors: Longs
    apart: Pairs
    wishes: Pairs
    weights: Wide
    contradictions: tuple[str, ...] = ()

    @property
    def n_leaves(self) -> int:
        return len(self.anchors)

    def pairs(self) -> LeafPairs:
        """The pairs that are apart and wished for, both ways, by leaf."""
        both = np.concatenate([self.apart, self.apart[:, ::-1], self.wishes, self.wishes[:, ::-1]])
        order = np.argsort(both[:, 0], kind="stable")
        sums = np.concatenate([np.zeros(2 * len(self.apart)), np.tile(self.weights, 2)])
        return LeafPairs(
            ptr=np.searchsorted(both[order, 0], np.arange(self.n_leaves + 1)),
            ids=both[order, 1].astype(np.int32),
            sums=sums[order],
            apart=order < 2 * len(self.apart),
        )


class _Sets:
    """Rows that must be together, and sets that must stay apart."""

    def __init__(self, n: int) -> None:
        self.parent = list(range(n))
        self.apart: dict[int, set[int]] = {}
        self.steps: dict[int, list[int]] = {}  # who was tied to whom, to tell through whom

    def root(self, row: int) -> int:
        while self.parent[row] != row:
            self.parent[row] = self.parent[self.parent[row]]
            row = self.parent[row]
        return row

    def bar(self, one: int, other: int) -> None:
        first = self.root(one)
        second = self.root(other)
        self.apart.setdefault(first, set()).add(second)
        self.apart.setdefault(second, set()).add(first)

    def barred(self, one: int, other: int) -> bool:
        return self.root(other) in self.apart.get(self.root(one), ())

    def tie(self, one: int, other: int) -> None:
        self.steps.setdefault(one, []).append(other)
        self.steps.setdefault(other, []).append(one)
        first = self.root(one)
        second = self.root(other)
        if first == second:
            return
        low = min(first, second)
        high = max(first, second)
        self.parent[high] = low
        for far in self.apart.pop(high, set()):
            self.apart[far].discard(high)
            self.apart[far].add(low)
            self.apart.setdefault(low, set()).add(far)

    def way(self, one: int, other: int) -> list[int]:
        """The rows through which two are tied."""
        before = {one: one}
        waiting = deque([one])
        while waiting:
            row = waiting.popleft()
            if row == other:
                break
            for following in self.steps.get(row, ()):
                if following not in before:
                    before[following] = row
                    waiting.append(following)
        rows = [other]
        while rows[-1] != one:
            rows.append(before[rows[-1]])
        return rows[::-1]


def bind(constraints: Constraints | None, agreed: Agreed | None, ids: npt.NDArray[Any]) -> Bound:
    """Constraints and corrections over rows; a contradiction of what was given is an error."""
    n = len(ids)
    constraints = Constraints() if constraints is None else constraints
    place = {value: row for row, value in enumerate(ids.tolist())}
    sets = _Sets(n)
    corrected_apart: list[tuple[int, int]] = []
    if agreed is not None:
        for members in agreed.together:
            rows = [place[value] for value in members if value in place]
            for row in rows[1:]:
                sets.tie(rows[0], row)
        for one, other in agreed.apart:
            if one in place and other in place:
                corrected_apart.append((place[one], place[other]))
        for one_row, other_row in corrected_apart:
            sets.bar(one_row, other_row)
    corrected = [sets.root(row) for row in range(n)]
    contradictions: list[str] = []
    hard_together, soft_together, soft_weights = _pairs("together", constraints.together, place)
    hard_apart, soft_apart, apart_weights = _pairs("apart", constraints.apart, place)
    values = known_values(constraints.known, n)
    for rows in _same_value(values):
        hard_together += [(rows[0], row) for row in rows[1:]]
    for one_row, other_row in hard_together:
        if sets.barred(one_row, other_row):
            contradictions.append(
                f"{_named(ids, one_row)} and {_named(ids, other_row)} were given as the same, but a"
                " person said that they are not: the correction holds."
            )
        else:
            sets.tie(one_row, other_row)
    given = np.concatenate(
        [
            np.array(hard_apart, np.int64).reshape(-1, 2),
            *(distinct_pairs(name, column, n) for name, column in _columns(constraints.distinct)),
            overlapping_pairs(constraints.intervals, n),
        ]
    )
    roots = np.array([sets.root(row) for row in range(n)], np.int64)
    given = _without_contradictions(given, roots, np.array(corrected), sets, ids, contradictions)
    leaves = np.unique(roots, return_inverse=True)[1].astype(np.int64)
    n_leaves = int(leaves.max()) + 1
    anchors: Longs = np.full(n_leaves, -1)
    for row in np.flatnonzero(values >= 0).tolist():
        leaf = leaves[row]
        if anchors[leaf] >= 0 and anchors[leaf] != values[row]:
            _refuse_two_known(row, anchors[leaf], values, np.array(corrected), sets, ids)
            contradictions.append(
                f"{_named(ids, row)} is known as another one than a row that it is together with: "
                "the correction holds."
            )
            continue
        anchors[leaf] = values[row]
    corrected_pairs = np.array(corrected_apart, np.int64).reshape(-1, 2)
    apart = leaves[np.concatenate([given, corrected_pairs])]
    wishes = leaves[np.array(soft_together + soft_apart, np.int64).reshape(-1, 2)]
    weights = np.array(soft_weights + [-weight for weight in apart_weights])
    useful = wishes[:, 0] != wishes[:, 1]
    return Bound(
        leaves=leaves,
        anchors=anchors,
        apart=np.unique(np.sort(apart, axis=1), axis=0),
        wishes=wishes[useful],
        weights=weights[useful],
        contradictions=tuple(contradictions),
    )


def _without_contradictions(
    pairs: Pairs,
    roots: Longs,
    corrected: Longs,
    sets: _Sets,
    ids: npt.NDArray[Any],
    contradictions: list[str],
) -> Pairs:
    """Pairs that must stay apart, less those that a person put together."""
    tied = roots[pairs[:, 0]] == roots[pairs[:, 1]]
    for one, other in pairs[tied].tolist():
        if corrected[one] == corrected[other]:
            contradictions.append(
                f"{_named(ids, one)} and {_named(ids, other)} must stay apart by what was given, "
                "but a person put them together: the correction holds."
            )
            continue
        way = " - ".join(_named(ids, row) for row in sets.way(one, other))
        raise InvalidInputError(
            f"The constraints contradict each other: {_named(ids, one)} and {_named(ids, other)} "
            f"must stay apart, and must be together through {way}. Leave out one of them."
        )
    kept: Pairs = pairs[~tied]
    return kept


def _refuse_two_known(
    row: int, anchor: int, values: Longs, corrected: Longs, sets: _Sets, ids: npt.NDArray[Any]
) -> None:
    """Refuse rows that are known as two and tied by what was given, not by a person."""
    root = sets.root(row)
    rows = [at for at in np.flatnonzero(values == anchor).tolist() if sets.root(at) == root]
    if any(corrected[at] == corrected[row] for at in rows):
        return
    way = " - ".join(_named(ids, at) for at in sets.way(rows[0], row))
    raise InvalidInputError(
        f"The constraints contradict each other: {_named(ids, rows[0])} and {_named(ids, row)} are "
        f"known as two, and must be together through {way}. Leave out one of them."
    )


def _named(ids: npt.NDArray[Any], row: int) -> str:
    return shown(ids[row].item())


def _pairs(
    name: str, given: Iterable[Any], place: Mapping[Any, int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[float]]:
    """Hard pairs, pairs with a weight, and these weights."""
    hard: list[tuple[int, int]] = []
    soft: list[tuple[int, int]] = []
    weights: list[float] = []
    what = "pairs of ids, or pairs and a weight"
    for number, entry in enumerate(as_list(name, given, what)):
        values = as_list(name, entry, what)
        if len(values) not in (2, 3):
            raise InvalidInputError(f"`{name}` must be {what}, got {shown(entry)}.")
        rows = []
        for value in values[:2]:
            plain = value.item() if isinstance(value, np.generic) else value
            is_id = isinstance(plain, (str, int)) and not isinstance(plain, bool)
            row = place.get(plain) if is_id else None
            if row is None:
                raise UnknownIdError(f"`{name}` names the id {shown(plain)}, which no row has.")
            rows.append(row)
        if rows[0] == rows[1]:
            if name == "apart":
                raise InvalidInputError(
                    f"`apart` must name two different rows, got {shown(values[0])} twice."
                )
            continue
        if len(values) == 2:
            hard.append((rows[0], rows[1]))
        else:
            soft.append((rows[0], rows[1]))
            weights.append(check_float(f"{name}[{number}][2]", values[2], 0))
    return hard, soft, weights


def _columns(given: Any) -> list[tuple[str, Any]]:
    """The columns of ``distinct``, with names for messages."""
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"`distinct` must be columns by name, such as {{'photo': [...]}}, got {shown(given)}."
        )
    return [(f"distinct[{name!r}]", column) for name, column in given.items()]


def known_values(given: Any, n: int) -> Longs:
    """Numbers for the values of a column, -1 for None and ""."""
    if given is None:
        return np.full(n, -1, np.int64)
    values = as_list("known", _listed(given), f"a value for each of the {n} rows")
    return _numbers("known", values, n)


def _listed(given: Any) -> Any:
    return given.tolist() if hasattr(given, "tolist") else given


def _numbers(name: str, values: list[Any], n: int) -> Longs:
    if len(values) != n:
        raise InvalidInputError(
            f"`{name}` must be a value for each of the {n} rows, got {len(values)}."
        )
    numbers: dict[Any, int] = {}
    out = np.full(n, -1)
    for row, value in enumerate(values):
        if value is None or value == "" or value != value:  # noqa: PLR0124  NaN
            continue
        try:
            out[row] = numbers.setdefault(value, len(numbers))
        except TypeError as error:
            raise InvalidInputError(
                f"`{name}` must hold numbers or text, got {shown(value)}."
            ) from error
    return out


def _same_value(values: Longs) -> list[list[int]]:
    """The rows of each value that more than one row has."""
    order = np.argsort(values, kind="stable")
    order = order[values[order] >= 0]
    borders = np.flatnonzero(values[order][1:] != values[order][:-1]) + 1
    return [part.tolist() for part in np.split(order, borders) if len(part) > 1]


def distinct_pairs(name: str, column: Any, n: int) -> Pairs:
    """All pairs of rows that share a value."""
    values = _numbers(name, as_list(name, _listed(column), f"a value for each of the {n} rows"), n)
    groups = _same_value(values)
    _refuse_too_many(f"`{name}`", sum(len(rows) * (len(rows) - 1) // 2 for rows in groups))
    parts = []
    for rows in groups:
        one, other = np.triu_indices(len(rows), 1)
        array = np.array(rows, np.int64)
        parts.append(np.stack([array[one], array[other]], axis=1))
    return np.concatenate(parts) if parts else np.empty((0, 2), np.int64)


def overlapping_pairs(intervals: tuple[Any, Any] | None, n: int) -> Pairs:
    """All pairs of rows whose times overlap."""
    empty = np.empty((0, 2), np.int64)
    if intervals is None:
        return empty
    both = as_list("intervals", intervals, "two columns, (start, end)")
    if len(both) != 2:
        raise InvalidInputError(f"`intervals` must be two columns, (start, end), got {len(both)}.")
    columns = []
    for name, values in zip(("start", "end"), both, strict=True):
        array = as_array(name, values)
        if array.shape != (n,) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise InvalidInputError(
                f"`intervals` must have a finite {name} for each of the {n} rows, got shape "
                f"{array.shape} and dtype {array.dtype}."
            )
        columns.append(array.astype(np.float64))
    start, end = columns
    if (end < start).any():
        row = int(np.argmax(end < start))
        raise InvalidInputError(
            f"`intervals` must not end before they start, got {start[row]:g} to {end[row]:g} in "
            f"row {row}."
        )
    order = np.argsort(start, kind="stable")
    # Rows that start before this one ends, from the next one on.
    reach = np.searchsorted(start[order], end[order], side="left")
    counts = np.maximum(reach - np.arange(n) - 1, 0)
    _refuse_too_many("`intervals`", int(counts.sum()))
    one = np.repeat(np.arange(n), counts)
    other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([order[one], order[other]], axis=1).astype(np.int64)


def _refuse_too_many(what: str, count: int) -> None:
    if count > MOST_PAIRS:
        raise InvalidInputError(
            f"{what} must make at most {MOST_PAIRS:,} pairs of rows that stay apart, got {count:,}."
        )
