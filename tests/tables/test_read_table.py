"""Parquet files and data frames with a column of vectors."""

import datetime as dt
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kinrank
from kinrank.columns import matrix_of
from kinrank.io import load_array

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(40, 6)).astype(np.float32)
SKU = [f"sku-{i}" for i in range(40)]
PRICE = (np.arange(40) / 8).tolist()
ROWS = {
    "sku": SKU,
    "price": PRICE,
    "stock": list(range(40)),
    "new": [i % 2 == 0 for i in range(40)],
}


def fixed(vectors=VECTORS):
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


def frames(vectors=VECTORS):
    """The same rows in every form that is read."""
    lists = vectors.tolist()
    yield "pandas of lists", pd.DataFrame({**ROWS, "embedding": lists})
    yield "pandas of arrays", pd.DataFrame({**ROWS, "embedding": list(vectors)})
    arrow = pd.array(fixed(vectors), dtype=pd.ArrowDtype(fixed(vectors).type))
    yield "pandas of Arrow", pd.DataFrame({**ROWS, "embedding": arrow})
    yield (
        "polars of lists",
        pl.DataFrame({**ROWS, "embedding": pl.Series(lists, dtype=pl.List(pl.Float32))}),
    )
    yield (
        "polars of arrays",
        pl.DataFrame(
            {**ROWS, "embedding": pl.Series(lists, dtype=pl.Array(pl.Float32, vectors.shape[1]))}
        ),
    )
    yield "Arrow of lists", pa.table({**ROWS, "embedding": pa.array(lists, pa.list_(pa.float32()))})
    yield (
        "Arrow of large lists",
        pa.table({**ROWS, "embedding": pa.array(lists, pa.large_list(pa.float32()))}),
    )
    yield "Arrow of fixed lists", pa.table({**ROWS, "embedding": fixed(vectors)})


FRAMES = [pytest.param(frame, id=name) for name, frame in frames()]


@pytest.mark.parametrize("frame", FRAMES)
def test_vectors_ids_and_attributes(frame):
    for column in (None, "embedding"):
        table = kinrank.read_table(frame, column, "sku")
        np.testing.assert_array_equal(np.float32(table.vectors), VECTORS)
        assert table.ids.tolist() == SKU
        assert set(table.attributes) == {"price", "stock", "new"}
        assert table.attributes["price"].tolist() == PRICE
        assert table.attributes["new"].dtype == bool
        assert table.attributes["stock"].dtype.kind == "i"
    assert len(table) == 40
    index = kinrank.CAS(k1=6, k2=3).fit(table.vectors, table.ids, attributes=table.attributes)
    cheap = index.search(VECTORS[:2], 5, where={"price": {"max": 1}})
    assert set(cheap.ids.ravel()) <= set(SKU[:9])


@pytest.mark.parametrize("frame", FRAMES)
def test_frames_and_columns_are_vectors_wherever_vectors_are_taken(frame):
    expected = kinrank.rerank(VECTORS[:5], VECTORS, k=4, k1=6, k2=3)
    for given in (frame, frame["embedding"]):
        got = kinrank.rerank(VECTORS[:5], given, k=4, k1=6, k2=3)
        np.testing.assert_array_equal(got.indices, expected.indices)
        assert len(kinrank.CAS(k1=6, k2=3).fit(given)) == 40


def test_a_frame_of_numbers_is_a_matrix():
    expected = kinrank.rerank(VECTORS[:5], VECTORS, k=4, k1=6, k2=3)
    names = [f"x{i}" for i in range(6)]
    for frame in (pd.DataFrame(VECTORS, columns=names), pl.DataFrame(VECTORS, schema=names)):
        got = kinrank.rerank(VECTORS[:5], frame, k=4, k1=6, k2=3)
        np.testing.assert_array_equal(got.indices, expected.indices)


def test_fixed_size_lists_are_not_copied():
    column = fixed()
    source = column.values.to_numpy()
    series = pd.Series(pd.array(column, dtype=pd.ArrowDtype(column.type)))
    for values in (column, pa.table({"v": column})["v"], series):
        assert np.shares_memory(matrix_of("v", values), source)
    part = column.slice(3, 10)
    assert np.shares_memory(matrix_of("v", part), source)
    np.testing.assert_array_equal(matrix_of("v", part), VECTORS[3:13])
    arrays = pl.Series(VECTORS.tolist(), dtype=pl.Array(pl.Float32, 6))
    assert np.shares_memory(matrix_of("v", arrays), matrix_of("v", arrays))


def test_several_chunks_are_joined():
    chunked = pa.chunked_array([fixed()[:7], fixed()[7:]])
    np.testing.assert_array_equal(matrix_of("v", chunked), VECTORS)


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.parquet"
    pq.write_table(pa.table({**ROWS, "embedding": fixed()}), path, row_group_size=16)
    return path


def test_parquet(items):
    table = kinrank.read_table(items, "embedding", "sku", attributes=["price"])
    np.testing.assert_array_equal(table.vectors, VECTORS)
    assert list(table.attributes) == ["price"]
    np.testing.assert_array_equal(load_array(items), VECTORS)
    np.testing.assert_array_equal(load_array(f"{items}:embedding"), VECTORS)
    assert load_array(items, "sku").tolist() == SKU
    assert "<Table of 40 rows, 6 columns of vectors, 1 others>" in repr(table)


def test_dates_are_text_and_what_cannot_be_an_attribute_is_named():
    day = dt.date(2026, 11, 18)
    frame = pa.table({
        "embedding": fixed(), "day": [day] * 40, "tags": [["a", "b"]] * 40,
        "brand": [None, *["x"] * 39],
    })  # fmt: skip
    with pytest.warns(kinrank.KinrankWarning, match=r"left out: tags \(list<.*\), brand \(1 nulls"):
        table = kinrank.read_table(frame)
    assert table.attributes["day"].tolist() == ["2026-11-18"] * 40
    assert list(table.attributes) == ["day"]


def bad_frames(rows, kind):
    if kind == "pandas":
        return pd.DataFrame({"v": rows})
    if kind == "polars":
        return pl.DataFrame({"v": pl.Series(rows, dtype=pl.List(pl.Float32))})
    return pa.table({"v": pa.array(rows, pa.list_(pa.float32()))})


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, 2.0], [1.0]], r"vectors of one length, got 2 numbers in row 0 and 1 in row 1"),
        ([[1.0, 2.0], None, None], r"vector in every row, got 2 without one, the first in row 1"),
        ([[1.0, 2.0], [None, 2.0]], r"nulls"),
    ],
)
def test_bad_columns(kind, rows, message):
    frame = bad_frames(rows, kind)
    for read in (kinrank.read_table, lambda f: kinrank.rerank([[1.0, 2.0]], f)):
        with pytest.raises(kinrank.InvalidInputError, match=message):
            read(frame)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_two_columns_of_vectors(make):
    frame = make({"image": [[1.0, 2.0]] * 3, "text": [[1.0, 2.0]] * 3})
    message = r"one column of vectors, got 2 \(image, text\): say which"
    with pytest.raises(kinrank.InvalidInputError, match=message):
        kinrank.read_table(frame)
    with pytest.raises(kinrank.InvalidInputError, match=message):
        kinrank.rerank([[1.0, 2.0]], frame)
    assert kinrank.read_table(frame, "text").vectors.shape == (3, 2)


def test_what_else_is_refused(items, tmp_path, monkeypatch):
    with pytest.raises(kinrank.UnknownNameError, match=r"column of items.parquet.*Did you mean"):
        kinrank.read_table(items, "embeding")
    with pytest.raises(kinrank.UnknownNameError, match=r"column of .*got 'size'"):
        load_array(f"{items}:size")
    with pytest.raises(kinrank.InvalidInputError, match=r"'price' of items.parquet must hold vec"):
        kinrank.read_table(items, "price")
    with pytest.raises(kinrank.InvalidInputError, match=r"must have a column of vectors"):
        kinrank.read_table(pd.DataFrame({"price": [1.0]}))
    with pytest.raises(kinrank.InvalidInputError, match=r"'id' of the data frame .* got 1 nulls"):
        kinrank.read_table(pd.DataFrame({"id": ["a", None], "v": [[1.0], [2.0]]}), id="id")
    with pytest.raises(kinrank.InvalidInputError, match=r"`source` must be a parquet file"):
        kinrank.read_table([[1.0]])
    np.save(tmp_path / "rows.npy", VECTORS)
    with pytest.raises(kinrank.FileFormatError, match="must be a parquet file"):
        kinrank.read_table(tmp_path / "rows.npy")
    whole = items.read_bytes()
    items.write_bytes(whole[: len(whole) // 2])
    for read in (kinrank.read_table, load_array):
        with pytest.raises(kinrank.FileFormatError, match="must be a whole parquet file"):
            read(items)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(kinrank.OptionalDependencyError, match=r"kinrank\[tables\]"):
        load_array(items)


def ranking():
    return kinrank.Ranking([[2, 0], [1, -1]], [[0.25, 0.5], [0.125, np.inf]])


def test_results_with_columns(tmp_path):
    columns = {"name": ["a", "b", "c, d"], "price": np.array([1.5, 2.5, 3.5])}
    expected = [
        {"query": "x", "rank": 1, "id": 2, "distance": 0.25, "name": "c, d", "price": 3.5},
        {"query": "x", "rank": 2, "id": 0, "distance": 0.5, "name": "a", "price": 1.5},
        {"query": "y", "rank": 1, "id": 1, "distance": 0.125, "name": "b", "price": 2.5},
    ]
    assert ranking().to_records(["x", "y"], columns) == expected
    assert ranking().to_pandas(["x", "y"], columns).to_dict("records") == expected
    assert ranking().to_polars(["x", "y"], columns).to_dicts() == expected
    ranking().to_parquet(tmp_path / "out.parquet", ["x", "y"], columns)
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == expected
    ranking().to_csv(tmp_path / "out.csv", ["x", "y"], columns)
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == (
        'query,rank,id,distance,name,price\nx,1,2,0.25,"c, d",3.5\nx,2,0,0.5,a,1.5\n'
        "y,1,1,0.125,b,2.5\n"
    )


def test_columns_that_are_refused():
    with pytest.raises(kinrank.InvalidInputError, match=r"other names than query.*got 'id'"):
        ranking().to_records(columns={"id": [1, 2, 3]})
    with pytest.raises(kinrank.InvalidInputError, match=r"per gallery row \(at least 3\).*\(2,\)"):
        ranking().to_records(columns={"price": [1, 2]})
    with pytest.raises(kinrank.InvalidInputError, match=r"`columns` must be a dict"):
        ranking().to_records(columns=["price"])
