"""Commands that read vectors take parquet files, and write results as tables."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kinrank
from cli_helpers import run

RNG = np.random.default_rng(1)
CENTRES = RNG.normal(size=(8, 6))
VECTORS = (np.repeat(CENTRES, 10, axis=0) + RNG.normal(size=(80, 6)) / 3).astype(np.float32)
QUERIES = (CENTRES[:3] + RNG.normal(size=(3, 6)) / 3).astype(np.float32)
SKU = [f"sku-{i}" for i in range(80)]
SIZES = ("--k1", 6, "--k2", 3)


def table(vectors, **columns):
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return pa.table({**columns, "embedding": column})


@pytest.fixture
def folder(tmp_path):
    price = [i / 10 for i in range(80)]
    name = [f"thing {i}" for i in range(80)]
    items = table(VECTORS, sku=SKU, price=price, name=name)
    pq.write_table(items, tmp_path / "items.parquet")
    pq.write_table(table(QUERIES, sku=["x", "y", "z"]), tmp_path / "queries.parquet")
    np.save(tmp_path / "queries.npy", QUERIES)
    return tmp_path


def done(*args):
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result


def refused(*args):
    result = run(*args)
    assert result.exit_code != 0
    return result.output


def test_rerank(folder):
    expected = kinrank.rerank(QUERIES, VECTORS, k=4, k1=6, k2=3)
    named = ("--gallery", folder / "items.parquet", "--column", "embedding", "--id", "sku")
    for query in ("queries.npy", "queries.parquet"):
        asked = ("rerank", "--query", folder / query, *named, "-k", 4, *SIZES, "--out")
        done(*asked, folder / "out.npz")
        ranking = kinrank.Ranking.load(folder / "out.npz")
        np.testing.assert_array_equal(ranking.indices, expected.indices)
        assert ranking.ids.tolist() == [[SKU[i] for i in row] for row in expected.indices]
        done(*asked, folder / "out.parquet", "--with", "name,price")
        rows = pq.read_table(folder / "out.parquet").to_pylist()
        assert list(rows[0]) == ["query", "rank", "id", "distance", "name", "price"]
        first = int(expected.indices[0, 0])
        assert rows[0]["id"] == SKU[first]
        assert rows[0]["name"] == f"thing {first}"
        assert rows[0]["query"] == (0 if query == "queries.npy" else "x")
        assert len(rows) == 12
    done(*asked, folder / "out.csv", "--with", "price")
    with (folder / "out.csv").open(encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert [float(row["price"]) for row in written[:4]] == [i / 10 for i in expected.indices[0]]


def test_rows_among_themselves_have_the_names_of_the_gallery(folder):
    done("rerank", "--gallery", folder / "items.parquet", "--id", "sku", "-k", 2, *SIZES,
         "--out", folder / "out.parquet")  # fmt: skip
    rows = pq.read_table(folder / "out.parquet").to_pylist()
    assert [row["query"] for row in rows[::2]] == SKU


def test_index(folder):
    index = folder / "items.index"
    done("index", "build", "--gallery", folder / "items.parquet", "--column", "embedding", "--id",
         "sku", "--out", index, *SIZES)  # fmt: skip
    opened = kinrank.open(index)
    assert opened.ids.tolist() == SKU
    assert set(opened.attributes) == {"price", "name"}
    asked = ("index", "search", index, "--query", folder / "queries.parquet", "--id", "sku")
    printed = done(*asked, "--where", "price=0..1", "--with", "name", "-k", 2).output
    assert printed.startswith("x\n")
    assert "  thing " in printed
    answer = json.loads(done(*asked, "--with", "price", "-k", 2, "--json").output)
    assert set(answer["results"][0]) == {"query", "rank", "id", "distance", "price"}
    done(*asked, "--out", folder / "found.csv", "--with", "price")
    assert (folder / "found.csv").read_text(encoding="utf-8").startswith("query,rank,id,distance,p")

    new = table(QUERIES, sku=["n1", "n2", "n3"], price=[9.0] * 3, name=["new"] * 3, more=[1] * 3)
    pq.write_table(new, folder / "new.parquet")
    done("index", "add", index, "--vectors", folder / "new.parquet", "--id", "sku")
    opened = kinrank.open(index)
    assert opened.ids[-1] == "n3"
    assert opened.attributes["price"][-1] == 9
    other = table(QUERIES[:1], sku=["n1"], price=[4.0])
    pq.write_table(other, folder / "other.parquet")
    done("index", "update", index, "--vectors", folder / "other.parquet", "--id", "sku")
    opened = kinrank.open(index)
    assert opened.attributes["price"][opened.ids == "n1"] == [4]
    assert opened.attributes["name"][opened.ids == "n1"] == ["new"]
    done("index", "remove", index, "--ids", f"{folder / 'new.parquet'}:sku")
    assert len(kinrank.open(index)) == 80


def test_only_the_columns_asked_for_become_attributes(folder):
    index = folder / "items.index"
    done("index", "build", "--gallery", f"{folder / 'items.parquet'}:embedding", "--out", index,
         "--with", "price", *SIZES)  # fmt: skip
    assert set(kinrank.open(index).attributes) == {"price"}


def test_tune_and_whiten(folder):
    items = folder / "items.parquet"
    tuned = done("tune", "--gallery", items, "--column", "embedding", "--json")
    assert json.loads(tuned.stdout)["params"]
    done("whiten", items, "--column", "embedding", "--out", folder / "white.npz", "--dims", 3)
    done("project", "--gallery", items, "--column", "embedding", "--out", folder / "map.st")


def test_what_is_refused(folder):
    items = folder / "items.parquet"
    out = ("--out", folder / "out.npz")
    assert "column of items.parquet" in refused("rerank", "--gallery", items, "--column", "x", *out)
    assert "--column is for parquet files" in refused(
        "rerank", "--gallery", folder / "queries.npy", "--column", "embedding", *out
    )
    assert "--with is for results in a .parquet or .csv file" in refused(
        "rerank", "--gallery", items, "--with", "price", *out
    )
    assert "--column cannot be used beside" in refused(
        "rerank", "--gallery", f"{items}:embedding", "--column", "embedding", *out
    )
    index = folder / "items.index"
    np.save(folder / "ids.npy", np.arange(80))
    build = ("index", "build", "--gallery", items, "--id", "sku", "--out", index, *SIZES)
    assert "Ids must be given once" in refused(*build, "--ids", folder / "ids.npy")
    done(*build)
    assert "`attribute` must be one of name, price, got 'size'" in refused(
        "index", "search", index, "--query", folder / "queries.npy", "--with", "size"
    )
    pq.write_table(pa.table({"a": [[1.0]], "b": [[2.0]]}), folder / "two.parquet")
    assert "one column of vectors, got 2 (a, b)" in refused(
        "index", "build", "--gallery", folder / "two.parquet", "--out", index
    )
