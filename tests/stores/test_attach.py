"""Indexes over stores, against the same index over vectors."""

import numpy as np
import pytest

import kinrank
from kinrank import progress
from kinrank.stores import FaissStore, LanceStore, PgVectorStore
from row_store import RowStore
from store_makers import lance_table, pg_table

PARAMS = {"k1": 8, "k2": 4}
K = 10


def shared(one, other):
    """The mean share of ids in common."""
    pairs = zip(one.tolist(), other.tolist(), strict=True)
    return np.mean([len(set(a) & set(b)) / len(a) for a, b in pairs])


def flat(rows, ids=None, **options):
    import faiss

    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(rows)
    return FaissStore(index, ids, **options)


def assert_same(index, twin, queries):
    """The answers, in batches and alone, and how they come about."""
    for k in (3, K, 120, len(index)):
        wanted, found = twin.search(queries, k), index.search(queries, k)
        np.testing.assert_allclose(found.distances, wanted.distances, atol=1e-5)
        assert shared(found.ids, wanted.ids) >= 0.999
    alone = [index.search(query[None], K).distances[0] for query in queries[:8]]
    np.testing.assert_allclose(alone, twin.search(queries[:8], K).distances, atol=1e-5)
    one, other = (each.explain(queries[0], wanted.ids[0, 40].item()) for each in (index, twin))
    assert one.distance == pytest.approx(other.distance, abs=1e-5)
    assert one.stages == pytest.approx(other.stages, abs=1e-5)
    assert {member.id for member in one.members} == {member.id for member in other.members}


def test_every_store_answers_as_the_index_over_its_vectors(made, data):
    index = kinrank.attach(made.store, **PARAMS)
    assert len(index) == len(made.rows)
    assert set(index.ids.tolist()) == set(made.ids.tolist())
    cosine = made.store.metric != "euclidean"
    method = kinrank.CAS(metric="cosine" if cosine else "euclidean", **PARAMS)
    twin = method.fit(made.rows, ids=made.ids)
    ranking = index.search(data.queries, K)
    assert ranking.ids.dtype.kind == made.ids.dtype.kind
    same = shared(ranking.ids, twin.search(data.queries, K).ids)
    assert same >= (0.9 if made.recall >= 0.95 else 0.6)
    if made.recall == 1:
        assert_same(index, twin, data.queries)
    plain = index.search(data.queries, K, base=True)
    assert shared(plain.ids, made.store.search(data.queries, K).indices) == 1


def test_a_server_that_measures_cosines_exactly(data, postgres):
    index = "hnsw (embedding vector_cosine_ops)"
    pg_table(postgres, "exact cosine", "bigint", data.rows, data.numbers, index)
    with PgVectorStore(postgres, "exact cosine", metric="cosine", exact=True) as store:
        twin = kinrank.CAS(metric="cosine", **PARAMS).fit(data.rows, ids=data.numbers)
        assert_same(kinrank.attach(store, **PARAMS), twin, data.queries)


@pytest.mark.parametrize(
    "options",
    [
        {"clusters": "reciprocal"},
        {"clusters": "knn", "k2": 9},
        {"guide": "similarity"},
        {"smoothing": "aqe", "fusion": "euclidean", "omega": 0.6},
    ],
    ids=str,
)
def test_other_methods_over_a_store(data, options):
    method = kinrank.CAS(metric="euclidean", **{**PARAMS, **options})
    found = kinrank.attach(flat(data.rows), method).search(data.queries, 5)
    wanted = method.fit(data.rows).search(data.queries, 5)
    np.testing.assert_allclose(found.distances, wanted.distances, atol=1e-5)
    np.testing.assert_array_equal(found.ids, wanted.ids)


class Counting(FaissStore):
    """A store that tells what it was asked for."""

    fetched: list

    def fetch(self, ids):
        self.fetched.append(np.asarray(ids))
        return super().fetch(ids)


def counting(rows):
    import faiss

    index = faiss.index_factory(rows.shape[1], "IVF1,Flat")
    index.train(rows)
    index.add(rows)
    store = Counting(index)
    store.fetched = []
    return store


def test_each_row_is_fetched_once_in_two_trips_for_a_batch(data, monkeypatch):
    store = counting(data.rows)
    index = kinrank.attach(store, **PARAMS)
    store.fetched.clear()
    whole = index.search(data.queries, 5)
    assert 1 <= len(store.fetched) <= 2
    for asked in store.fetched:
        assert len(np.unique(asked)) == len(asked) < 200
    monkeypatch.setattr("kinrank.index.search._TILE", 24 * 3)  # three rows at a time
    store.fetched.clear()
    np.testing.assert_array_equal(index.search(data.queries, 5).distances, whole.distances)
    assert max(map(len, store.fetched)) == 3


def test_a_search_without_fetching(data, tmp_path):
    store = counting(data.rows)
    index = kinrank.attach(store, refine=False, **PARAMS)
    index.save(tmp_path / "graph")
    again = kinrank.open(tmp_path / "graph", store=store, refine=False)
    store.fetched.clear()
    plain = index.search(data.queries, K)
    np.testing.assert_array_equal(again.search(data.queries, K).distances, plain.distances)
    assert store.fetched == []
    refined = kinrank.open(tmp_path / "graph", store=store).search(data.queries, K)
    assert shared(plain.ids, refined.ids) >= 0.95
    assert np.abs(plain.distances - refined.distances).max() > 1e-3
    with pytest.raises(kinrank.InvalidInputError, match="`refine` must be"):
        kinrank.attach(store, refine=2, **PARAMS)


def test_rows_that_left_count_as_near_as_the_last_one_listed(data):
    store = counting(data.rows)
    index = kinrank.attach(store, **PARAMS)
    store.fetched.clear()
    index.search(data.queries, 5)
    gone = np.concatenate(store.fetched)[:-1]
    assert len(gone) > 3
    store.index.remove_ids(gone)
    with pytest.raises(kinrank.UnknownIdError, match=f"no row with the id {gone[0]} any more"):
        store.fetch(gone)
    found = index.search(data.queries, 5)
    assert np.isfinite(found.distances).all()
    store.fetched.clear()
    again = index.search(data.queries, 5)
    np.testing.assert_array_equal(found.distances, again.distances)
    assert not np.isin(np.concatenate(store.fetched), gone).any()  # not asked for again
    with pytest.raises(kinrank.UnknownIdError, match=f"no row with the id {gone[0]} any more"):
        index.explain(data.queries[0], gone[0].item())


def test_a_store_that_fetches_too_little(data):
    store = counting(data.rows)
    index = kinrank.attach(store, **PARAMS)
    store.fetch = lambda ids: data.rows[:1]
    with pytest.raises(kinrank.InvalidInputError, match="it must return one for each"):
        index.search(data.queries, 5)


def test_answers_do_not_depend_on_the_block_or_on_other_queries(data):
    one, other = (kinrank.attach(flat(data.rows), block_size=b, **PARAMS) for b in (600, 37))
    np.testing.assert_array_equal(
        one.search(data.queries, K).ids, other.search(data.queries, K).ids
    )
    alone = one.search(data.queries[4:5], K)
    np.testing.assert_array_equal(alone.ids[0], one.search(data.queries, K).ids[4])


def test_the_metric_is_that_of_the_store_unless_asked_otherwise(data):
    assert kinrank.attach(flat(data.rows), **PARAMS).method.metric == "euclidean"
    unit = kinrank.attach(flat(data.unit), metric="cosine", **PARAMS)
    twin = kinrank.CAS(metric="cosine", **PARAMS).fit(data.unit)
    assert shared(unit.search(data.queries, K).ids, twin.search(data.queries, K).ids) >= 0.97
    with pytest.raises(kinrank.InvalidInputError, match=r"has the norm .*'euclidean'.*'cosine'"):
        kinrank.attach(flat(data.rows), metric="cosine", **PARAMS)


def test_inner_products_need_unit_rows(data):
    import faiss

    index = faiss.IndexFlatIP(data.rows.shape[1])
    index.add(data.rows)
    with pytest.raises(kinrank.InvalidInputError, match=r"has the norm .* measures 'inner'"):
        kinrank.attach(FaissStore(index), **PARAMS)


def test_rows_that_come_later_are_left_out(data):
    store = flat(data.rows[:500])
    index = kinrank.attach(store, **PARAMS)
    before = index.search(data.queries, K)
    store.index.add(data.queries[:5])
    ranking = index.search(data.queries[5:], K)
    assert set(ranking.ids.ravel().tolist()) <= set(range(500))
    assert shared(ranking.ids, before.ids[5:]) >= 0.9


def test_vectors_that_cannot_be_fetched_are_named(data):
    import faiss

    index = faiss.index_factory(24, "ITQ16,LSH")
    index.train(data.rows)
    index.add(data.rows)
    with pytest.raises(kinrank.InvalidInputError, match="cannot be read back"):
        kinrank.attach(FaissStore(index), **PARAMS)
    with pytest.raises(kinrank.InvalidInputError, match="Check the metric"):  # bits that differ
        kinrank.attach(FaissStore(index, vectors=data.rows), **PARAMS)
    codes = faiss.index_factory(24, "PQ12x4")
    codes.train(data.rows)
    codes.add(data.rows)
    assert len(kinrank.attach(FaissStore(codes, vectors=data.rows), **PARAMS)) == 600


def test_searches_that_find_too_little_are_named(data):
    import faiss

    index = faiss.index_factory(24, "IVF40,Flat")
    index.train(data.rows)
    index.add(data.rows)
    with pytest.raises(kinrank.InvalidInputError, match=r"found .* of the .* rows asked for"):
        kinrank.attach(FaissStore(index), lists="store", k1=30)
    assert len(kinrank.attach(FaissStore(index), k1=30)) == 600  # lists of the vectors are whole


def test_copies_of_a_row(data):
    rows = np.concatenate([data.rows[:60], np.repeat(data.rows[:1], 40, axis=0)])
    index = kinrank.attach(flat(rows), **PARAMS)
    found = index.search(data.rows[:1], 5)
    assert set(found.ids[0].tolist()) <= {0, *range(60, 100)}


def test_progress_and_refusals(data, tmp_path):
    seen = []
    for lists, stage in (("vectors", "fetching"), ("store", "neighbours")):
        seen.clear()
        with progress.listen(lambda *report: seen.append(report)):
            kinrank.attach(flat(data.rows), lists=lists, block_size=250, **PARAMS)
        assert [report for report in seen if report[0] == stage][:3] == [
            (stage, 0, 600),
            (stage, 250, 600),
            (stage, 500, 600),
        ]
    with pytest.raises(kinrank.UnknownNameError, match="`lists` must be one of"):
        kinrank.attach(flat(data.rows), lists="mine", **PARAMS)
    with pytest.raises(kinrank.InvalidInputError, match=r"`store` must be a store .* got list"):
        kinrank.attach([])
    with pytest.raises(kinrank.InvalidInputError, match="at least two rows, got 1"):
        kinrank.attach(flat(data.rows[:1]))
    with pytest.raises(kinrank.InvalidInputError, match="`method` must be CAS"):
        kinrank.attach(flat(data.rows), "kreciprocal")
    with pytest.raises(kinrank.InvalidInputError, match="belong into the method object"):
        kinrank.attach(flat(data.rows), kinrank.CAS(), k1=4)


def test_a_saved_index_finds_its_store_again(data, tmp_path):
    table = lance_table(tmp_path / "lance", "rows", data.rows, data.names)
    index = kinrank.attach(LanceStore(table), **PARAMS)
    index.save(tmp_path / "graph")
    again = kinrank.open(tmp_path / "graph", store=LanceStore(table))
    one, other = index.search(data.queries, K), again.search(data.queries, K)
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.distances, other.distances)


def test_callers_at_the_same_time(data, postgres):
    from concurrent.futures import ThreadPoolExecutor

    pg_table(postgres, "busy", "bigint", data.rows, data.numbers)
    with PgVectorStore(postgres, "busy") as store:
        index = kinrank.attach(store, **PARAMS)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda query: index.search(query[None], K).ids, data.queries))
        np.testing.assert_array_equal(np.concatenate(found), index.search(data.queries, K).ids)


def test_a_store_is_not_asked_for_each_row_where_its_vectors_can_be_fetched(data):
    store = counting(data.rows)
    asked = []
    search = store.search
    store.search = lambda queries, k: asked.append(len(queries)) or search(queries, k)
    index = kinrank.attach(store, **PARAMS)
    assert sum(asked) < 20  # those that are compared with fetched vectors
    asked.clear()
    by_store = kinrank.attach(store, lists="store", **PARAMS)
    assert sum(asked) >= len(data.rows)
    one = index.search(data.queries, K)
    np.testing.assert_array_equal(one.ids, by_store.search(data.queries, K).ids)
    np.testing.assert_allclose(one.distances, by_store.search(data.queries, K).distances, atol=1e-5)


@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
def test_lists_of_vectors_of_any_size(data, factor):
    rows = (factor * data.rows).astype(np.float32)
    found = kinrank.attach(RowStore(rows), **PARAMS).search(factor * data.queries, K)
    expected = kinrank.CAS(**PARAMS).fit(rows).search(factor * data.queries, K)
    np.testing.assert_array_equal(found.ids, expected.ids)


def test_what_an_index_over_a_store_cannot_do(data):
    index = kinrank.attach(flat(data.rows), **PARAMS)
    missing = index.info()["unavailable"]
    calls = {
        "add": lambda: index.add(data.queries),
        "calibrate": index.calibrate,
        "explorer": index.explorer,
        "neighbors": lambda: index.neighbors(3),
        "remove": lambda: index.remove([3]),
        "update": lambda: index.update([3], data.queries[:1]),
        "upsert": lambda: index.upsert(data.queries[:1], [3]),
        "vectors": lambda: index.vectors([3]),
    }
    assert missing == sorted(calls)
    for call in calls.values():
        with pytest.raises(kinrank.InvalidInputError, match="built over a store and keeps no vec"):
            call()
    for name in ("unknown_rate", "pair_false_match_rate"):
        with pytest.raises(kinrank.InvalidInputError, match=f"so `{name}` is not available"):
            index.search(data.queries, K, **{name: 0.01})
    assert "over a store" in repr(index)
    assert kinrank.CAS(**PARAMS).fit(data.rows).info()["unavailable"] == []
