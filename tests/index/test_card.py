"""The card of an index."""

import json

import kinrank
from cli_helpers import run


def test_a_card_tells_what_is_to_be_known(tmp_path):
    rows = kinrank.datasets.load("toy").gallery.features
    index = kinrank.CAS().fit(rows, attributes={"shelf": ["a"] * len(rows)}, params="auto")
    index.recipe = "net|pool"
    index.save(tmp_path / "toy.index")
    card = run("index", "info", tmp_path / "toy.index", "--markdown").output
    assert card.startswith("# toy.index\n")
    assert "| rows | 330 of 8 columns |" in card
    assert "| model | net\\|pool |" in card
    assert "| attributes | shelf |" in card
    assert f"| metric | {index.method.metric} |" in card
    assert "Chosen without labels for 330 rows:" in card
    assert f"- verdict: re-ranking {index.chosen.verdict}." in card
    assert f"| kinrank | {kinrank.__version__} |" in card
    both = run("index", "info", tmp_path / "toy.index", "--markdown", "--json")
    assert both.exit_code == 2


def test_a_projection_has_a_card_too(tmp_path):
    rows = kinrank.datasets.load("toy").gallery.features
    learnt = kinrank.Projection.fit(rows, kind=0.25)
    file = tmp_path / "map.safetensors"
    learnt.save(file)
    card = run("index", "info", file, "--markdown").output
    assert card.startswith("# map.safetensors\n")
    assert f"| columns | 8 to {learnt.dims} |" in card
    assert f"| digest | {learnt.digest} |" in card
    assert 'kinrank.Projection.load("map.safetensors")' in card
    assert learnt.digest in run("index", "info", file).output
    assert json.loads(run("index", "info", file, "--json").output)["compare by"] == "cosine"


def test_a_file_that_is_neither(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("nothing of kinrank")
    ended = run("index", "info", file)
    assert ended.exit_code == 2
    assert "must be an index saved by kinrank" in ended.output + ended.stderr
