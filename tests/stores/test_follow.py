"""An index that follows its store, against a fresh build over what the store has."""

import uuid

import numpy as np
import pytest

import kinrank
import store_makers
from kinrank.stores import PgVectorStore, QdrantStore
from row_store import RowStore

PARAMS = {"k1": 8, "k2": 4}
RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(240, 12)).astype(np.float32)
QUERIES = ROWS[:20] + 0.1


class ChangingStore(RowStore):
    """A store whose rows come and go, with attributes, and that may fail at a fetch.

    columns : by name, a dict of values by id; fails_at : the number of the fetch that fails
    """

    def __init__(self, vectors, ids, columns=None):
        super().__init__(vectors, ids)
        self.columns = columns or {}
        self.fails_at = None
        self.fetches = 0

    def become(self, rows):
        """Hold other rows: a dict of vectors by id."""
        super().__init__(np.array(list(rows.values()), np.float32), list(rows))

    def fetch(self, ids):
        self.fetches += 1
        if self.fetches == self.fails_at:
            raise kinrank.StoreError("The engine is gone.")
        gone = [name for name in np.asarray(ids).tolist() if name not in self.positions]
        if gone:
            raise kinrank.UnknownIdError(f"There is no row with the id {gone[0]}.")
        return super().fetch(ids)

    def matching(self, where):
        raise AssertionError("not asked")

    def attributes(self, names):
        ids = self.row_ids.tolist()
        return ids, {name: [self.columns[name].get(item) for item in ids] for name in names}


def by_id(index):
    return {item: index.vectors([item])[0].tolist() for item in index.ids.tolist()}


def assert_is_fresh(index, rows, **params):
    """The answers of an index are those of one that is built over these rows."""
    assert set(index.ids.tolist()) == set(rows)
    order = index.ids.tolist()
    vectors = np.array([rows[item] for item in order], np.float32)
    fresh = kinrank.CAS(**PARAMS, **params).fit(vectors, order)
    found = index.search(QUERIES[:, : vectors.shape[1]], 10)
    wanted = fresh.search(QUERIES[:, : vectors.shape[1]], 10)
    np.testing.assert_allclose(found.distances, wanted.distances, atol=1e-5)
    assert (found.ids == wanted.ids).mean() > 0.99


def changed_rows(rows):
    """Some rows gone, some with another vector, some new; not most of them."""
    new = dict(rows)
    for name in list(rows)[::9]:
        del new[name]
    for name in list(new)[3::11]:
        new[name] = new[name] + 0.5
    last = max(rows)
    return new | {last + 1 + at: row for at, row in enumerate(ROWS[200:230] * 1.01)}


@pytest.fixture
def rows():
    return dict(enumerate(ROWS[:200]))


@pytest.fixture
def store(rows):
    return ChangingStore(ROWS[:200], np.arange(200))


@pytest.fixture
def index(rows):
    return kinrank.CAS(**PARAMS).fit(ROWS[:200], list(rows))


def test_what_came_changed_and_went(rows, store, index):
    followed = kinrank.follow(index, store)
    assert (followed.rows, followed.whole) == (0, True)
    before = index.engine
    new = changed_rows(rows)
    store.become(new)
    followed = kinrank.follow(index, store)
    expected = (30, len([n for n in new if n < 200 and (new[n] != rows[n]).any()]), 23)
    assert (followed.came, followed.changed, followed.gone) == expected
    assert str(followed) == f"30 came, {expected[1]} changed, 23 went"
    assert index.engine is not before
    assert_is_fresh(index, new)
    assert kinrank.follow(index, store).rows == 0


def test_batches_and_what_is_told_of_them(rows, store, index):
    new = changed_rows(rows)
    store.become(new)
    told = []
    followed = kinrank.follow(index, store, batch_size=10, applied=told.append)
    # A batch is full at the end of a block of rows that are fetched.
    assert followed.rows == sum(part.rows for part in told)
    assert followed.whole
    assert_is_fresh(index, new)


@pytest.mark.parametrize("fails_at", [1, 2, 4])
def test_a_store_that_dies_leaves_whole_batches(rows, store, index, fails_at, monkeypatch):
    monkeypatch.setattr("kinrank.stores.follow._ROWS", 40)
    new = changed_rows(rows)
    store.become(new)
    store.fails_at = fails_at
    states = [set(index.ids.tolist())]
    with pytest.raises(kinrank.StoreError, match="The engine is gone"):
        kinrank.follow(
            index,
            store,
            batch_size=1,
            applied=lambda _: states.append(set(index.ids.tolist())),
        )
    assert set(index.ids.tolist()) == states[-1]
    assert len(states) == fails_at  # one batch for each block before
    left = by_id(index)
    for name in left:
        assert left[name] in (
            new.get(name, rows.get(name)).tolist(),
            rows.get(name, ROWS[0]).tolist(),
        )
    assert kinrank.follow(index, store).rows > 0
    assert_is_fresh(index, new)


def test_it_can_be_stopped_and_goes_on(rows, store, index, monkeypatch):
    monkeypatch.setattr("kinrank.stores.follow._ROWS", 40)
    new = changed_rows(rows)
    store.become(new)
    asked = []

    def stop():
        asked.append(None)
        return len(asked) > 2

    followed = kinrank.follow(index, store, batch_size=1, stop=stop)
    assert not followed.whole
    assert str(followed).endswith("went; stopped before the end")
    assert followed.gone == 23
    more = kinrank.follow(index, store)
    assert more.whole
    assert followed.came + more.came == 30
    assert_is_fresh(index, new)


def test_a_store_that_loses_most_rows_is_questioned(rows, store, index):
    few = dict(list(rows.items())[:99])
    store.become(few)
    with pytest.raises(
        kinrank.StoreError, match=r"has 99 of the 200 rows of the index: 101 went\. .*confirm=True"
    ):
        kinrank.follow(index, store)
    assert len(index) == 200
    assert kinrank.follow(index, store, confirm=True).gone == 101
    assert_is_fresh(index, few)


def test_a_store_without_rows_is_questioned(store, index):
    store.vectors = store.vectors[:0]
    store.row_ids = store.row_ids[:0]
    with pytest.raises(kinrank.StoreError, match="has 0 of the 200 rows"):
        kinrank.follow(index, store)
    with pytest.raises(kinrank.InvalidInputError, match="must keep at least two rows"):
        kinrank.follow(index, store, confirm=True)
    assert len(index) == 200


def test_all_rows_may_be_others(store, index):
    new = {1000 + at: row for at, row in enumerate(ROWS[40:240])}
    store.become(new)
    assert kinrank.follow(index, store, confirm=True).came == 200
    assert_is_fresh(index, new)


def test_rows_that_go_while_it_looks_are_left_for_the_next_time(rows, store, index):
    new = changed_rows(rows)
    store.become(new)
    leaving = max(new)
    listed = store.row_ids
    store.become({name: row for name, row in new.items() if name != leaving})
    shorter = store.row_ids
    store.row_ids = listed
    store.positions = {name: at for at, name in enumerate(listed.tolist()) if name != leaving}
    store.vectors = np.array([new[name] for name in listed.tolist()], np.float32)
    assert kinrank.follow(index, store).came == 29
    store.row_ids = shorter
    assert leaving not in index


def test_attributes_come_with_the_rows(rows, store):
    ids = list(rows)
    prices = {name: name / 4 for name in range(240)}
    kinds = {name: "lynx" if name % 2 else "fox" for name in range(240)}
    index = kinrank.CAS(**PARAMS).fit(
        ROWS[:200],
        ids,
        attributes={
            "price": [prices[name] for name in ids],
            "kind": [kinds[name] for name in ids],
        },
    )
    store.columns = {"price": prices, "kind": kinds}
    store.become(changed_rows(rows))
    prices[5] = 99.5
    kinds[5] = "a long name"
    prices[8] = None  # it stays what it was
    followed = kinrank.follow(index, store)
    assert followed.revalued == 1
    assert str(followed).endswith("1 have other attributes")
    found = dict(zip(index.ids.tolist(), index.attributes["price"].tolist(), strict=True))
    assert found == {name: 99.5 if name == 5 else name / 4 for name in index.ids.tolist()}
    assert index.attributes["kind"][index.ids == 5] == "a long name"
    kinds[500] = "lynx"
    store.become({**changed_rows(rows), 500: ROWS[0]})
    with pytest.raises(kinrank.InvalidInputError, match="The row 500 of the store has no 'price'"):
        kinrank.follow(index, store)
    assert 500 not in index


def test_a_column_of_changes_saves_fetching(rows, store, index):
    times = dict.fromkeys(range(400), 1)
    store.columns = {"time": times}
    kinrank.follow(index, store, changed_column="time")
    assert store.fetched == 200
    store.fetched = 0
    new = {**rows, 7: rows[7] + 1, 300: ROWS[230]}
    store.become(new)
    times.update(dict.fromkeys((7, 300), 2) | {9: None})
    times.update(dict.fromkeys(range(10, 200), 0))
    for name in range(7):
        times[name] = 0
    followed = kinrank.follow(index, store, changed_column="time")
    assert (followed.came, followed.changed) == (1, 1)
    assert store.fetched == 4  # 7, 300, 8, which is as new as the newest was, and 9 without a time
    store.fetched = 0
    assert kinrank.follow(index, store, changed_column="time").rows == 0
    assert store.fetched == 3
    assert_is_fresh(index, new)
    times[3] = "yesterday"
    with pytest.raises(kinrank.InvalidInputError, match="all numbers or all text"):
        kinrank.follow(index, store, changed_column="time")


def test_the_column_of_changes_is_remembered_in_the_file(store, index, tmp_path):
    store.columns = {"time": dict.fromkeys(range(200), "2026-11-01")}
    kinrank.follow(index, store, changed_column="time")
    index.save(tmp_path / "items.index")
    with kinrank.open(tmp_path / "items.index", writable=True) as opened:
        store.columns["time"].update(dict.fromkeys(range(150), "2026-10-01"))
        store.fetched = 0
        kinrank.follow(opened, store, changed_column="time")
    assert store.fetched == 50


def test_an_index_over_a_store_is_attached_again(rows, store, tmp_path):
    index = kinrank.attach(store, **PARAMS)
    index.save(tmp_path / "graph.index")
    fetched = store.fetched
    with kinrank.open(tmp_path / "graph.index", writable=True) as index:
        assert kinrank.follow(index, store).rows == 0  # the store comes with `follow`
    assert store.fetched == fetched + 200
    index = kinrank.open(tmp_path / "graph.index")
    new = changed_rows(rows)
    store.become(new)
    with pytest.raises(kinrank.InvalidInputError, match="open for reading only"):
        kinrank.follow(index, store)
    with kinrank.open(tmp_path / "graph.index", writable=True) as index:
        followed = kinrank.follow(index, store)
        assert (followed.came, followed.gone) == (30, 23)
        assert followed.changed > 0
        assert_is_fresh(index, new)
        new[5] = new[5] + 1
        store.become(new)
        assert kinrank.follow(index, store, stop=lambda: True).whole is False
        assert kinrank.follow(index, store).changed == 1
        assert kinrank.follow(index, store).rows == 0
        index.save()
    assert kinrank.follow(kinrank.open(tmp_path / "graph.index", writable=True), store).rows == 0


def test_attributes_of_an_index_over_a_store(rows, store):
    prices = {name: name / 4 for name in range(240)}
    store.columns = {"price": prices}
    index = kinrank.attach(store, **PARAMS, attributes={"price": [prices[n] for n in rows]})
    prices[3] = 8.0
    assert kinrank.follow(index, store).revalued == 1
    store.become(changed_rows(rows))
    kinrank.follow(index, store)
    found = dict(zip(index.ids.tolist(), index.attributes["price"].tolist(), strict=True))
    assert found == {name: 8.0 if name == 3 else name / 4 for name in found}
    assert len(found) == 207


def test_a_projection_stays(rows, store):
    index = kinrank.CAS(**PARAMS, whiten="pairs").fit(ROWS[:200], list(rows))
    projection = index.projection
    assert kinrank.follow(index, store).rows == 0
    new = changed_rows(rows)
    store.become(new)
    kinrank.follow(index, store)
    assert index.projection is projection
    assert_is_fresh(index, new, whiten=projection)


def test_what_does_not_fit_is_refused(rows, store, index):
    with pytest.raises(kinrank.InvalidInputError, match=r"as long as those of the index \(12\)"):
        kinrank.follow(index, RowStore(ROWS[:, :5]))
    with pytest.raises(kinrank.InvalidInputError, match="ids of the store are text, those of the"):
        kinrank.follow(index, RowStore(ROWS, [f"item {row}" for row in range(240)]))
    with pytest.raises(kinrank.InvalidInputError, match="`store` must be a store of"):
        kinrank.follow(index, "items.db")
    with pytest.raises(kinrank.InvalidInputError, match="RowStore does not: leave it out"):
        kinrank.follow(index, RowStore(ROWS), changed_column="time")
    store.become({**rows, 5: rows[5] * np.nan})
    with pytest.raises(kinrank.InvalidInputError, match="must be finite"):
        kinrank.follow(index, store)
    assert_is_fresh(index, rows)


def test_a_damaged_fingerprint_is_seen(store, tmp_path):
    index = kinrank.attach(store, **PARAMS)
    index.fingerprints = index.fingerprints[:-1]
    index.save(tmp_path / "graph.index")
    with pytest.raises(kinrank.FileFormatError, match="199 fingerprints"):
        kinrank.open(tmp_path / "graph.index")


def test_sqlite(data, tmp_path):
    pytest.importorskip("sqlite_vec")
    made = store_makers.sqlite_plain(data, tmp_path)
    index = kinrank.CAS(**PARAMS).fit(made.rows, made.ids)
    assert kinrank.follow(index, made.store).rows == 0
    from kinrank.stores.sqlite_vec import _module

    connection = _module().connect(str(tmp_path / "items.db"))
    connection.execute('DELETE FROM "odd ""name" WHERE rowid % 10 = 0')
    connection.execute('UPDATE "odd ""name" SET embedding = ? WHERE rowid = 5',
                       (data.queries[0].tobytes(),))  # fmt: skip
    connection.execute('INSERT INTO "odd ""name" VALUES (?, ?)',
                       ("new", data.queries[1].tobytes()))  # fmt: skip
    connection.commit()
    connection.close()
    followed = kinrank.follow(index, made.store)
    assert (followed.came, followed.changed, followed.gone) == (1, 1, 60)
    fetched = made.store.fetch(index.ids)
    np.testing.assert_array_equal(fetched, index.vectors(index.ids))
    made.store.close()
    with pytest.raises(kinrank.StoreError, match="SQLite failed"):
        kinrank.follow(index, made.store)


@pytest.mark.parametrize("attached", [False, True])
def test_qdrant(attached):
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(":memory:")
    size = qdrant.models.VectorParams(size=12, distance="Euclid" if attached else "Cosine")
    client.create_collection("items", vectors_config=size)
    points = [qdrant.models.PointStruct(id=at, vector=row.tolist()) for at, row in enumerate(ROWS)]
    client.upsert("items", points)
    store = QdrantStore(client, "items")
    index = kinrank.attach(store, **PARAMS)
    if not attached:
        method = kinrank.CAS(metric="cosine", **PARAMS)
        index = method.fit(store.fetch(store.ids()), store.ids())
    store.search(QUERIES, 3)  # after which its local mode has divided by the norm once more
    assert kinrank.follow(index, store).rows == 0
    client.delete("items", list(range(50)))
    client.upsert("items", [qdrant.models.PointStruct(id=70, vector=QUERIES[0].tolist())])
    followed = kinrank.follow(index, store)
    assert (followed.came, followed.changed, followed.gone) == (0, 1, 50)
    other = qdrant.models.PointStruct(id=str(uuid.UUID(int=5)), vector=QUERIES[1].tolist())
    client.upsert("items", [other])
    with pytest.raises(kinrank.InvalidInputError, match="all text or all integers"):
        kinrank.follow(index, store)
    assert len(index) == 190
    client.close()


def test_the_command_says_what_a_store_must_be(tmp_path, monkeypatch, index):
    click = pytest.importorskip("click")
    from click.testing import CliRunner

    from kinrank.cli.app import app
    from kinrank.cli.stores import opened_store

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_shop.py").write_text("word = 'items'\ndef made(): return 3\n")
    for text, message in [
        ("a_shop", "must be MODULE:NAME"),
        ("a_shop:", "must be MODULE:NAME"),
        ("nobodys_shop:store", "nobodys_shop cannot be imported"),
        ("a_shop:store", "the module a_shop has no 'store'"),
        ("a_shop:word", "must be a store of kinrank.stores or make one, got str"),
        ("a_shop:made", "must be a store of kinrank.stores or make one, got int"),
    ]:
        with pytest.raises(click.BadParameter, match=message):
            opened_store(text)
    index.save("items.index")
    done = CliRunner().invoke(
        app, ["index", "follow", "items.index", "--store", "a_shop:word", "--every", "0"]
    )
    assert done.exit_code == 2
    assert "--every" in done.output


def test_postgres(postgres):
    psycopg = pytest.importorskip("psycopg")
    store_makers.pg_table(postgres, "followed", "bigint", ROWS[:100], np.arange(100))
    with psycopg.connect(postgres, autocommit=True) as setup:
        setup.execute("ALTER TABLE followed ADD at timestamptz DEFAULT '2026-01-01'")
        with PgVectorStore(postgres, "followed") as store:
            index = kinrank.CAS(**PARAMS).fit(ROWS[:100])
            assert kinrank.follow(index, store, changed_column="at").rows == 0
            setup.execute("DELETE FROM followed WHERE id < 10")
            setup.execute(
                "UPDATE followed SET embedding = %s, at = '2026-02-01 00:00+00' WHERE id = 50",
                (str(ROWS[200].tolist()),),
            )
            setup.execute("UPDATE followed SET at = '2025-01-01' WHERE id > 90")
            followed = kinrank.follow(index, store, changed_column="at")
            assert (followed.came, followed.changed, followed.gone) == (0, 1, 10)
            assert index.notes["followed"]["mark"] == "2026-02-01T00:00:00.000000Z"
            rows = dict(enumerate(ROWS[:100])) | {50: ROWS[200]}
            assert_is_fresh(index, {name: rows[name] for name in range(10, 100)})
