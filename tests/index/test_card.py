"""The card of an index."""

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
