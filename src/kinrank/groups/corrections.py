"""What people corrected: a file of lines, one for each correction, that is only ever added to.

A line names the rows by their ids, as the person saw them. Two people add to one file, each line
whole and under a lock, so nobody overwrites anybody. ``Agreed`` is what all lines say in the end:
who is together, who is apart, names; a later line goes before an earlier one.
"""

from __future__ import annotations

import json
import os
import secrets
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from kinrank.errors import FileFormatError, InvalidInputError, KinrankWarning, LockedError, shown
from kinrank.io import PathLike, release_lock, wait_for_lock, writing
from kinrank.validation import check_path

HEADER = {"kinrank": "corrections", "version": 1}
KINDS = {
    "merge": ("ids",),
    "split": ("parts",),
    "move": ("ids", "source", "to"),
    "remove": ("ids", "source"),
    "apart": ("parts",),
    "name": ("ids", "name"),
    "confirm": ("ids",),
    "undo": ("event",),
}
WAIT = 10.0  # seconds for who else writes a line
LEAST_KNOWN = 0.5  # of the ids of a file that a collection must have

Id = str | int


@dataclass(frozen=True)
class Event:
    """One correction: what kind, of which rows, by whom and when (seconds since 1970)."""

    key: str
    kind: str
    fields: dict[str, Any]
    author: str | None
    time: float

    def line(self) -> str:
        """As it stands in the file."""
        about = {"key": self.key, "kind": self.kind, "author": self.author, "time": self.time}
        return json.dumps({**about, **self.fields}, ensure_ascii=False) + "\n"

    def ids(self) -> Iterator[Id]:
        """The rows that it names."""
        for name in ("ids", "source", "to"):
            yield from self.fields.get(name, ())
        for part in self.fields.get("parts", ()):
            yield from part


@dataclass(frozen=True)
class Agreed:
    """What corrections say in the end.

    together : sets of ids that are one
    apart : pairs of ids that are not
    names : name and the ids that had it
    confirmed : sets of ids that a person looked at and found right
    """

    together: tuple[tuple[Id, ...], ...]
    apart: tuple[tuple[Id, Id], ...]
    names: tuple[tuple[str, tuple[Id, ...]], ...]
    confirmed: tuple[tuple[Id, ...], ...]


class Corrections:
    """The corrections of a collection, in a file or, without one, in memory.

    Examples
    --------
    >>> import kinrank
    >>> log = kinrank.Corrections()
    >>> event = log.append("merge", ids=["a", "b"])
    >>> log.agreed().together
    (('a', 'b'),)
    """

    def __init__(self, path: PathLike | None = None) -> None:
        self.path = None if path is None else _checked(path)
        self.events: list[Event] = []
        self._read = 0  # bytes of the file that are in ``events``
        self.refresh()

    @property
    def version(self) -> int:
        """How many corrections there are."""
        return len(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def refresh(self) -> int:
        """Read what others have added; how many corrections are new."""
        if self.path is None or not self.path.exists():
            return 0
        with self.path.open("rb") as file:
            file.seek(self._read)
            return self._take(file.read())

    def append(self, kind: str, *, author: str | None = None, **fields: Any) -> Event:
        """Add a correction: in the file, on the disk, when this returns."""
        if kind not in KINDS or set(fields) != set(KINDS[kind]):
            raise InvalidInputError(
                f"A correction must be one of {', '.join(KINDS)} with its own fields, got "
                f"{shown(kind)} with {', '.join(sorted(fields)) or 'none'}."
            )
        event = Event(
            key=secrets.token_hex(8), kind=kind, fields=fields, author=author, time=time.time()
        )
        line = event.line()
        if self.path is None:
            self.events.append(event)
            return event
        with writing(self.path):
            file = self.path.open("a+b")
        with file, _locked(file, self.path):
            file.seek(self._read)
            self._take(file.read())
            self._set_aside_unfinished(file)
            if self._read == 0:
                line = json.dumps(HEADER) + "\n" + line
            encoded = line.encode()
            file.write(encoded)
            file.flush()
            os.fsync(file.fileno())
            self._read += len(encoded)
            self.events.append(event)
        return event

    def _take(self, content: bytes) -> int:
        """Whole lines into events; a last line without its end is not one yet."""
        whole, _, rest = content.rpartition(b"\n")
        if rest and not whole:
            whole = b""
        taken = content[: len(content) - len(rest)]
        new = []
        first = self._read == 0
        for number, line in enumerate(taken.split(b"\n")[:-1], self.version + 2 - first):
            if first:
                self._check_header(line)
                first = False
            else:
                new.append(self._event(line, number))
        self.events += new
        self._read += len(taken)
        if rest:
            warnings.warn(
                f"The last line of {self.path} is not finished: whoever wrote it was stopped. It "
                "is left out.",
                KinrankWarning,
                stacklevel=3,
            )
        return len(new)

    def _set_aside_unfinished(self, file: IO[bytes]) -> None:
        """Move half a line to a file of its own, so that lines follow whole ones."""
        assert self.path is not None
        file.seek(self._read)
        rest = file.read()
        if rest:
            with Path(f"{self.path}.unfinished").open("ab") as aside:
                aside.write(rest + b"\n")
            file.truncate(self._read)

    def _check_header(self, line: bytes) -> None:
        try:
            header = json.loads(line)
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict) or header.get("kinrank") != "corrections":
            raise FileFormatError(
                f"{self.path} must be a file of corrections of kinrank, got one that begins with "
                f"{shown(line[:40].decode(errors='replace'))}. It is left as it is."
            )
        if header.get("version") != HEADER["version"]:
            raise FileFormatError(
                f"{self.path} must be of version {HEADER['version']}, got "
                f"{shown(header.get('version'))}: a newer kinrank wrote it. It is left as it is."
            )

    def _event(self, line: bytes, number: int) -> Event:
        try:
            values = json.loads(line)
            kind = values["kind"]
            fields = {name: values[name] for name in KINDS[kind]}
            event = Event(
                key=str(values["key"]),
                kind=kind,
                fields=fields,
                author=values.get("author"),
                time=float(values["time"]),
            )
            _check_fields(event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FileFormatError(
                f"Line {number} of {self.path} is damaged. The file is left as it is: remove or "
                "repair that line, all others are whole corrections."
            ) from error
        return event

    def standing(self) -> list[Event]:
        """The corrections that nobody took back, in their order."""
        undone: set[str] = set()
        for event in reversed(self.events):
            if event.kind == "undo" and event.key not in undone:
                undone.add(event.fields["event"])
        return [event for event in self.events if event.kind != "undo" and event.key not in undone]

    def agreed(self) -> Agreed:
        """What all of them say in the end."""
        return agreed_of(self.standing())

    def check_collection(self, ids: Iterable[Any]) -> None:
        """Refuse the corrections of another collection; a few rows may have been removed since."""
        named = {value for event in self.events for value in event.ids()}
        known = len(named.intersection(ids))
        if known < LEAST_KNOWN * len(named):
            raise FileFormatError(
                f"{self.path or 'The corrections'} must be of this collection, got one that names "
                f"{len(named):,} ids of which {known:,} are here. It is left as it is."
            )


def _checked(path: PathLike) -> Path:
    """The path, if a file can be there."""
    file = Path(check_path("corrections", path))
    if file.is_dir():
        raise InvalidInputError(f"`corrections` must be a file, got the folder {str(file)!r}.")
    if not file.parent.is_dir():
        raise InvalidInputError(
            f"`corrections` must be in a folder that is there, got {str(file)!r}. Make the folder "
            "first."
        )
    return file


def _check_fields(event: Event) -> None:
    for name in ("ids", "source", "to"):
        _check_ids(event.fields.get(name, []))
    parts = event.fields.get("parts", [])
    if not isinstance(parts, list):
        raise TypeError("parts must be a list")
    for part in parts:
        _check_ids(part)
    if not isinstance(event.fields.get("name", ""), str | None):
        raise TypeError("a name must be text")


def _check_ids(values: Any) -> None:
    if not isinstance(values, list) or any(type(value) not in (str, int) for value in values):
        raise TypeError("ids must be a list of text or integers")


@contextmanager
def _locked(file: IO[bytes], path: Path) -> Iterator[None]:
    """The right to write, waited for, to the end of the block."""
    try:
        wait_for_lock(file, WAIT)
    except OSError as error:
        raise LockedError(
            f"{path} is being written by somebody else for {WAIT:.0f} seconds. Try again."
        ) from error
    try:
        yield
    finally:
        release_lock(file)


@dataclass
class _State:
    """Corrections one after the other."""

    member: dict[Id, int] = field(default_factory=dict)
    sets: dict[int, set[Id]] = field(default_factory=dict)
    apart: dict[Id, set[Id]] = field(default_factory=dict)
    names: list[tuple[str, tuple[Id, ...]]] = field(default_factory=list)
    confirmed: list[tuple[Id, ...]] = field(default_factory=list)
    next_set: int = 0

    def unite(self, ids: Iterable[Id]) -> None:
        """All of these, and whoever they are tied to, are one."""
        whole: set[Id] = set()
        for value in ids:
            old = self.member.get(value)
            whole |= {value} if old is None else self.sets.pop(old, set())
            for other in whole:
                self.member.pop(other, None)
        for value in whole:
            self.apart[value] = self.apart.get(value, set()) - whole
            self.member[value] = self.next_set
        self.sets[self.next_set] = whole
        self.next_set += 1

    def leave(self, ids: Iterable[Id]) -> None:
        """Each of these is tied to nobody."""
        for value in ids:
            old = self.member.pop(value, None)
            if old is not None:
                self.sets[old].discard(value)

    def part(self, one: Iterable[Id], other: Iterable[Id]) -> None:
        """No row of one is a row of the other."""
        others = set(other)
        for value in one:
            self.apart.setdefault(value, set()).update(others - {value})
            for far in others - {value}:
                self.apart.setdefault(far, set()).add(value)

    def split(self, parts: list[list[Id]]) -> None:
        """Rows of two parts are not the same; within a part, who was tied stays tied."""
        ties: dict[tuple[int, int], list[Id]] = {}
        for at, part in enumerate(parts):
            for value in part:
                if value in self.member:
                    ties.setdefault((at, self.member[value]), []).append(value)
        for part in parts:
            self.leave(part)
        for tied in ties.values():
            self.unite(tied)
        for at, part in enumerate(parts):
            for later in parts[at + 1 :]:
                self.part(part, later)


def agreed_of(events: Iterable[Event]) -> Agreed:
    """What corrections say in the end; a later one goes before an earlier one."""
    state = _State()
    for event in events:
        given = event.fields
        if event.kind in ("merge", "confirm"):
            state.unite(given["ids"])
            if event.kind == "confirm":
                state.confirmed.append(tuple(given["ids"]))
        elif event.kind in ("split", "apart"):
            state.split(given["parts"])
        elif event.kind in ("move", "remove"):
            moved = set(given["ids"])
            state.leave(given["ids"])
            state.part(given["ids"], [value for value in given["source"] if value not in moved])
            if event.kind == "move":
                state.unite([*given["ids"], *given["to"]])
        elif event.kind == "name":
            ids = tuple(given["ids"])
            state.names = [entry for entry in state.names if set(entry[1]) != set(ids)]
            if given["name"]:
                state.names.append((given["name"], ids))
    pairs = {
        (min(one, other, key=str), max(one, other, key=str))
        for one, others in state.apart.items()
        for other in others
    }
    return Agreed(
        together=tuple(
            tuple(sorted(members, key=str)) for members in state.sets.values() if len(members) > 1
        ),
        apart=tuple(sorted(pairs, key=str)),
        names=tuple(state.names),
        confirmed=tuple(state.confirmed),
    )
