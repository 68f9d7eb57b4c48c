"""Equal to what the official evaluators print.

The digits are here; other sets lie beside the repository, and their tests are external.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kinrank import datasets, evaluate
from kinrank.evaluate.cells import measure
from kinrank.evaluate.spec import parse_method
from row_data import unit

SHARED = Path(__file__).resolve().parents[3] / "shared"
GOLDEN, DATA = SHARED / "golden", SHARED / "data"
OWN = Path(__file__).resolve().parents[1] / "golden"
SETS = ["cuhk03-retail-0287", "market1501-retail-0288", "roxford5k-efflite2-gem"]
EXTERNAL = [pytest.param(name, marks=pytest.mark.external) for name in SETS]


def golden(name):
    """The figures that were printed for a set."""
    folder = OWN if name == "digits" else GOLDEN
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def features(name):
    if name == "digits":
        pixels = load_digits().data
        is_query = np.arange(len(pixels)) % 18 == 0
        return unit(pixels[is_query].astype(np.float32)), unit(pixels[~is_query].astype(np.float32))
    return tuple(
        unit(np.load(DATA / name / f"{part}.npy").astype(np.float32))
        for part in ("query", "gallery")
    )


def evaluator(name):
    """A function from a ranking to the golden file's three figures, in per cent."""
    if name == "digits":
        target = load_digits().target
        is_query = np.arange(len(target)) % 18 == 0
        labels = (target[is_query], target[~is_query])
    elif (DATA / name / "gnd.json").exists():
        gnd = json.loads((DATA / name / "gnd.json").read_text())

        def levels(ranking):
            return [100 * value for value in evaluate.revisited(ranking, gnd).mAP.values()]

        return levels
    else:
        parts = ("query_ids", "gallery_ids", "query_cams", "gallery_cams")
        labels = tuple(np.load(DATA / name / f"{part}.npy") for part in parts)

    def figures(ranking):
        result = evaluate.reid(ranking, *labels)
        return [100 * result.mAP, 100 * result.cmc[1], 100 * result.mINP]

    return figures


@pytest.mark.parametrize("name", ["digits", *EXTERNAL])
def test_first_ranking(name) -> None:
    queries, gallery = features(name)
    ranking = np.argsort(-(queries @ gallery.T), axis=1, kind="stable")
    expected = golden(name)["none"]["metrics"]
    np.testing.assert_allclose(evaluator(name)(ranking), expected, atol=0.01)


METHODS = {
    "cas_js_default": "cas",
    "cas_js_rgem": "cas(k1=60,k2=6)",
    "cas_geodesic_default": "cas(geodesic=True)",
    "cas_geodesic_rgem": "cas(k1=60,k2=6,geodesic=True)",
}


@pytest.mark.parametrize("key", METHODS)
def test_a_method_through_the_whole_chain(key) -> None:
    cell = measure(parse_method(METHODS[key]), datasets.load("digits"))
    expected = golden("digits")[key]["metrics"]
    np.testing.assert_allclose([100 * cell.summary[m] for m in cell.headlines], expected, atol=0.01)


@pytest.mark.parametrize("name", ["digits", EXTERNAL[-1]])
def test_stored_rankings(name) -> None:
    # The first hundred are stored: enough for rank 1, and a lower bound of the rest.
    figures = evaluator(name)
    with np.load((OWN if name == "digits" else GOLDEN) / f"{name}.npz") as rankings:
        for method, entry in golden(name).items():
            got, expected = figures(rankings[f"{method}_ids"]), entry["metrics"]
            assert all(g <= e + 0.01 for g, e in zip(got, expected, strict=True)), method
            if name == "digits":
                assert got[1] == pytest.approx(expected[1], abs=0.01), method
