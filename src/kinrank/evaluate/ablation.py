"""The paper's ablations on the user's features: parts and parameters of CAS, each varied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kinrank.datasets.base import Dataset
from kinrank.errors import InvalidInputError, shown
from kinrank.evaluate.cells import Failed, Measured
from kinrank.evaluate.comparison import (
    OnCell,
    check_on_cell,
    check_sets,
    choose_metrics,
    run_cells,
)
from kinrank.evaluate.spec import NONE, MethodSpec, parse_method
from kinrank.registry import method_class, untrained_methods
from kinrank.registry import methods as registered
from kinrank.report.comparison import study_table
from kinrank.report.formats import Table
from kinrank.validation import as_list, check_choice

Grids: TypeAlias = Mapping[str, Sequence[float]]
# What the paper's ablations show of each protocol, and the first rank.
SHOWN: dict[str, tuple[str, ...]] = {
    "revisited": ("mAP M", "mAP H"),
    "reid": ("mAP", "R1", "mINP"),
    "retrieval": ("mAP", "hit@1"),
    "judged": ("nDCG@10", "mAP"),
    "single_shot": ("R1",),
}


@dataclass(frozen=True)
class Variant:
    """One point of a study: a label, the method behind it, and the curve or section it is in."""

    label: str
    spec: MethodSpec
    section: str = ""


@dataclass(frozen=True)
class Study:
    """A question that is answered by running variants.

    Attributes
    ----------
    form : rows (a table), bars (groups of bars), curve (a parameter), latency (time only)
    parameter, base : of a curve, the sign of the parameter and the label of its value in the base
    metrics : data set -> what is shown of it, once it has been run
    cells : for each variant, data set -> what was measured, once it has been run
    notes : what a reader of the table has to know
    """

    key: str
    title: str
    form: Literal["rows", "bars", "curve", "latency"]
    variants: Sequence[Variant]
    parameter: str = ""
    base: str = ""
    metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cells: Sequence[Mapping[str, Measured | Failed]] = ()
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"<Study {self.key}: {len(self.variants)} variants on {len(self.sets)} sets>"

    @property
    def sets(self) -> list[str]:
        return list(self.metrics)

    def value(self, variant: int, data: str, metric: str) -> float | None:
        """A mean, or None where the cell failed."""
        cell = self.measured(variant, data)
        return None if cell is None else cell.summary[metric]

    def measured(self, variant: int, data: str) -> Measured | None:
        """A cell, or None where it failed."""
        cell = self.cells[variant][data]
        return cell if isinstance(cell, Measured) else None

    def places(self) -> list[tuple[str, str]]:
        """Sets and metrics, one metric after the other as in the paper."""
        names = dict.fromkeys(metric for shown in self.metrics.values() for metric in shown)
        return [(d, metric) for metric in names for d in self.sets if metric in self.metrics[d]]

    @property
    def failures(self) -> list[Failed]:
        return [c for row in self.cells for c in row.values() if isinstance(c, Failed)]

    def table(self) -> Table:
        return study_table(self)


@dataclass(frozen=True, eq=False)
class Ablation:
    """All studies that were run."""

    method: str
    studies: Sequence[Study]

    def __repr__(self) -> str:
        return f"<Ablation of {self.method}: {', '.join(study.key for study in self.studies)}>"

    def tables(self) -> dict[str, Table]:
        """Study key -> table."""
        return {study.key: study.table() for study in self.studies}


def ablate(
    sets: Sequence[Dataset],
    *,
    method: str | MethodSpec = "cas",
    studies: Sequence[str] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    metrics: str | Sequence[str] | None = None,
    work: str | Path | None = None,
    threads: int | None = None,
    on_cell: OnCell | None = None,
) -> Ablation:
    """Run the paper's ablations.

    Parameters
    ----------
    sets : data sets with vectors, such as one set with several kinds of features
    method : where the variations start from, such as ``"cas(k1=60,k2=6)"``
    studies : bsd, nss, distance, k1, k2, omega, kappa, sigma, mu, beta, latency; None for all
    values : other values of a parameter, such as ``{"k1": [10, 20]}``
    metrics : what tables and figures show, as for ``compare``; None is what the paper shows, and R1
    work : a folder that keeps finished cells
    threads : how many threads the method may use
    on_cell : called with each cell, how many are done, and how many there are
    """
    sets = check_sets(sets)
    check_on_cell(on_cell)
    base = method if isinstance(method, MethodSpec) else parse_method(method)
    if base.auto:
        raise InvalidInputError(
            f"`method` must have its own parameters to be varied, got {base.label}."
        )
    chosen = make_studies(studies, base, values)
    shown_metrics = choose_metrics(metrics, sets) or {
        data.name: SHOWN[data.protocol] for data in sets
    }
    jobs = [
        # Only the table of times needs a process for each cell.
        (variant.spec, data, study.form == "latency")
        for study in chosen
        for variant in study.variants
        for data in sets
    ]
    cells = iter(run_cells(jobs, work, threads, on_cell))

    def measured(study: Study) -> Study:
        rows = [{data.name: next(cells) for data in sets} for _ in study.variants]
        return replace(study, metrics=shown_metrics, cells=rows)

    return Ablation(base.label, [measured(study) for study in chosen])


# The values that the paper's tables show, and round the settings of its authors where it has plots.
VALUES: dict[str, tuple[float, ...]] = {
    "k1": (5, 10, 20, 30, 40, 60, 80, 100),
    "k2": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    "omega": (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    "kappa": (0.5, 1, 2, 3, 4, 5),
    "sigma": (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0),
    "mu": (0.05, 0.1, 0.23, 0.5, 1.0, 2.0),
    "beta": (0.0, 0.001, 0.01, 0.1, 0.5, 1.0),
}
SIGNS = dict(zip(VALUES, ("k₁", "k₂", "ω", "κ", "σ", "μ", "β"), strict=True))  # noqa: RUF001
# Diffusion on the same graph, for the figure of k1: the first of these that is registered.
OTHER_DIFFUSION = ("rdp", "dfs", "fsr")


def make_studies(
    keys: Sequence[str] | None = None, base: MethodSpec | None = None, values: Grids | None = None
) -> list[Study]:
    """The studies asked for, all by default, as variations of ``base``."""
    wanted = list(STUDIES) if keys is None else as_list("studies", keys, "a list of names")
    given = {} if values is None else values
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"`values` must be a dict such as {{'k1': [10, 20]}}, got {shown(values)}."
        )
    for kind, names, known in (("study", wanted, STUDIES), ("values", given, VALUES)):
        for name in names:
            check_choice(kind, name, known)
    grids = {name: as_list(f"values[{name!r}]", given[name], "a list of numbers") for name in given}
    start = MethodSpec("cas") if base is None else base
    return [STUDIES[key](start, {**VALUES, **grids}) for key in wanted]


def _bsd(base: MethodSpec, _: Grids) -> Study:
    kinds = {"OSM": "original", "SSM": "smoothed", "BSD": "bidirectional"}
    variants = [
        Variant(f"{short}+{name}", _with(base, similarity=kind, clusters=cluster), name)
        for name, cluster in (("k-nn", "knn"), ("k-recip", "expanded"))
        for short, kind in kinds.items()
    ]
    title = "Effectiveness of Bidirectional Similarity Diffusion"
    return Study("bsd", title, "rows", [_baseline(base), *variants])


def _nss(base: MethodSpec, _: Grids) -> Study:
    kinds = {"w/o NSS": None, "w/ AQE": "aqe", "w/ NSS": "nss"}
    variants = [Variant(label, _with(base, smoothing=kind)) for label, kind in kinds.items()]
    title = "Effectiveness of Neighbor-guided Similarity Smooth"
    return Study("nss", title, "bars", [_baseline(base), *variants])


def _distance(base: MethodSpec, _: Grids) -> Study:
    kinds = {"Baseline": "similarity", "Euclidean": "euclidean", "Cosine": "cosine"}
    variants = [
        Variant(label, _with(base, divergence=kind), "js" if kind == "js" else "others")
        for label, kind in {**kinds, "Jaccard": "jaccard", "JS Divergence": "js"}.items()
    ]
    note = (
        "Baseline here ranks by the last similarity itself, F', without a distance between its "
        "rows, as in the paper's study; Baseline of the other studies is the plain search."
    )
    title = "Effectiveness of the distance measure"
    return Study("distance", title, "rows", variants, notes=[note])


def _parameter(name: str) -> Callable[[MethodSpec, Grids], Study]:
    def study(base: MethodSpec, grids: Grids) -> Study:
        variants = [
            Variant(f"{value:g}", _with(base, **{name: value}), base.name) for value in grids[name]
        ]
        if name == "k1":
            variants += _other_diffusion(grids[name])
        value = getattr(base.build(), name, None)
        shown = "" if value is None else f"{value:g}"
        return Study(name, f"Effect of {SIGNS[name]}", "curve", variants, SIGNS[name], shown)

    return study


def _latency(base: MethodSpec, _: Grids) -> Study:
    names = [NONE, *(name for name in untrained_methods() if name != base.name)]
    variants = [Variant(name, MethodSpec(name), "others") for name in names]
    variants.append(Variant(base.label, base, "base"))
    return Study("latency", "Time of re-ranking", "latency", variants)


STUDIES: dict[str, Callable[[MethodSpec, Grids], Study]] = {
    "bsd": _bsd,
    "nss": _nss,
    "distance": _distance,
    **{name: _parameter(name) for name in VALUES},
    "latency": _latency,
}


def _with(base: MethodSpec, **changes: Any) -> MethodSpec:
    return replace(base, params={**base.params, **changes})


def _baseline(base: MethodSpec) -> Variant:
    kept = {name: value for name, value in base.params.items() if name == "metric"}
    return Variant("Baseline", MethodSpec(NONE, kept), "first")


def _other_diffusion(values: Sequence[float]) -> list[Variant]:
    """The same curve for a method of diffusion over the whole graph."""
    for name in OTHER_DIFFUSION:
        if name in registered() and "k1" in {f.name for f in fields(method_class(name))}:
            return [Variant(f"{v:g}", MethodSpec(name, {"k1": v}), name) for v in values]
    return []
