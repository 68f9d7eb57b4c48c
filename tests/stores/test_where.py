"""Attributes that a store keeps: which rows match, by its own filter or checked beside it."""

import json
import math

import numpy as np
import pytest

import kinrank
from kinrank.stores.where import wanted_of

NAMES = ["lynx", "it's", 'a "b"', "Fox", "fox", "fö"]
N = 30
RNG = np.random.default_rng(3)
VECTORS = RNG.normal(size=(N, 4)).astype(np.float32)
RECORDS = [
    {
        "name": NAMES[row % 6] if row % 7 else None,
        "count": row - 9 if row % 5 else None,
        "price": row / 4 + (0.1 if row % 2 else 0.0),
        "sold": row % 3 == 0,
    }
    for row in range(N)
]
WHERES = [
    {"name": "fox"},
    {"name": ["it's", 'a "b"', "none"]},
    {"name": {"min": "a", "max": "m"}},
    {"name": {"min": "G"}},
    {"count": 3},
    {"count": [3, -4, 2.5, 6.0]},
    {"count": {"min": -2.5, "max": 7}},
    {"count": {"max": 2**62}},
    {"count": {"min": -(2**70), "max": 5}},
    {"count": 2**53 + 1},
    {"price": 2},
    {"price": [2.1 - 2 + 2, 0.35, 0.1 + 0.25]},
    {"price": {"min": 0.35, "max": 3.6}},
    {"price": {"max": math.inf}},
    {"name": ["lynx", "fox"], "price": {"min": 2}, "count": {"max": 12}},
    {"name": []},
]
OF_KINDS = [{"sold": True}, {"sold": [False], "count": [1, 2, 3]}]


def expected(where):
    """Which rows match, said plainly."""

    def holds(value, wanted):
        if value is None:
            return False
        if isinstance(wanted, dict):
            low, high = wanted.get("min"), wanted.get("max")
            return (low is None or value >= low) and (high is None or value <= high)
        return value in (wanted if isinstance(wanted, list) else [wanted])

    return {
        row
        for row, record in enumerate(RECORDS)
        if all(holds(record[name], wanted) for name, wanted in where.items())
    }


def filled(record):
    return {name: value for name, value in record.items() if value is not None}


def qdrant(folder):
    from qdrant_client import QdrantClient, models

    from kinrank.stores import QdrantStore

    client = QdrantClient(":memory:")
    client.create_collection("items", vectors_config=models.VectorParams(size=4, distance="Euclid"))
    client.upsert(
        "items",
        [
            models.PointStruct(id=row, vector=VECTORS[row].tolist(), payload=filled(record))
            for row, record in enumerate(RECORDS)
        ],
    )
    return QdrantStore(client, "items")


def milvus(folder):
    from pymilvus import DataType, MilvusClient

    from kinrank.stores import MilvusStore

    client = MilvusClient(str(folder / "items.db"))
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=True)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=4)
    schema.add_field("price", DataType.DOUBLE)
    schema.add_field("sold", DataType.BOOL)
    index = client.prepare_index_params()
    index.add_index("embedding", index_type="FLAT", metric_type="L2")
    client.create_collection("items", schema=schema, index_params=index)
    client.insert(
        "items",
        [
            {"id": row, "embedding": VECTORS[row].tolist(), **filled(record)}
            for row, record in enumerate(RECORDS)
        ],
    )
    return MilvusStore(client, "items")


def chroma(folder):
    import chromadb

    from kinrank.stores import ChromaStore

    settings = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(folder), settings=settings)
    collection = client.create_collection("items", embedding_function=None)
    collection.add(
        ids=[str(row) for row in range(N)],
        embeddings=VECTORS,
        metadatas=[filled(record) for record in RECORDS],
    )
    return ChromaStore(collection)


def lance(folder):
    import lancedb
    import pyarrow as pa

    from kinrank.stores import LanceStore

    table = pa.table(
        {
            "id": pa.array(range(N)),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), 4),
            **{name: pa.array([record[name] for record in RECORDS]) for name in RECORDS[0]},
        }
    )
    return LanceStore(lancedb.connect(folder).create_table("items", table))


def sqlite(folder):
    from kinrank.stores import SqliteVecStore
    from kinrank.stores.sqlite_vec import open_database

    path = folder / "items.db"
    path.touch()
    open_database(path).close()
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE items (id INTEGER PRIMARY KEY, embedding BLOB, "
            "name TEXT COLLATE NOCASE, count, price REAL, sold INTEGER)"
        )
        connection.executemany(
            "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)",
            [(row, VECTORS[row].tobytes(), *record.values()) for row, record in enumerate(RECORDS)],
        )
    connection.close()
    return SqliteVecStore(path, "items")


def pgvector(connection):
    import psycopg

    from kinrank.stores import PgVectorStore

    with psycopg.connect(connection, autocommit=True) as setup:
        setup.execute("DROP TABLE IF EXISTS attributes")
        setup.execute(
            "CREATE TABLE attributes (id bigint PRIMARY KEY, embedding vector(4), name text, "
            "count bigint, price float8, sold boolean, day date, at timestamptz, tags text[], "
            '"odd {} %% name" integer)'
        )
        with setup.cursor().copy("COPY attributes (id, embedding, name, count, price, sold) "
                                 "FROM STDIN") as copy:  # fmt: skip
            for row, record in enumerate(RECORDS):
                copy.write_row((row, str(VECTORS[row].tolist()), *record.values()))
        setup.execute("UPDATE attributes SET day = date '2026-01-01' + id::int")
        setup.execute("UPDATE attributes SET at = '2026-01-01 00:00+02'")
        setup.execute('UPDATE attributes SET "odd {} %% name" = id')
    return PgVectorStore(connection, "attributes")


PACKAGES = {
    qdrant: "qdrant_client",
    milvus: "pymilvus",
    chroma: "chromadb",
    lance: "lancedb",
    sqlite: "sqlite_vec",
    pgvector: "psycopg",
}


@pytest.fixture(scope="module", params=PACKAGES, ids=lambda maker: maker.__name__)
def store(request, tmp_path_factory):
    pytest.importorskip(PACKAGES[request.param])
    if request.param is pgvector:
        made = pgvector(request.getfixturevalue("postgres"))
        yield made
        made.close()
    else:
        yield request.param(tmp_path_factory.mktemp("store"))


@pytest.mark.parametrize("where", [*WHERES, *OF_KINDS], ids=json.dumps)
def test_matching_rows(store, where):
    found = store.matching(where)
    assert len(found) == len(set(found.tolist()))
    assert {int(item) for item in found} == expected(where)


def test_attributes_of_all_rows(store):
    ids, columns = store.attributes(["name", "price"])
    for place, item in enumerate(ids.tolist()):
        assert columns["name"][place] == RECORDS[int(item)]["name"]
        assert columns["price"][place] == RECORDS[int(item)]["price"]


def test_an_attached_index_filters_by_them(store):
    index = kinrank.attach(store, k1=5, k2=2)
    everything = index.search(VECTORS[:3], k=None)
    where = {"name": ["lynx", "fox", "Fox"], "price": {"max": 5}}
    found = index.search(VECTORS[:3], k=N, where=where)
    allowed = expected(where)
    for row in range(3):
        kept = [item for item in everything.ids[row].tolist() if int(item) in allowed]
        assert found.ids[row, : len(kept)].tolist() == kept
        assert (found.indices[row, len(kept) :] == -1).all()
    base = index.search(VECTORS[:3], k=4, where=where, base=True)
    assert {int(item) for item in base.ids.ravel().tolist()} <= allowed


def test_attributes_of_the_index_come_before_those_of_the_store(store):
    where = {"name": "mine", "price": {"max": 5}}
    order = [int(item) for item in store.ids().tolist()]
    mine = ["mine" if row % 2 else "other" for row in order]
    index = kinrank.attach(store, k1=5, k2=2, attributes={"name": mine})
    found = index.search(VECTORS[:1], k=N, where=where)
    answers = {int(item) for item in found.ids[found.indices >= 0].tolist()}
    assert answers == {row for row in expected({"price": {"max": 5}}) if row % 2}


def test_what_the_engine_knows_of_its_columns_is_said(store):
    kind = type(store).__name__
    if kind in ("LanceStore", "PgVectorStore", "SqliteVecStore"):
        with pytest.raises(kinrank.UnknownNameError, match=r"`attribute` must be one of .*price"):
            store.matching({"prise": 3})
    if kind in ("LanceStore", "PgVectorStore", "MilvusStore"):
        with pytest.raises(kinrank.InvalidInputError, match=r"where\['price'\]` must be numbers"):
            store.matching({"price": "cheap"})
        with pytest.raises(kinrank.InvalidInputError, match="must be True or False, as the"):
            store.matching({"sold": {"min": 1}})
    with pytest.raises(kinrank.InvalidInputError, match="could be both: write"):
        store.matching({"price": (1, 2)})
    with pytest.raises(kinrank.InvalidInputError, match=r"where\['name'\]` must be text, numbers"):
        store.matching({"name": None})
    with pytest.raises(kinrank.InvalidInputError, match="`where` must be a dict of attributes"):
        store.matching("name")


def test_dates_of_postgres_are_text_that_orders_as_they_do(postgres):
    pytest.importorskip("psycopg")
    with pgvector(postgres) as store:
        days = {"day": {"min": "2026-01-05", "max": "2026-01-07"}}
        assert store.matching(days).tolist() == [4, 5, 6]
        assert len(store.matching({"at": "2025-12-31T22:00:00.000000Z"})) == N
        assert store.matching({"odd {} %% name": 3}).tolist() == [3]
        with pytest.raises(
            kinrank.InvalidInputError, match=r"'tags' must hold text.* got text\[\]"
        ):
            store.matching({"tags": "a"})


def test_one_condition_on_one_value():
    (wanted,) = wanted_of({"x": [1, "a", True]})
    assert [wanted.allows(value) for value in (1, 1.0, True, "a", None, 0, math.nan, [1])] == [
        True, True, True, True, False, False, False, False,
    ]  # fmt: skip
    (between,) = wanted_of({"x": {"min": 2, "max": 3}})
    assert [between.allows(value) for value in (2, 2.5, 4, "2", True)] == [
        True, True, False, False, False,
    ]  # fmt: skip
