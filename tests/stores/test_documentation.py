"""What docs/stores.md shows works."""

import re
from pathlib import Path

import numpy as np

import kinrank
from store_makers import lance_table, pg_table

PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text(encoding="utf-8")


def test_python_runs(data, postgres, tmp_path, monkeypatch):
    import faiss

    monkeypatch.chdir(tmp_path)
    index = faiss.IndexFlatL2(data.rows.shape[1])
    index.add(data.rows)
    faiss.write_index(index, "gallery.faiss")
    pg_table(postgres, "images", "bigint", data.rows, data.numbers)
    names = {
        "kinrank": kinrank,
        "index": index,
        "table": lance_table(tmp_path, "images", data.rows, data.names),
        "query": data.queries[0],
        "vector": data.queries[0],
        "queries": data.queries[:3],
        "candidates": data.rows[:100],
        "names": data.names[:100],
        "first": data.rows[:90],
        "second": data.rows[90:150],
        "third": data.rows[150:400],
    }
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        code = block.replace('"dbname=shop"', repr(postgres))
        exec(compile(code, "stores.md", "exec"), names)  # noqa: S102
    names["store"].close()
    assert names["ranking"].ids.shape == (3, 10)
    assert np.isin(names["ranking"].ids, data.numbers).all()
    assert len(names["found"]) == 10


def test_every_extra_is_named():
    for extra in ("ann", "lancedb", "pgvector"):
        assert f"extra {extra}" in PAGE
