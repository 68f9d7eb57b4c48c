"""`kinrank tune`, and the page it writes."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from kinrank.cli.app import app


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    random = np.random.default_rng(0)
    rows = np.repeat(random.normal(size=(20, 16)), 10, axis=0)
    rows = random.permutation(rows + 0.5 * random.normal(size=rows.shape)).astype(np.float32)
    np.save(folder / "q.npy", rows[:20])
    np.save(folder / "g.npy", rows[20:])
    np.save(folder / "random.npy", random.normal(size=(200, 16)).astype(np.float32))
    return folder


def run(*args):
    return CliRunner().invoke(app, ["tune", *map(str, args)])


@pytest.fixture(scope="module")
def page(files):
    result = run(
        "--query", files / "q.npy", "--gallery", files / "g.npy", "--html", files / "page.html"
    )
    assert result.exit_code == 0, result.output
    return result.output, files / "page.html"


def test_the_table_can_be_read(page):
    text, _ = page
    assert re.search(r"^chosen +cas\(whiten=None,k1=\d+,", text, re.MULTILINE)
    assert re.search(r"^verdict +re-ranking will help$", text, re.MULTILINE)
    assert re.search(r"^k1 +[A-Z].*\.$", text, re.MULTILINE)


def test_the_page_needs_nothing_else(page):
    text = page[1].read_text(encoding="utf-8")
    assert "Re-ranking will help." in text
    assert "Why these parameters" in text
    assert text.count('<figure class="table">') == 2
    assert not re.search(r'(src|href)="(?!#)', text)


def test_the_page_in_a_browser(page, browser):
    tab = browser.new_page(viewport={"width": 1000, "height": 900})
    errors = []
    tab.on("pageerror", lambda error: errors.append(error))  # noqa: PLW0108 - playwright marks it
    tab.goto(page[1].as_uri())
    assert tab.locator("figure.table").count() == 2
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.set_viewport_size({"width": 380, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert errors == []
    tab.close()


def test_json_and_a_warning(files):
    result = run("--gallery", files / "random.npy", "--budget", 2, "--json", "--k2", 4)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["diagnosis"]["verdict"] == "will not help"
    assert found["params"]["k2"] == 4
    assert "Warning: Re-ranking is not expected to help here." in result.stderr


def test_another_method(files):
    result = run("--gallery", files / "g.npy", "--method", "alphaqe", "--budget", 2)
    assert result.exit_code == 0, result.output
    assert "alphaqe(whiten=None,kqe=" in result.output


def test_what_is_refused(files):
    result = run("--gallery", files / "g.npy", "--method", "dqe")
    assert result.exit_code == 2
    assert "one that can be tuned" in result.output
    assert run("--gallery", files / "none.npy").exit_code == 2
