"""One cell of a comparison: a method on a data set, measured, kept, and never computed twice."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from kinrank._version import __version__
from kinrank.datasets.base import Dataset, Rows
from kinrank.errors import InvalidInputError, KinrankError
from kinrank.evaluate.spec import MethodSpec
from kinrank.io import save_npz
from kinrank.methods.base import Method
from kinrank.metrics.per_query import Values
from kinrank.metrics.results import Evaluation
from kinrank.progress import peak_memory
from kinrank.reading import open_npz
from kinrank.types import Ranking

WARM_ROWS, WARM_QUERIES = 300, 2
HASHED_ROWS = 20_000
MAX_ENTRIES = 400_000_000


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

    def save(self, path: Path) -> None:
        """Write to one npz file, whole or not at all."""
        meta = asdict(self) | {"per_query": list(self.per_query)}
        arrays = {f"query_{number}": v for number, v in enumerate(self.per_query.values())}
        save_npz(path, meta=np.array(json.dumps(meta)), **arrays)

    @classmethod
    def load(cls, path: Path) -> Measured:
        """Read what ``save`` wrote."""
        with open_npz(path, "a cell of a comparison") as file:
            meta = json.loads(str(file["meta"]))
            names = meta["per_query"]
            meta["per_query"] = {name: file[f"query_{n}"] for n, name in enumerate(names)}
            meta["headlines"], meta["warnings"] = tuple(meta["headlines"]), tuple(meta["warnings"])
            return cls(**meta)


@dataclass(frozen=True)
class Failed:
    """A cell that could not be computed, and why."""

    method: str
    data: str
    reason: str


def measure(spec: MethodSpec, data: Dataset, *, threads: int | None = None) -> Measured:
    """Run a method on a data set in this process."""
    ranking, seconds, texts, start = timed_ranking(spec, data, threads=threads)
    return measured(spec.label, data, data.evaluate(ranking), seconds, start, texts)


def timed_ranking(
    spec: MethodSpec, data: Dataset, *, threads: int | None = None
) -> tuple[Ranking, float, tuple[str, ...], int | None]:
    """The ranking, how long it took, what was warned of, and the memory before it began."""
    queries, gallery = features(data)
    method = spec.build()
    _warm_up(method, queries, gallery, threads)
    start = peak_memory()
    # A whole ranking of many queries over millions would not fit; a cut one is still a lower bound.
    k = None if len(queries) * len(gallery) <= MAX_ENTRIES else MAX_ENTRIES // len(queries)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.perf_counter()
        ranking = method.rerank(queries, gallery, k, threads=threads)
        seconds = time.perf_counter() - begun
    texts = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return ranking, seconds, texts, start


def measured(
    label: str,
    data: Dataset,
    result: Evaluation,
    seconds: float,
    start: int | None = None,
    texts: tuple[str, ...] = (),
) -> Measured:
    """A cell from an evaluation that is already there."""
    return Measured(
        method=label,
        data=data.name,
        headlines=data.headlines,
        summary=result.summary(),
        per_query=dict(result.per_query),
        seconds=seconds,
        start_bytes=start,
        warnings=texts,
        missing=result.missing,
    )


def features(data: Dataset) -> tuple[Rows, Rows]:
    """The vectors of both sides, which must be there."""
    for side, part in (("query", data.query), ("gallery", data.gallery)):
        if part.features is None:
            raise InvalidInputError(
                f"`{data.name}` must have vectors to be ranked, got none for the {side}. "
                "Give files with `query` and `gallery`."
            )
    assert data.query.features is not None
    assert data.gallery.features is not None
    return data.query.features, data.gallery.features


def fingerprint(data: Dataset) -> str:
    """What makes two data sets the same: vectors, ground truth, protocol."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(data.protocol.encode())
    for part in (data.query, data.gallery):
        for column in (part.labels, part.cams):
            digest.update(b"none" if column is None else np.ascontiguousarray(column).tobytes())
        rows = part.features
        if rows is not None:
            # Of very large sets every so many rows: reading them all takes longer than ranking.
            step = max(1, len(rows) // HASHED_ROWS)
            digest.update(f"{rows.shape} {rows.dtype}".encode())
            digest.update(np.ascontiguousarray(rows[::step]).tobytes())
    for entry in data.gnd or ():
        for kind in ("easy", "hard", "junk"):
            digest.update(np.asarray(entry[kind], np.int64).tobytes() + kind.encode())
    if data.query_rows is not None:
        digest.update(np.asarray(data.query_rows, np.int64).tobytes())
    return digest.hexdigest()


def cell_key(spec: MethodSpec, data_print: str, *, isolated: bool) -> str:
    """A name for the file of a cell; any change of what was asked gives another one."""
    asked = {
        "method": spec.identity(),
        "data": data_print,
        "isolated": isolated,
        "version": __version__,
    }
    text = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _warm_up(method: Method, queries: Rows, gallery: Rows, threads: int | None) -> None:
    """Compile what will be needed, so that the time is the method's and not the compiler's."""
    # Too few rows for it, perhaps: the run itself will tell.
    with warnings.catch_warnings(), suppress(KinrankError):
        warnings.simplefilter("ignore")
        method.rerank(queries[:WARM_QUERIES], gallery[:WARM_ROWS], threads=threads)
