"""What is chosen without labels, measured by labels."""

from pathlib import Path

import numpy as np
import pytest

import kinrank
from kinrank import datasets

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PEOPLE = ["cuhk03-retail-0287", "market1501-retail-0287", "market1501-retail-0288"]
OTHERS = [
    "coil100-efflite0-gem", "grocery-efflite0-rmac", "roxford5k-caffenet", "roxford5k-efflite2-gem",
    "roxford5k-efflite2-rmac",
]  # fmt: skip


def external(*names):
    return [pytest.param(DATA / name, marks=pytest.mark.external, id=name) for name in names]


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
@pytest.mark.parametrize("place", ["digits", *external(*PEOPLE, *OTHERS)])
def test_never_below_the_default(place):
    data, kept = load(place)
    default = precision(data, kept, kinrank.CAS())
    for seed in (0, 1):
        choice = kinrank.tune(data.query.features, data.gallery.features, seed=seed)
        assert choice.diagnosis.verdict == "will help"
        assert precision(data, kept, choice.make()) >= default - 0.3


@pytest.mark.long
@pytest.mark.parametrize("place", external(*PEOPLE))
def test_one_image_of_each_identity_will_not_be_helped(place):
    part = datasets.load(place, unit=True).gallery
    random = np.random.default_rng(0)
    order = random.permutation(np.flatnonzero(part.labels > 0))
    _, first = np.unique(part.labels[order], return_index=True)
    with pytest.warns(kinrank.KinrankWarning, match="not expected to help"):
        found = kinrank.tune(None, part.features[order[first]])
    assert found.diagnosis.verdict == "will not help"
