"""The examples run, as scripts and as notebooks; those of stores are tested with the stores."""

import asyncio
import importlib.util
import os
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from doc_files import ROOT

EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))


def test_there_is_one_for_each_job():
    assert NAMES == ["labels", "living_gallery", "pictures"]


@pytest.mark.parametrize("name", NAMES)
def test_script(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.count("\n") >= 3


def test_notebooks_are_those_of_the_scripts(tmp_path):
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs/make/notebooks.py")
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    notebooks.main(tmp_path)
    for name in NAMES:
        made, kept = (
            (folder / f"{name}.ipynb").read_text("utf-8") for folder in (tmp_path, EXAMPLES)
        )
        assert made == kept, "run `python docs/make/notebooks.py`"


@pytest.mark.filterwarnings("ignore")  # those of jupyter's packages
@pytest.mark.parametrize("name", NAMES)
def test_notebook(name, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), *sys.path]))
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    # A browser of other tests leaves its event loop in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(client.async_execute())).result()
    printed = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any(
        "mAP" in output.get("text", "") or "items" in output.get("text", "") for output in printed
    )
