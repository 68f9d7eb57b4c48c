"""What people retype, and a matcher of the kind that wildlife-tools takes."""

from types import SimpleNamespace

import numpy as np
import pytest

from kinrank import CAS
from kinrank.compat import (
    RerankMatcher,
    re_ranking_features,
    rerank_embeddings,
    rerank_features,
)
from kinrank.methods.context.kreciprocal import KReciprocal
from struck import rows


@pytest.fixture(scope="module")
def sets():
    return rows(10, 1), rows(120, 2)


def test_features(sets):
    expected = re_ranking_features(*sets, 20, 6, 0.3)
    np.testing.assert_array_equal(rerank_features(*sets), expected)
    assert rerank_features(*sets, k1=8, k2=3, lambda_value=0.5).shape == (10, 120)
    other = rerank_features(*sets, method="cas")
    assert not np.array_equal(other, expected)


def test_a_collection_to_itself(sets):
    got = rerank_embeddings(sets[1])
    assert got.shape == (120, 120)
    assert (np.diag(got) == 0).all()
    ranking = KReciprocal().rerank(sets[1])
    np.testing.assert_array_equal(
        np.take_along_axis(got, ranking.indices.astype(int), axis=1), ranking.distances
    )


def test_matcher(sets):
    query, database = (SimpleNamespace(features=rows) for rows in sets)
    got = RerankMatcher(k1=8, k2=4)(query, database)
    ranking = CAS(k1=8, k2=4).rerank(*sets)
    np.testing.assert_array_equal(np.argmax(got, axis=1), ranking.indices[:, 0])
    np.testing.assert_array_equal(RerankMatcher(k1=8, k2=4)(*sets), got)
    best = np.sort(got, axis=1)[:, ::-1]
    np.testing.assert_array_equal(-best, ranking.distances)
    assert RerankMatcher("aqe")(query, database).shape == (10, 120)
