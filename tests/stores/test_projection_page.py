"""The page about projections runs in PostgreSQL too, and search finds more there after it."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "projection.md"


def test_the_page_in_postgres(postgres, tmp_path, monkeypatch):
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    known = {}
    for block in blocks:
        if "lancedb" in block:  # tests/docs runs it
            continue
        exec(block.replace("dbname=shop", postgres), known)  # noqa: S102
        if "psycopg" in block:
            break
    data, projection, rows = known["data"], known["projection"], known["projected"]
    asked = projection.transform(data.query.features)
    nearest = np.argsort(-(rows @ asked[0]), kind="stable")[:10]
    assert {number for (number,) in known["first"]} == set(nearest.tolist())

    def right(connection, column_rows, queries, name):
        width = column_rows.shape[1]
        connection.execute(f"CREATE TABLE {name} (id bigint, item vector({width}))")
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for number, row in enumerate(column_rows):
                copy.write_row((number, str(row.tolist())))
        hits = []
        for query, label in zip(queries, data.query.labels, strict=True):
            found = connection.execute(
                f"SELECT id FROM {name} ORDER BY item <=> %s::vector LIMIT 10",  # noqa: S608
                [str(query.tolist())],
            )
            hits += [data.gallery.labels[number] == label for (number,) in found]
        connection.execute(f"DROP TABLE {name}")
        return np.mean(hits)

    with psycopg.connect(postgres, autocommit=True) as connection:
        before = right(connection, data.gallery.features, data.query.features, "before")
        after = right(connection, rows, asked, "after")
        connection.execute("DROP TABLE projected")
    known["connection"].close()
    assert after > before
