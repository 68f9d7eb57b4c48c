"""`kinrank index`: build, search, add, remove, info, verify."""

import json

import numpy as np
import pytest

import kinrank
from cli_helpers import run
from index_data import QUERIES, ROWS
from kinrank import CAS, Ranking


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "g.npy", ROWS[:150])
    np.save(tmp_path / "more.npy", ROWS[150:160])
    np.save(tmp_path / "q.npy", QUERIES)
    (tmp_path / "ids.txt").write_text("".join(f"r{n}\n" for n in range(150)))
    (tmp_path / "more.txt").write_text("\n".join(f"r{n}" for n in range(150, 160)))
    return tmp_path


def done(*args):
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_from_building_to_verifying(folder):
    path = folder / "an.index"
    sizes = ("--k1", 10, "--k2", 4)
    made = done("index", "build", "--gallery", folder / "g.npy", "--ids", folder / "ids.txt",
                "--out", path, *sizes)  # fmt: skip
    assert made["rows"] == 150
    added = done("index", "add", path, "--vectors", folder / "more.npy", "--ids",
                 folder / "more.txt")  # fmt: skip
    assert (added["added"], added["rows"]) == (10, 160)
    assert done("index", "remove", path, "r3", "r155")["rows"] == 158
    done("index", "search", path, "--query", folder / "q.npy", "--out", folder / "r.npz", "-k", 7)
    found = Ranking.load(folder / "r.npz")
    left = np.delete(np.arange(160), [3, 155])
    index = CAS(k1=10, k2=4).fit(ROWS[left], ids=[f"r{n}" for n in left])
    expected = index.search(QUERIES, k=7)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.distances, expected.distances, atol=1e-5)
    done("index", "search", path, "--query", folder / "q.npy", "--out", folder / "b.npz", "--base")
    about = done("index", "info", path)
    assert (about["rows"], about["columns"], about["ids"]) == (158, 8, "text")
    assert about["parameters"]["k1"] == 10
    assert done("index", "verify", path)["whole"] is True
    assert "158" in run("index", "info", path).output


def test_ids_that_are_no_text(folder):
    (folder / "ids.txt").write_bytes(b"\xff\n" * 150)
    words = ("--gallery", folder / "g.npy", "--ids", folder / "ids.txt", "--out", folder / "x")
    result = run("index", "build", *words)
    assert result.exit_code == 2
    assert "ids.txt must be text in UTF-8" in result.stderr


def test_a_line_at_the_end_in_a_pipe(folder):
    path = folder / "an.index"
    result = run("index", "build", "--gallery", folder / "g.npy", "--out", path)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"rows 150, recall 1.0, output {path}: ")


def test_integers_context_and_update(folder):
    path = folder / "an.index"
    np.save(folder / "ids.npy", np.arange(150) * 3)
    done("index", "build", "--gallery", folder / "g.npy", "--ids", folder / "ids.npy", "--context",
         folder / "q.npy", "--out", path, "--k1", 10, "--k2", 4)  # fmt: skip
    assert done("index", "remove", path, 3, 9)["rows"] == 148
    np.save(folder / "gone.npy", [12, 15])
    assert done("index", "remove", path, "--ids", folder / "gone.npy")["rows"] == 146
    np.save(folder / "same.npy", np.arange(20, 30) * 3)
    more = ("--vectors", folder / "more.npy", "--ids", folder / "same.npy")
    told = done("index", "update", path, *more)
    assert (told["rows"], told["updated"]) == (146, 10)
    assert kinrank.open(path).ids[-10:].tolist() == list(range(60, 90, 3))
    (folder / "same.txt").write_text("0\n6\n")
    np.save(folder / "two.npy", np.load(folder / "more.npy")[:2])
    more = ("--vectors", folder / "two.npy", "--ids", folder / "same.txt")
    assert done("index", "update", path, *more)["updated"] == 2
    assert kinrank.open(path).info()["context"] == 24


def test_errors_are_one_line(folder):
    path = folder / "an.index"
    run("index", "build", "--gallery", folder / "g.npy", "--out", path, "--k1", 10, "--k2", 4)
    for args, message in [
        (("remove", path, "x"), "Ids must be integers"),
        (("remove", path, 150), "There is no row with the id 150"),
        (("remove", path), "either one by one or as --ids"),
        (("info", folder / "q.npy"), "must be an index saved by kinrank"),
        (("info", folder / "none"), "there is no file"),
        (("build", "--gallery", folder / "g.npy", "--out", path, "--method", "knn"), "must be cas"),
        (
            ("build", "--gallery", folder / "g.npy", "--out", path, "--no-symmetric"),
            "`symmetric` must",
        ),
    ]:
        result = run("index", *args)
        assert result.exit_code == 2
        assert message in result.output
    path.write_bytes(path.read_bytes()[:-9])
    assert "is damaged" in run("index", "verify", path).output


@pytest.fixture
def built(folder):
    ids = [f"r{n}" for n in range(150)]
    CAS(k1=10, k2=4).fit(ROWS[:150], ids=ids).save(folder / "an.index")
    return folder


def test_results_are_printed_without_a_file(built):
    words = ("index", "search", built / "an.index", "--query", built / "q.npy")
    lines = run(*words).stdout.splitlines()
    expected = kinrank.open(built / "an.index").search(QUERIES, k=10)
    assert len(lines) == len(QUERIES) * 11
    assert lines[1].split()[:2] == ["1", expected.ids[0, 0]]
    records = done(*words, "-k", 3)["results"]
    assert records[0]["id"] == expected.ids[0, 0]
    assert len(records) == 3 * len(QUERIES)


def test_one_kind_of_query_is_asked_for(built):
    picture = built / "a.png"
    picture.write_bytes(b"")
    assert "Either --query or --image" in run("index", "search", built / "an.index").stderr
    result = run("index", "search", built / "an.index", "--image", picture)
    assert result.exit_code == 2
    assert "does not know how its vectors were made" in result.stderr


def test_one_vector_is_a_query(built):
    index = kinrank.open(built / "an.index")
    expected = index.search(QUERIES[:1], k=5)
    np.testing.assert_array_equal(index.search(QUERIES[0], k=5).ids, expected.ids)
