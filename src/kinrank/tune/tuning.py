"""What tuning found."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinrank.tune.choose import Curve
from kinrank.tune.diagnosis import Diagnosis

if TYPE_CHECKING:
    from kinrank.methods.base import Method


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Parameters chosen without labels, and what they were chosen from.

    Attributes
    ----------
    method : its name
    params : the parameters, those that were given among them; ``make()`` is the method itself
    curves : how far two halves of the features agree, for every value that was tried
    gain, gain_error : expected gain of mean average precision, from 0 to 1, and its standard
        error; measured by what both halves say, since nobody knows what is right. 0 when
        re-ranking is not expected to help.
    diagnosis : what the collection looks like, and whether re-ranking will help
    seconds : how long it took
    n_rows, n_sampled, n_pairs : rows of the collection; how many were looked at; and how often the
        features were split
    seed : of the random numbers
    """

    method: str
    params: dict[str, Any]
    curves: tuple[Curve, ...]
    gain: float
    gain_error: float
    diagnosis: Diagnosis
    seconds: float
    n_rows: int
    n_sampled: int
    n_pairs: int
    seed: int

    def make(self) -> Method:
        """The method with the parameters that were chosen."""
        from kinrank.registry import make_method

        return make_method(self.method, **self.params)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists, as JSON has them."""
        plain = dataclasses.asdict(self)
        plain["diagnosis"]["verdict"] = self.diagnosis.verdict
        return plain

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the curves to ``path``, whole or not at all."""
        from kinrank.io import write_text_atomic
        from kinrank.tune.report import render

        write_text_atomic(path, render(self))

    def __str__(self) -> str:
        from kinrank.tune.table import as_text

        return as_text(self)
