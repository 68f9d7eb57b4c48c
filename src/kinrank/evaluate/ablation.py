"""Running the paper's ablations on the user's features."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kinrank.datasets.base import Dataset
from kinrank.errors import InvalidInputError
from kinrank.evaluate.cells import Failed, Measured
from kinrank.evaluate.comparison import CellRunner, OnCell
from kinrank.evaluate.spec import MethodSpec, parse_method
from kinrank.evaluate.studies import Study, make_studies
from kinrank.io import temporary_folder
from kinrank.report.table import Table

# What the paper's ablations show of each protocol.
SHOWN: dict[str, tuple[str, ...]] = {
    "revisited": ("mAP M", "mAP H"),
    "reid": ("mAP", "mINP"),
    "retrieval": ("mAP",),
    "single_shot": ("R1",),
}


@dataclass(frozen=True, eq=False)
class Ablation:
    """All studies that were run."""

    method: str
    studies: Sequence[Study]

    def tables(self) -> dict[str, Table]:
        """Study key -> table."""
        return {study.key: study.table() for study in self.studies}


def ablate(
    sets: Sequence[Dataset],
    *,
    method: str | MethodSpec = "cas",
    studies: Sequence[str] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
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
    work : a folder that keeps finished cells
    threads : how many threads the method may use
    on_cell : called with each cell, how many are done, and how many there are
    """
    if not sets:
        raise InvalidInputError("`sets` must have at least one data set, got none.")
    base = parse_method(method) if isinstance(method, str) else method
    if base.auto:
        raise InvalidInputError(
            f"`method` must have its own parameters to be varied, got {base.label}."
        )
    chosen = make_studies(studies, base, values)
    total = sum(len(study.variants) for study in chosen) * len(sets)
    done = 0
    measured: list[Study] = []
    with tempfile.TemporaryDirectory(prefix="kinrank-", dir=temporary_folder()) as temporary:
        folders = (Path(work or temporary), Path(temporary))
        # Only the table of times needs a process for each cell.
        runners = {isolate: CellRunner(*folders, isolate, threads) for isolate in (False, True)}
        for study in chosen:
            cells: list[dict[str, Measured | Failed]] = []
            for variant in study.variants:
                cells.append({})
                for data in sets:
                    cell = runners[study.form == "latency"].run(variant.spec, data)
                    cells[-1][data.name] = cell
                    done += 1
                    if on_cell is not None:
                        on_cell(cell, done, total)
            metrics = {data.name: SHOWN[data.protocol] for data in sets}
            measured.append(replace(study, metrics=metrics, cells=cells))
    return Ablation(base.label, measured)
