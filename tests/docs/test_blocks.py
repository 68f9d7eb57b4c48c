"""Every Python and shell block of the README and the pages runs, on stand-in files."""

import warnings

import pytest

import kinrank
from doc_files import (
    BLOCKS,
    PAGES,
    ROOT,
    write_handled,
    write_pictures,
    write_served,
    write_standins,
)

RUN = [page for page in PAGES if any(BLOCKS.parse(page).examples())]


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    document = BLOCKS.parse(page)
    write_standins(tmp_path)
    if page.name == "features.md":
        write_pictures(tmp_path)
    elif page.name == "serve.md":
        document.namespace["vectors"] = write_served(tmp_path)
    elif page.name == "containers.md":
        write_handled(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)  # small sets, few rows
        for example in document.examples():
            example.evaluate()


def test_figures_of_the_readme_are_those_of_its_command(tmp_path):
    """The command of the README makes its table."""
    from cli_helpers import run

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    methods = text.partition("--methods '")[2].partition("'")[0]
    result = run("compare", "--data", "digits", "--methods", methods, "--no-isolate",
                 "--work", tmp_path, "--out", tmp_path / "table.csv")  # fmt: skip
    assert result.exit_code == 0, result.output
    made = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()[1:]
    table = text.partition("| --- | --- | --- |\n")[2].partition("\n\n")[0].splitlines()
    shown = [[cell.strip(" *") for cell in line.strip("|").split("|")][1:] for line in table]
    assert len(made) == len(shown)
    for line, figures in zip(made, shown, strict=True):
        values = [float(word) for word in line.replace(")", "").split(",") if _number(word)]
        assert [f"{value:.1f}" for value in values[:2]] == figures, line


def _number(word):
    return word.replace(".", "", 1).isdigit()
