"""Stores of every kind over the same rows, each in its real engine."""

import uuid
from dataclasses import dataclass

import numpy as np

from kinrank.stores import FaissStore, LanceStore, PgVectorStore


@dataclass(frozen=True, eq=False)
class Made:
    """A store, what lies in it, and how much of the exact answer it must find."""

    store: object
    rows: np.ndarray
    ids: np.ndarray
    recall: float = 1.0


def faiss_flat(data, folder):
    import faiss

    index = faiss.IndexFlatL2(data.rows.shape[1])
    index.add(data.rows)
    return Made(FaissStore(index, data.names), data.rows, data.names)


def faiss_labels(data, folder):
    import faiss

    index = faiss.IndexIDMap(faiss.IndexFlatL2(data.rows.shape[1]))
    index.add_with_ids(data.rows, data.numbers)
    return Made(FaissStore(index), data.rows, data.numbers)


def faiss_inner(data, folder):
    import faiss

    index = faiss.index_factory(data.rows.shape[1], "HNSW32,Flat", faiss.METRIC_INNER_PRODUCT)
    index.add(data.unit)
    return Made(FaissStore(index), data.unit, np.arange(len(data.rows)), 0.95)


def faiss_disk(data, folder):
    import faiss

    index = faiss.index_factory(data.rows.shape[1], "IVF8,Flat")
    index.train(data.rows)
    index.add_with_ids(data.rows, data.numbers)
    faiss.write_index(index, str(folder / "ivf.faiss"))
    store = FaissStore.open(folder / "ivf.faiss")
    faiss.extract_index_ivf(store.index).nprobe = 6
    return Made(store, data.rows, data.numbers, 0.95)


def faiss_compressed(data, folder):
    import faiss

    index = faiss.index_factory(data.rows.shape[1], "PCA20,SQ8")
    index.train(data.rows)
    index.add(data.rows)
    return Made(FaissStore(index, vectors=data.rows), data.rows, np.arange(len(data.rows)), 0.85)


def lance_table(folder, name, rows, ids):
    import lancedb
    import pyarrow as pa

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    table = pa.table({"id": pa.array(ids.tolist()), "vector": vectors})
    return lancedb.connect(folder).create_table(name, table)


def lance_flat(data, folder):
    table = lance_table(folder, "flat", data.rows, data.names)
    return Made(LanceStore(table), data.rows, data.names)


def lance_cosine(data, folder):
    table = lance_table(folder, "cosine", data.rows, data.numbers)
    return Made(LanceStore(table, metric="cosine"), data.rows, data.numbers)


def lance_inner(data, folder):
    table = lance_table(folder, "inner", data.unit, data.numbers)
    return Made(LanceStore(table, metric="inner"), data.unit, data.numbers)


def lance_indexed(data, folder):
    from lancedb.index import HnswSq

    table = lance_table(folder, "indexed", data.rows, data.numbers)
    table.create_index("vector", config=HnswSq(distance_type="l2", num_partitions=1))
    return Made(LanceStore(table, refine=5), data.rows, data.numbers, 0.97)


def pg_table(connection, name, kind, rows, ids, index=None):
    import psycopg
    from psycopg.sql import SQL, Identifier

    table = Identifier(name)
    with psycopg.connect(connection, autocommit=True) as setup:
        setup.execute(SQL("DROP TABLE IF EXISTS {}").format(table))
        setup.execute(
            SQL("CREATE TABLE {} (id {} PRIMARY KEY, embedding vector({}))").format(
                table, SQL(kind), SQL(str(rows.shape[1]))
            )
        )
        with setup.cursor().copy(SQL("COPY {} FROM STDIN").format(table)) as copy:
            for own, row in zip(ids.tolist(), rows.tolist(), strict=True):
                copy.write_row((own, str(row)))
        if index is not None:
            setup.execute(SQL("CREATE INDEX ON {} USING {}").format(table, SQL(index)))


def pg_exact(data, connection):
    pg_table(connection, 'odd "name; --', "bigint", data.rows, data.numbers)
    store = PgVectorStore(connection, 'odd "name; --')
    return Made(store, data.rows, data.numbers)


def pg_cosine(data, connection):
    index = "hnsw (embedding vector_cosine_ops)"
    pg_table(connection, "cosine", "text", data.rows, data.names, index)
    store = PgVectorStore(connection, ("public", "cosine"), metric="cosine")
    return Made(store, data.rows, data.names, 0.97)


def pg_inner(data, connection):
    ids = np.array([str(uuid.UUID(int=int(number))) for number in data.numbers])
    index = "ivfflat (embedding vector_ip_ops) WITH (lists = 8)"
    pg_table(connection, "inner product", "uuid", data.unit, ids, index)
    store = PgVectorStore(connection, "inner product", metric="inner", probes=6)
    return Made(store, data.unit, ids, 0.95)


FILES = [
    faiss_flat,
    faiss_labels,
    faiss_inner,
    faiss_disk,
    faiss_compressed,
    lance_flat,
    lance_cosine,
    lance_inner,
    lance_indexed,
]
SERVED = [pg_exact, pg_cosine, pg_inner]


def qdrant_collection(folder, rows, ids, distance, payload=None):
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(folder))
    vectors = models.VectorParams(size=rows.shape[1], distance=distance)
    client.create_collection("items", vectors_config=vectors)
    names = ids.tolist()
    points = [
        models.PointStruct(
            id=number if payload else name,
            vector=row.tolist(),
            payload={payload: name} if payload else None,
        )
        for number, (name, row) in enumerate(zip(names, rows, strict=True))
    ]
    client.upsert("items", points)
    return client


def qdrant_numbers(data, folder):
    from kinrank.stores import QdrantStore

    client = qdrant_collection(folder, data.rows, data.numbers, "Euclid")
    return Made(QdrantStore(client, "items"), data.rows, data.numbers)


def qdrant_payload(data, folder):
    from kinrank.stores import QdrantStore

    client = qdrant_collection(folder, data.unit, data.names, "Dot", "sku")
    return Made(QdrantStore(client, "items", id_field="sku"), data.unit, data.names)


def qdrant_cosine(data, folder):
    from kinrank.stores import QdrantStore

    ids = np.array([str(uuid.UUID(int=int(number))) for number in data.numbers])
    client = qdrant_collection(folder, data.rows, ids, "Cosine")
    store = QdrantStore(client, "items")
    rows = store.fetch(ids)  # Qdrant keeps them at unit norm, as it rounds
    np.testing.assert_allclose(rows, data.unit, rtol=1e-5, atol=1e-6)
    return Made(store, rows, ids)


def sqlite_table(folder, rows, ids, statement):
    import sqlite_vec

    from kinrank.stores.sqlite_vec import _module

    connection = _module().connect(str(folder / "items.db"))
    connection.enable_load_extension(True)
    sqlite_vec.load(connection)
    connection.execute(statement)
    pairs = zip(ids.tolist(), (row.tobytes() for row in rows), strict=True)
    connection.executemany('INSERT INTO "odd ""name"(id, embedding) VALUES (?, ?)', pairs)
    connection.commit()
    connection.close()
    return folder / "items.db"


def sqlite_plain(data, folder):
    from kinrank.stores import SqliteVecStore

    statement = 'CREATE TABLE "odd ""name" (id TEXT PRIMARY KEY, embedding BLOB)'
    path = sqlite_table(folder, data.rows, data.names, statement)
    return Made(SqliteVecStore(path, 'odd "name'), data.rows, data.names)


def sqlite_virtual(data, folder):
    from kinrank.stores import SqliteVecStore

    width = data.rows.shape[1]
    statement = (
        'CREATE VIRTUAL TABLE "odd ""name" USING '
        f"vec0(id INTEGER PRIMARY KEY, embedding FLOAT[{width}])"
    )
    path = sqlite_table(folder, data.rows, data.numbers, statement)
    return Made(SqliteVecStore(path, 'odd "name', metric="cosine"), data.rows, data.numbers)


def chroma_collection(folder, rows, ids, space):
    import chromadb

    settings = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(folder), settings=settings)
    collection = client.create_collection(
        "items", configuration={"hnsw": {"space": space}}, embedding_function=None
    )
    collection.add(ids=ids.tolist(), embeddings=rows)
    return collection


def chroma_euclidean(data, folder):
    from kinrank.stores import ChromaStore

    return Made(
        ChromaStore(chroma_collection(folder, data.rows, data.names, "l2")),
        data.rows,
        data.names,
        0.97,
    )


def chroma_cosine(data, folder):
    from kinrank.stores import ChromaStore

    store = ChromaStore(chroma_collection(folder, data.rows, data.names, "cosine"))
    rows = store.fetch(data.names)  # Chroma keeps directions and norms, as it rounds
    np.testing.assert_allclose(rows, data.rows, rtol=1e-5, atol=1e-6)
    return Made(store, rows, data.names, 0.97)


def milvus_collection(folder, rows, ids, metric):
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(str(folder / "items.db"))
    schema = MilvusClient.create_schema(auto_id=False)
    if ids.dtype.kind == "U":
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=64)
    else:
        schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=rows.shape[1])
    index = client.prepare_index_params()
    index.add_index("embedding", index_type="FLAT", metric_type=metric)
    client.create_collection("items", schema=schema, index_params=index)
    pairs = zip(ids.tolist(), rows.tolist(), strict=True)
    client.insert("items", [{"id": name, "embedding": row} for name, row in pairs])
    return client


def milvus_euclidean(data, folder):
    from kinrank.stores import MilvusStore

    client = milvus_collection(folder, data.rows, data.numbers, "L2")
    return Made(MilvusStore(client, "items"), data.rows, data.numbers)


def milvus_cosine(data, folder):
    from kinrank.stores import MilvusStore

    client = milvus_collection(folder, data.rows, data.names, "COSINE")
    return Made(MilvusStore(client, "items"), data.rows, data.names)


# Makers of engines that bring much, by the package without which they are skipped.
MORE = {
    qdrant_numbers: "qdrant_client",
    qdrant_payload: "qdrant_client",
    qdrant_cosine: "qdrant_client",
    sqlite_plain: "sqlite_vec",
    sqlite_virtual: "sqlite_vec",
    chroma_euclidean: "chromadb",
    chroma_cosine: "chromadb",
    milvus_euclidean: "pymilvus",
    milvus_cosine: "pymilvus",
}
