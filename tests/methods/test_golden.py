"""Equal to what the authors' published code gives."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import kinrank
from kinrank import evaluate
from row_data import unit

SHARED = Path(__file__).resolve().parents[3] / "shared"
GOLDEN, DATA = SHARED / "golden", SHARED / "data"
OWN = Path(__file__).resolve().parents[1] / "golden" / "digits.npz"

# What was run for each key: a method and its parameters where they are not the defaults.
RUNS = {
    "aqe": ("aqe", {}),
    "aqe_dba": ("aqe", {"dba": True}),
    "aqewd": ("aqewd", {}),
    "aqewd_dba": ("aqewd", {"dba": True}),
    "alphaqe": ("alphaqe", {}),
    "alphaqe_dba": ("alphaqe", {"dba": True}),
    "dqe": ("dqe", {}),
    "dqe_dba": ("dqe", {"dba": True}),
    "sg": ("sg", {}),
    "knn": ("knn", {}),
    "kreciprocal_cas": ("kreciprocal", {"dialect": "torchreid"}),
    "kreciprocal_zhong": ("kreciprocal", {}),
    "ecn": ("ecn", {}),
    "stml": ("stml", {}),
    "gnn": ("gnn", {}),
    "dfs": ("dfs", {}),
    "fsr": ("fsr", {}),
    "rdp": ("rdp", {}),
}
# Metrics of the digits by the authors' code, as golden/README.md says: mAP, rank 1, mINP.
DIGITS = {
    "aqe": 71.488, "aqe_dba": 75.903, "aqewd": 71.853, "aqewd_dba": 75.541, "alphaqe": 72.888,
    "alphaqe_dba": 80.808, "dqe": 70.252, "dqe_dba": 67.905, "sg": 73.507, "knn": 72.385,
    "kreciprocal_cas": 76.255, "kreciprocal_zhong": 75.159, "ecn": 84.404, "stml": 68.358,
    "gnn": 87.59, "dfs": 87.407, "fsr": 86.625, "rdp": 86.946,
}  # fmt: skip


def shared(ids, expected):
    """The mean share of the expected first hundred that is found."""
    pairs = zip(ids, expected, strict=True)
    return np.mean([len(np.intersect1d(got, want)) / len(want) for got, want in pairs])


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    is_query = np.arange(len(data.data)) % 18 == 0
    rows, labels = unit(data.data.astype(np.float32)), data.target
    return rows[is_query], rows[~is_query], labels[is_query], labels[~is_query]


@pytest.mark.parametrize("key", RUNS)
def test_digits(digits, key):
    method, params = RUNS[key]
    queries, gallery, *labels = digits
    ranking = kinrank.rerank(queries, gallery, method, **params)
    assert 100 * evaluate.reid(ranking, *labels).mAP == pytest.approx(DIGITS[key], abs=0.1)
    with np.load(OWN) as golden:
        expected = golden[f"{key}_ids"]
    assert shared(ranking.indices[:, :100], expected) >= 0.99
    first = kinrank.rerank(queries, gallery, method, k=100, **params)
    np.testing.assert_array_equal(first.indices, ranking.indices[:, :100])


SETS = {
    "roxford5k-efflite2-gem": [
        "aqe", "aqe_dba", "aqewd", "alphaqe", "alphaqe_dba", "sg", "knn", "kreciprocal_cas", "ecn",
        "gnn", "dfs",
    ],
    "cuhk03-retail-0287": ["aqe", "alphaqe", "kreciprocal_cas", "ecn", "gnn"],
    "market1501-retail-0288": ["aqe", "aqewd", "alphaqe", "kreciprocal_zhong"],
}  # fmt: skip


@pytest.mark.external
@pytest.mark.parametrize(("name", "key"), [(name, key) for name in SETS for key in SETS[name]])
def test_real_sets(name, key):
    method, params = RUNS[key]
    queries, gallery = (
        unit(np.load(DATA / name / f"{p}.npy").astype(np.float32)) for p in ("query", "gallery")
    )
    ranking = kinrank.rerank(queries, gallery, method, **params)
    golden = json.loads((GOLDEN / f"{name}.json").read_text())[key]["metrics"]
    if (DATA / name / "gnd.json").exists():
        gnd = json.loads((DATA / name / "gnd.json").read_text())
        got = [100 * value for value in evaluate.revisited(ranking, gnd).mAP.values()]
    else:
        parts = ("query_ids", "gallery_ids", "query_cams", "gallery_cams")
        result = evaluate.reid(ranking, *(np.load(DATA / name / f"{p}.npy") for p in parts))
        got = [100 * result.mAP, 100 * result.cmc[1], 100 * result.mINP]
    np.testing.assert_allclose(got, golden, atol=0.1)
    if (GOLDEN / f"{name}.npz").exists():
        with np.load(GOLDEN / f"{name}.npz") as file:
            assert shared(ranking.indices[:, :100], file[f"{key}_ids"]) >= 0.99
