"""Qdrant, Milvus, Chroma and SQLite: what each refuses, and what an index over it answers."""

import numpy as np
import pytest

import kinrank
import store_makers
from kinrank.stores import ChromaStore, MilvusStore, QdrantStore, SqliteVecStore
from kinrank.stores import milvus as milvus_module


@pytest.mark.parametrize("maker", [
    "qdrant_payload", "sqlite_plain", "chroma_euclidean", "milvus_euclidean",
])  # fmt: skip
def test_an_index_over_it_answers_as_one_over_the_vectors(maker, data, tmp_path):
    maker = getattr(store_makers, maker)
    pytest.importorskip(store_makers.MORE[maker])
    made = maker(data, tmp_path)
    method = kinrank.CAS(k1=8, k2=4)
    attached = kinrank.attach(made.store, method)
    expected = method.fit(made.rows, made.ids).search(data.queries, 10)
    hits = attached.search(data.queries, 10).ids == expected.ids
    assert hits.mean() > 0.97


def test_qdrant_refuses(data, tmp_path):
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(":memory:")
    size = {"size": 4, "distance": "Euclid"}
    two = {name: qdrant.models.VectorParams(**size) for name in ("image", "text")}
    client.create_collection("two", vectors_config=two)
    with pytest.raises(kinrank.InvalidInputError, match=r"2 vectors \(image, text\): say which"):
        QdrantStore(client, "two")
    with pytest.raises(kinrank.UnknownNameError, match=r"`vector` must be one of image, text"):
        QdrantStore(client, "two", vector="images")
    assert QdrantStore(client, "two", vector="text").width == 4
    client.create_collection("none", vectors_config={})
    with pytest.raises(kinrank.InvalidInputError, match="must have vectors of floats, got one"):
        QdrantStore(client, "none")
    manhattan = qdrant.models.VectorParams(size=4, distance="Manhattan")
    client.create_collection("other", vectors_config=manhattan)
    with pytest.raises(kinrank.InvalidInputError, match="Euclid, Cosine or Dot, got manhattan"):
        QdrantStore(client, "other")
    with pytest.raises(kinrank.StoreError, match="Qdrant failed"):
        QdrantStore(client, "nobody")
    with pytest.raises(kinrank.InvalidInputError, match="`client` must be a qdrant_client"):
        QdrantStore("localhost", "two")
    made = store_makers.qdrant_numbers(data, tmp_path)
    with pytest.raises(kinrank.InvalidInputError, match="`vector` must be None"):
        QdrantStore(made.store._client, "items", vector="image")
    with pytest.raises(kinrank.InvalidInputError, match="'sku' in its payload"):
        QdrantStore(made.store._client, "items", id_field="sku")
    made.store._client.close()
    with pytest.raises(kinrank.StoreError, match="Qdrant failed"):
        made.store.search(data.queries, 3)


def test_milvus_refuses_and_goes_beyond_its_limit(data, tmp_path, monkeypatch):
    milvus = pytest.importorskip("pymilvus")
    made = store_makers.milvus_euclidean(data, tmp_path)
    expected = made.store.search(data.queries, 30)
    monkeypatch.setattr(milvus_module, "_MOST", 20)
    scanned = made.store.search(data.queries, 30)
    np.testing.assert_array_equal(scanned.indices, expected.indices)
    np.testing.assert_allclose(scanned.distances, expected.distances, rtol=1e-4, atol=1e-4)
    client = made.store._client
    with pytest.raises(kinrank.UnknownNameError, match="`vector_field` must be one of embedding"):
        MilvusStore(client, "items", vector_field="image")
    with pytest.raises(kinrank.StoreError, match="Milvus failed"):
        MilvusStore(client, "nobody")
    with pytest.raises(kinrank.InvalidInputError, match="`client` must be a pymilvus"):
        MilvusStore("items.db", "items")
    schema = milvus.MilvusClient.create_schema(auto_id=False)
    schema.add_field("id", milvus.DataType.INT64, is_primary=True)
    schema.add_field("a", milvus.DataType.FLOAT_VECTOR, dim=4)
    schema.add_field("b", milvus.DataType.FLOAT_VECTOR, dim=4)
    client.create_collection("two", schema=schema)
    with pytest.raises(kinrank.InvalidInputError, match=r"2 vectors \(a, b\): say which"):
        MilvusStore(client, "two")
    with pytest.raises(kinrank.InvalidInputError, match=r"'a' must have an index, got none"):
        MilvusStore(client, "two", vector_field="a")
    client.close()


def test_chroma_refuses(tmp_path):
    chromadb = pytest.importorskip("chromadb")
    settings = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(tmp_path), settings=settings)
    collection = client.create_collection("items", embedding_function=None)
    with pytest.raises(kinrank.InvalidInputError, match="must have rows, as an empty one"):
        ChromaStore(collection)
    with pytest.raises(kinrank.InvalidInputError, match="`collection` must be a chromadb"):
        ChromaStore("items")
    collection.add(ids=["a", "b"], embeddings=np.eye(2))
    store = ChromaStore(collection)
    assert len(store) == 2
    client.delete_collection("items")
    with pytest.raises(kinrank.StoreError, match="Chroma failed"):
        store.search(np.eye(2), 1)


def test_sqlite_refuses(data, tmp_path):
    pytest.importorskip("sqlite_vec")
    made = store_makers.sqlite_plain(data, tmp_path)
    path = tmp_path / "items.db"
    with pytest.raises(kinrank.InvalidInputError, match="there is no "):
        SqliteVecStore(tmp_path / "nobody.db", "items")
    with pytest.raises(kinrank.InvalidInputError, match="has no table 'items'"):
        SqliteVecStore(path, "items")
    with pytest.raises(kinrank.InvalidInputError, match="has no column 'vector', only"):
        SqliteVecStore(path, 'odd "name', vector_column="vector")
    with pytest.raises(kinrank.UnknownNameError, match="`metric` must be one of"):
        SqliteVecStore(path, 'odd "name', metric="inner")
    made.store.close()
    with pytest.raises(kinrank.StoreError, match="SQLite failed"):
        made.store.search(data.queries, 3)
    from kinrank.stores.sqlite_vec import _module

    with _module().connect(str(path)) as connection:
        connection.execute("CREATE TABLE mixed (id, embedding BLOB)")
        connection.execute("INSERT INTO mixed VALUES (1, x'0000803f'), ('a', x'0000803f')")
        connection.execute("CREATE TABLE ragged (id, embedding BLOB)")
        connection.execute("INSERT INTO ragged VALUES (1, x'0000803f'), (2, x'0000803f0000803f')")
        connection.execute("CREATE TABLE empty (id, embedding BLOB)")
        connection.execute("CREATE TABLE lacking (id, embedding BLOB)")
        connection.execute("INSERT INTO lacking VALUES (1, x'0000803f'), (2, NULL)")
    with pytest.raises(kinrank.InvalidInputError, match="alone to be ids, got integer and text"):
        SqliteVecStore(path, "mixed")
    with pytest.raises(kinrank.InvalidInputError, match="of one length, got 4 and 8"):
        SqliteVecStore(path, "ragged")
    with pytest.raises(kinrank.InvalidInputError, match="of one length, got no vectors"):
        SqliteVecStore(path, "empty")
    lacking = SqliteVecStore(path, "lacking")
    assert lacking.search([[1.0]], 2).indices.tolist() == [[1, -1]]
    with pytest.raises(kinrank.InvalidInputError, match="float32 numbers, got 2 without"):
        lacking.fetch([1, 2])
    lacking.close()
