"""What was chosen, and how it is printed."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

from kinrank.index.auto_parameters import AutoParameters, expectation
from kinrank.methods.base import Method
from kinrank.projection.projection import Projection
from kinrank.registry import make_method
from kinrank.tune.diagnosis import Diagnosis


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Parameters chosen without labels, and what they were chosen from.

    Attributes
    ----------
    method : its name
    params : the parameters, those that were given among them; ``make()`` is the method itself
    reasons : why, for each parameter that was chosen; those chosen together share one
    gain : expected gain of mean average precision, from 0 to 1; measured by what two halves of the
        features say of each other, since nobody knows what is right. 0 when re-ranking is not
        expected to help.
    diagnosis : what the collection looks like, and whether re-ranking will help
    seconds : how long it took
    n_rows, n_sampled : rows of the collection, and how many of their lists were looked at
    seed : of the random numbers
    projection : what ``whiten`` is for these rows, where it was fitted to choose; ``make()`` has it
    """

    method: str
    params: dict[str, Any]
    reasons: dict[str, str]
    gain: float
    diagnosis: Diagnosis
    seconds: float
    n_rows: int
    n_sampled: int
    seed: int
    projection: Projection | None = None

    def make(self) -> Method:
        """The method with the parameters that were chosen, ready for the rows they are for."""
        method: Method = make_method(self.method, **self.options)
        return method

    @property
    def options(self) -> dict[str, Any]:
        """The parameters with the fitted projection, so that no method has to learn it again."""
        if self.projection is None:
            return dict(self.params)
        return {**self.params, "whiten": self.projection}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists, as JSON has them."""
        plain = dataclasses.asdict(dataclasses.replace(self, params={}, projection=None))
        del plain["projection"]
        plain["params"] = self.plain_params()
        return plain

    def plain_params(self) -> dict[str, Any]:
        """The parameters as numbers and words; a fitted projection is told by its text."""
        simple = (type(None), bool, int, float, str)
        return {n: v if isinstance(v, simple) else str(v) for n, v in self.params.items()}

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the reasons to ``path``, whole or not at all."""
        from kinrank.io import write_text_atomic
        from kinrank.report.pages import tuning_page

        write_text_atomic(path, tuning_page(self))

    @property
    def call(self) -> str:
        """The method as it would be typed: ``cas(k1=20,k2=5)``."""
        params = ",".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.method}({params})"

    @property
    def chosen(self) -> AutoParameters:
        """What an index or a report keeps of it."""
        return AutoParameters(
            rows=self.n_rows,
            verdict=self.diagnosis.verdict,
            because=self.diagnosis.reason,
            gain=self.gain,
            reasons=dict(self.reasons),
        )

    @property
    def expectation(self) -> str:
        """The verdict as part of a sentence."""
        return expectation(self.diagnosis.verdict)

    def facts(self) -> dict[str, str]:
        """What is worth knowing, name by name."""
        diagnosis = self.diagnosis
        low, middle, high = diagnosis.cluster_sizes
        gain = f"about {100 * self.gain:.0f} points of mAP, often half or twice as much"
        return {
            "chosen": self.call,
            "verdict": self.expectation,
            "because": diagnosis.reason,
            "expected gain": gain if self.gain else "none",
            "cluster sizes": f"{low} to {high}, half below {middle}" if high else "unknown",
            "singletons": f"{diagnosis.singletons:.0%} of the rows",
            "hubness": f"{diagnosis.hubness:.1f}",
            "in common": f"{diagnosis.common:.0%} of the similarity of neighbours",
            "looked at": f"{self.n_sampled:,} of {self.n_rows:,} rows",
            "time": f"{self.seconds:.1f} s",
        }

    def __str__(self) -> str:
        facts = "\n".join(f"{name:<14}{text}" for name, text in self.facts().items())
        reasons = "\n".join(f"{name:<14}{text}" for name, text in self.reasons.items())
        return f"{facts}\n\n{reasons}" if reasons else facts
