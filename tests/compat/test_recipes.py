"""The recipes of docs/methods.md run as they stand, on digits of which many are there twice."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kinrank
from engine_data import digits

METHODS = Path(__file__).parents[2] / "docs" / "methods.md"

PREPARE = """
import numpy as np, kinrank
from sklearn.cluster import DBSCAN, HDBSCAN
from sklearn.metrics import homogeneity_score
features, truth = np.load("features.npy"), np.load("labels.npy")
"""
CHECK = """
assert labels.shape == truth.shape
assert (labels >= 0).mean() > 0.6
print(homogeneity_score(truth[labels >= 0], labels[labels >= 0]))
"""


def copies():
    """Digits, a third of them three times: distances of 0 between different rows."""
    _, gallery, _, labels = digits()
    rows = np.concatenate([np.arange(900), np.repeat(np.arange(0, 900, 3), 2)])
    return gallery[rows], labels[rows]


def recipes():
    text = METHODS.read_text(encoding="utf-8").partition("## A graph for clustering")[2]
    chunks = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1).split("\n\n")
    return [chunk for chunk in chunks if "jaccard_graph" in chunk]


def test_there_is_a_recipe_for_each():
    assert [re.search(r"= (\w+)\(", block.splitlines()[-1]).group(1) for block in recipes()] == [
        "DBSCAN", "HDBSCAN",
    ]  # fmt: skip


def test_recipes_of_the_docs_end_with_clusters(tmp_path):
    features, truth = copies()
    np.save(tmp_path / "features.npy", features)
    np.save(tmp_path / "labels.npy", truth)
    run = subprocess.run(  # some mistakes never end
        [sys.executable, "-c", PREPARE + "".join(block + CHECK for block in recipes())],
        cwd=tmp_path, timeout=120, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    by_dbscan, by_hdbscan = map(float, run.stdout.split())
    assert by_dbscan > 0.85
    assert by_hdbscan > 0.85


def test_a_connected_graph_stores_no_zero_beside_the_diagonal():
    features, _ = copies()
    plain = kinrank.jaccard_graph(features, 20, 6).tocoo()
    assert (plain.data[plain.row != plain.col] == 0).sum() > 600
    graph = kinrank.jaccard_graph(features, 20, 6, connected=True)
    assert (graph.diagonal() == 0).all()
    coo = graph.tocoo()
    off = coo.row != coo.col
    assert coo.data[off].min() == np.finfo(np.float32).eps
    kept = plain.data > np.finfo(np.float32).eps
    values = graph.tocsr()[plain.row[kept], plain.col[kept]]
    np.testing.assert_array_equal(np.asarray(values).ravel(), plain.data[kept])


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("dialect", ["spcl", "zhong", "torchreid", "layumi"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_graph_of_hardly_any_rows(n, dialect, connected):
    points = np.random.default_rng(0).normal(size=(n, 4))
    graph = kinrank.jaccard_graph(points, dialect=dialect, connected=connected)
    assert graph.shape == (n, n)
    assert (graph.diagonal() == 0).all()
    assert ((graph.data >= 0) & (graph.data <= 1)).all()
