"""The reranker inside LanceDB's own queries."""

import numpy as np
import pyarrow as pa
import pytest

import kinrank
from kinrank import stores
from store_makers import lance_table

PARAMS = {"k1": 8, "k2": 4}


@pytest.fixture(scope="module")
def table(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reranker")
    return lance_table(folder, "rows", data.rows, np.arange(len(data.rows)))


def pool(table, query, size):
    found = table.search(query).limit(size).to_arrow()
    return found["id"].to_numpy(), np.stack(found["vector"].to_numpy(zero_copy_only=False))


def test_it_is_one_of_lancedb():
    import lancedb  # late, as it takes seconds of every worker

    from kinrank.stores import Reranker

    assert issubclass(Reranker, lancedb.rerankers.Reranker)
    assert Reranker is kinrank.stores.Reranker


def test_a_vector_query_is_the_pool_of_its_results(table, data):
    query = data.queries[3]
    ids, vectors = pool(table, query, 200)
    twin = kinrank.rerank_pool(query, vectors, ids=ids, k=10, **PARAMS)
    reranker = stores.Reranker(query, k=10, **PARAMS)
    found = table.search(query).limit(200).rerank(reranker, query_string="").to_arrow()
    assert found["id"].to_pylist() == twin.ids[0].tolist()
    np.testing.assert_array_equal(found["_relevance_score"].to_numpy(), 1 - twin.distances[0])
    assert "_distance" not in found.column_names
    assert found["id"].to_pylist() != ids[:10].tolist()


def test_all_scores_and_all_rows(table, data):
    query = data.queries[0]
    reranker = stores.Reranker(query, return_score="all", method="kreciprocal", k1=8)
    found = table.search(query).limit(50).rerank(reranker, query_string="").to_arrow()
    assert len(found) == 50
    assert {"_distance", "_relevance_score"} <= set(found.column_names)
    assert (np.diff(found["_relevance_score"].to_numpy()) <= 0).all()


def test_a_function_may_make_the_vector_from_the_text(table, data):
    asked = []

    def embed(text):
        asked.append(text)
        return data.queries[7]

    query = table.search(data.queries[7]).limit(60)
    found = query.rerank(stores.Reranker(embed=embed, **PARAMS), query_string="a row").to_arrow()
    assert asked == ["a row"]
    again = table.search(data.queries[7]).limit(60)
    again = again.rerank(stores.Reranker(data.queries[7], **PARAMS), query_string="").to_arrow()
    assert found["id"].to_pylist() == again["id"].to_pylist()


@pytest.fixture(scope="module")
def words(data, tmp_path_factory):
    """A table with text that can be searched too."""
    import lancedb

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(data.rows.ravel()), data.rows.shape[1])
    texts = [f"{('red', 'green', 'blue')[at % 3]} thing" for at in range(len(data.rows))]
    rows = pa.table({"id": range(len(texts)), "text": texts, "vector": vectors})
    table = lancedb.connect(tmp_path_factory.mktemp("words")).create_table("words", rows)
    table.create_index("text", config=lancedb.index.FTS())
    return table


@pytest.mark.parametrize("scores", ["relevance", "all"])
def test_hybrid_queries(words, data, scores):
    query = data.queries[2]
    reranker = stores.Reranker(query, return_score=scores, **PARAMS)
    search = words.search(query_type="hybrid", vector_column_name="vector", fts_columns="text")
    found = search.vector(query).text("green").limit(80).rerank(reranker).to_arrow()
    ids = found["id"].to_pylist()
    assert len(ids) == len(set(ids)) == 80
    assert (np.diff(found["_relevance_score"].to_numpy()) <= 0).all()
    assert {at % 3 for at in ids} == {0, 1, 2}  # both searches took part


def test_text_queries(words, data):
    reranker = stores.Reranker(data.queries[2], k=5, **PARAMS)
    found = words.search("blue", query_type="fts", fts_columns="text").limit(70).rerank(reranker)
    ids = found.to_arrow()["id"].to_pylist()
    assert len(ids) == 5
    assert {at % 3 for at in ids} == {2}


def test_nothing_found(table, data):
    query = data.queries[0]
    search = table.search(query).where("id < 0").limit(10)
    found = search.rerank(stores.Reranker(query), query_string="").to_arrow()
    assert len(found) == 0
    assert "_relevance_score" in found.column_names


def test_what_cannot_be_used_is_named(table, data):
    query = data.queries[0]
    for wrong in ({}, {"query": query, "embed": len}):
        with pytest.raises(kinrank.InvalidInputError, match="Give either `query` or `embed`"):
            stores.Reranker(**wrong)
    with pytest.raises(kinrank.UnknownNameError, match="got 'k3'"):
        stores.Reranker(query, k3=1)
    with pytest.raises(kinrank.UnknownNameError, match="`return_score` must be one of"):
        stores.Reranker(query, return_score="none")
    search = table.search(query).select(["id", "_distance"]).limit(30)
    with pytest.raises(kinrank.InvalidInputError, match="have no column 'vector'"):
        search.rerank(stores.Reranker(query, **PARAMS), query_string="").to_arrow()
    with pytest.raises(kinrank.InvalidInputError, match="as many columns as `query`"):
        stores.Reranker(query[:4]).rerank_vector("", table.search(query).limit(30).to_arrow())
