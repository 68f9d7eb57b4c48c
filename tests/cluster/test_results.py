"""On two nodes the result is that of one process, bit for bit."""

import numpy as np
import pytest

import kinrank
from cluster_data import METHODS, assert_equal, assert_same, data, on, runner_on
from kinrank import progress
from kinrank.cluster import connect
from kinrank.registry import make_method
from kinrank.stages.clusters import reciprocal


@pytest.mark.parametrize("name", METHODS)
def test_the_object_store(cluster, name):
    assert_same(on(cluster, name), name)


def test_the_front_door(cluster):
    with progress.gather() as told:
        ranking = kinrank.rerank(
            *data(),
            "kreciprocal",
            40,
            run=kinrank.Run(cluster=cluster, block_size=300),
            **METHODS["kreciprocal"],
        )
    assert_same(ranking, "kreciprocal")
    assert told["cluster"] is cluster.report


def test_whitened_rows(cluster):
    options = {**METHODS["cas"], "whiten": 0.25}
    found = kinrank.rerank(
        *data(), "cas", 40, run=kinrank.Run(cluster=cluster, block_size=300), **options
    )
    expected = kinrank.rerank(*data(), "cas", 40, **options)
    assert_equal(found, expected)


def test_another_block_size(cluster):
    assert_same(on(cluster, "kreciprocal", 97), "kreciprocal")


@pytest.mark.parametrize("kind", ["folder", "url"])
def test_storage(joined, tmp_path, kind):
    where = tmp_path if kind == "folder" else tmp_path.as_uri()
    seen = set()
    with connect(storage=where) as cluster:
        with progress.listen(lambda *_: seen.update(tmp_path.glob("kinrank-*/**/*.*"))):
            assert_same(on(cluster, "cas"), "cas")
        assert_same(on(cluster, "kreciprocal"), "kreciprocal")
    assert len(seen) > 3
    assert list(tmp_path.iterdir()) == []


def test_the_approximate_search_is_that_of_one_process(cluster, monkeypatch):
    monkeypatch.setattr("kinrank.search.find.FEW", 500)
    method = make_method("cas", **METHODS["cas"])
    expected = method.rerank(*data(), 40, run=kinrank.Run(search="approximate"))
    run = kinrank.Run(cluster=cluster, search="approximate", block_size=450)
    assert_equal(method.rerank(*data(), 40, run=run), expected)
    assert "cells" in cluster.report.stages


@pytest.mark.parametrize("near", [True, False])
def test_what_a_block_reads_outside_itself_is_measured(cluster, near):
    n, k = 16_000, 16
    rows = np.arange(n)[:, None]
    others = rows // k * k + np.arange(k) if near else (7919 * (rows + np.arange(k))) % n
    lists = np.ascontiguousarray(others, np.int32)
    reciprocal(lists, k, runner_on(cluster, 2000))
    known = cluster.report.summary()["stages"]["clusters"]
    assert known["block_rows"] == 2000
    assert known["block_bytes"] == lists.nbytes // 8
    if near:
        assert known["outside_bytes"] <= 3 * 4096  # pages that a block shares with others
    else:
        assert known["outside_bytes"] > 0.8 * (known["whole_bytes"] - known["block_bytes"])


def test_progress_and_traffic_are_reported(cluster):
    watch = progress.Stopwatch()
    with progress.listen(watch):
        on(cluster, "cas")
    assert {"neighbours", "diffusion", "ranking"} <= set(watch.seconds)
    report = cluster.report.summary()
    hosts = {node["node"] for node in report["nodes"]}
    assert hosts == {"127.0.0.2", "127.0.0.3"}
    diffusion = report["stages"]["diffusion"]
    assert diffusion["tasks"] >= 3
    assert diffusion["retried"] == 0
    assert report["stages"]["neighbours"]["sent_bytes"] >= np.concatenate(data()).nbytes
    assert "diffusion" in str(cluster.report)
