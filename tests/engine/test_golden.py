"""The authors' variant equals the authors' code on digits."""

import numpy as np
import pytest

from engine_data import GOLDEN, digits
from kinrank import CAS, evaluate
from kinrank.types import Ranking

SETTINGS = {
    "rgem": {"k1": 60, "k2": 6, "walk_k": 70, "enhance_k": 7, "keep": 80},
    "default": {"k1": 20, "k2": 5, "walk_k": 25, "enhance_k": 6, "keep": 25},
}
# mAP of the whole ranking in per cent, as the authors' code gave it.
MAP = {
    "cas_js_rgem": 89.948,
    "cas_geodesic_rgem": 93.095,
    "cas_js_default": 79.991,
    "cas_geodesic_default": 89.193,
}


@pytest.mark.parametrize("geodesic", [False, True])
@pytest.mark.parametrize("setting", SETTINGS)
def test_authors_variant(setting, geodesic):
    key = f"cas_{'geodesic' if geodesic else 'js'}_{setting}"
    with np.load(GOLDEN) as file:
        ids, distances = file[f"{key}_ids"], file[f"{key}_dist"]
    queries, gallery, query_labels, gallery_labels = digits()
    method = CAS(variant="authors", geodesic=geodesic, **SETTINGS[setting])
    ranking = method.rerank(queries, gallery)
    shared = [len(set(a[:100]) & set(b)) for a, b in zip(ranking.indices, ids, strict=True)]
    assert np.mean(shared) >= 99.9
    expected = distances / (1 + distances) if geodesic else distances  # theirs go beyond 1
    np.testing.assert_allclose(ranking.distances[:, :100], expected, atol=1e-5)
    result = evaluate.reid(ranking, query_labels, gallery_labels)
    assert 100 * result.mAP == pytest.approx(MAP[key], abs=0.02)
    first = method.rerank(queries, gallery, k=100)
    np.testing.assert_array_equal(first.indices, ranking.indices[:, :100])


def test_sizes_follow_the_authors():
    for sizes in SETTINGS.values():
        assert CAS(k1=sizes["k1"], k2=sizes["k2"]) == CAS(**sizes)


def test_a_ranking_survives_the_disk(tmp_path):
    queries, gallery, _, _ = digits()
    ranking = CAS().rerank(queries, gallery, k=10)
    ranking.save(tmp_path / "ranking.npz")
    loaded = Ranking.load(tmp_path / "ranking.npz")
    np.testing.assert_array_equal(loaded.indices, ranking.indices)
    np.testing.assert_array_equal(loaded.distances, ranking.distances)
