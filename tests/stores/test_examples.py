"""The examples with stores run, and kinrank finds more than the plain search in each."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["faiss_store", "lancedb_store", "pgvector_store", "pool"]  # others: tests/docs


@pytest.mark.parametrize("name", NAMES)
def test_example(name, request, monkeypatch, capsys):
    arguments = [request.getfixturevalue("postgres")] if name == "pgvector_store" else []
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    shares = re.findall(r"([\d.]+)% of the first", capsys.readouterr().out)
    assert len(shares) >= 2
    assert all(float(share) > float(shares[0]) for share in shares[1:])
