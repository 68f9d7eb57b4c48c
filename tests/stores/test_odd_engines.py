"""Engines whose rows, names or connections are odd, or change behind our back."""

import numpy as np
import pytest

import kinrank
from kinrank.stores import FaissStore, LanceStore, PgVectorStore
from store_makers import lance_table, pg_table

PARAMS = {"k1": 8, "k2": 4}


def test_pads_have_no_id(data):
    import faiss

    names = np.array([f"n{at}" for at in range(len(data.rows))])
    for ids, none in ((None, -1), (names, "")):
        index = faiss.IndexHNSWFlat(data.rows.shape[1], 8)
        index.hnsw.efSearch = 16
        index.add(data.rows)
        found = kinrank.attach(FaissStore(index, ids), **PARAMS).search(data.queries, 500)
        pads = found.indices < 0
        assert pads.any()
        assert (found.ids[pads] == none).all()
        assert np.isinf(found.distances[pads]).all()
        own = np.arange(len(names)) if ids is None else names
        np.testing.assert_array_equal(found.ids[~pads], own[found.indices[~pads]])


@pytest.mark.parametrize(("known", "none"), [([7, 3], -1), (["b", "a"], "")])
def test_pads_travel_over_http(known, none):
    import json

    from kinrank.client import read_ranking
    from kinrank.serve.routes import ranking_json

    sent = kinrank.Ranking(
        np.array([[1, 0, -1], [0, -1, -1]]),
        np.array([[0.1, 0.2, np.inf], [0.3, np.inf, np.inf]]),
        np.array([[*known, none], [known[1], none, none]]),
    )
    content = json.loads(ranking_json(sent).body)
    assert content["ids"] == [[*known, None], [known[1], None, None]]
    for name, array in vars(read_ranking(content)).items():
        np.testing.assert_array_equal(array, getattr(sent, name))


@pytest.mark.parametrize("kind", ["IDMap,Flat", "IDMap2,Flat", "IVF1,Flat"])
def test_faiss_rows_that_are_removed_and_others_added(data, kind):
    import faiss

    index = faiss.index_factory(data.rows.shape[1], kind)
    index.train(data.rows)
    index.add_with_ids(data.rows, data.numbers)
    store = FaissStore(index)
    index.remove_ids(data.numbers[:40])
    index.add_with_ids(data.queries, np.arange(40))
    ids = store.search(data.rows[40:], 1).indices
    np.testing.assert_array_equal(ids[:, 0], data.numbers[40:])
    np.testing.assert_array_equal(store.fetch(data.numbers[40:]), data.rows[40:])
    with pytest.raises(kinrank.UnknownIdError, match="any more"):
        store.fetch(data.numbers[:3])


def test_faiss_rows_that_are_renumbered(data):
    import faiss

    index = faiss.IndexFlatL2(data.rows.shape[1])
    index.add(data.rows)
    store = FaissStore(index, data.names)
    index.remove_ids(np.arange(3))
    for call in (lambda: store.search(data.queries, 3), lambda: store.fetch(data.names[9:12])):
        with pytest.raises(kinrank.InvalidInputError, match="has 597 rows, and had 600"):
            call()


def test_faiss_indexes_of_odd_kinds(data):
    import faiss

    empty = FaissStore(faiss.IndexFlatL2(24))
    nearest = empty.search(data.queries[:2], 3)
    ids = nearest.indices
    squared = nearest.distances
    assert (ids == -1).all()
    assert np.isinf(squared).all()
    with pytest.raises(kinrank.StoreError, match="faiss index failed"):
        FaissStore(faiss.index_factory(24, "IVF4,Flat")).search(data.queries, 3)
    inside = faiss.index_factory(24, "PCA24,IDMap,Flat")
    with pytest.raises(kinrank.InvalidInputError, match="IDMap outermost"):
        FaissStore(inside)
    labels = faiss.IndexIDMap(faiss.IndexFlatL2(24))
    labels.add_with_ids(data.rows[:3], np.array([5, -1, -7]))
    with pytest.raises(kinrank.InvalidInputError, match="has the label -1"):
        FaissStore(labels)


def test_lancedb_ids_of_any_text(data, tmp_path):
    odd = ["", "'", "''", "a\\", "\\'", '"', "`", "%s", "--", "/*", ";", "\n", "\x01", "{id}", "é"]
    odd += ["'); DROP TABLE rows; --", "' OR '1'='1", "NULL", "\N{GRINNING FACE}", "x" * 5000]
    store = LanceStore(lance_table(tmp_path, "rows", data.rows[: len(odd)], np.array(odd, object)))
    np.testing.assert_array_equal(store.fetch(odd), data.rows[: len(odd)])
    for at, one in enumerate(odd):
        np.testing.assert_array_equal(store.fetch([one]), data.rows[[at]])
    with pytest.raises(kinrank.UnknownIdError, match="no row with such an id"):
        store.fetch(["\ud800"])


def test_lancedb_ids_of_small_types_and_tables_that_are_dropped(data, tmp_path):
    import lancedb
    import pyarrow as pa

    base = lancedb.connect(tmp_path)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(data.rows[:9].ravel()), 24)
    rows = {"id": pa.array(range(9), pa.uint8()), "odd; 'name'": vectors, "a`b": vectors}
    store = LanceStore(base.create_table("rows", pa.table(rows)), "id", "odd; 'name'")
    np.testing.assert_array_equal(store.fetch([3, 1]), data.rows[[3, 1]])
    for unknown in (300, -1, 2**62, -(2**63)):
        with pytest.raises(kinrank.UnknownIdError, match=f"no row with the id {unknown}"):
            store.fetch([1, unknown])
    with pytest.raises(kinrank.InvalidInputError, match="no backtick"):
        LanceStore(base.open_table("rows"), "id", "a`b")
    base.drop_table("rows")
    for call in (lambda: store.search(data.queries, 3), lambda: store.fetch([1]), store.ids):
        with pytest.raises(kinrank.StoreError, match="The LanceDB table failed"):
            call()


@pytest.mark.parametrize("name", ["a%sb", "%(x)s", "%%", "{id}", 'a"b;--', "a\\b", "'", "Ä."])
def test_postgres_names_are_quoted(data, postgres, name):
    import psycopg
    from psycopg.sql import SQL, Identifier

    odd = Identifier(name)
    with psycopg.connect(postgres, autocommit=True) as own:
        for text in (
            SQL("DROP SCHEMA IF EXISTS {0} CASCADE").format(odd),
            SQL("CREATE SCHEMA {0}").format(odd),
            SQL("CREATE TABLE {0}.{0} (id int, {0} vector(2))").format(odd),
            SQL("INSERT INTO {0}.{0} VALUES (1, '[1,2]'), (2, '[3,4]')").format(odd),
        ):
            own.execute(text)
        for column in (None, name):
            store = PgVectorStore(own, (name, name), "id", column)
            assert len(store) == 2
            np.testing.assert_array_equal(store.fetch([2]), [[3, 4]])
            np.testing.assert_array_equal(store.search([[3.0, 4.0]], 2).indices, [[2, 1]])


def test_postgres_finds_the_only_column_of_vectors(postgres):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as own:
        own.execute("DROP TABLE IF EXISTS pictures")
        own.execute("CREATE TABLE pictures (id int, clip vector(2), title text)")
        own.execute("INSERT INTO pictures VALUES (1, '[1,2]', 'one')")
        np.testing.assert_array_equal(PgVectorStore(own, "pictures").fetch([1]), [[1, 2]])
        own.execute("ALTER TABLE pictures ADD COLUMN dino vector(3)")
        with pytest.raises(kinrank.InvalidInputError, match=r"given .* has 'clip', 'dino' of"):
            PgVectorStore(own, "pictures")
        assert PgVectorStore(own, "pictures", vector_column="dino").width == 3
        own.execute("ALTER TABLE pictures ADD COLUMN embedding vector(5)")
        assert PgVectorStore(own, "pictures").width == 5
        own.execute("CREATE TABLE IF NOT EXISTS plain_text (id int)")
        with pytest.raises(kinrank.InvalidInputError, match="has no columns of type vector"):
            PgVectorStore(own, "plain_text")


def test_postgres_rows_without_a_distance(postgres):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as own:
        own.execute("DROP TABLE IF EXISTS holes")
        own.execute("CREATE TABLE holes (id smallint, embedding vector)")
        own.execute("INSERT INTO holes VALUES (1, '[1,2]'), (2, '[0,0]')")
        store = PgVectorStore(own, "holes", metric="cosine")
        own.execute("INSERT INTO holes VALUES (3, NULL)")
        nearest = store.search([[1.0, 2.0], [2.0, 1.0]], 3)
        ids = nearest.indices
        squared = nearest.distances
        np.testing.assert_array_equal(ids, [[1, -1, -1]] * 2)
        assert np.isinf(squared[:, 1:]).all()
        for unknown in (70_000, 2**62, -(2**63)):
            with pytest.raises(kinrank.UnknownIdError, match="no row with such an id"):
                store.fetch([unknown])
        own.execute("INSERT INTO holes VALUES (4, '[1]'), (5, '[1,2,3]')")
        with pytest.raises(kinrank.InvalidInputError, match="another length than 2"):
            store.fetch([4, 5])  # as many numbers as two vectors would have
        with pytest.raises(kinrank.StoreError, match="different vector dimensions"):
            store.search([[1.0, 2.0]], 3)


def test_postgres_connections_of_any_kind(data, postgres):
    import psycopg

    pg_table(postgres, "kinds", "text", data.rows[:9], data.names[:9])
    options = [{"row_factory": kind} for kind in (psycopg.rows.dict_row, psycopg.rows.scalar_row)]
    for option in (*options, {"cursor_factory": psycopg.ClientCursor}):
        with psycopg.connect(postgres, **option) as own:
            store = PgVectorStore(own, "kinds")
            assert set(store.ids().tolist()) == set(data.names[:9].tolist())
            np.testing.assert_array_equal(store.fetch(data.names[:2]), data.rows[:2])
            assert store.search(data.rows[:1], 1).indices[0, 0] == data.names[0]


def test_postgres_connections_that_are_lost(data, postgres):
    import psycopg

    pg_table(postgres, "lost", "bigint", data.rows, data.numbers)
    with (
        psycopg.connect(postgres, autocommit=True) as other,
        PgVectorStore(postgres, "lost") as store,
    ):
        index = kinrank.attach(store, **PARAMS)
        other.execute("DELETE FROM lost WHERE id = ANY(%s)", (data.numbers[:100].tolist(),))
        assert np.isfinite(index.search(data.queries, 5).distances).all()
        other.execute("DROP TABLE lost")
        with pytest.raises(kinrank.StoreError, match='relation "lost" does not exist'):
            index.search(data.queries, 5)


def test_postgres_connections_that_are_lost_are_opened_again(data, postgres):
    import psycopg

    pg_table(postgres, "again", "bigint", data.rows, data.numbers)
    with (
        psycopg.connect(postgres, autocommit=True) as other,
        psycopg.connect(postgres) as given,
        PgVectorStore(postgres, "again") as store,
    ):
        index = kinrank.attach(store, **PARAMS)
        wanted = index.search(data.queries, 5)
        for call in (
            lambda: index.search(data.queries, 5).ids,
            lambda: store.fetch(data.numbers[:3]),
            store.ids,
        ):
            before = call()
            pid = store._connection.info.backend_pid
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))
            np.testing.assert_array_equal(call(), before)
        np.testing.assert_array_equal(index.search(data.queries, 5).ids, wanted.ids)
        of_given = PgVectorStore(given, "again")
        other.execute("SELECT pg_terminate_backend(%s)", (given.info.backend_pid,))
        with pytest.raises(kinrank.StoreError, match="Give the store the text that opens one"):
            of_given.ids()
        store.close()
        with pytest.raises(kinrank.StoreError, match="closed"):
            store.ids()
