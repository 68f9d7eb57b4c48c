"""A cluster is asked in the words in which one machine is asked, and answers the same bits."""

import signal
import subprocess
import sys

import numpy as np
import pytest

import kinrank
from cluster_data import METHODS, assert_equal, data
from kinrank import InvalidInputError, LockedError, progress
from kinrank.cluster import connect
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors

QUERIES, GALLERY = data()
ROWS = np.concatenate(data())
SIZES = METHODS["cas"]
HALF = np.random.default_rng(5).random((len(QUERIES), len(GALLERY))) < 0.3
LABELS = (np.arange(len(QUERIES)) % 2, np.arange(len(GALLERY)) % 2)


def rerank(run, **more):
    return kinrank.rerank(QUERIES, GALLERY, k=40, run=run, **{**SIZES, **more})


def known_lists():
    """Distances and indices of the nearest rows of every row."""
    lists = exact_neighbors(ROWS, 40, Runner(1))
    return lists.distances, lists.indices


RANKINGS = {
    "all allowed but some": lambda run: rerank(run, exclude=[[i, i + 3] for i in range(90)]),
    "few allowed": lambda run: rerank(run, allowed=np.arange(0, 810, 30)),
    "each group": lambda run: rerank(run, groups=LABELS),
    "items": lambda run: kinrank.rerank(
        QUERIES, GALLERY, "kreciprocal", 40, items=np.arange(90) // 3, run=run, k1=10
    ),
    "chosen parameters": lambda run: kinrank.rerank(QUERIES, GALLERY, k=9, params="auto", run=run),
    "among themselves": lambda run: kinrank.rerank(ROWS, k=40, run=run, **SIZES),
    "k-reciprocal among themselves": lambda run: kinrank.rerank(
        ROWS, None, "kreciprocal", 40, run=run, k1=10
    ),
    "expanded queries": lambda run: kinrank.rerank(QUERIES, GALLERY, "alphaqe", 40, run=run),
    "dfs, some excluded": lambda run: kinrank.rerank(
        QUERIES, GALLERY, "dfs", 40, exclude=[0, 5], run=run
    ),
    "lists that are known": lambda run: kinrank.CAS(**SIZES).rerank_neighbors(
        *known_lists(), n_queries=len(QUERIES), k=40, squared=True, farthest=9.0, run=run
    ),
    "a fitted method": lambda run: kinrank.AlphaQE(dba=True).fit(GALLERY, run=run).search(QUERIES),
}


@pytest.mark.parametrize("name", RANKINGS)
def test_rankings(cluster, name):
    run = kinrank.Run(cluster=cluster, block_size=600)
    assert_equal(RANKINGS[name](run), RANKINGS[name](kinrank.Run()))


@pytest.mark.parametrize("fields", [{"vectors": "float16"}, {"memory_budget": "8GB"}])
def test_fields_of_a_run(cluster, fields):
    here = {name: value for name, value in fields.items() if name == "vectors"}
    found = rerank(kinrank.Run(cluster=cluster, block_size=600, **fields), allowed=HALF)
    assert_equal(found, rerank(kinrank.Run(**here), allowed=HALF))


@pytest.mark.parametrize("shared", [True, False])
def test_an_index_is_the_same_file(joined, tmp_path, shared):
    method = kinrank.CAS(**SIZES, whiten="pairs")
    with connect(storage=tmp_path if shared else None) as cluster:
        run = kinrank.Run(cluster=cluster, block_size=600)
        there = method.fit(GALLERY, context=QUERIES, run=run)
    assert list(tmp_path.iterdir()) == []
    there.save(tmp_path / "there")
    method.fit(GALLERY, context=QUERIES).save(tmp_path / "here")
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


def test_a_jaccard_graph(cluster):
    run = kinrank.Run(cluster=cluster, block_size=600)
    found = kinrank.jaccard_graph(ROWS, 10, 4, metric="cosine", run=run)
    expected = kinrank.jaccard_graph(ROWS, 10, 4, metric="cosine")
    for name in ("indptr", "indices", "data"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()


CALLS = {
    "groups": "kinrank.rerank(*data(), k=40, groups=LABELS, run=run, **METHODS['cas'])",
    "fit": "kinrank.CAS(**METHODS['cas']).fit(data()[1], run=run).search(data()[0], k=40)",
}
DYING = """
import os, signal, sys
import numpy as np
import kinrank
from cluster_data import METHODS, data
from kinrank import progress
from kinrank.cluster import connect

LABELS = (np.arange(90) % 2, np.arange(810) % 2)
stages = [""]

def die(stage, finished, total):
    if stage != stages[-1]:
        stages.append(stage)
    if stages.count("propagation") == int(sys.argv[3]) and finished > 0:
        os.kill(os.getpid(), signal.SIGKILL)

with connect(sys.argv[1], storage=sys.argv[2]) as cluster:
    run = kinrank.Run(cluster=cluster, block_size=300)
    with progress.listen(die):
        CALL
"""


@pytest.mark.parametrize(("call", "times"), [("groups", 2), ("fit", 1)])
def test_a_caller_that_dies_loses_no_finished_stage(joined, nodes, tmp_path, call, times):
    """times : how often the stage in which it dies is begun, once for each group"""
    words = [nodes.address, str(tmp_path), str(times)]
    process = subprocess.Popen([sys.executable, "-c", DYING.replace("CALL", CALLS[call]), *words])
    assert process.wait(120) == -signal.SIGKILL
    (folder,) = tmp_path.iterdir()
    finished = {path.parent.name.split("-")[1] for path in folder.glob("*/blocks")}
    assert {"neighbours", "diffusion", "smoothing"} <= finished
    names = {"kinrank": kinrank, "data": data, "METHODS": METHODS, "LABELS": LABELS}
    with connect(storage=tmp_path) as cluster:
        run = kinrank.Run(cluster=cluster, block_size=300)
        found = eval(CALLS[call], {**names, "run": run})  # noqa: S307  the words are above
        computed = cluster.report.summary()["stages"]
    assert_equal(found, eval(CALLS[call], {**names, "run": kinrank.Run()}))  # noqa: S307
    assert list(tmp_path.iterdir()) == []
    # Nothing is computed that was finished before the stage in hand, of no group.
    assert not {"neighbours", "clusters", "diffusion", "smoothing"} & set(computed)
    assert computed["propagation"]["tasks"] > 0


def test_a_run_that_another_process_computes_is_refused(joined, tmp_path):
    refused = []

    def call_again(stage, finished, total):
        if stage == "clusters" and not refused:
            with pytest.raises(LockedError, match="Another process computes this run in") as error:
                rerank(run)
            refused.append(error)

    with connect(storage=tmp_path) as cluster:
        run = kinrank.Run(cluster=cluster, block_size=600)
        with progress.listen(call_again):
            assert_equal(rerank(run), rerank(kinrank.Run()))
    assert len(refused) == 1


def test_what_does_not_go_together(joined, tmp_path):
    with connect(storage=tmp_path) as cluster:
        run = kinrank.Run(cluster=cluster, work=tmp_path / "w")
        with pytest.raises(InvalidInputError, match="`work` cannot be used with a folder as"):
            rerank(run)
        with pytest.raises(InvalidInputError, match="`memory_budget` cannot be used with `fit`"):
            kinrank.CAS().fit(GALLERY, run=kinrank.Run(cluster=cluster, memory_budget="4GB"))
        with pytest.raises(InvalidInputError, match="`cluster` cannot be used with `tune`"):
            kinrank.tune(QUERIES, GALLERY, run=kinrank.Run(cluster=cluster))
    assert list(tmp_path.iterdir()) == []
