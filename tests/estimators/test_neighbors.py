"""The graph of re-ranked neighbours, as scikit-learn and its users take it."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsTransformer
from sklearn.utils.estimator_checks import check_estimator

import kinrank
from kinrank.sklearn import NeighborsTransformer, connected_graph
from kinrank.sklearn.graphs import padded

# Checks that it cannot pass, and why.
EXPECTED_FAILURES = {
    f"check_set_output_transform_{frame}": "the graph stays a sparse matrix"
    for frame in ("pandas", "polars")
} | {
    f"check_global_set_output_transform_{frame}": "the graph stays a sparse matrix"
    for frame in ("pandas", "polars")
}


@pytest.fixture(scope="module")
def rows():
    return kinrank.datasets.load("toy").gallery.features


@pytest.mark.parametrize("method", ["cas", "kreciprocal"])
def test_check_estimator(method):
    options = {"k1": 6, "k2": 3}
    estimator = NeighborsTransformer(method=method, options=options, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny sets; checks that are skipped
        check_estimator(estimator, expected_failed_checks=EXPECTED_FAILURES)


def test_entries_are_counted_as_scikit_learn_counts_them(rows):
    for mode in ("distance", "connectivity"):
        ours = NeighborsTransformer(n_neighbors=7, mode=mode).fit_transform(rows)
        theirs = KNeighborsTransformer(n_neighbors=7, mode=mode).fit_transform(rows)
        assert issparse(ours)
        assert ours.format == "csr"
        assert ours.shape == theirs.shape
        assert ours.nnz == theirs.nnz
        np.testing.assert_array_equal(np.diff(ours.indptr), np.diff(theirs.indptr))


def test_the_row_itself_is_first_and_the_rest_is_the_ranking(rows):
    graph = NeighborsTransformer(n_neighbors=10).fit_transform(rows)
    ranking = kinrank.rerank(rows, k=10)
    columns = graph.indices.reshape(len(rows), 11)
    distances = graph.data.reshape(len(rows), 11)
    np.testing.assert_array_equal(columns[:, 0], np.arange(len(rows)))
    np.testing.assert_array_equal(distances[:, 0], 0)
    np.testing.assert_array_equal(columns[:, 1:], ranking.indices)
    np.testing.assert_array_equal(distances[:, 1:], ranking.distances)


def test_copies_are_each_themselves(rows):
    copied = np.concatenate([rows[:50], rows[:50]])
    graph = NeighborsTransformer(n_neighbors=5).fit_transform(copied)
    columns = graph.indices.reshape(100, 6)
    np.testing.assert_array_equal(columns[:, 0], np.arange(100))


def test_kneighbors(rows):
    estimator = NeighborsTransformer(n_neighbors=4).fit(rows)
    distances, indices = estimator.kneighbors()
    ranking = kinrank.rerank(rows, k=4)
    np.testing.assert_array_equal(indices, ranking.indices)
    np.testing.assert_array_equal(distances, ranking.distances)
    longer = estimator.kneighbors(n_neighbors=9, return_distance=False)
    np.testing.assert_array_equal(longer, kinrank.rerank(rows, k=9).indices)
    known = estimator.kneighbors(rows[5:8], 3, return_distance=False)
    np.testing.assert_array_equal(known[:, 0], [5, 6, 7])
    np.testing.assert_array_equal(known[:, 1:], ranking.indices[5:8, :2])
    graph = estimator.kneighbors_graph()
    assert graph.nnz == 4 * len(rows)
    assert set(graph.data.tolist()) == {1.0}
    assert not graph.diagonal().any()


def test_new_rows_are_answered_as_the_index_answers(rows):
    estimator = NeighborsTransformer(n_neighbors=6).fit(rows[30:])
    distances, indices = estimator.kneighbors(rows[:30])
    ranking = kinrank.CAS().fit(rows[30:]).search(rows[:30], 6)
    np.testing.assert_array_equal(indices, ranking.indices)
    np.testing.assert_array_equal(distances, ranking.distances)
    mixed = estimator.kneighbors(rows[28:32], return_distance=False)
    np.testing.assert_array_equal(mixed[:2], indices[28:])
    np.testing.assert_array_equal(mixed[2:, 0], [0, 1])


def test_a_method_without_fit_ranks_new_rows_together(rows):
    estimator = NeighborsTransformer(n_neighbors=6, method="kreciprocal").fit(rows[30:])
    indices = estimator.kneighbors(rows[:30], return_distance=False)
    ranking = kinrank.rerank(rows[:30], rows[30:], "kreciprocal", k=6)
    np.testing.assert_array_equal(indices, ranking.indices)


def test_auto_chooses_the_parameters(rows):
    estimator = NeighborsTransformer(params="auto", options={"k2": 4}).fit(rows)
    tuning = kinrank.tune(None, rows, k2=4)
    assert estimator.method_ == tuning.make()
    assert estimator.method_.k2 == 4


def test_pickled_and_cloned(rows):
    estimator = NeighborsTransformer(n_neighbors=3).fit(rows)
    expected = estimator.transform(rows[:4] * 1.01)
    again = pickle.loads(pickle.dumps(estimator)).transform(rows[:4] * 1.01)  # noqa: S301  made here
    np.testing.assert_array_equal(again.toarray(), expected.toarray())
    assert clone(estimator).get_params() == estimator.get_params()


def test_names_of_columns(rows):
    estimator = NeighborsTransformer().fit(rows)
    names = estimator.get_feature_names_out()
    assert len(names) == len(rows)
    assert names[3] == "neighborstransformer3"


def test_what_is_refused(rows):
    with pytest.raises(NotFittedError):
        NeighborsTransformer().transform(rows)
    with pytest.raises(NotFittedError):
        NeighborsTransformer().kneighbors()
    with pytest.raises(kinrank.InvalidInputError, match=r"`n_neighbors` must be an integer"):
        NeighborsTransformer(n_neighbors=0).fit(rows)
    with pytest.raises(kinrank.UnknownNameError, match=r"`mode` must be"):
        NeighborsTransformer(mode="sparse").fit(rows)
    with pytest.raises(kinrank.UnknownNameError, match=r"`params` must be"):
        NeighborsTransformer(params="best").fit(rows)
    with pytest.raises(kinrank.UnknownNameError, match=r"one of .*cas.*, got 'caz'"):
        NeighborsTransformer(method="caz").fit(rows)
    with pytest.raises(kinrank.UnknownNameError, match="parameter of cas"):
        NeighborsTransformer(options={"k_1": 3}).fit(rows)
    with pytest.raises(kinrank.InvalidInputError, match=r"`n_jobs` must be"):
        NeighborsTransformer(n_jobs=-3).fit(rows)
    estimator = NeighborsTransformer().fit(rows)
    with pytest.raises(kinrank.InvalidInputError, match=r"at most 329 .* got 330"):
        estimator.kneighbors(n_neighbors=330)
    with pytest.raises(ValueError, match="8 features"):
        estimator.transform(rows[:, :5])


def test_short_lists_are_padded():
    indices = np.array([[2, -1, -1], [0, 2, 3], [0, -1, -1]])
    distances = np.array([[0.5, np.inf, np.inf], [0.1, 0.2, 0.9], [0.3, np.inf, np.inf]])
    got_distances, got_indices = padded(kinrank.Ranking(indices, distances), 4)
    np.testing.assert_array_equal(got_indices, [[2, 0, 1], [0, 2, 3], [0, 1, 2]])
    expected = np.float32([[0.5, 0.9, 0.9], [0.1, 0.2, 0.9], [0.3, 0.9, 0.9]])
    np.testing.assert_array_equal(got_distances, expected)


def test_a_connected_graph():
    """Two pairs, one of copies, and a row alone."""
    rows = np.array([0, 1, 2, 3])
    columns = np.array([1, 0, 3, 2])
    distances = np.array([0.5, 0.25, 0.0, 0.0])
    graph = csr_matrix((distances, (rows, columns)), shape=(5, 5))
    joined = connected_graph(graph)
    assert connected_components(joined)[0] == 1
    assert (joined != joined.T).nnz == 0
    assert joined[0, 1] == 0.25
    assert joined[2, 3] == np.finfo(np.float32).eps
    assert joined[0, 2] == 0.5
    assert joined[2, 4] == 0.5
    np.testing.assert_array_equal(joined.indices[joined.indptr[:-1]], np.arange(5))
    with pytest.raises(kinrank.InvalidInputError, match=r"`graph` must be a square sparse matrix"):
        connected_graph(graph.toarray())


def test_without_scikit_learn_the_extra_is_named():
    code = (
        "import sys\n"
        "sys.modules['sklearn'] = None\n"
        "try:\n"
        "    import kinrank.sklearn\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert "pip install 'kinrank[sklearn]'" in done.stdout
