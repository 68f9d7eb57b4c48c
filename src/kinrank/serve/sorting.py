"""The groups of the served rows, and what people correct in them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kinrank.groups import Groups, Question
from kinrank.serve.group_models import CorrectionRequest
from kinrank.serve.problems import Problem
from kinrank.serve.service import Service

QUESTIONS = 50  # the most that are asked at a time
_PATIENCE = 2.0  # seconds to wait for somebody else's correction


class Sorting:
    """The groups of an index; found when first asked for, and again when its rows have changed.

    Corrections go to the file beside the index before they are answered, so that a reload or a kill
    loses none of them.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._groups: Groups | None = None
        self._found_in: Any = None  # the rows that the groups are of, as the index keeps them
        self._lock = threading.Lock()

    @property
    def ready(self) -> bool:
        """Whether the groups of the present rows are known."""
        return self._groups is not None and self._found_in is self._service.index.explorer()

    def current(self) -> Groups:
        """The groups, with what others have corrected meanwhile."""
        with self._alone():
            return self._latest()

    def correct(self, sent: CorrectionRequest) -> tuple[Groups, Groups]:
        """Do what a person says; returns the groups before and after.

        A correction of a group that has changed since the person saw it is refused, so that nobody
        overwrites what somebody else has said.
        """
        with self._alone():
            before = self._latest()
            self._refuse_stale(before, sent)
            after = _corrected(before, sent, [self._service.typed(text) for text in sent.ids])
            self._groups = after
        return before, after

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=_PATIENCE):
            raise Problem(
                503, "grouping", "The rows are being grouped: ask again.", {"Retry-After": "1"}
            )
        try:
            yield
        finally:
            self._lock.release()

    def _latest(self) -> Groups:
        rows = self._service.index.explorer()
        if self._groups is None or self._found_in is not rows:
            self._groups = self._service.index.groups()
            self._found_in = rows
        else:
            self._groups = self._groups.refreshed()
        return self._groups

    def _refuse_stale(self, groups: Groups, sent: CorrectionRequest) -> None:
        known = set(groups.numbers.tolist())
        for text, state in sent.seen.items():
            number = int(text) if text.isdecimal() else -1
            if number not in known or state_of(groups, number) != state:
                raise Problem(
                    409,
                    "changed-meanwhile",
                    "Somebody else has changed this group. It is shown as it is now: look at it, "
                    "and say it again.",
                )


def state_of(groups: Groups, number: int) -> str:
    """What tells a group from what it was: its rows, its name, and whether it is confirmed."""
    rows = sorted(groups.members(number).tolist())
    facts = (rows, groups.names.get(number), number in groups.confirmed)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _corrected(groups: Groups, sent: CorrectionRequest, ids: list[Any]) -> Groups:
    """The groups after one correction."""
    author = sent.author
    if sent.kind == "merge":
        return groups.merge(sent.groups, author=author)
    if sent.kind == "move":
        if sent.to is None:
            raise _missing("to", "the group that the rows move to")
        return groups.move(ids, to=sent.to, author=author)
    if sent.kind == "remove":
        return groups.remove(ids, author=author)
    if sent.kind == "undo":
        return groups.undo(author=author)
    if sent.kind in ("together", "apart"):
        if len(ids) != 2:
            raise _missing("ids", "the two rows that are the same or not")
        question = _question(groups, *ids)
        return groups.answer(question, sent.kind == "together", author=author)
    if len(sent.groups) != 1:
        raise _missing("groups", "the one group it is about")
    number = sent.groups[0]
    if sent.kind == "name":
        return groups.name(number, sent.name or "", author=author)
    if sent.kind == "confirm":
        return groups.confirm(number, author=author)
    apart = set(ids)
    rest = [item for item in groups.ids[groups.members(number)].tolist() if item not in apart]
    return groups.split(number, [rest, ids], author=author)


def _question(groups: Groups, one: Any, other: Any) -> Question:
    """The question whether two rows are the same, as it was shown."""
    for question in groups.questions(QUESTIONS):
        if (question.one_id, question.other_id) == (one, other):
            return question
    raise Problem(
        409, "changed-meanwhile", "Somebody else has answered this question. Here is the next one."
    )


def _missing(name: str, what: str) -> Problem:
    return Problem(422, "invalid-input", f"`{name}` must be {what}.")
