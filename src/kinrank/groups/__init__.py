"""Who is the same: groups of rows, with reasons, that a person can correct."""

from __future__ import annotations

from kinrank.groups.constraints import Constraints
from kinrank.groups.corrections import Corrections
from kinrank.groups.duplicates import Duplicates, near_duplicates
from kinrank.groups.groups import Groups
from kinrank.groups.reasons import Group, Lean, Link, Nearest, Pair, Question, Verdict

__all__ = [
    "Constraints",
    "Corrections",
    "Duplicates",
    "Group",
    "Groups",
    "Lean",
    "Link",
    "Nearest",
    "Pair",
    "Question",
    "Verdict",
    "near_duplicates",
]
