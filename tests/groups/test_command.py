"""`kinrank group` and `kinrank eval --groups`: files in, tables and folders out, errors."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import kinrank
from cli_helpers import run
from kinrank.cli import group as command


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Six people with eight pictures each: vectors, names, labels, photos that they are in."""
    folder = tmp_path_factory.mktemp("faces")
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 8)
    vectors = random.normal(size=(6, 16))[labels] + 0.3 * random.normal(size=(48, 16))
    np.save(folder / "faces.npy", vectors.astype(np.float32))
    np.save(folder / "labels.npy", labels)
    names = [f"p{row}" for row in range(48)]
    (folder / "names.txt").write_text("\n".join(names) + "\n")
    photos = ["shared", "shared", *(f"photo {row}" for row in range(2, 48))]
    (folder / "photos.txt").write_text("\n".join(photos) + "\n")
    return folder


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_table_of_who_is_who(files, tmp_path):
    out = tmp_path / "groups.csv"
    result = run("group", "--gallery", files / "faces.npy", "--out", out)
    assert result.exit_code == 0, result.output
    assert "48 rows: 6 groups of 2 and more" in result.stdout
    rows = table(out)
    assert list(rows[0]) == ["id", "group", "name", "size", "single", "confirmed"]
    assert len(rows) == 48
    again = run("eval", "--groups", out, "--labels", files / "labels.npy")
    assert "adjusted Rand index  100.0" in again.stdout


def test_names_corrections_and_a_column_that_keeps_apart(files, tmp_path):
    log = kinrank.Corrections(tmp_path / "log.jsonl")
    log.append("name", ids=["p2", "p3", "p4"], name="Änne")
    out = tmp_path / "groups.json"
    result = run(
        *("group", "--gallery", files / "faces.npy", "--ids", files / "names.txt"),
        *("--distinct", files / "photos.txt", "--corrections", log.path),
        *("--labels", files / "labels.npy", "--out", out, "--json"),
    )
    assert result.exit_code == 0, result.output
    rows = {row["id"]: row for row in json.loads(out.read_text(encoding="utf-8"))}
    assert rows["p0"]["group"] != rows["p1"]["group"]  # two faces of one photo
    assert rows["p2"]["name"] == "Änne"
    summary = json.loads(result.stdout)
    assert summary["rows"] == 48
    assert 0.9 < summary["scores"]["kinrank"]["ari"] < 1


def test_usual_ways_beside_ours_with_one_command(files, tmp_path):
    pytest.importorskip("sklearn.cluster")
    result = run(
        *("group", "--gallery", files / "faces.npy", "--out", tmp_path / "g.csv"),
        *("--labels", files / "labels.npy", "--compare"),
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    head = next(at for at, line in enumerate(lines) if line.split()[:1] == ["ARI"])
    assert [line.split("  ")[0] for line in lines[head + 1 :]] == [
        "kinrank",
        "HDBSCAN",
        "DBSCAN on Jaccard, 0.5",
        "DBSCAN on Jaccard, 0.6",
        "average link, threshold by labels",
    ]


def test_pictures_and_a_folder_of_links_for_each_group(files, tmp_path, monkeypatch):
    pictures = tmp_path / "photos"
    names = [f"{'ab'[row % 2]}/{row // 2}.jpg" for row in range(48)]
    for name in names:
        (pictures / name).parent.mkdir(parents=True, exist_ok=True)
        (pictures / name).write_text(name)
    vectors = np.load(files / "faces.npy")
    monkeypatch.setattr(command, "_described", lambda *_: (vectors, np.array(names)))
    out = tmp_path / "groups.csv"
    links = tmp_path / "sorted"
    arguments = ("group", "--images", pictures, "--out", out, "--links", links)
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    made = {
        folder.name: {link.read_text() for link in folder.iterdir()} for folder in links.iterdir()
    }
    rows = table(out)
    assert made == {
        number: {row["id"] for row in rows if row["group"] == number}
        for number in {row["group"] for row in rows}
    }
    again = run(*arguments)
    assert again.exit_code != 0
    assert "must be new or empty" in again.stderr


def test_single_items_and_names_are_folders(tmp_path):
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (tmp_path / name).write_text(name)
    log = kinrank.Corrections()
    log.append("merge", ids=["a.jpg", "b.jpg"])
    log.append("name", ids=["a.jpg", "b.jpg"], name="A/B: both?")
    log.append("remove", ids=["c.jpg"], source=["a.jpg", "b.jpg"])
    groups = kinrank.group(np.eye(3), ["a.jpg", "b.jpg", "c.jpg"], corrections=log)
    assert groups.link_files(tmp_path, tmp_path / "out") == 3
    folders = sorted(folder.name for folder in (tmp_path / "out").iterdir())
    assert folders == ["0 A_B_ both_", "single items"]
    with pytest.raises(kinrank.InvalidInputError, match=r"names of files below .*, got 'a\.jpg'"):
        groups.link_files(tmp_path / "out", tmp_path / "other")
    with pytest.raises(kinrank.InvalidInputError, match=r"must end in \.csv or \.json"):
        groups.save(tmp_path / "groups.xlsx")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Give either --gallery or --images."),
        (("--gallery", "faces.npy", "--compare"), "--compare needs --labels."),
        (("--gallery", "faces.npy", "--links", "x"), "--links needs --images"),
        (("--gallery", "none.npy"), "there is no file"),
        (
            ("--gallery", "faces.npy", "--strictness", "2"),
            "`strictness` must be a number in [0, 1]",
        ),
        (("--gallery", "faces.npy", "--distinct", "few.txt"), "a value for each of the 48 rows"),
        (("--gallery", "faces.npy", "--ids", "few.txt"), "`ids` must be"),
        (("--gallery", "faces.npy", "--corrections", "names.txt"), "must be a file of corrections"),
        (("--gallery", "faces.npy", "--corrections", "other.jsonl"), "must be of this collection"),
    ],
)
def test_one_sentence_says_what_is_wrong(files, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(files)
    (files / "few.txt").write_text("a\nb\n")
    other = files / "other.jsonl"
    if not other.exists():
        kinrank.Corrections(other).append("merge", ids=["somebody", "else"])
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    result = run("group", *arguments, "--out", tmp_path / "groups.csv")
    assert result.exit_code != 0
    assert sentence in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "groups.csv").exists()
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


def test_the_ending_of_the_table_is_checked_before_the_work(files, tmp_path):
    result = run("group", "--gallery", files / "faces.npy", "--out", tmp_path / "groups.xlsx")
    assert "must end in .csv or .json" in result.stderr


def test_eval_of_a_table_without_groups(files, tmp_path):
    (tmp_path / "odd.csv").write_text("id,name\n1,2\n")
    result = run("eval", "--groups", tmp_path / "odd.csv", "--labels", files / "labels.npy")
    assert result.exit_code != 0
    assert "a table with a column `group`" in result.stderr
