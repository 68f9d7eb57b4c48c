"""Examples in docstrings run, and everything that is public has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import kinrank
from kinrank import datasets, evaluate, features, learned, stores

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
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for test in doctest.DocTestFinder().find(module, name):
        if test.examples:  # to run one without any looks at the files of all modules
            runner.run(test)
    assert runner.summarize().failed == 0


def test_everything_public_has_an_example():
    """Errors share the one of their base."""
    for name in kinrank.__all__:
        value = getattr(kinrank, name)
        error = inspect.isclass(value) and issubclass(value, (Exception, Warning))
        if (inspect.isclass(value) or inspect.isfunction(value)) and not error:
            assert ">>>" in (inspect.getdoc(value) or ""), name
    for value in (kinrank.KinrankError, evaluate.compare, evaluate.reid, evaluate.retrieval,
                  evaluate.revisited, evaluate.paired_difference, evaluate.Plain, evaluate.Pooled,
                  datasets.load, datasets.toy, datasets.Dataset, features.gem, kinrank.Projection,
                  features.Descriptor, learned.train, stores.FaissStore):  # fmt: skip
        assert ">>>" in (inspect.getdoc(value) or ""), value
