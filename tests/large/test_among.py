"""Rows among themselves, and groups of them, in files under a budget: the same as in memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kinrank
import large_data
from cli_helpers import run as command
from kinrank import progress
from kinrank.runs import journal
from kinrank.runs.mapped import Memory


def rows(n=1500):
    return np.concatenate(large_data.rows(n))


@pytest.fixture(scope="module")
def grouped():
    return kinrank.group(rows(), threads=2)


def assert_same(one, other):
    assert (one.labels == other.labels).all()
    assert one.verdict == other.verdict
    assert one.found.single_below == other.found.single_below
    for name in ("indptr", "indices", "data"):
        mine, theirs = (getattr(made.found.links.similarities, name) for made in (one, other))
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(one.found.links.directions, other.found.links.directions)
    np.testing.assert_array_equal(one.tree.children, other.tree.children)
    np.testing.assert_array_equal(one.tree.links, other.tree.links)


@pytest.mark.parametrize("name", ["cas", "kreciprocal", "alphaqe"])
def test_a_ranking_of_rows_among_themselves_in_files_is_the_same(tmp_path, name):
    expected = kinrank.rerank(rows(), method=name, k=20)
    where = kinrank.Run(memory_budget="4GB", work=tmp_path / "w")
    found = kinrank.rerank(rows(), method=name, k=20, run=where)
    assert large_data.digest(found) == large_data.digest(expected)
    assert not (tmp_path / "w").exists()
    found.indices[:] = 0  # an array like any other


@pytest.mark.parametrize("k", [1400, None])
def test_long_rankings_of_rows_among_themselves_in_files(tmp_path, k):
    expected = kinrank.rerank(rows(), k=k)
    found = kinrank.rerank(rows(), k=k, run=kinrank.Run(work=tmp_path / "w"))
    assert large_data.digest(found) == large_data.digest(expected)


def test_a_filter_of_rows_among_themselves_in_files(tmp_path):
    asked = {"k": 5, "exclude": [3, 8]}
    expected = kinrank.rerank(rows(), **asked)
    found = kinrank.rerank(rows(), **asked, run=kinrank.Run(memory_budget="4GB"))
    assert large_data.digest(found) == large_data.digest(expected)


def test_groups_in_files_are_the_same(tmp_path, grouped):
    where = kinrank.Run(memory_budget="4GB", work=tmp_path / "w")
    with progress.gather() as facts:
        found = kinrank.group(rows(), run=where)
    assert_same(found, grouped)
    assert not (tmp_path / "w").exists()
    assert {"neighbours", "ranking", "links", "directions"} <= {
        stage.name for stage in facts["plan"].stages
    }
    assert str(found.describe(0)) == str(grouped.describe(0))
    assert (found.at(0.7).labels == grouped.at(0.7).labels).all()


def test_groups_with_constraints_in_files_are_the_same(tmp_path):
    known = kinrank.Constraints(
        together=[(0, 5)], apart=[(2, 3), (4, 7, 0.5)], distinct={"photo": np.arange(1500) // 2}
    )
    expected = kinrank.group(rows(), constraints=known)
    found = kinrank.group(rows(), constraints=known, run=kinrank.Run(work=tmp_path / "w"))
    assert_same(found, expected)


def test_groups_do_not_depend_on_threads_blocks_or_dropped_pages(tmp_path, monkeypatch, grouped):
    filled = Memory.mapped

    def dropped(memory, *args, **options):
        memory.drop()
        return filled(memory, *args, **options)

    monkeypatch.setattr(Memory, "mapped", dropped)
    where = kinrank.Run(work=tmp_path / "w", block_size=77)
    assert_same(kinrank.group(rows(), threads=1, run=where), grouped)


class Stop(Exception):  # noqa: N818 - what a test throws
    pass


def test_groups_of_a_stopped_run_go_on(tmp_path, monkeypatch, grouped):
    where = kinrank.Run(work=tmp_path / "w")
    with large_data.counted() as every:
        kinrank.group(rows(), run=kinrank.Run(work=tmp_path / "first"))
    plain = journal.Call.finished
    left = [len(every) // 2]

    def finished(call, block):
        left[0] -= 1
        if left[0] < 0:
            raise Stop
        plain(call, block)

    monkeypatch.setattr(journal.Call, "finished", finished)
    with pytest.raises(Stop):
        kinrank.group(rows(), run=where)
    monkeypatch.setattr(journal.Call, "finished", plain)
    with large_data.counted() as rest:
        assert_same(kinrank.group(rows(), run=where), grouped)
    assert len(rest) < 0.6 * len(every)
    assert not (tmp_path / "w").exists()


def test_approximate_neighbours_make_about_the_same_groups(monkeypatch, grouped):
    large_data.searched_in_cells(monkeypatch)
    with progress.gather() as facts:
        found = kinrank.group(rows(), run=kinrank.Run(search="approximate"))
    assert 0.8 < facts["recall"] <= 1
    score = kinrank.evaluate.score_grouping(grouped.labels, found.labels)
    assert score.ari > 0.95


def test_half_precision_makes_about_the_same_groups(grouped):
    found = kinrank.group(rows(), run=kinrank.Run(vectors="float16"))
    assert kinrank.evaluate.score_grouping(grouped.labels, found.labels).ari > 0.95


def test_a_budget_that_cannot_be_kept_is_refused():
    with pytest.raises(kinrank.InvalidInputError, match=r"must be at least .*B.*got 20\.0 MB"):
        kinrank.group(rows(), run=kinrank.Run(memory_budget="20MB"))


def test_what_cannot_make_groups_is_refused():
    given = kinrank.stores.FaissStore.__new__(kinrank.stores.FaissStore)
    with pytest.raises(kinrank.InvalidInputError, match="`search` must be 'exact' or"):
        kinrank.group(rows(400), run=kinrank.Run(search=given))


def test_the_command_groups_in_files(tmp_path, grouped):
    np.save(tmp_path / "g.npy", rows())
    where = ["--memory-budget", "4GB", "--work", tmp_path / "w", "--search", "exact"]
    out = tmp_path / "groups.csv"
    done = command("group", "--gallery", tmp_path / "g.npy", *where, "--out", out, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["groups"] == len(grouped) - len(grouped.singles)
    small = ["--memory-budget", "1MB", "--out", out]
    refused = command("group", "--gallery", tmp_path / "g.npy", *small)
    assert refused.exit_code == 2
    assert "must be at least" in refused.stderr


def test_the_command_plans_rows_among_themselves(tmp_path):
    np.save(tmp_path / "g.npy", rows())
    planned = command("rerank", "--gallery", tmp_path / "g.npy", "--plan", "-k", 10)
    assert planned.exit_code == 0, planned.stderr
    assert "together" in planned.stdout
