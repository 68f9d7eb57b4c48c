"""Figures of a grouping against labels: how right a table of who is who is.

B-cubed F can be won by merging everything, and precision by merging nothing: read them together.

Lawrence Hubert, Phipps Arabie: Comparing partitions, Journal of Classification 1985.
Amit Bagga, Breck Baldwin: Entity-based cross-document coreferencing, COLING-ACL 1998.
Andrew Rosenberg, Julia Hirschberg: V-measure, EMNLP 2007.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.validation import as_labels

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GroupingScores:
    """How a grouping and the labels agree; all but the numbers lie in [0, 1], ``ari`` below 0 too.

    ari : adjusted Rand index: agreement of pairs, 0 for chance
    bcubed_precision, bcubed_recall, bcubed_f : of the mean row's group, of its label, both
    pair_precision, pair_recall, pair_f : of pairs of rows that are put together
    homogeneity, completeness, v_measure : by entropy
    singles_found : share of single items that are a group of one; None where there is none
    groups, labels : how many there are, singles counted
    """

    ari: float
    bcubed_precision: float
    bcubed_recall: float
    bcubed_f: float
    pair_precision: float
    pair_recall: float
    pair_f: float
    homogeneity: float
    completeness: float
    v_measure: float
    singles_found: float | None
    groups: int
    labels: int

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        bcubed = (self.bcubed_f, "precision", self.bcubed_precision, "recall", self.bcubed_recall)
        pairs = (self.pair_f, "precision", self.pair_precision, "recall", self.pair_recall)
        entropy = (
            self.v_measure,
            "homogeneity",
            self.homogeneity,
            "completeness",
            self.completeness,
        )
        lines = [
            f"adjusted Rand index  {100 * self.ari:5.1f}",
            f"B-cubed              {_line(*bcubed)}",
            f"pairs                {_line(*pairs)}",
            f"V-measure            {_line(*entropy)}",
        ]
        if self.singles_found is not None:
            lines.append(f"single items found   {100 * self.singles_found:5.1f}")
        lines.append(f"groups               {self.groups:,}, labels {self.labels:,}")
        return "\n".join(lines)


def _line(mean: float, one: str, first: float, other: str, second: float) -> str:
    return f"{100 * mean:5.1f}  {one} {100 * first:.1f}, {other} {100 * second:.1f}"


def score_grouping(labels: Any, groups: Any) -> GroupingScores:
    """Compare a grouping with what is right.

    Parameters
    ----------
    labels : (n,) whole numbers or text: who each row is
    groups : (n,) whole numbers or text: the group of each row, such as ``Groups.labels``

    Examples
    --------
    >>> import kinrank
    >>> scores = kinrank.evaluate.score_grouping([0, 0, 1, 1, 2], [5, 5, 5, 7, 8])
    >>> round(scores.bcubed_precision, 3), scores.singles_found
    (0.733, 1.0)
    """
    n = len(labels) if hasattr(labels, "__len__") else 0
    if n == 0:
        raise InvalidInputError("`labels` must have at least one row, got none.")
    right = as_labels("labels", labels, n, "rows")
    found = as_labels("groups", groups, n, "rows")
    table = _contingency(right, found)
    return _scores(table, n)


@dataclass(frozen=True, eq=False)
class _Table:
    """Cells that are not empty: counts, and the sizes of their label and of their group."""

    cells: Counts
    label_of: Counts
    group_of: Counts
    label_sizes: Counts
    group_sizes: Counts


def _contingency(labels: npt.NDArray[Any], groups: npt.NDArray[Any]) -> _Table:
    _, label, label_sizes = np.unique(labels, return_inverse=True, return_counts=True)
    _, group, group_sizes = np.unique(groups, return_inverse=True, return_counts=True)
    key, cells = np.unique(label.astype(np.int64) * len(group_sizes) + group, return_counts=True)
    return _Table(
        cells=cells,
        label_of=key // len(group_sizes),
        group_of=key % len(group_sizes),
        label_sizes=label_sizes,
        group_sizes=group_sizes,
    )


def adjusted_rand(labels: npt.NDArray[Any], groups: npt.NDArray[Any]) -> float:
    """The adjusted Rand index of two groupings of the same rows."""
    return _adjusted_rand(_contingency(labels, groups), len(labels))


def _pairs(counts: Counts) -> float:
    wide = counts.astype(np.float64)
    return float((wide * (wide - 1) / 2).sum())


def _adjusted_rand(table: _Table, n: int) -> float:
    together = _pairs(table.cells)
    by_label = _pairs(table.label_sizes)
    by_group = _pairs(table.group_sizes)
    every = n * (n - 1) / 2
    expected = by_label * by_group / every if every else 0.0
    most = (by_label + by_group) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)


def _scores(table: _Table, n: int) -> GroupingScores:
    cells = table.cells.astype(np.float64)
    precision = float((cells**2 / table.group_sizes[table.group_of]).sum()) / n
    recall = float((cells**2 / table.label_sizes[table.label_of]).sum()) / n
    together = _pairs(table.cells)
    by_group = _pairs(table.group_sizes)
    by_label = _pairs(table.label_sizes)
    pair_precision = together / by_group if by_group else 1.0
    pair_recall = together / by_label if by_label else 1.0
    homogeneity, completeness = _entropies(table, n)
    single = table.label_sizes[table.label_of] == 1
    singles = int(single.sum())
    alone = int((single & (table.group_sizes[table.group_of] == 1)).sum())
    return GroupingScores(
        ari=_adjusted_rand(table, n),
        bcubed_precision=precision,
        bcubed_recall=recall,
        bcubed_f=_harmonic(precision, recall),
        pair_precision=pair_precision,
        pair_recall=pair_recall,
        pair_f=_harmonic(pair_precision, pair_recall),
        homogeneity=homogeneity,
        completeness=completeness,
        v_measure=_harmonic(homogeneity, completeness),
        singles_found=alone / singles if singles else None,
        groups=len(table.group_sizes),
        labels=len(table.label_sizes),
    )


def _harmonic(one: float, other: float) -> float:
    return 2 * one * other / (one + other) if one + other > 0 else 0.0


def _entropies(table: _Table, n: int) -> tuple[float, float]:
    """Homogeneity and completeness."""
    share = table.cells / n
    of_labels = _entropy(table.label_sizes / n)
    of_groups = _entropy(table.group_sizes / n)
    label_given_group = -float(
        (share * np.log(table.cells / table.group_sizes[table.group_of])).sum()
    )
    group_given_label = -float(
        (share * np.log(table.cells / table.label_sizes[table.label_of])).sum()
    )
    homogeneity = 1.0 if of_labels == 0 else 1 - label_given_group / of_labels
    completeness = 1.0 if of_groups == 0 else 1 - group_given_label / of_groups
    return homogeneity, completeness


def _entropy(shares: npt.NDArray[np.float64]) -> float:
    return -float((shares * np.log(shares)).sum())
