"""One cell of a comparison: a method on a data set, measured, kept, and never computed twice."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinrank._api import tune
from kinrank._version import __version__
from kinrank.datasets.base import Dataset, Part
from kinrank.errors import InvalidInputError, KinrankError
from kinrank.evaluate.search import Pooled
from kinrank.evaluate.spec import MethodSpec
from kinrank.io import save_npz
from kinrank.progress import peak_memory
from kinrank.reading import open_npz
from kinrank.trec import qrels_text
from kinrank.types import Ranking, Values

# Larger collections, and batches of queries, have kernels that smaller ones do not need.
WARM_ROWS = 1100
WARM_QUERIES = 16
HASHED_ROWS = 20_000
MAX_ENTRIES = 400_000_000
SAMPLES = (1000, 2000)  # rows that tell how long all will take


@dataclass(frozen=True)
class Measured:
    """What one cell gave.

    Attributes
    ----------
    method, data : the labels of the row and of the group of columns
    headlines : the metrics that tables show
    summary : metric -> mean over queries
    per_query : metric -> (n_queries,)
    seconds : of the re-ranking alone, kernels compiled and vectors loaded
    peak_bytes : the largest resident size of a process that did only this; None if not measured
    start_bytes : the same before the re-ranking began, vectors loaded
    missing : right answers that the ranking does not list, because it was cut
    chosen : what ``params=auto`` chose and why, name by name; empty without it
    """

    method: str
    data: str
    headlines: tuple[str, ...]
    summary: Mapping[str, float]
    per_query: Mapping[str, Values]
    seconds: float
    peak_bytes: int | None = None
    start_bytes: int | None = None
    warnings: tuple[str, ...] = ()
    missing: int = 0
    chosen: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {100 * self.summary[name]:.1f}" for name in self.headlines)
        return f"<Measured {self.method} on {self.data}: {shown}, {self.seconds:.3g} s>"

    def save(self, path: Path) -> None:
        """Write to one npz file, whole or not at all."""
        meta = asdict(self) | {"per_query": list(self.per_query)}
        arrays = {f"query_{number}": v for number, v in enumerate(self.per_query.values())}
        save_npz(path, meta=np.array(json.dumps(meta)), **arrays)

    @classmethod
    def load(cls, path: Path) -> Measured:
        with open_npz(path, "a cell of a comparison") as file:
            meta = json.loads(str(file["meta"]))
            names = meta["per_query"]
            meta["per_query"] = {name: file[f"query_{n}"] for n, name in enumerate(names)}
            meta["headlines"] = tuple(meta["headlines"])
            meta["warnings"] = tuple(meta["warnings"])
            return cls(**meta)


@dataclass(frozen=True)
class Failed:
    """A cell that could not be computed, and why."""

    method: str
    data: str
    reason: str


def measure(spec: MethodSpec, data: Dataset, *, threads: int | None = None) -> Measured:
    """Run a method on a data set in this process."""
    ranking, timing = timed_ranking(spec, data, threads=threads)
    result = data.evaluate(ranking)
    return Measured(
        spec.label,
        data.name,
        data.headlines,
        result.summary(),
        dict(result.per_query),
        missing=result.missing,
        **timing,
    )


def timed_ranking(
    spec: MethodSpec, data: Dataset, *, threads: int | None = None
) -> tuple[Ranking, dict[str, Any]]:
    """The ranking; how long it took, what was chosen, what was warned of, and the memory before."""
    queries = data.query.features
    gallery = data.gallery.features
    if queries is None or gallery is None:
        side = "query" if queries is None else "gallery"
        raise InvalidInputError(
            f"The data set {data.name} has no vectors for its {side}, so it cannot be ranked. "
            "Give files with `query` and `gallery`."
        )
    method = spec.build()
    # Rows that ask each other are each once in the graph.
    itself = _asks_itself(data) and not isinstance(method, Pooled)
    searched = None if itself else gallery
    # Compiles what will be needed, so that the time is the method's and not the compiler's. Too few
    # rows for it, perhaps: the run itself will tell.
    with warnings.catch_warnings(), suppress(KinrankError):
        warnings.simplefilter("ignore")
        rows = gallery[:WARM_ROWS]
        warm: tuple[Any, Any] = (rows, None) if itself else (queries[:WARM_QUERIES], rows)
        _ranked(spec, *warm, None, threads)
    start = peak_memory()
    # A whole ranking of many queries over millions would not fit; a cut one is still a lower bound.
    k = None if len(queries) * len(gallery) <= MAX_ENTRIES else MAX_ENTRIES // len(queries)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.perf_counter()
        ranking, chosen = _ranked(spec, queries, searched, k, threads)
        seconds = time.perf_counter() - begun
    texts = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return ranking, {"seconds": seconds, "start_bytes": start, "warnings": texts, "chosen": chosen}


def _ranked(
    spec: MethodSpec, queries: Any, gallery: Any, k: int | None, threads: int | None
) -> tuple[Ranking, dict[str, str]]:
    """The ranking, and what was chosen for it and why."""
    chosen = {}
    if spec.auto:
        tuning = tune(queries, gallery, spec.name, threads=threads, **spec.params)
        chosen = {"chosen": tuning.call, **tuning.chosen.sentences()}
        spec = replace(spec, params=tuning.options)
    return spec.build().rerank(queries, gallery, k, threads=threads), chosen


def _asks_itself(data: Dataset) -> bool:
    """Whether the queries are the gallery, row by row."""
    rows = data.query_rows
    n = len(data.gallery)
    same = rows is not None and len(data.query) == n and np.array_equal(rows, np.arange(n))
    return same and np.array_equal(data.query.features, data.gallery.features)  # type: ignore[arg-type]


def estimate_seconds(spec: MethodSpec, data: Dataset, *, threads: int | None = None) -> float:
    """About how long a cell will take: two small samples of it, and on by the power they show.

    Both sides are sampled alike. Powers below 1 and above 2 are taken for noise.
    """
    n = len(data.query) + len(data.gallery)
    seconds: list[float] = []
    for sample in SAMPLES:
        step = max(1, n // sample)
        sides = [side.features[::step] for side in (data.query, data.gallery)]  # type: ignore[index]
        sampled = Dataset(
            name=data.name,
            protocol="retrieval",
            query=Part(features=sides[0]),
            gallery=Part(features=sides[1]),
        )
        seconds.append(timed_ranking(spec, sampled, threads=threads)[1]["seconds"])
    power = min(max(math.log2(seconds[1] / seconds[0]), 1), 2)
    return seconds[1] * float(max(1.0, n / SAMPLES[1]) ** power)


def fingerprint(data: Dataset) -> str:
    """What makes two data sets the same: vectors, ground truth, protocol."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(data.protocol.encode())
    for side in (data.query, data.gallery):
        for column in (side.labels, side.cams):
            digest.update(b"none" if column is None else np.ascontiguousarray(column).tobytes())
        rows = side.features
        if rows is not None:
            # Of very large sets every so many rows: reading them all takes longer than ranking.
            step = max(1, len(rows) // HASHED_ROWS)
            digest.update(f"{rows.shape} {rows.dtype}".encode())
            digest.update(np.ascontiguousarray(rows[::step]).tobytes())
    for entry in data.gnd or ():
        for kind in ("easy", "hard", "junk"):
            digest.update(np.asarray(entry[kind], np.int64).tobytes() + kind.encode())
    if data.qrels is not None:
        digest.update(qrels_text(data.qrels).encode())
    if data.query_rows is not None:
        digest.update(np.asarray(data.query_rows, np.int64).tobytes())
    return digest.hexdigest()


def cell_key(spec: MethodSpec, data_print: str, *, isolated: bool) -> str:
    """A name for the file of a cell; any change of what was asked gives another one."""
    asked = {"method": spec.identity(), "data": data_print, "isolated": isolated}
    text = json.dumps({**asked, "version": __version__}, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
