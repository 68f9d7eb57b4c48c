"""What tuning found, and how it is printed."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinrank.search.whitening import Whitening
from kinrank.tune.diagnosis import Diagnosis

if TYPE_CHECKING:
    from kinrank.methods.base import Method


BAR = 30  # letters of the longest bar


@dataclass(frozen=True, kw_only=True)
class Curve:
    """How far both halves of the features agree, for each value of one parameter.

    Attributes
    ----------
    parameter : its name
    values : what was tried, ascending if they are numbers
    agreement : mean share of common results, in [0, 1]
    error : standard error of its difference to the best of the curve, over rows
    chosen : what was chosen; a size lies between the values that were tried
    """

    parameter: str
    values: tuple[Any, ...]
    agreement: tuple[float, ...]
    error: tuple[float, ...]
    chosen: Any

    def __str__(self) -> str:
        """A small table with bars from the least to the largest agreement."""
        head = f"{self.parameter:<10}{'agreement':>10}{'± to best':>11}"
        lines = [f"{head}   chosen: {shown(self.chosen)}"]
        low, high = min(self.agreement), max(self.agreement)
        for value, agreed, error in zip(self.values, self.agreement, self.error, strict=True):
            length = round(BAR * (agreed - low) / (high - low)) if high > low else BAR
            line = f"{shown(value):<10}{100 * agreed:>10.1f}{100 * error:>11.1f}   {'█' * length}"
            lines.append(line.rstrip())
        return "\n".join(lines)


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
        plain = dataclasses.asdict(dataclasses.replace(self, params={}))
        plain["params"] = {
            name: str(value) if isinstance(value, Whitening) else value
            for name, value in self.params.items()
        }
        plain["diagnosis"]["verdict"] = self.diagnosis.verdict
        return plain

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the curves to ``path``, whole or not at all."""
        from kinrank.io import write_text_atomic
        from kinrank.report.pages import tuning_page

        write_text_atomic(path, tuning_page(self))

    @property
    def call(self) -> str:
        """The method as it would be typed: ``cas(k1=20,k2=5)``."""
        params = ",".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.method}({params})"

    def facts(self) -> dict[str, str]:
        """What is worth knowing, name by name."""
        diagnosis = self.diagnosis
        low, middle, high = diagnosis.cluster_sizes
        rows = "all rows" if self.n_sampled >= self.n_rows else f"{self.n_sampled:,} rows at a time"
        gain = f"{100 * self.gain:+.1f} ± {100 * self.gain_error:.1f} points of mAP"
        return {
            "chosen": self.call,
            "verdict": f"re-ranking {diagnosis.verdict}",
            "because": diagnosis.reason,
            "expected gain": gain if diagnosis.helps else "none",
            "cluster sizes": f"{low} to {high}, half below {middle}" if high else "no clusters",
            "singletons": f"{diagnosis.singletons:.0%} of the rows, at most",
            "hubness": f"{diagnosis.hubness:.1f}",
            "dimension": f"{diagnosis.intrinsic_dimension:.0f}",
            "looked at": f"{self.n_pairs} splits of the features, {rows} of {self.n_rows:,}",
            "time": f"{self.seconds:.1f} s",
        }

    def __str__(self) -> str:
        facts = "\n".join(f"{name:<14}{text}" for name, text in self.facts().items())
        return "\n\n".join([facts, *map(str, self.curves)])


def shown(value: Any) -> str:
    """A value of a parameter, short."""
    return f"{value:g}" if isinstance(value, float) else str(value)
