"""What a run will cost, said before it begins: measured on a sample, and scaled.

The method runs over a few thousand of the rows, in memory, and what each of its stages took and
made is multiplied: stages over rows by the number of rows, stages over queries by the number of
queries (and of rows where every row is looked at). The search grows by its own rule.
"""

from __future__ import annotations

import re
import shutil
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError, KinrankWarning, shown
from kinrank.filters import Filter, NotItself
from kinrank.parallel import MAX_BLOCK, Args, Array, Kernel, Out, Runner
from kinrank.progress import format_bytes, format_seconds
from kinrank.runs.execution import Execution, RankingMethod
from kinrank.runs.mapped import resident_bytes
from kinrank.search import cells, find
from kinrank.search.exact import exact_neighbors, search_pieces
from kinrank.search.tiles import TILE_COLUMNS
from kinrank.types import Ints, SparseRows
from kinrank.validation import as_vectors, check_int

# rows and queries of the sample
_ROWS = 4096
_QUERIES = 64
_LOADING = 256  # rows that are ranked before, so that kernels are loaded
_SEEDS = 16  # rows whose nearest are in the sample
_LIST = 26  # the nearest of these
_PIECE = 65536  # rows that are read at a time
_PROBED = 1.0  # time of a distance in a cell over that of one in a search of all rows
_ROW_BYTES = 140  # of arrays as long as there are rows, outside files
_THREAD_BYTES = 48  # the same, for each thread
_FILES = 0.12  # share of the budget for the pages of files that are in use
_BASE = 250 << 20  # an interpreter with numpy and numba
_FITTING = 6 * 8  # bytes for each entry of a covariance, while a whitening is fitted
_LEARNING = 12_288 * 16  # bytes for each column, while a projection is learnt from pairs
_AHEAD = 5  # blocks of results for each thread that wait to be written


@dataclass(frozen=True)
class Stage:
    """A stage: what it writes, and how long it takes."""

    name: str
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """The stages of a run, in order.

    least : bytes of memory below which it cannot be done; budget : what was given, None for any
    """

    stages: tuple[Stage, ...]
    least: int
    budget: int | None

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def bytes(self) -> int:
        return sum(stage.bytes for stage in self.stages)

    def check(self, folder: Path | None = None) -> None:
        """Refuse a budget that cannot be kept, or a folder that is too small."""
        if self.budget is not None and self.least > self.budget:
            raise InvalidInputError(
                f"`memory_budget` must be at least {format_bytes(self.least)} for these rows and "
                f"this method, got {format_bytes(self.budget)}."
            )
        if folder is not None and self.bytes > shutil.disk_usage(folder).free:
            raise InvalidInputError(
                f"`work` must be on a disk with {format_bytes(self.bytes)} free, got {folder} with "
                f"{format_bytes(shutil.disk_usage(folder).free)}."
            )

    def as_dict(self) -> dict[str, Any]:
        return {
            "stages": [vars(stage) for stage in self.stages],
            "bytes": self.bytes,
            "seconds": self.seconds,
            "least_memory_bytes": self.least,
            "memory_budget_bytes": self.budget,
        }

    def __str__(self) -> str:
        lines = [f"  {'stage':<16} {'on disk':>12} {'time':>10}"]
        rows = [*self.stages, Stage("together", self.bytes, self.seconds)]
        lines += [
            f"  {row.name:<16} {format_bytes(row.bytes):>12} {format_seconds(row.seconds):>10}"
            for row in rows
        ]
        memory = f"  memory: at least {format_bytes(self.least)}"
        if self.budget is not None:
            memory += f", at most {format_bytes(self.budget)}"
        return "\n".join([*lines, memory])


def parse_bytes(name: str, value: object) -> int:
    """``4_000_000_000``, "4GB", "512 MiB" or "1.5g" as bytes; what ``name`` was given."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value > 0:
        return int(value)
    pattern = r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?\s*"
    match = re.fullmatch(pattern, value.lower()) if isinstance(value, str) else None
    if match:
        power = " kmgt".index(match[2] or " ")
        size = int(float(match[1]) * (1024 if match[3] else 1000) ** power)
        if size > 0:
            return size
    raise InvalidInputError(
        f'`{name}` must be a number of bytes or a size such as "4GB" or "512MiB", '
        f"got {shown(value)}."
    )


def make_plan(
    method: RankingMethod,
    matrices: tuple[Array, ...],
    k: int | None,
    execution: Execution,
    budget: int | None,
    row_bytes: int = 0,
) -> Plan:
    """Run over a sample, and multiply.

    matrices : queries and gallery, or rows that are ranked among themselves
    row_bytes : memory that each row takes beside what stages keep in files
    """
    parameters: Any = method
    # The sample is ranked as it is: its own directions would be fitted in no time, or not at all.
    sample = _Sample.run(replace(parameters, whiten=None), matrices, k, execution)
    n = sum(map(len, matrices))
    n_queries = len(matrices[0])
    gallery = matrices[-1]
    width = gallery.shape[1]
    stored = n * width * np.dtype(execution.vectors).itemsize
    rate = _search_rate(gallery, execution.runner)
    approximate = execution.search == "approximate"
    stages = [Stage("vectors", stored, 0.0)]
    if approximate and n > find.FEW:
        # A copy in the order of cells, and one in 16 bits.
        stages.append(Stage("cells", stored + 2 * n * width, 0.0))
    by_rows = n / sample.n_rows
    by_queries = n_queries / sample.n_queries
    for name, seconds in sample.seconds.items():
        times = by_rows
        whole = seconds * by_rows
        beside = 0
        if name == "neighbours":
            beside = 4 * cells.PROBES * n if approximate and n > find.FEW else 0
            whole = rate * _products(n, width, approximate)
        elif name == "search" or name in sample.by_query:
            times = by_queries
            dense = name == "search" or method.ranking_bytes > 0
            whole = seconds * by_queries * (by_rows if dense else 1.0)
        stages.append(Stage(name, int(sample.bytes[name] * times) + beside, whole))
    least = _least(method, sample, n, width, execution, budget) + row_bytes * n
    fitting = 0 if method.whiten is None else _FITTING * width**2
    if isinstance(method.whiten, str):  # learnt from a sample
        fitting += _LEARNING * width
    return Plan(tuple(stages), least + fitting, budget)


def _search_rate(rows: Array, run: Runner) -> float:
    """Seconds of a product of two columns in an exact search of some rows."""
    vectors = as_vectors(("gallery", _strided(rows, _ROWS)))
    run = Runner(run.threads)
    k = min(_LIST, len(vectors))
    with progress.listen(progress.Stopwatch()):
        exact_neighbors(vectors[:k], k, run)  # kernels are loaded
        begun = time.perf_counter()
        exact_neighbors(vectors, k, run)
        seconds = time.perf_counter() - begun
    # A product of few rows serves both of them; in files, where blocks are apart, mostly one.
    return 2 * seconds / _products(len(vectors), vectors.shape[1], approximate=False)


def _products(n: int, width: int, approximate: bool) -> float:
    """Products of two columns that a search of all rows computes, or what costs as much."""
    if not approximate or n <= find.FEW:
        return float(n) * n * width
    count = cells.cell_count(n)
    return _PROBED * n * (count + cells.PROBES * n / count) * width


def _least(
    method: RankingMethod,
    sample: _Sample,
    n: int,
    width: int,
    execution: Execution,
    budget: int | None,
) -> int:
    """Memory that is not in files, and room for the pages of files."""
    threads = execution.runner.threads
    row = max((size / sample.n_rows for size in sample.bytes.values()), default=0.0)
    waiting = row * min(MAX_BLOCK, n) * _AHEAD * threads
    ranking = method.ranking_bytes * n * threads
    arrays = n * (_ROW_BYTES + _THREAD_BYTES * threads)
    if execution.vectors == "float16":
        arrays += 4 * width * min(TILE_COLUMNS, n)  # of a tile that products are computed from
    total = max(_BASE, resident_bytes() or 0) + arrays + max(waiting, ranking)
    return int(total + _FILES * (budget or total))


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Rows of a sample as a method takes them; gallery : None for rows among themselves."""

    queries: Array
    gallery: Array | None
    k: int | None
    row_filter: Filter | None

    @classmethod
    def of(cls, queries: Array, rows: Array, k: int | None, are_queries: bool) -> _Ranked:
        """are_queries : whether the rows are ranked among themselves."""
        n = len(rows)
        k = None if k is None else min(check_int("k", k, 1), max(n - are_queries, 1))
        if are_queries:
            return cls(rows, None, k, Filter(n, n, (NotItself(n),)))
        return cls(queries, rows, k, None)

    def by(self, method: RankingMethod, execution: Execution) -> None:
        """Rank them."""
        method.ranked(self.queries, self.gallery, self.k, execution, self.row_filter)


@dataclass(frozen=True)
class _Sample(Runner):
    """A runner in memory that notes what its stages take and make.

    n_rows, n_queries : of the sample; by_query : stages whose work goes by queries
    """

    n_rows: int = field(kw_only=True)
    n_queries: int = field(kw_only=True)
    seconds: dict[str, float] = field(default_factory=dict)
    bytes: Counter[str] = field(default_factory=Counter)
    by_query: set[str] = field(default_factory=set)

    @classmethod
    def run(
        cls,
        method: RankingMethod,
        matrices: tuple[Array, ...],
        k: int | None,
        execution: Execution,
    ) -> _Sample:
        """What a run over some rows took and made, by stage."""
        run = execution.runner
        rows = _regions(matrices[-1], run)
        queries = rows if len(matrices) == 1 else _strided(matrices[0], _QUERIES)
        sample = cls(
            run.threads,
            run.block_size,
            n_rows=len(rows) if len(matrices) == 1 else len(queries) + len(rows),
            n_queries=len(queries),
        )
        few = _Ranked.of(queries, rows[:_LOADING], k, len(matrices) == 1)
        every = _Ranked.of(queries, rows, k, len(matrices) == 1)
        vectors = execution.vectors
        with warnings.catch_warnings(), progress.gather():
            warnings.simplefilter("ignore", KinrankWarning)
            with progress.listen(progress.Stopwatch()):  # kernels are loaded
                here = Execution(Runner(run.threads, run.block_size), vectors=vectors)
                few.by(method, here)
            watch = progress.Stopwatch(then=sample.note)
            with progress.listen(watch):
                every.by(method, Execution(sample, vectors=vectors))
        return replace(sample, seconds=watch.seconds)

    def note(self, stage: str, done: int, total: int) -> None:
        if done == 0 and total == self.n_queries:
            self.by_query.add(stage)

    def rows(self, name: str, kernel: Kernel, args: Args, n: int, n_columns: int) -> SparseRows:
        rows = super().rows(name, kernel, args, n, n_columns)
        self._count(name, rows.indptr, rows.indices, rows.data)
        return rows

    def fill(self, name: str, kernel: Kernel, args: Args, n: int, *outs: Out) -> Any:
        filled = super().fill(name, kernel, args, n, *outs)
        self._count(name, *(filled if len(outs) > 1 else (filled,)))
        return filled

    def _count(self, name: str, *arrays: Array | None) -> None:
        size = sum(array.nbytes for array in arrays if array is not None)
        self.bytes[progress.current() or name] += size


def _strided(rows: Array, count: int) -> Array:
    return np.array(rows[:: max(1, -(-len(rows) // count))])


def _regions(rows: Array, run: Runner) -> Array:
    """Some rows, the rows near each, and the rows near these.

    Rows picked one by one would have no neighbours left, and those around a few would mostly be
    parts of groups whose other rows are missing: the graph of such rows has another form.
    """
    if len(rows) <= _ROWS:
        return np.array(rows)
    run = Runner(run.threads)

    def nearest(queries: Array) -> Ints:
        pieces = (rows[low : low + _PIECE] for low in range(0, len(rows), _PIECE))
        floats = (piece.astype(np.float32) for piece in pieces)
        return np.unique(search_pieces(queries.astype(np.float32), floats, _LIST, run).indices)

    seeds = nearest(_strided(rows, _SEEDS))
    return np.array(rows[nearest(rows[seeds])[:_ROWS]])
