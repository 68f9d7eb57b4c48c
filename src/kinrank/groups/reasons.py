"""Why rows are in one group: what `Groups` tells, each as a small record with a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Link(NamedTuple):
    """Two rows, and how strongly the first is linked to the group of both."""

    one_id: Any
    other_id: Any
    strength: float


class Nearest(NamedTuple):
    """A group, and the link to it."""

    number: int
    link: float


class Lean(NamedTuple):
    """A row that has a stronger link to another group than to its own."""

    id: Any
    number: int
    link: float


@dataclass(frozen=True)
class Verdict:
    """What the features can tell.

    sure : groups are there; otherwise every row is single, and ``Groups.candidates`` has guesses
    agreement : of the groups that two halves of the features find, 0 to 1; None where there are
        too few rows to tell
    """

    sure: bool
    agreement: float | None
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Group:
    """A group and its reasons.

    cohesion : mean link of its rows to the rest of it, 0 to 1; 1 for a single item
    weakest : its least sure row, and the row of the group that this one is most alike
    nearest : the other group with the strongest link
    leaning : rows with a stronger link to another group
    """

    number: int
    name: str | None
    size: int
    confirmed: bool
    cohesion: float
    weakest: Link | None
    nearest: Nearest | None
    leaning: tuple[Lean, ...]

    @property
    def text(self) -> str:
        """The same in words."""
        called = f"Group {self.number}" + (f" ({self.name})" if self.name else "")
        if self.size == 1:
            words = [f"{called} is a single item."]
        else:
            words = [f"{called} has {self.size:,} rows with a mean link of {self.cohesion:.2f}."]
        if self.weakest is not None:
            words.append(
                f"The least sure is {self.weakest.one_id!r} ({self.weakest.strength:.2f}), which "
                f"is here mostly for {self.weakest.other_id!r}."
            )
        if self.nearest is not None:
            words.append(
                f"The nearest other is group {self.nearest.number} ({self.nearest.link:.2f})."
            )
        if self.leaning:
            named = ", ".join(repr(lean.id) for lean in self.leaning[:3])
            words.append(f"{len(self.leaning)} would rather be elsewhere: {named}.")
        if self.confirmed:
            words.append("A person confirmed it.")
        return " ".join(words)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Pair:
    """Why two rows are together or apart.

    link : between the two rows where they are together, between their groups where they are not
    through : ids from the one to the other, by the strongest links; empty where they are apart
    """

    together: bool
    link: float
    through: tuple[Any, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Question:
    """Are these two the same? ``Groups.answer`` takes it with the answer.

    one_id, other_id : the rows to show
    one, other : their groups; the same number asks whether a group is really one
    chance : that they are the same, as far as is known
    worth : pairs of rows that are expected to be put right
    parts : ids of both sides
    """

    one_id: Any
    other_id: Any
    one: int
    other: int
    chance: float
    worth: float
    parts: tuple[tuple[Any, ...], tuple[Any, ...]]

    @property
    def text(self) -> str:
        """The question in words."""
        sizes = f"{len(self.parts[0]):,} and {len(self.parts[1]):,} rows"
        return (
            f"Are {self.one_id!r} and {self.other_id!r} the same? It decides about {sizes}; "
            f"{self.chance:.0%} so far."
        )

    def __str__(self) -> str:
        return self.text
