"""The search: one size by its curve, then the other parameters at that size."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.methods.base import Method
from kinrank.parallel import Runner
from kinrank.registry import make_method, method_class
from kinrank.tune.param_grid import ParamGrid
from kinrank.tune.result import Curve
from kinrank.tune.scoring import DEPTHS, agreement, option_curve, size_curve
from kinrank.tune.split import Pair

Values = npt.NDArray[np.float64]

LARGEST = 90  # costs of trials grow with the square of the size
BEYOND = 2  # options are compared on so many times the size, too


@dataclass(frozen=True, eq=False)
class Search:
    """One method on a few pairs of halves.

    method : its name; fixed : parameters that stay as they are; grid : what is tried
    pairs : sizes are tried on all, the other parameters on the first ``tested`` of them
    effort : what trials of options may cost; one at the size LARGEST costs 1
    """

    method: str
    fixed: dict[str, Any]
    grid: ParamGrid
    pairs: Sequence[Pair]
    tested: int
    effort: float
    run: Runner
    advance: progress.Advance

    def size(self, values: Sequence[int], group: float | None) -> Curve:
        """Choose the size among ``values``; group : size of the groups in the collection."""
        scores = np.array([self._shallow(value) for value in values])
        return size_curve(self.grid.size, values, scores, group)

    def options(self, size: int) -> list[Curve]:
        """Try the other parameters at ``size``, as far as the effort goes."""
        left = int(self.effort * (LARGEST / size) ** 2)
        known = self._both({self.grid.size: size}, size)
        defaults = {field.name: field.default for field in fields(method_class(self.method))}
        curves = []
        for name, values in self.grid.rest.items():
            params = {self.grid.size: size, **self.fixed}
            tried = allowed_values(self.method, params, name, values)
            if name in self.fixed or len(tried) < 2 or left < len(tried) - 1:
                continue
            default = defaults[name]
            scores = [
                known if value == default else self._both({self.grid.size: size, name: value}, size)
                for value in tried
            ]
            curves.append(option_curve(name, tried, np.stack(scores, axis=1), default))
            left -= len(tried) - 1
        return curves

    def make(self, **params: Any) -> Method:
        """The method with these parameters and those that are fixed, as trials run it."""
        return make_method(self.method, **{**self.grid.quick, **self.fixed, **params})

    def _shallow(self, value: int) -> Values:
        method, scores = self.make(**{self.grid.size: value}), []
        for pair in self.pairs:
            scores.append(agreement(*pair.first(method, DEPTHS[-1], self.run)))
            self.advance(1)
        return np.concatenate(scores)

    def _both(self, params: dict[str, Any], size: int) -> Values:
        """Agreement on the first few and on many results, (2, rows)."""
        method, deep, scores = self.make(**params), max(DEPTHS[-1], BEYOND * size), []
        for pair in self.pairs[: self.tested]:
            one, other = pair.first(method, deep, self.run)
            scores.append([agreement(one, other), agreement(one, other, (one.shape[1],))])
            self.advance(1)
        return np.concatenate(scores, axis=1)


def allowed_values(
    method: str, fixed: dict[str, Any], name: str, values: Sequence[Any]
) -> list[Any]:
    """Those of ``values`` that the method takes beside the parameters that are fixed."""
    allowed = []
    for value in values:
        with suppress(InvalidInputError):
            make_method(method, **{**fixed, name: value})
            allowed.append(value)
    return allowed
