"""Budgets, plans, sizes, and what an approximate search says of itself."""

import json
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import kinrank
import large_data
from cli_helpers import run
from kinrank import progress
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.runs.mapped import Memory, resident_bytes
from kinrank.runs.plan import Plan, Stage, make_plan, parse_bytes
from kinrank.search import cells
from kinrank.search.cells import CellSearch
from kinrank.search.exact import exact_neighbors


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [("4GB", 4 * 10**9), ("512MiB", 2**29), ("1.5g", 1_500_000_000), (" 2 kb ", 2000), (77, 77)],
)
def test_sizes(given, bytes_):
    assert parse_bytes("memory_budget", given) == bytes_


@pytest.mark.parametrize("given", ["", "4XB", "-1GB", 0, -5, 2.5, True, "GB", None])
def test_other_sizes_are_refused(given):
    with pytest.raises(kinrank.InvalidInputError, match="`memory_budget` must be"):
        parse_bytes("memory_budget", given)


def test_a_budget_that_cannot_be_kept_is_refused_before_the_work(tmp_path):
    queries, gallery = large_data.rows(400)
    with pytest.raises(kinrank.InvalidInputError, match=r"must be at least .*B.*got 10\.0 MB"):
        kinrank.rerank(
            queries, gallery, "cas", 5, run=kinrank.Run(memory_budget="10MB", work=tmp_path / "w")
        )
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("scale", [1e30, 1e200])
def test_a_plan_for_values_of_any_size(scale):
    queries, gallery = large_data.rows(300)
    queries, gallery = (rows.astype(np.float64) * scale for rows in (queries, gallery))
    made = make_plan(kinrank.CAS(), (queries, gallery), 9, Execution(Runner(1)), 1)
    assert made.stages


def test_a_disk_that_is_too_small_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(kinrank.InvalidInputError, match=r"`work` must be on a disk with .* free"):
        kinrank.rerank(
            *large_data.rows(400),
            "cas",
            5,
            run=kinrank.Run(memory_budget="4GB", work=tmp_path / "a" / "w"),
        )
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", ["cas", "kreciprocal", "rdp"])
def test_a_budget_changes_no_bit(name):
    queries, gallery = large_data.rows(1500)
    expected = kinrank.rerank(queries, gallery, name, 10)
    with progress.gather() as facts:
        found = kinrank.rerank(queries, gallery, name, 10, run=kinrank.Run(memory_budget="4GB"))
    assert large_data.digest(found) == large_data.digest(expected)
    plan = facts["plan"]
    assert {stage.name for stage in plan.stages} >= {"vectors", "neighbours", "ranking"}
    assert 0 < plan.least < plan.budget == 4 * 10**9


def test_mapped_half_precision_is_taken_as_it_is(tmp_path):
    queries, gallery = large_data.rows(1500)
    np.save(tmp_path / "g.npy", gallery.astype(np.float16))
    mapped = np.load(tmp_path / "g.npy", mmap_mode="r")
    expected = kinrank.rerank(queries, np.array(mapped), "cas", 10)
    found = kinrank.rerank(queries, mapped, "cas", 10, run=kinrank.Run(work=tmp_path / "w"))
    assert large_data.digest(found) == large_data.digest(expected)


def test_the_plan_scales_with_the_rows():
    method = kinrank.CAS()
    small, large = (
        make_plan(method, large_data.rows(n), 10, Execution(Runner(2)), None)
        for n in (6000, 60_000)
    )
    assert 8 < large.bytes / small.bytes < 12
    assert large.least > small.least
    assert "neighbours" in str(large)
    assert json.loads(json.dumps(large.as_dict()))["bytes"] == large.bytes


def test_pages_that_are_dropped_come_back_from_the_file(tmp_path):
    size = 64 << 20
    (tmp_path / "a").touch()
    with Memory(None) as memory:
        array = memory.mapped(tmp_path / "a", (size,), np.uint8, write=True)
        array[::4096] = 7
        full = resident_bytes()
        memory.drop()
        assert resident_bytes() < full - size // 2
        assert array[::4096].min() == array[::4096].max() == 7


def test_pages_are_dropped_when_there_are_too_many(tmp_path):
    size = 64 << 20
    (tmp_path / "a").touch()
    with Memory(resident_bytes() + size // 4) as memory:
        array = memory.mapped(tmp_path / "a", (size,), np.uint8, write=True)
        array[::4096] = 7
        limit = time.monotonic() + 30
        while resident_bytes() > memory.budget and time.monotonic() < limit:
            time.sleep(0.01)
        assert resident_bytes() <= memory.budget
        assert array[::4096].min() == 7


def test_recall_is_told(monkeypatch):
    large_data.searched_in_cells(monkeypatch)
    queries, gallery = large_data.rows()
    with progress.gather() as facts:
        found = kinrank.rerank(queries, gallery, "cas", 20, run=kinrank.Run(search="approximate"))
    assert 0.8 < facts["recall"] <= 1
    exact = kinrank.rerank(queries, gallery, "cas", 20)
    same = [len(np.intersect1d(*pair)) for pair in zip(found.indices, exact.indices, strict=True)]
    assert np.mean(same) > 18


def test_recall_of_rows_among_themselves_is_told(monkeypatch):
    large_data.searched_in_cells(monkeypatch)
    _, gallery = large_data.rows()
    with progress.gather() as facts:
        kinrank.rerank(gallery, None, "cas", 20, run=kinrank.Run(search="approximate"))
    assert 0.8 < facts["recall"] <= 1


@pytest.mark.parametrize("name", ["kreciprocal", "ecn", "gnn", "rdp", "dfs", "egt", "manifold"])
def test_every_method_takes_approximate_neighbours(monkeypatch, name):
    large_data.searched_in_cells(monkeypatch)
    queries, gallery = large_data.rows()
    found = kinrank.rerank(queries, gallery, name, 10, run=kinrank.Run(search="approximate"))
    exact = kinrank.rerank(queries, gallery, name, 10)
    same = [len(np.intersect1d(*pair)) for pair in zip(found.indices, exact.indices, strict=True)]
    assert np.mean(same) > 8


def test_all_cells_are_an_exact_search(monkeypatch):
    large_data.searched_in_cells(monkeypatch, probes=10**6)
    rows = np.concatenate(large_data.rows(1200))
    exact = exact_neighbors(rows, 9, Runner(2))
    search = CellSearch(rows, Runner(2))
    found = search.rows(0, len(rows), 9)
    np.testing.assert_array_equal(found.indices, exact.indices)
    np.testing.assert_array_equal(found.distances, exact.distances)
    assert (found.farthest <= exact.farthest).all()
    first = search.first(40, 12)
    np.testing.assert_array_equal(first.indices[:, :9], exact.indices[:40])
    np.testing.assert_array_equal(first.distances[:, :9], exact.distances[:40])
    some = search.search(rows[:50], 5)
    np.testing.assert_array_equal(some.indices, exact.indices[:50, :5])


def test_lists_are_looked_through_again_while_that_brings_many(monkeypatch):
    rows = np.random.default_rng(5).normal(size=(4_000, 12)).astype(np.float32)
    monkeypatch.setattr(cells, "PROBES", 2)
    exact = exact_neighbors(rows, 10, Runner(1)).indices
    recall = []
    for rounds in (1, 3):
        monkeypatch.setattr(cells, "_REFINED", rounds)
        found = CellSearch(rows, Runner(2)).rows(0, len(rows), 10).indices
        recall.append(np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)]))
    assert recall[0] < 0.98
    assert recall[1] > recall[0]


def test_unknown_search_is_refused():
    for name in ("aproximate", "quantized"):
        with pytest.raises(kinrank.UnknownNameError, match="one of approximate, exact, got"):
            kinrank.rerank(*large_data.rows(400), "cas", 5, run=kinrank.Run(search=name))


def test_minutes_of_a_plan_are_whole_ones():
    told = str(Plan((Stage("neighbours", 10, 274.4), Stage("diffusion", 10, 229.0)), 1, None))
    assert [line.split()[-4:] for line in told.splitlines()[1:4]] == [
        ["4", "min", "34", "s"],
        ["3", "min", "49", "s"],
        ["8", "min", "23", "s"],
    ]


def test_the_command_prints_the_plan_and_refuses(tmp_path):
    queries, gallery = large_data.rows(1500)
    np.save(tmp_path / "q.npy", queries)
    np.save(tmp_path / "g.npy", gallery)
    files = ["rerank", "--query", tmp_path / "q.npy", "--gallery", tmp_path / "g.npy"]
    planned = run(*files, "--plan", "--memory-budget", "4GB")
    assert planned.exit_code == 0
    assert "together" in planned.stdout
    assert "at most 4.00 GB" in planned.stdout
    refused = run(*files, "--memory-budget", "1MB", "--out", tmp_path / "r.npz")
    assert refused.exit_code == 2
    assert "must be at least" in refused.stderr
    done = run(
        *files, "--memory-budget", "4GB", "--work", tmp_path / "w", "-k", 7,
        "--out", tmp_path / "r.npz", "--json",
    )  # fmt: skip
    assert done.exit_code == 0
    assert json.loads(done.stdout)["plan"]["bytes"] > 0
    assert kinrank.Ranking.load(tmp_path / "r.npz").k == 7


PEAK = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, kinrank, large_data
rows = np.load(sys.argv[2], mmap_mode="r")
run = kinrank.Run(search="approximate", memory_budget=sys.argv[3])
kinrank.rerank(rows[:500], rows[500:], "cas", 50, run=run)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"peak": peak * (1 if sys.platform == "darwin" else 1024)}))
"""


@pytest.mark.long
def test_the_peak_of_200000_rows_stays_below_the_budget(tmp_path):
    random = np.random.default_rng(0)
    centres = random.normal(size=(10_000, 128)).astype(np.float32)
    rows = centres[random.integers(len(centres), size=200_000)]
    rows += 0.8 * random.normal(size=rows.shape).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows / np.linalg.norm(rows, axis=1, keepdims=True))
    folder = str(large_data.__file__).rpartition("/")[0]
    args = [folder, str(tmp_path / "rows.npy"), "1.1GB"]
    out = subprocess.run(
        [sys.executable, "-c", PEAK, *args], check=True, capture_output=True, text=True
    ).stdout
    assert json.loads(out)["peak"] < 1.15 * 1.1e9
