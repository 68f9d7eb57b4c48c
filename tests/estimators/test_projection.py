"""The projection as scikit-learn calls it."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import kinrank
from kinrank.sklearn import NeighborsTransformer, ProjectionTransformer

EXPECTED_FAILURES = {"check_estimators_dtypes": "a row of zeros has no direction"}
ROWS = kinrank.datasets.load("toy").gallery.features


@pytest.mark.parametrize("kind", ["pairs", 0.25])
def test_check_estimator(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny sets; checks that are skipped
        estimator = ProjectionTransformer(kind=kind, n_jobs=1)
        check_estimator(estimator, expected_failed_checks=EXPECTED_FAILURES)


@pytest.mark.parametrize("kind", ["pairs", "views", 0.5])
def test_it_is_the_projection(kind):
    estimator = ProjectionTransformer(kind=kind).fit(ROWS[30:])
    expected = kinrank.Projection.fit(ROWS[30:], kind=kind)
    np.testing.assert_array_equal(estimator.transform(ROWS[:30]), expected.transform(ROWS[:30]))
    assert estimator.projection_.reason == expected.reason


def test_data_frames_and_pipelines():
    estimator = ProjectionTransformer(kind=0.25).set_output(transform="pandas")
    frame = estimator.fit_transform(ROWS)
    assert list(frame.columns) == [f"projectiontransformer{i}" for i in range(8)]
    pipeline = make_pipeline(ProjectionTransformer(kind=0.25), NeighborsTransformer(n_neighbors=4))
    graph = pipeline.set_output(transform="pandas").fit_transform(ROWS)
    assert graph.shape == (330, 330)


def test_what_is_refused():
    with pytest.raises(NotFittedError):
        ProjectionTransformer().transform(ROWS)
    with pytest.raises(kinrank.KinrankError, match="`kind` must be"):
        ProjectionTransformer(kind="best").fit(ROWS)
    with pytest.raises(kinrank.InvalidInputError, match="`n_jobs` must be"):
        ProjectionTransformer(n_jobs=0).fit(ROWS)
