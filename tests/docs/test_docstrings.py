"""Examples in docstrings run, and everything that is public has one."""

import doctest
import importlib
import pkgutil

import pytest

import kinrank

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(kinrank.__path__, "kinrank.")
    if module.name != "kinrank.__main__"
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    assert doctest.testmod(module, optionflags=FLAGS).failed == 0
