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
