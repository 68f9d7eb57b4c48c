"""Gaps in distances: what chance makes, and what groups make."""

import numpy as np
import pytest

from kinrank.parallel import Runner
from kinrank.tune import diagnosis
from kinrank.tune.diagnosis import LEVEL, Evidence, find_groups, hubness, look


def squared_lists(rows, k):
    d2 = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    return np.sort(d2, axis=1)[:, 1 : k + 1]


def blobs(sizes, d=16, spread=0.2, seed=0):
    random = np.random.default_rng(seed)
    centres = np.repeat(random.normal(size=(len(sizes), d)), sizes, axis=0)
    return centres + spread * random.normal(size=centres.shape) / np.sqrt(d)


@pytest.mark.parametrize("dimension", [2, 5, 20])
def test_spacings_of_a_poisson_process_are_exponential(dimension):
    # Rényi: volumes of balls up to the k-th point are sums of unit exponentials.
    random = np.random.default_rng(dimension)
    volumes = np.cumsum(random.exponential(size=(3000, 200)), axis=1)
    groups = find_groups(volumes ** (2 / dimension))
    assert groups.dimension == pytest.approx(dimension, rel=0.03)
    assert groups.alone >= 1 - 1.6 * LEVEL


def test_groups_of_one_size_are_found():
    groups = find_groups(squared_lists(blobs([7] * 60), 100))
    assert groups.alone < 0.05
    assert np.median(groups.partners) == 6
    assert groups.size == pytest.approx(7, abs=0.5)
    assert groups.spread()[1] == 7


def test_pairs_are_partners_but_no_groups():
    groups = find_groups(squared_lists(blobs([2] * 150), 75))
    assert groups.alone < 0.2
    assert groups.grouped < 0.1


def test_rows_without_groups_are_alone():
    rows = np.random.default_rng(0).normal(size=(400, 32))
    groups = find_groups(squared_lists(rows, 100))
    assert groups.alone > 0.97
    assert groups.size is None or groups.grouped < 0.03


def test_copies_are_partners():
    rows = np.repeat(np.random.default_rng(0).normal(size=(100, 8)), 3, axis=0)
    groups = find_groups(squared_lists(rows, 60))
    assert (groups.partners == 2).mean() > 0.95


def test_rows_that_are_all_equally_far():
    groups = find_groups(np.ones((5, 20)))
    assert groups.alone == 1
    assert np.isinf(groups.dimension)
    assert groups.spread() == (0, 0, 0)
    assert groups.size is None


def skewness(values):
    return np.mean((values - values.mean()) ** 3) / values.std() ** 3


def test_hubness_is_the_skewness_of_occurrences():
    rows = np.random.default_rng(0).normal(size=(60, 20)).astype(np.float32)
    d2 = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    np.fill_diagonal(d2, np.inf)
    counts = np.bincount(np.argsort(d2, axis=1)[:, :10].ravel(), minlength=60).astype(float)
    found = hubness(rows, np.random.default_rng(0), Runner(1))
    assert found == pytest.approx(skewness(counts))


def test_hubness_of_a_sample_is_near_that_of_all(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(2000, 50)).astype(np.float32)
    whole = hubness(rows, np.random.default_rng(0), Runner(1))
    assert whole > 2  # many dimensions make hubs
    monkeypatch.setattr(diagnosis, "HUB_ROWS", 1000)
    some = [hubness(rows, np.random.default_rng(seed), Runner(1)) for seed in range(5)]
    assert np.mean(some) == pytest.approx(whole, rel=0.3)


def test_look_finds_groups_and_ignores_the_row_itself():
    rows = blobs([12] * 40).astype(np.float32)
    groups, hubs = look(rows, np.random.default_rng(0), Runner(1))
    assert len(groups.partners) == len(rows)
    assert np.median(groups.partners) == 11
    assert np.isfinite(hubs)


@pytest.mark.parametrize(
    ("more", "error", "before", "after", "chance", "clear"),
    [
        (0.05, 0.01, 0.3, 0.3, 0.0, True),
        (0.05, 0.02, 0.3, 0.3, 0.0, False),  # within the noise
        (0.005, 0.0001, 0.3, 0.3, 0.0, False),  # too little
        (0.0, 0.01, 0.5, 0.6, 0.1, True),
        (0.0, 0.01, 0.7, 0.6, 0.1, False),  # less than before
        (0.0, 0.01, 0.5, 0.6, 0.3, False),  # little more than chance
    ],
)
def test_evidence(more, error, before, after, chance, clear):
    evidence = Evidence(more=more, error=error, before=before, after=after, chance=chance)
    assert evidence.clear is clear
