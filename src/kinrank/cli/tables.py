"""Parquet files among the files of vectors, and results as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from kinrank.cli.files import Decorator, ask, ask_all
from kinrank.errors import UnknownNameError
from kinrank.index import Index
from kinrank.io import is_parquet, load_array, parquet_names, split_name
from kinrank.tables import Table, read_table
from kinrank.types import Ranking

TABLES = (".parquet", ".csv")

ask_column = ask(
    "--column", "The column of vectors in a parquet file.  [default: the only one]", metavar="NAME"
)
ask_columns = ask_all(
    ask_column,
    ask("--id", "The column of ids in a parquet file.", to="id_column", metavar="NAME"),
)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def ask_with(text: str) -> Decorator:
    """The option for more columns."""
    return ask("--with", text, to="with_columns", type=_names, metavar="NAME,...")


def is_table(path: str | None) -> bool:
    """Whether an option names a parquet file."""
    return path is not None and is_parquet(split_name(path)[0])


def read_vectors(path: str, column: str | None) -> Any:
    """The vectors of a file; column : of a parquet file."""
    return read_rows(path, column).vectors if column is not None else load_array(path)


def read_rows(
    path: str,
    column: str | None,
    id_column: str | None = None,
    attributes: Sequence[str] | None = (),
) -> Table:
    """The rows of a file of vectors, which is a parquet file where columns are named.

    attributes : columns to read, None is all that can be attributes
    """
    if not is_table(path):
        named = {"--column": column, "--id": id_column, "--with": attributes}
        for option, value in named.items():
            if value:
                raise click.UsageError(f"{option} is for parquet files, got {path}.")
        return Table(load_array(path))
    file, name = split_name(path)
    if name is not None and column is not None:
        raise click.UsageError(f"--column cannot be used beside {path}, which names a column.")
    return read_table(file, name or column, id_column, attributes=attributes)


def read_queries(path: str, column: str | None, id_column: str | None) -> Table:
    """As ``read_rows``, of queries, which may be an array beside a table, and without ids."""
    if not is_table(path):
        return Table(load_array(path))
    file, name = split_name(path)
    listed = id_column if id_column in parquet_names(file) else None
    return read_rows(path, None if name else column, listed)


def known_columns(path: str | None, opened: Index) -> list[str]:
    """The attributes of an index that a parquet file has."""
    if path is None or not is_table(path):
        return []
    return [name for name in parquet_names(split_name(path)[0]) if name in opened.attributes]


def with_ids(ranking: Ranking, ids: Any) -> Ranking:
    """A ranking by row numbers with the ids of these rows; ids : (n_gallery,), None for none."""
    if ids is None:
        return ranking
    none = np.array("" if ids.dtype.kind == "U" else -1, ids.dtype)
    names = np.where(ranking.indices < 0, none, ids[ranking.indices])
    return replace(ranking, ids=names)


def attribute_columns(opened: Index, names: Sequence[str] | None) -> dict[str, Any]:
    """Attributes of an index that results are to be shown with."""
    known = opened.attributes
    for name in names or ():
        if name not in known:
            raise UnknownNameError("attribute", name, known)
    return {name: known[name] for name in names or ()}


def check_output(out: Path | None, with_columns: Sequence[str] | None) -> None:
    """Say before the work that a file of arrays has no more columns."""
    if out is not None and with_columns and out.suffix not in TABLES:
        raise click.UsageError(
            f"--with is for results in a .parquet or .csv file, got --out {out}."
        )


def write_ranking(
    ranking: Ranking, out: Path, queries: Any = None, columns: Mapping[str, Any] | None = None
) -> None:
    """Write a ranking as the ending says: .parquet, .csv, .trec (a run), or else arrays (npz)."""
    if out.suffix == ".parquet":
        ranking.to_parquet(out, queries, columns)
    elif out.suffix == ".csv":
        ranking.to_csv(out, queries, columns)
    elif out.suffix == ".trec":
        ranking.to_trec(out, queries)
    else:
        ranking.save(out)
