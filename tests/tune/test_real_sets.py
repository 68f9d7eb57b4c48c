"""What is chosen without labels, measured by labels."""

from pathlib import Path

import numpy as np
import pytest

import kinrank
from kinrank import datasets
from kinrank.tune.param_grid import SIZES

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PLACES = ["digits", *(sorted(DATA.iterdir()) if DATA.is_dir() else [])]


def load(place):
    """A set, and the queries that are measured: at most 300."""
    data = datasets.load(place, unit=True)
    kept = np.arange(len(data.query))
    if data.protocol != "revisited":
        kept = np.random.default_rng(0).permutation(kept)[:300]
    return data, kept


def precision(data, kept, method):
    found = data.evaluate(method.rerank(data.query.features, data.gallery.features))
    return 100 * np.nanmean(np.asarray(getattr(found, "medium", found).ap, float)[kept])


@pytest.mark.long
@pytest.mark.parametrize(
    "place", [place for place in PLACES if isinstance(place, str) or place.is_dir()], ids=str
)
def test_losses_stay_small_and_seeds_agree(place):
    if place == "digits":
        pytest.importorskip("sklearn")
    data, kept = load(place)
    choices = [
        kinrank.tune(data.query.features, data.gallery.features, seed=seed) for seed in (0, 1)
    ]
    sizes = [choice.params["k1"] for choice in choices]
    assert max(sizes) <= 1.5 * min(sizes)
    assert all(choice.diagnosis.helps for choice in choices)
    best = max(precision(data, kept, kinrank.CAS(k1=k)) for k in SIZES)
    for choice in choices:
        assert precision(data, kept, choice.make()) >= best - 2.0


@pytest.mark.long
@pytest.mark.parametrize(
    "place", [p for p in PLACES if (Path(p) / "gallery_cams.npy").exists()], ids=str
)
def test_one_image_of_each_identity_will_not_be_helped(place):
    part = datasets.load(place, unit=True).gallery
    random = np.random.default_rng(0)
    order = random.permutation(np.flatnonzero(part.labels > 0))
    _, first = np.unique(part.labels[order], return_index=True)
    with pytest.warns(kinrank.KinrankWarning, match="not expected to help"):
        found = kinrank.tune(None, part.features[order[first]])
    assert found.diagnosis.verdict == "will not help"
