"""What people do with a graph of neighbours, on handwritten digits."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, HDBSCAN
from sklearn.manifold import TSNE
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import kinrank
from kinrank.sklearn import NeighborsTransformer, connected_graph


@pytest.fixture(scope="module")
def digits():
    gallery = kinrank.datasets.load("digits").gallery
    return gallery.features[:600], gallery.labels[:600]


def neighbor_purity(points, labels, k=5):
    """The share of the k nearest points in a drawing that have the label of the point."""
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, :k]
    return (labels[nearest] == labels[:, None]).mean()


def test_dbscan(digits):
    rows, labels = digits
    plain = max(
        adjusted_rand_score(labels, DBSCAN(eps=eps).fit_predict(rows))
        for eps in (0.3, 0.35, 0.4, 0.45, 0.5)
    )
    pipeline = make_pipeline(
        NeighborsTransformer(n_neighbors=30), DBSCAN(eps=0.2, metric="precomputed")
    )
    score = adjusted_rand_score(labels, pipeline.fit_predict(rows))
    assert score > plain
    assert score > 0.6


def test_hdbscan(digits):
    rows, labels = digits
    pipeline = make_pipeline(
        NeighborsTransformer(n_neighbors=30),
        FunctionTransformer(connected_graph, accept_sparse=True),
        HDBSCAN(metric="precomputed", min_cluster_size=15, copy=True),
    )
    plain = HDBSCAN(min_cluster_size=15, copy=True).fit_predict(rows)
    score = adjusted_rand_score(labels, pipeline.fit_predict(rows))
    assert score > adjusted_rand_score(labels, plain)
    assert score > 0.6


def test_tsne(digits):
    rows, labels = digits
    perplexity = 15
    pipeline = make_pipeline(
        NeighborsTransformer(n_neighbors=3 * perplexity + 1),
        TSNE(metric="precomputed", init="random", perplexity=perplexity, max_iter=300,
             random_state=0),
    )  # fmt: skip
    points = pipeline.fit_transform(rows)
    assert points.shape == (600, 2)
    assert neighbor_purity(points, labels) > 0.9


@pytest.mark.long  # umap compiles for a while
def test_umap(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        import umap

        rows, labels = digits
        estimator = NeighborsTransformer().fit(rows)
        distances, indices = estimator.kneighbors(rows, n_neighbors=15)
        drawing = umap.UMAP(
            n_neighbors=15, precomputed_knn=(indices, distances), random_state=0, n_epochs=100
        )
        points = drawing.fit_transform(rows)
    assert points.shape == (600, 2)
    assert neighbor_purity(points, labels) > 0.9


def test_a_classifier_behind_the_graph(digits):
    rows, labels = digits
    pipeline = make_pipeline(
        NeighborsTransformer(n_neighbors=10), KNeighborsClassifier(5, metric="precomputed")
    )
    pipeline.fit(rows[:500], labels[:500])
    assert pipeline.score(rows[500:], labels[500:]) > 0.9


def test_a_pipeline_that_is_asked_for_data_frames(digits):
    import pandas as pd

    rows = pd.DataFrame(digits[0]).add_prefix("pixel")
    pipeline = make_pipeline(
        StandardScaler(), NeighborsTransformer(n_neighbors=30), DBSCAN(metric="precomputed")
    )
    pipeline.set_output(transform="pandas")
    found = pipeline.fit_predict(rows)
    scaled = pipeline[0].transform(rows)
    assert list(scaled.columns) == list(rows.columns)
    expected = DBSCAN(metric="precomputed").fit_predict(
        NeighborsTransformer(n_neighbors=30).fit_transform(scaled.to_numpy())
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.external
def test_scanpy(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        import anndata
        import scanpy

        rows, labels = digits
        data = anndata.AnnData(rows)
        scanpy.pp.neighbors(
            data, n_neighbors=15, use_rep="X", transformer=NeighborsTransformer(n_neighbors=15)
        )
    graph = data.obsp["distances"]
    assert graph.shape == (600, 600)
    row, column = graph.nonzero()
    assert (labels[row] == labels[column]).mean() > 0.9
