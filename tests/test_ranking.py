"""What people read from a ranking."""

import sys
import types

import numpy as np
import pytest

import kinrank
from kinrank.types import Ranking, Result

RANKING = Ranking(
    np.array([[2, 0, -1], [1, 2, 0]]), np.array([[0.25, 0.5, np.inf], [0.0, 0.125, 1.0]]),
    np.array([["c", "a", ""], ["b", "c", "a"]]),
)  # fmt: skip


def test_iteration_gives_the_results_of_each_query_without_empty_places():
    first, second = RANKING
    assert first == [Result(1, "c", 0.25), Result(2, "a", 0.5)]
    assert [result.id for result in second] == ["b", "c", "a"]


def test_records_name_queries_and_fall_back_to_numbers():
    assert RANKING.to_records()[0] == {"query": 0, "rank": 1, "id": "c", "distance": 0.25}
    assert RANKING.to_records(["x", "y"])[2]["query"] == "y"
    bare = Ranking(RANKING.indices, RANKING.distances)
    assert bare.to_records()[0]["id"] == 2
    assert Ranking(np.empty((0, 3), int), np.empty((0, 3))).to_records() == []


def test_names_must_be_as_many_as_queries():
    with pytest.raises(kinrank.InvalidInputError, match=r"each of the 2 queries .* got 1"):
        RANKING.to_records(["x"])


def test_repr_shows_the_first_results_and_no_arrays():
    text = repr(RANKING)
    assert "2 queries, 3 results each" in text
    assert "0: 'c' (0.250), 'a' (0.500)" in text
    assert "array" not in text
    many = Ranking(np.zeros((9, 9), int), np.zeros((9, 9)))
    assert len(repr(many).splitlines()) == 7


def test_a_table_of_pandas_has_a_row_for_each_result():
    table = RANKING.to_pandas(["x", "y"])
    assert list(table.columns) == ["query", "rank", "id", "distance"]
    assert table["id"].tolist() == ["c", "a", "b", "c", "a"]


def test_a_run_file_of_trec_is_sorted_by_score(tmp_path):
    RANKING.to_trec(tmp_path / "run.txt", queries=["x", "y"], run="cas")
    lines = (tmp_path / "run.txt").read_text().splitlines()
    assert lines[:2] == ["x Q0 c 1 -0.25 cas", "x Q0 a 2 -0.5 cas"]
    with pytest.raises(kinrank.InvalidInputError, match="'a b'"):
        RANKING.to_trec(tmp_path / "other.txt", queries=["a b", "y"])
    assert not (tmp_path / "other.txt").exists()


def test_a_run_of_ranx_has_minus_the_distances(monkeypatch):
    made = types.SimpleNamespace(Run=lambda scores, name: (scores, name))
    monkeypatch.setitem(sys.modules, "ranx", made)
    scores, name = RANKING.to_ranx(["x", "y"])
    assert scores["x"] == {"c": -0.25, "a": -0.5}
    assert name == "kinrank"
