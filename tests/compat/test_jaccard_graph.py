"""The sparse Jaccard graph, and the clustering it is made for."""

import inspect

import numpy as np
import pytest
from sklearn import cluster, metrics

import kinrank
import naive
import naive_methods as slow


@pytest.fixture(scope="module")
def labelled_rows():
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(6), 30)
    centres = rng.normal(size=(6, 12)) * 3
    return (centres[labels] + rng.normal(size=(180, 12))).astype(np.float32), labels


def dense(graph):
    out = np.ones(graph.shape)
    coo = graph.tocoo()
    out[coo.row, coo.col] = coo.data
    return out


@pytest.mark.filterwarnings("ignore:The vectors have norms:kinrank.KinrankWarning")
@pytest.mark.parametrize("dialect", ["spcl", "zhong", "torchreid"])
def test_equal_to_the_dense_one(labelled_rows, dialect):
    points = labelled_rows[0]
    d2 = slow.squared(points.astype(float))
    base = d2 if dialect == "spcl" else naive.over_farthest(d2) ** (1 + (dialect == "torchreid"))
    rank = naive.ranks(d2)
    full = 8 if dialect == "spcl" else 9
    v = naive.l1(np.where(naive.R_star(rank, full, 5), np.exp(-base), 0))
    v = np.stack([v[rank[i, :3]].mean(axis=0) for i in range(len(points))])
    graph = kinrank.jaccard_graph(points, 8, 3, metric="euclidean", dialect=dialect)
    np.testing.assert_allclose(dense(graph), slow.jaccard(v), atol=2e-5)


def test_form(labelled_rows):
    graph = kinrank.jaccard_graph(labelled_rows[0], 8, 3, metric="cosine")
    assert graph.dtype == np.float32
    assert graph.nnz < 180 * 100
    for row in range(180):
        part = slice(graph.indptr[row], graph.indptr[row + 1])
        assert graph.indices[part][0] == row
        assert graph.data[part][0] == 0
        assert (np.diff(graph.data[part]) >= 0).all()
        assert graph.data[part].max() < 1
    run = kinrank.Run(block_size=7)
    same = kinrank.jaccard_graph(labelled_rows[0], 8, 3, metric="cosine", threads=3, run=run)
    assert same.data.tobytes() == graph.data.tobytes()
    assert same.indices.tobytes() == graph.indices.tobytes()


def test_the_default_metric_is_that_of_rerank(labelled_rows):
    points = labelled_rows[0]
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    metric = inspect.signature(kinrank.jaccard_graph).parameters["metric"].default
    assert metric == kinrank.CAS().metric == kinrank.evaluate.Plain().metric
    graph = kinrank.jaccard_graph(points, 8, 3, dialect="zhong")
    same = kinrank.jaccard_graph(points, 8, 3, dialect="zhong", metric=metric)
    np.testing.assert_array_equal(graph.toarray(), same.toarray())
    kinrank.jaccard_graph(unit, 8, 3)  # no warning
    with pytest.warns(kinrank.KinrankWarning, match="norms of about .* pass metric='cosine'"):
        kinrank.jaccard_graph(points, 8, 3)


def test_dbscan(labelled_rows):
    points, labels = labelled_rows
    graph = kinrank.jaccard_graph(points, 20, 6, metric="cosine", max_distance=0.6)
    found = cluster.DBSCAN(eps=0.6, min_samples=4, metric="precomputed").fit(graph).labels_
    assert metrics.adjusted_rand_score(labels, found) > 0.95
    full = dense(kinrank.jaccard_graph(points, 20, 6, metric="cosine"))
    expected = cluster.DBSCAN(eps=0.6, min_samples=4, metric="precomputed").fit(full).labels_
    np.testing.assert_array_equal(found, expected)


def test_hdbscan(labelled_rows):
    points, labels = labelled_rows
    graph = kinrank.jaccard_graph(points, 20, 6, metric="cosine", connected=True)
    model = cluster.HDBSCAN(metric="precomputed", min_cluster_size=10, copy=True)
    assert metrics.adjusted_rand_score(labels, model.fit(graph).labels_) > 0.95


def test_parameters_are_checked(labelled_rows):
    points = labelled_rows[0]
    for name, value in {
        "k1": 0, "k2": 1.5, "max_distance": 0.0, "metric": "cos", "dialect": "x", "connected": 1,
    }.items():  # fmt: skip
        with pytest.raises(kinrank.KinrankError, match=f"`{name}` must be"):
            kinrank.jaccard_graph(points, **{"metric": "cosine", name: value})
    with pytest.warns(kinrank.KinrankWarning, match="`k1` is 300"):
        kinrank.jaccard_graph(points, 300, 3, metric="cosine")


MEASURE = """
import resource, numpy as np, kinrank
rng = np.random.default_rng(0)
centres = rng.normal(size=(4000, 64)).astype(np.float32)
rows = centres[rng.integers(0, 4000, 100_000)]
rows += 0.7 * rng.normal(size=rows.shape).astype(np.float32)
graph = kinrank.jaccard_graph(rows, 30, 6, metric="cosine")
assert graph.shape == (100_000, 100_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.long
def test_memory_of_a_hundred_thousand_rows():
    import subprocess
    import sys

    run = subprocess.run(
        [sys.executable, "-c", MEASURE], check=True, capture_output=True, text=True
    )
    assert float(run.stdout) < 3
