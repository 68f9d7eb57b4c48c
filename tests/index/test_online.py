"""Answers of an index: those of the closed set with the query in it, whoever else is asked."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kinrank
from engine_data import digits
from index_data import QUERIES, ROWS
from kinrank import CAS, evaluate
from kinrank.errors import InvalidInputError
from kinrank.index.request_queue import Request

OPTIONS = [
    {},
    {"variant": "paper"},
    {"clusters": "knn"},
    {"clusters": "reciprocal", "smoothing": "aqe"},
    {"similarity": "original", "smoothing": None},
    {"similarity": "smoothed", "divergence": "cosine"},
    {"enhancement": False, "divergence": "jaccard", "fusion": "euclidean"},
    {"regularizer": "graph", "solver": "local"},
    {"omega": 0.0},
    {"omega": 1.0},
]


def named(options):
    return "-".join(f"{k}={v}" for k, v in options.items()) or "defaults"


def one_at_a_time(method, queries, gallery):
    """The exact counterpart: the closed set with that one query added to the gallery."""
    found = [method.rerank(query[None], gallery) for query in queries]
    return kinrank.Ranking(
        np.concatenate([one.indices for one in found]),
        np.concatenate([one.distances for one in found]),
    )


def mean_ap(ranking, queries, gallery):
    return 100 * evaluate.reid(ranking, queries, gallery).mAP


@pytest.mark.parametrize("options", [{}, {"variant": "paper"}], ids=named)
def test_digits_are_ranked_as_well_as_with_the_query_in_the_graph(options):
    queries, gallery, own, labels = digits()
    queries, own, gallery, labels = queries[:40], own[:40], gallery[:900], labels[:900]
    method = CAS(k1=15, k2=5, **options)
    online = method.fit(gallery).search(queries, k=None)
    exact = one_at_a_time(method, queries, gallery)
    assert mean_ap(online, own, labels) > mean_ap(exact, own, labels) - 0.3


@pytest.mark.parametrize("options", OPTIONS, ids=named)
def test_distances_are_near_those_with_the_query_in_the_graph(options):
    method = CAS(k1=10, k2=4).replace(**options)
    index = method.fit(ROWS)
    online = index.search(QUERIES, k=None)
    exact = one_at_a_time(method, QUERIES, ROWS)
    a, b = (np.empty(one.indices.shape) for one in (online, exact))
    np.put_along_axis(a, online.indices.astype(np.int64), online.distances, axis=1)
    np.put_along_axis(b, exact.indices.astype(np.int64), exact.distances, axis=1)
    assert a.min() >= 0
    assert a.max() <= 1
    assert np.abs(a - b).mean() < 0.02
    near = [
        len(np.intersect1d(x[:10], y[:10])) for x, y in zip(online.ids, exact.indices, strict=True)
    ]
    assert np.mean(near) > 8.5


@pytest.mark.parametrize("options", OPTIONS, ids=named)
def test_answers_depend_on_nobody_else(options):
    index = CAS(k1=10, k2=4).replace(**options).fit(ROWS)
    together = index.search(QUERIES, k=20)
    for row in (0, 7, 23):
        alone = index.search(QUERIES[row : row + 1], k=20, threads=1)
        np.testing.assert_array_equal(alone.indices[0], together.indices[row])
        np.testing.assert_array_equal(alone.distances[0], together.distances[row])
    again = index.search(QUERIES[::-1], k=None, threads=3)
    np.testing.assert_array_equal(again.distances[::-1, :20], together.distances)


def test_omega_one_is_the_plain_search():
    index = CAS(k1=10, k2=4, omega=1.0).fit(ROWS)
    plain, ranked = index.search(QUERIES, k=15, base=True), index.search(QUERIES, k=15)
    np.testing.assert_array_equal(plain.indices, ranked.indices)
    np.testing.assert_allclose(plain.distances, ranked.distances, rtol=1e-6)
    d = ((QUERIES[:, None] - ROWS) ** 2).sum(-1)
    np.testing.assert_array_equal(plain.indices, np.argsort(d, axis=1, kind="stable")[:, :15])


def test_context_is_never_an_answer():
    queries, gallery, _, _ = digits()
    index = CAS(k1=15, k2=5).fit(gallery[:500], context=gallery[500:1500])
    found = index.search(queries[:20], k=None)
    assert len(index) == 500
    assert (np.sort(found.indices, axis=1) == np.arange(500)).all()
    first = index.search(queries[:20], k=30)
    np.testing.assert_array_equal(first.ids, found.ids[:, :30])
    plain = index.search(queries[:20], k=30, base=True)
    assert (plain.indices >= 0).all()
    assert plain.indices.max() < 500


def test_other_queries_as_context_give_the_papers_gain_back():
    queries, gallery, own, labels = digits()
    method = CAS(k1=15, k2=5)
    paper = mean_ap(method.rerank(queries, gallery), own, labels)
    total = []
    for part in range(5):
        rows = np.arange(len(queries)) % 5 == part
        found = method.fit(gallery, context=queries[~rows]).search(queries[rows], k=None)
        total += [mean_ap(found, own[rows], labels)] * rows.sum()
    assert np.mean(total) > paper - 0.5


def test_many_callers_at_once():
    index = CAS(k1=10, k2=4).fit(ROWS)
    expected = index.search(QUERIES, k=10)
    wrong = []

    def ask(rows):
        for row in rows:
            found = index.search(QUERIES[row : row + 1], k=10, threads=1)
            if (found.distances[0] != expected.distances[row]).any():
                wrong.append(row)

    threads = [threading.Thread(target=ask, args=(range(at, 24, 3),)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_whole_gallery_and_more_than_there_is():
    index = CAS(k1=10, k2=4).fit(ROWS[:60])
    assert index.search(QUERIES).k == 60
    assert index.search(QUERIES, k=None).k == 60
    with pytest.raises(InvalidInputError, match="`k` must be an integer of at least 1"):
        index.search(QUERIES, k=0)


def test_vectors_far_from_the_origin_and_very_large():
    method = CAS(k1=10, k2=4)
    expected = method.fit(ROWS).search(QUERIES, k=10)
    moved = method.fit(ROWS + 4096.0).search(QUERIES + 4096.0, k=10)
    scaled = method.fit(ROWS * 2.0**40).search(QUERIES * 2.0**40, k=10)
    np.testing.assert_array_equal(scaled.ids, expected.ids)
    assert np.mean(moved.ids == expected.ids) > 0.95


def test_duplicates_of_rows_and_queries_that_are_rows():
    rows = np.concatenate([ROWS[:80], np.repeat(ROWS[:1], 40, axis=0), ROWS[80:200]])
    index = CAS(k1=10, k2=4).fit(rows)
    found = index.search(rows[:5], k=None)
    assert np.isfinite(found.distances).all()
    assert found.ids[1, 0] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"symmetric": False}, "`symmetric` must be True"),
        ({"divergence": "euclidean"}, "`divergence` must be 'js' or 'jaccard' or 'cosine'"),
        ({"fusion": "diffusion"}, "`fusion` must be 'squared' or 'euclidean'"),
        ({"regularizer": np.eye(3)}, "`regularizer` must be 'identity' or 'graph'"),
    ],
)
def test_what_an_index_cannot_do_is_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        CAS(**options).fit(ROWS)


def test_bad_queries():
    index = CAS(k1=10, k2=4).fit(ROWS)
    with pytest.raises(InvalidInputError, match=r"columns as the index \(8\), got 5"):
        index.search(np.zeros((2, 5)))
    with pytest.raises(InvalidInputError, match="must be finite, got NaN or infinity in row 1"):
        index.search([[0.0] * 8, [np.nan] * 8])
    with pytest.raises(InvalidInputError, match="two-dimensional"):
        index.search(np.zeros((1, 1, 8)))


def test_approximate_search():
    method = CAS(k1=10, k2=4)
    exact, index = method.fit(ROWS), method.fit(ROWS, run=kinrank.Run(search="approximate"))
    assert index.recall > 0.9
    a, b = exact.search(QUERIES, k=10), index.search(QUERIES, k=10)
    shared = [len(np.intersect1d(x, y)) for x, y in zip(a.ids, b.ids, strict=True)]
    assert np.mean(shared) > 9
    alone = index.search(QUERIES[3:4], k=10)
    np.testing.assert_array_equal(alone.distances[0], b.distances[3])


def test_neighbors_of_a_row():
    index = CAS(k1=10, k2=4).fit(ROWS, ids=[f"r{n}" for n in range(len(ROWS))])
    found = index.neighbors("r5", k=7)
    assert found.ids.shape == (1, 7)
    assert "r5" not in found.ids
    closed = CAS(k1=10, k2=4).rerank(ROWS[5:6], np.delete(ROWS, 5, axis=0), k=7)
    expected = closed.indices[0] + (closed.indices[0] >= 5)
    assert len(np.intersect1d(expected, found.indices[0])) >= 6
    np.testing.assert_allclose(found.distances[0], closed.distances[0], atol=1e-4)


def test_rows_that_p_leads_a_query_to_are_made_with_it():
    """A row that averages the query leads those near it to the query, whose rows change too."""
    from kinrank.parallel import Runner

    engine = CAS(k1=10, k2=4).fit(ROWS).engine
    n, stored, held = len(engine.state), engine.state.enhanced, 0
    for query in QUERIES[:8].astype(np.float32):
        near = engine.nearest(query[None], engine.state.neighbors.k - 1, Runner.of(1))
        with engine.workspace() as space:
            stages = engine.encode(query[None], near, space)
        encoding = stages.encoding
        tilde = stages.enhanced.rows
        p = stages.transition.rows
        own, share = p.indices[: p.indptr[1]], p.values[: p.indptr[1]]
        assert set(own[share > 1.001 / len(own)]) <= set(encoding.replaced)
        assert len(set(encoding.replaced)) == len(encoding.replaced)
        for row, name in enumerate(encoding.replaced):
            averaged, prime = (
                part.indices[part.indptr[row] : part.indptr[row + 1]]
                for part in (tilde, encoding.rows)
            )
            if n not in averaged:  # neither the query nor a partner: the row that is stored
                expected = stored.indices[stored.indptr[name] : stored.indptr[name + 1]]
                np.testing.assert_array_equal(averaged, expected)
                held += n in prime
    assert held > 5


def in_queue(index, queries, pool, k=7):
    """Requests to an index that is busy, once all of them wait."""
    queue = index.engine.queue
    queue.n_free = 0
    asked = [pool.submit(index.search, query, k) for query in queries]
    while len(queue.waiting) < len(queries):
        time.sleep(0.001)
    return asked


def finish_one(index):
    """As a request does that was computed."""
    last = Request(QUERIES[:1], None)
    last.batch = [last]
    index.engine.queue.finish(last)


def test_callers_that_wait_are_answered_together_as_each_alone(monkeypatch):
    index = CAS(k1=10, k2=4).fit(ROWS)
    expected = [index.search(query, k=7) for query in QUERIES]
    sizes = []
    search_now = index.engine.search_now

    def noted(queries, *rest):
        sizes.append(len(queries))
        return search_now(queries, *rest)

    monkeypatch.setattr(index.engine, "search_now", noted)
    with ThreadPoolExecutor(len(QUERIES)) as pool:
        asked = in_queue(index, QUERIES, pool)
        finish_one(index)
        for one, answer in zip(expected, asked, strict=True):
            np.testing.assert_array_equal(answer.result(60).ids, one.ids)
            np.testing.assert_array_equal(answer.result(60).distances, one.distances)
    assert sizes == [len(QUERIES)]
    assert index.engine.queue.n_free == 1


def test_an_error_reaches_every_caller_that_waits(monkeypatch):
    index = CAS(k1=10, k2=4).fit(ROWS)

    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(index.engine, "search_now", fail)
    with ThreadPoolExecutor(2) as pool:
        asked = in_queue(index, QUERIES[:2], pool)
        finish_one(index)
        assert [str(answer.exception(60)) for answer in asked] == ["no room"] * 2
    assert index.engine.queue.n_free == 1


def test_who_asks_otherwise_and_who_is_interrupted_keeps_nobody_waiting():
    index = CAS(k1=10, k2=4).fit(ROWS)
    queue = index.engine.queue
    with ThreadPoolExecutor(4) as pool:
        asked = in_queue(index, QUERIES[:2], pool)
        asked += [pool.submit(index.search, QUERIES[2:4], 7), pool.submit(index.search, ROWS[0], 3)]
        while len(queue.waiting) < 4:
            time.sleep(0.001)
        first = Request(QUERIES[:1], 7)  # runs, for others too, when it is interrupted
        first.batch = [first, *queue.waiting[:2]]
        del queue.waiting[:2]
        queue.finish(first)
        lengths = [len(answer.result(60)) for answer in asked]
    assert lengths == [1, 1, 2, 1]
    assert queue.n_free == 1
