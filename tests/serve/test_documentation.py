"""What docs/serve.md says is so."""

import re
from pathlib import Path

import kinrank
from index_data import QUERIES
from kinrank.cli.app import app
from serve_process import ask

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")


def test_python_runs(pictures):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    block = block.replace("http://127.0.0.1:8765", pictures.url)
    block = block.replace("a.jpg", "row 3").replace("b.jpg", "row 4")
    names = {"vectors": QUERIES}
    exec(compile(block, "serve.md", "exec"), names)  # noqa: S102
    assert isinstance(names["ranking"], kinrank.Ranking)


def test_options_and_routes_exist(pictures):
    known = {word for option in app.commands["serve"].params for word in option.opts}
    options = set(re.findall(r"--[a-z][a-z-]+", PAGE)) - {"--data-binary"}
    assert options <= known
    described = ask(pictures, "GET", "/openapi.json")[2]["paths"]
    named = re.findall(r"`(?:GET|POST|DELETE) (/[^?` ]+)", PAGE)
    assert set(named) == set(described)
