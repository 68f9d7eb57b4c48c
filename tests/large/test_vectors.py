"""Vectors in float16: what float32 gives for the rounded values, bit for bit, in half the bytes."""

import json

import numpy as np
import pytest

import kinrank
import large_data
from cli_helpers import run
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.runs.plan import make_plan
from kinrank.search import find, stored
from learned_models import untrained

VARIANTS = [
    ("cas", {"variant": "paper", "geodesic": True}),
    ("cas", {"fusion": "euclidean"}),
    ("cas", {"fusion": "diffusion"}),
    ("cas", {"geodesic": True, "fusion": "euclidean"}),
    ("cas", {"metric": "cosine", "omega": 0.0}),
    ("kreciprocal", {"dialect": "torchreid"}),
    ("kreciprocal", {"lambda_value": 0.0}),
    ("dqe", {"dba": True}),
    ("alphaqe", {"dba": True, "order": "augmented"}),
    ("gnn", {"mix": 0.3}),
    ("eir", {"mode": "joint"}),
    ("lattqe", {"dba": True}),
]
SMALL = {"gss": {"epochs": 3}, "eir": {"truncation": 60}, "sg": {"m": 50}}
EVERY = [*((name, {}) for name in kinrank.methods()), *VARIANTS]


def rounded(rows):
    return rows.astype(np.float16).astype(np.float32)


def ranking(rows, name, where, params, k=20):
    options = {**SMALL.get(name, {}), **untrained(name, 16), **params}
    threads = where.get("threads")
    run = kinrank.Run(**{field: where[field] for field in where if field != "threads"})
    return large_data.digest(kinrank.rerank(*rows, name, k, threads=threads, run=run, **options))


@pytest.mark.parametrize(("name", "params"), EVERY)
def test_every_method_ranks_the_rounded_rows(monkeypatch, name, params):
    rows = large_data.rows(500)
    found = ranking(rows, name, {"vectors": "float16"}, params)
    plain = stored.as_vectors
    # The same rounding behind the normalisation, which some methods always begin with.
    monkeypatch.setattr(stored, "as_vectors", lambda *a, **b: rounded(plain(*a, **b)))
    assert found == ranking(rows, name, {}, params)


@pytest.mark.parametrize("where", [{}, {"memory_budget": "4GB"}, {"work": "w", "threads": 1}])
@pytest.mark.parametrize("search", ["exact", "approximate"])
def test_searches_and_files_change_no_bit(tmp_path, monkeypatch, search, where):
    if search != "exact":
        large_data.searched_in_cells(monkeypatch)
    rows = large_data.rows(1200)
    if "work" in where:
        where = {**where, "work": tmp_path / "w"}
    where = {**where, "search": search}
    half = ranking(rows, "cas", {**where, "vectors": "float16"}, {})
    assert half == ranking(tuple(map(rounded, rows)), "cas", where, {})


@pytest.mark.parametrize("name", ["cas", "dfs"])
def test_many_queries_are_searched_in_cells(monkeypatch, name):
    large_data.searched_in_cells(monkeypatch)
    monkeypatch.setattr(find.ApproximateSearch, "_pays", lambda *_: True)
    every = np.concatenate(large_data.rows(1500))
    rows = every[:500], every[500:]
    where = {"search": "approximate"}
    half = ranking(rows, name, {**where, "vectors": "float16"}, {})
    plain = stored.as_vectors
    monkeypatch.setattr(stored, "as_vectors", lambda *a, **b: rounded(plain(*a, **b)))
    assert half == ranking(rows, name, where, {})


def test_the_whole_gallery_is_ranked():
    rows = large_data.rows(500)
    half = ranking(rows, "cas", {"vectors": "float16"}, {}, None)
    assert half == ranking(tuple(map(rounded, rows)), "cas", {}, {}, None)


def test_copies_of_rows_are_ties_as_ever():
    every = np.tile(np.random.default_rng(3).normal(size=(60, 4)), (5, 1)).astype(np.float32)
    rows = every[:10], every[10:]
    half = ranking(rows, "cas", {"vectors": "float16"}, {})
    assert half == ranking(tuple(map(rounded, rows)), "cas", {}, {})


def test_a_stopped_run_is_not_gone_on_with_in_another_form(tmp_path):
    rows = large_data.rows(400)

    class Stop(Exception):  # noqa: N818 - what a test throws
        pass

    plain = large_data.journal.Call.finished

    def stop(call, block):
        plain(call, block)
        raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_data.journal.Call, "finished", stop)
        with pytest.raises(Stop):
            kinrank.rerank(*rows, k=5, run=kinrank.Run(work=tmp_path, vectors="float16"))
    with pytest.raises(kinrank.InvalidInputError, match="another run in it"):
        kinrank.rerank(*rows, k=5, run=kinrank.Run(work=tmp_path))
    found = kinrank.rerank(*rows, k=5, run=kinrank.Run(work=tmp_path, vectors="float16"))
    expected = kinrank.rerank(*rows, k=5, run=kinrank.Run(vectors="float16"))
    assert large_data.digest(found) == large_data.digest(expected)


def test_files_hold_half_the_bytes(tmp_path, monkeypatch):
    large_data.searched_in_cells(monkeypatch)
    rows, kept = large_data.rows(1200), {}
    plain = large_data.journal.Journal.clear
    for vectors in ("float32", "float16"):

        def clear(self, vectors=vectors):
            sizes = [file.stat().st_size for file in self.folder.glob("*-cells/0.bin")]
            kept[vectors] = sum(size for size in sizes if size > 4 * 1200)
            plain(self)

        monkeypatch.setattr(large_data.journal.Journal, "clear", clear)
        how = kinrank.Run(search="approximate", work=tmp_path / vectors, vectors=vectors)
        kinrank.rerank(*rows, k=5, run=how)
    # A copy in the order of cells; what chooses candidates has 16 bits in both.
    assert kept["float32"] - kept["float16"] == 1200 * 16 * (4 - 2)


def test_the_plan_counts_half_the_bytes(monkeypatch):
    large_data.searched_in_cells(monkeypatch)
    rows, bytes_ = large_data.rows(1500), {}
    for vectors in ("float32", "float16"):
        for search in ("exact", "approximate"):
            execution = Execution(Runner(2), search, vectors)
            plan = make_plan(kinrank.CAS(), rows, 5, execution, None)
            known = {stage.name: stage.bytes for stage in plan.stages}
            bytes_[vectors, search] = known["vectors"], known.get("cells", 0)
    size = 1500 * 16
    assert bytes_["float32", "exact"] == (4 * size, 0)
    assert bytes_["float32", "approximate"] == (4 * size, (4 + 2) * size)
    assert bytes_["float16", "exact"] == (2 * size, 0)
    assert bytes_["float16", "approximate"] == (2 * size, (2 + 2) * size)


def test_the_command_has_it(tmp_path):
    queries, gallery = large_data.rows(400)
    np.save(tmp_path / "q.npy", queries)
    np.save(tmp_path / "g.npy", gallery)
    files = ["--query", tmp_path / "q.npy", "--gallery", tmp_path / "g.npy"]
    args = ["rerank", *files, "-k", "5", "--vectors", "float16"]
    assert run(*args, "--out", tmp_path / "r.npz").exit_code == 0
    expected = kinrank.rerank(rounded(queries), rounded(gallery), k=5)
    found = kinrank.Ranking.load(tmp_path / "r.npz")
    assert large_data.digest(found) == large_data.digest(expected)
    plan = json.loads(run(*args, "--plan", "--json").stdout)
    assert plan["stages"][0] == {"name": "vectors", "bytes": 2 * 400 * 16, "seconds": 0.0}
