"""What the stages hand to each other, and what users get."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, shown
from kinrank.io import PathLike, replacing, save_npz
from kinrank.optional import require
from kinrank.reading import open_npz
from kinrank.trec import numbers_of_names, read_run, run_line
from kinrank.validation import as_array, as_list, check_float, check_int

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int32]
Longs: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.float64]

_SHOWN = 5  # queries, and results of each, in `repr`


class Result(NamedTuple):
    """One result of a query; rank : from 1; id : its row number where there are no ids."""

    rank: int
    id: Any
    distance: float


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """The answer: for each query the gallery rows, nearest first.

    Attributes
    ----------
    indices : (n_queries, k) int32, gallery row numbers; -1 where there is none
    distances : (n_queries, k) float32, ascending, smaller is better; inf where there is none
    ids : (n_queries, k) the users' own names of these rows, if an index knows them; else None
    presence : (n_queries,) float32, the probability that what the query shows is in the gallery at
        all, from an index that was calibrated; else None

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> kinrank.rerank(data.query.features[:2], data.gallery.features, k=2)
    Ranking of 2 queries, 2 results each
      0: 284 (0.006), 7 (0.012)
      1: 122 (0.001), 180 (0.001)
    """

    indices: Ints
    distances: Floats
    ids: npt.NDArray[Any] | None = None
    presence: Floats | None = None

    def __post_init__(self) -> None:
        indices = as_array("indices", self.indices)
        distances = as_array("distances", self.distances)
        ids = None if self.ids is None else as_array("ids", self.ids)
        if indices.ndim != 2 or indices.shape != distances.shape:
            raise InvalidInputError(
                "`indices` and `distances` must be two-dimensional and of one shape, "
                f"got {indices.shape} and {distances.shape}."
            )
        if indices.dtype.kind not in "iu":
            raise InvalidInputError(f"`indices` must be integers, got dtype {indices.dtype}.")
        if distances.dtype.kind not in "fiu":
            raise InvalidInputError(f"`distances` must be numbers, got dtype {distances.dtype}.")
        if ids is not None and ids.shape != indices.shape:
            raise InvalidInputError(
                f"`ids` must have the shape of `indices` {indices.shape}, got {ids.shape}."
            )
        object.__setattr__(self, "indices", indices.astype(np.int32, copy=False))
        object.__setattr__(self, "distances", distances.astype(np.float32, copy=False))
        object.__setattr__(self, "ids", ids)
        if self.presence is not None:
            presence = as_array("presence", self.presence)
            if presence.shape != (len(indices),) or presence.dtype.kind != "f":
                raise InvalidInputError(
                    f"`presence` must be one number per query ({len(indices)}), got shape "
                    f"{presence.shape} and dtype {presence.dtype}."
                )
            object.__setattr__(self, "presence", presence.astype(np.float32, copy=False))

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[list[Result]]:
        """The results of one query after the other, without empty places."""
        names = self.indices if self.ids is None else self.ids
        for row in range(len(self)):
            listed = self.indices[row] >= 0
            pairs = zip(
                names[row, listed].tolist(), self.distances[row, listed].tolist(), strict=True
            )
            yield [Result(rank, *pair) for rank, pair in enumerate(pairs, 1)]

    def __repr__(self) -> str:
        queries = "query" if len(self) == 1 else "queries"
        per_query = "result" if self.k == 1 else "results"
        lines = [f"Ranking of {len(self):,} {queries}, {self.k:,} {per_query} each"]
        for row, results in zip(range(_SHOWN), self.top(_SHOWN), strict=False):
            near = ", ".join(f"{result.id!r} ({result.distance:.3f})" for result in results)
            lines.append(f"  {row}: {near}{', ...' if self.k > _SHOWN else ''}")
        return "\n".join(lines + ["  ..."] * (len(self) > _SHOWN))

    @property
    def k(self) -> int:
        """The number of results per query."""
        return int(self.indices.shape[1])

    def top(self, k: int) -> Ranking:
        """The first ``k`` results of each query."""
        k = check_int("k", k, 0)
        ids = None if self.ids is None else self.ids[:, :k]
        return Ranking(self.indices[:, :k], self.distances[:, :k], ids, self.presence)

    def within(self, threshold: float) -> Ranking:
        """The results up to a distance; -1, infinity and the id -1 or "" stand for the others."""
        largest = float(np.finfo(np.float32).max)
        limit = check_float("threshold", threshold, -math.inf)
        far = self.distances > np.float32(min(max(limit, -largest), largest))
        ids = self.ids
        if ids is not None:
            ids = np.where(far, np.array("" if ids.dtype.kind == "U" else -1, ids.dtype), ids)
        indices = np.where(far, np.int32(-1), self.indices)
        return Ranking(
            indices, np.where(far, np.float32(np.inf), self.distances), ids, self.presence
        )

    def to_records(self, queries: Any = None, columns: Any = None) -> list[dict[str, Any]]:
        """One dict for each result: ``query``, ``rank`` from 1, ``id`` and ``distance``.

        queries : (n_queries,) names of the queries; None numbers them
        columns : more of each result by name, such as ``{"price": prices}``: a value for each row
            of the gallery, (n_gallery,), in the order that ``indices`` count
        """
        table = self._table(queries, columns)
        return [
            dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)
        ]

    def to_pandas(self, queries: Any = None, columns: Any = None) -> Any:
        """``to_records`` as a pandas DataFrame (extra ``pandas``)."""
        pandas = require("pandas", extra="pandas", purpose="A table of pandas")
        return pandas.DataFrame(self._table(queries, columns))

    def to_polars(self, queries: Any = None, columns: Any = None) -> Any:
        """``to_records`` as a polars DataFrame (extra ``polars``)."""
        polars = require("polars", extra="polars", purpose="A table of polars")
        return polars.DataFrame(self._table(queries, columns))

    def to_parquet(self, path: PathLike, queries: Any = None, columns: Any = None) -> None:
        """Write ``to_records`` as a parquet file (extra ``tables``), whole or not at all."""
        arrow = require("pyarrow", extra="tables", purpose="A parquet file")
        parquet = require("pyarrow.parquet", extra="tables", purpose="A parquet file")
        table = arrow.table(self._table(queries, columns))
        with replacing(path) as file:
            parquet.write_table(table, file)

    def to_csv(self, path: PathLike, queries: Any = None, columns: Any = None) -> None:
        """Write ``to_records`` as a CSV file in UTF-8, whole or not at all."""
        table = self._table(queries, columns)
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
        with replacing(path) as file:
            file.write(text.getvalue().encode())

    def _table(self, queries: Any, columns: Any) -> dict[str, list[Any]]:
        """The columns of ``to_records``, a value for each result."""
        what = f"one name for each of the {len(self)} queries of the ranking"
        names: list[Any] = list(range(len(self)))
        if queries is not None:
            names = as_list("queries", as_array("queries", queries).tolist(), what)
        if len(names) != len(self):
            raise InvalidInputError(f"`queries` must be {what}, got {len(names)}.")
        listed = self.indices >= 0
        query, place = np.nonzero(listed)
        ids = self.indices if self.ids is None else self.ids
        # Ranks count results: a list may have empty places before its end.
        rank = np.cumsum(listed, axis=1)[query, place]
        table = {
            "query": [names[number] for number in query.tolist()],
            "rank": rank.tolist(),
            "id": ids[query, place].tolist(),
            "distance": self.distances[query, place].tolist(),
        }
        rows = self.indices[query, place]
        for name, values in _columns_of_gallery(columns, rows, table).items():
            table[name] = values[rows].tolist()
        return table

    def to_trec(self, path: PathLike, queries: Any = None, run: str = "kinrank") -> None:
        """Write a run file of TREC: query, Q0, id, rank, score (minus the distance), run."""
        if not isinstance(run, str):
            raise InvalidInputError(f"`run` must be text, got {shown(run)}.")
        lines = [
            run_line(
                str(record["query"]), str(record["id"]), record["rank"], -record["distance"], run
            )
            for record in self.to_records(queries)
        ]
        with replacing(path) as file:
            file.write("".join(lines).encode())

    @classmethod
    def from_trec(cls, path: PathLike, queries: Any = None, gallery: Any = None) -> Ranking:
        """Read a run file of TREC: by score, equal scores by the rank that the file says.

        queries : (n_queries,) names of the queries, whose lists may be empty; None for numbers
        gallery : (n_gallery,) names of the gallery's rows, which become the ids; None for numbers
        """
        entries = read_run(path)
        query_names = None if queries is None else _names("queries", queries)
        names = None if gallery is None else _names("gallery", gallery)
        asked = numbers_of_names("queries", query_names, [entry.query for entry in entries])
        rows = numbers_of_names("gallery", names, [entry.name for entry in entries])
        n = max(asked.values(), default=-1) + 1 if query_names is None else len(query_names)
        lists: list[list[tuple[float, int]]] = [[] for _ in range(n)]
        for entry in sorted(entries, key=lambda entry: (-entry.score, entry.rank)):
            lists[asked[entry.query]].append((-entry.score, rows[entry.name]))
        shape = (n, max(map(len, lists), default=0))
        indices = np.full(shape, -1, np.int32)
        distances = np.full(shape, np.inf, np.float32)
        for query, results in enumerate(lists):
            for place, (distance, row) in enumerate(results):
                indices[query, place] = row
                distances[query, place] = distance
        if names is None:
            return cls(indices, distances)
        return cls(indices, distances, np.where(indices < 0, "", np.array(names)[indices]))

    def to_ranx(self, queries: Any = None, run: str = "kinrank") -> Any:
        """A ``ranx.Run`` with minus the distances as scores (extra ``ranx``)."""
        ranx = require("ranx", extra="ranx", purpose="A run of ranx")
        scores: dict[str, dict[str, float]] = {}
        for record in self.to_records(queries):
            scores.setdefault(str(record["query"]), {})[str(record["id"])] = -record["distance"]
        return ranx.Run(scores, name=run)

    def save(self, path: PathLike) -> None:
        """Write to ``path`` (npz), whole or not at all."""
        optional = {"ids": self.ids, "presence": self.presence}
        present = {name: array for name, array in optional.items() if array is not None}
        save_npz(path, indices=self.indices, distances=self.distances, **present)

    @classmethod
    def load(cls, path: PathLike) -> Ranking:
        """Read what ``save`` wrote; nothing in the file is executed."""
        what = "a ranking saved by kinrank (npz with `indices`, `distances` and perhaps `ids`)"
        needed = {"indices", "distances"}
        optional = {"ids", "presence"}
        with open_npz(path, what) as file:
            if not needed <= set(file.names) <= needed | optional:
                raise ValueError(f"the arrays {', '.join(sorted(file.names)) or 'none'}")
            indices = file["indices"]
            distances = file["distances"]
            ids = file["ids"] if "ids" in file.names else None
            presence = file["presence"] if "presence" in file.names else None
            if distances.dtype.kind != "f" or (indices != indices.astype(np.int32)).any():
                raise ValueError("numbers of other types")
            return cls(indices, distances, ids, presence)


def _names(what: str, names: Any) -> list[str]:
    return [str(name) for name in as_list(what, names, "names")]


def _columns_of_gallery(
    columns: Any, rows: Ints, taken: Mapping[str, Any]
) -> dict[str, npt.NDArray[Any]]:
    """What users tell of the gallery, by name; rows : those of the results."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns):
        raise InvalidInputError(
            f"`columns` must be a dict of names to one value per gallery row, got {shown(columns)}."
        )
    arrays = {}
    least = int(rows.max(initial=-1)) + 1
    for name, values in columns.items():
        if name in taken:
            raise InvalidInputError(
                f"`columns` must have other names than {', '.join(taken)}, got {name!r}."
            )
        arrays[name] = as_array(f"columns[{name!r}]", values)
        if arrays[name].ndim != 1 or len(arrays[name]) < least:
            raise InvalidInputError(
                f"`columns[{name!r}]` must have one value per gallery row (at least {least}), got "
                f"shape {arrays[name].shape}."
            )
    return arrays


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The nearest rows of each query, nearest first: what every search returns.

    The queries may be the rows themselves. Each row is then the first in its own list, and
    ``farthest`` is filled in.

    Attributes
    ----------
    indices : (n, K) int32, row numbers; from a store, the ids of its rows. A list that is shorter
        than K ends in -1, or "" where ids are text.
    distances : (n, K) float32, squared Euclidean, ascending, ties by lower index; infinite where
        there is no row
    farthest : (n,) float32, the largest squared distance from each row to any row; empty where the
        queries are not the rows

    Examples
    --------
    >>> import kinrank
    >>> near = kinrank.Neighbors([[4, 2]], [[0.1, 0.3]])
    >>> near.k
    2
    """

    indices: Ints
    distances: Floats
    farthest: Floats = field(default_factory=lambda: np.empty(0, np.float32))

    def __post_init__(self) -> None:
        # What kernels make is taken as it is; authors of stores may return lists.
        if not isinstance(self.indices, np.ndarray):
            object.__setattr__(self, "indices", as_array("indices", self.indices))
        if not isinstance(self.distances, np.ndarray):
            object.__setattr__(self, "distances", as_array("distances", self.distances))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, queries: slice) -> Neighbors:
        """The lists of some queries."""
        farthest = self.farthest[queries] if len(self.farthest) else self.farthest
        return Neighbors(self.indices[queries], self.distances[queries], farthest)

    @cached_property
    def counts(self) -> Longs:
        """(n,) int64, how many rows each list has."""
        none = "" if self.indices.dtype.kind == "U" else -1
        counts: Longs = (self.indices != none).sum(axis=1)
        return counts

    @property
    def k(self) -> int:
        return int(self.indices.shape[1])


class Csr(NamedTuple):
    """A sparse matrix as kernels take it: row i has the entries ptr[i] to ptr[i + 1].

    ids, values : the column and the value of each entry
    """

    ptr: Longs
    ids: Ints
    values: Floats


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse matrix by rows: three arrays that kernels take as they are.

    scipy's ``csr_array`` picks its index type by size, which would compile every kernel twice and
    cannot be mapped from disk as it is; this one is always the same.

    Attributes
    ----------
    indptr : (n_rows + 1,) int64
    indices : (nnz,) int32, ascending within a row unless whoever returns it says otherwise
    data : (nnz,) float32, or None for a pattern of ones
    n_columns : int
    """

    indptr: Longs
    indices: Ints
    data: Floats | None
    n_columns: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return len(self.indices)

    @property
    def values(self) -> Floats:
        """The stored values; ones for a pattern."""
        return np.ones(self.nnz, np.float32) if self.data is None else self.data

    @property
    def csr(self) -> Csr:
        """The three arrays, as kernels take them."""
        return Csr(self.indptr, self.indices, self.values)

    @property
    def lengths(self) -> Longs:
        """The number of entries of each row."""
        return np.diff(self.indptr)

    @property
    def owners(self) -> Longs:
        """The row of each entry."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def with_data(self, data: Floats | None) -> SparseRows:
        """The same pattern with other values."""
        return SparseRows(self.indptr, self.indices, data, self.n_columns)

    def toarray(self) -> npt.NDArray[np.float64]:
        """The whole matrix, for few rows."""
        full = np.zeros((len(self), self.n_columns))
        full[self.owners, self.indices] = self.values
        return full

    @classmethod
    def of_entries(
        cls, rows: npt.NDArray[Any], columns: npt.NDArray[Any], data: Floats, n: int
    ) -> SparseRows:
        """A square matrix from entries in any order; the least of those at one place counts."""
        order = np.lexsort((data, columns, rows))
        rows = rows[order]
        columns = columns[order]
        data = data[order]
        first = np.ones(len(rows), np.bool_)
        first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        indptr = np.searchsorted(rows[first], np.arange(n + 1))
        return cls(indptr, columns[first].astype(np.int32), data[first], n)

    def to_scipy(self) -> csr_array:
        """A scipy ``csr_array`` with the index type that scipy would choose; data is not copied."""
        small = max(self.nnz, self.n_columns) <= np.iinfo(np.int32).max
        indptr = self.indptr.astype(np.int32) if small else self.indptr
        sparse = require("scipy.sparse", extra="scipy", purpose="A matrix of scipy")
        shape = (len(self), self.n_columns)
        return sparse.csr_array((self.values, self.indices, indptr), shape=shape)

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseRows:
        """From any scipy sparse matrix; entries sorted, duplicates summed, zeros dropped."""
        matrix = matrix.tocsr(copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        indptr = matrix.indptr.astype(np.int64)
        indices = matrix.indices.astype(np.int32)
        return cls(indptr, indices, matrix.data.astype(np.float32), matrix.shape[1])
