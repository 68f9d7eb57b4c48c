"""What stores refuse, and what they say."""

import sys

import numpy as np
import pyarrow as pa
import pytest

import kinrank
from kinrank.stores import FaissStore, LanceStore, PgVectorStore
from store_makers import lance_table, pg_table

ABSENT = [
    (FaissStore, ("faiss",), "ann"),
    (LanceStore, ("lancedb", "lancedb.table"), "lancedb"),
    (PgVectorStore, ("psycopg",), "pgvector"),
]


@pytest.mark.parametrize(("store", "modules", "extra"), ABSENT)
def test_an_absent_engine_names_its_extra(monkeypatch, store, modules, extra):
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(kinrank.OptionalDependencyError, match=rf"pip install 'kinrank\[{extra}\]'"):
        store("connection", "table")


def test_an_absent_lancedb_is_named_by_the_reranker(monkeypatch):
    from kinrank.stores import lancedb_reranker

    monkeypatch.setitem(sys.modules, "lancedb.rerankers", None)
    with pytest.raises(kinrank.OptionalDependencyError, match=r"kinrank\[lancedb\]"):
        lancedb_reranker.__getattr__("Reranker")
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        kinrank.stores.nope  # noqa: B018


def test_faiss_refuses(data, tmp_path):
    import faiss

    with pytest.raises(kinrank.InvalidInputError, match="must be a faiss index, got list"):
        FaissStore([])
    with pytest.raises(kinrank.InvalidInputError, match="L2 or inner product, got faiss metric"):
        FaissStore(faiss.IndexFlat(4, faiss.METRIC_L1))
    flat = faiss.IndexFlatL2(24)
    flat.add(data.rows)
    with pytest.raises(kinrank.InvalidInputError, match=r"one per row \(600\), got 3"):
        FaissStore(flat, ids=[1, 2, 3])
    with pytest.raises(kinrank.InvalidInputError, match="different from each other, got 'a'"):
        FaissStore(flat, ids=["a"] * 600)
    with pytest.raises(kinrank.InvalidInputError, match=r"`vectors` must be .*\(600, 24\), got"):
        FaissStore(flat, vectors=data.rows[:, :3])
    twice = faiss.IndexIDMap2(faiss.IndexFlatL2(24))
    twice.add_with_ids(data.rows[:2], np.array([4, 4]))
    with pytest.raises(kinrank.InvalidInputError, match="different from each other, got 4"):
        FaissStore(twice)
    ivf = faiss.index_factory(24, "IVF4,Flat")
    ivf.train(data.rows)
    ivf.add_with_ids(data.rows, data.numbers)
    with pytest.raises(kinrank.InvalidInputError, match="has labels of its own: leave out `ids`"):
        FaissStore(ivf, ids=data.names)


def test_faiss_vectors_that_cannot_be_read_back(data):
    import faiss

    def made(description):
        index = faiss.index_factory(24, description)
        index.train(data.rows)
        index.add(data.rows)
        return index

    rough = FaissStore(made("SQ8"))
    with pytest.warns(kinrank.KinrankWarning, match=r"IndexScalarQuantizer.* give those as"):
        rough.fetch([7])
    np.testing.assert_allclose(rough.fetch([7]), data.rows[[7]], atol=0.1)  # it was said once
    with pytest.raises(kinrank.InvalidInputError, match="cannot be read back: give them as"):
        FaissStore(made("ITQ16,LSH")).fetch([0])


def test_faiss_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        FaissStore.open(tmp_path / "none.faiss")
    (tmp_path / "other.faiss").write_bytes(b"something else entirely")
    with pytest.raises(kinrank.FileFormatError, match="must be an index written by faiss"):
        FaissStore.open(tmp_path / "other.faiss")


def test_lancedb_refuses(data, tmp_path):
    from lancedb.index import HnswSq

    table = lance_table(tmp_path, "rows", data.rows, data.numbers)
    with pytest.raises(kinrank.InvalidInputError, match="must be a LanceDB table, got list"):
        LanceStore([])
    with pytest.raises(kinrank.InvalidInputError, match="has no column 'key', only"):
        LanceStore(table, "key")
    with pytest.raises(kinrank.InvalidInputError, match="must hold text or integers to be ids"):
        LanceStore(table, "vector")
    with pytest.raises(kinrank.InvalidInputError, match="must hold vectors of a fixed length"):
        LanceStore(table, "id", "id")
    with pytest.raises(kinrank.UnknownNameError, match="`metric` must be one of"):
        LanceStore(table, metric="hamming")
    table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=1))
    with pytest.raises(kinrank.InvalidInputError, match=r"must be that of .*\('cosine'\) unless"):
        LanceStore(table, metric="euclidean")
    assert LanceStore(table).metric == "cosine"
    assert LanceStore(table, metric="euclidean", exact=True).metric == "euclidean"


def test_lancedb_ids_have_to_be_different_and_vectors_there(tmp_path):
    import lancedb

    vectors = pa.array([[1.0, 2.0], [3.0, 4.0], None], pa.list_(pa.float32(), 2))
    rows = pa.table({"id": [1, 1, 2], "vector": vectors})
    table = lancedb.connect(tmp_path).create_table("twice", rows, on_bad_vectors="null")
    with pytest.raises(kinrank.InvalidInputError, match="different from each other, got 1"):
        LanceStore(table).ids()
    with pytest.raises(kinrank.InvalidInputError, match="have no vector"):
        LanceStore(table).fetch([2])


def test_postgres_refuses(data, postgres):
    import psycopg

    pg_table(postgres, "plain", "bigint", data.rows[:5], data.numbers[:5])
    with pytest.raises(kinrank.InvalidInputError, match="must be a psycopg connection"):
        PgVectorStore(3, "plain")
    with pytest.raises(kinrank.StoreError, match="The connection to PostgreSQL failed") as error:
        PgVectorStore("host=/nowhere connect_timeout=2", "plain")
    assert isinstance(error.value.__cause__, psycopg.OperationalError)
    for table in ("none", "public.plain", 'x"; DROP TABLE plain; --'):
        with pytest.raises(kinrank.InvalidInputError, match="The database has no table"):
            PgVectorStore(postgres, table)
    with pytest.raises(kinrank.InvalidInputError, match="has no column 'key', only id, embedding"):
        PgVectorStore(postgres, "plain", "key")
    for table in (None, (), ("a", "b", "c"), "", "a\0", "\ud800", ("public", 3)):
        with pytest.raises(kinrank.InvalidInputError, match="`table` must be a name"):
            PgVectorStore(postgres, table)
    with pytest.raises(kinrank.InvalidInputError, match="must be of type vector, got bigint"):
        PgVectorStore(postgres, "plain", "id", "id")
    with pytest.raises(kinrank.InvalidInputError, match="text or integers to be ids, got vector"):
        PgVectorStore(postgres, "plain", "embedding")
    with pytest.raises(kinrank.InvalidInputError, match=r"`ef_search` must be .* between 1 and"):
        PgVectorStore(postgres, "plain", ef_search=5000)
    with PgVectorStore(postgres, "plain") as store:
        assert len(store) == 5
    with pytest.raises(kinrank.StoreError, match="PostgreSQL failed: the connection is closed"):
        len(store)


def test_postgres_vectors_of_open_length(postgres):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as own:
        own.execute("DROP TABLE IF EXISTS loose")
        own.execute("CREATE TABLE loose (id int PRIMARY KEY, embedding vector)")
        with pytest.raises(kinrank.InvalidInputError, match="vectors of one length, got 0"):
            PgVectorStore(own, "loose")
        own.execute("INSERT INTO loose VALUES (1, '[1,2]'), (2, '[3,4]')")
        assert PgVectorStore(own, "loose").width == 2
        own.execute("INSERT INTO loose VALUES (3, '[1,2,3]')")
        with pytest.raises(kinrank.InvalidInputError, match="vectors of one length, got 2"):
            PgVectorStore(own, "loose")
        own.execute("DELETE FROM loose WHERE id = 3")
        store = PgVectorStore(own, "loose")
        own.execute("INSERT INTO loose VALUES (4, NULL)")
        with pytest.raises(kinrank.InvalidInputError, match="have no vector"):
            store.fetch([4])


def test_postgres_settings_do_not_outlive_a_search(data, postgres):
    import psycopg

    pg_table(postgres, "settings", "bigint", data.rows, data.numbers)
    with psycopg.connect(postgres) as own:
        PgVectorStore(own, "settings", exact=True).search(data.queries[:2], 5)
        assert own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert own.execute("SHOW enable_indexscan").fetchone() == ("on",)


def test_a_connection_is_shared_by_threads(data, postgres):
    from concurrent.futures import ThreadPoolExecutor

    pg_table(postgres, "shared", "bigint", data.rows, data.numbers)
    with PgVectorStore(postgres, "shared") as store, ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda query: store.search(query[None], 4).indices, data.queries))
        np.testing.assert_array_equal(np.concatenate(asked), store.search(data.queries, 4).indices)
