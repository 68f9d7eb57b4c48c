"""A method of one's own: registered, compared, in the command, and held to the contract."""

import sys
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import kinrank
from cli_helpers import run
from kinrank import registry
from kinrank.testing import METHOD_CHECKS, check_method

MODULE = '''
from dataclasses import dataclass

import numpy as np

import kinrank
from kinrank.options import option


@dataclass(frozen=True, kw_only=True)
class Mine(kinrank.DistanceMethod):
    """Powers of differences."""

    power: float = option(1.0, "of differences", within=(0.1, 10))

    def distances(self, queries, gallery):
        return (np.abs(queries[:, None] - gallery[None]) ** self.power).sum(axis=2)


kinrank.register("mine", Mine)
'''


@dataclass(frozen=True, kw_only=True)
class Manhattan(kinrank.DistanceMethod):
    """The sum of differences."""

    weight: float = field(default=1.0, metadata={"help": "of all"})

    def distances(self, queries, gallery):
        return self.weight * np.abs(queries[:, None] - gallery[None]).sum(axis=2)


@dataclass(frozen=True, kw_only=True)
class Forgetful(Manhattan):
    """Leaves out what it does not like."""

    def ranked(self, queries, gallery, k, execution, allowed=None):
        return super().ranked(queries, gallery, k, execution)


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("my_module", None)  # that of another folder
    yield "my_module"
    sys.modules.pop("my_module", None)


def test_a_registered_method_is_one_of_all():
    kinrank.register("manhattan", Manhattan)
    assert "manhattan" in kinrank.methods()
    rows = kinrank.datasets.load("toy")
    ranking = kinrank.rerank(rows.query.features, rows.gallery.features, "manhattan", k=5)
    differences = rows.query.features[:, None] - rows.gallery.features[None]
    expected = np.argsort(np.abs(differences).sum(axis=2), axis=1, kind="stable")
    np.testing.assert_array_equal(ranking.indices, expected[:, :5])
    with pytest.raises(kinrank.UnknownNameError, match="Did you mean 'weight'"):
        kinrank.rerank(rows.query.features, rows.gallery.features, "manhattan", wight=2)
    data = kinrank.evaluate.compare(
        ["none", "manhattan(weight=2)"], [rows], isolate=False, work=None
    )
    assert not data.failures


@pytest.mark.parametrize("check", METHOD_CHECKS)
def test_the_base_keeps_the_promises(check):
    METHOD_CHECKS[check](Manhattan)


def test_a_broken_promise_is_named():
    check_method(Manhattan, weight=2.0)
    with pytest.raises(AssertionError, match=r"Forgetful breaks the contract .*'conditions'"):
        check_method(Forgetful)


def test_what_distances_may_return():
    @dataclass(frozen=True, kw_only=True)
    class Wrong(kinrank.DistanceMethod):
        shape: int = 1

        def distances(self, queries, gallery):
            if self.shape == 1:
                return np.zeros(len(queries))
            return np.full((len(queries), len(gallery)), np.nan)

    with pytest.raises(kinrank.InvalidInputError, match=r"must return numbers of shape \(2, 3\)"):
        Wrong().rerank(np.eye(3)[:2], np.eye(3))
    with pytest.raises(kinrank.InvalidInputError, match=r"finite numbers, got nan for query 0"):
        Wrong(shape=2).rerank(np.eye(3)[:2], np.eye(3))


def test_what_register_refuses():
    with pytest.raises(kinrank.InvalidInputError, match=r"not be that of a method of kinrank"):
        kinrank.register("cas", Manhattan)
    for name in ("none", "all", "My Method", "", 3):
        with pytest.raises(kinrank.InvalidInputError, match=r"`name` must be small letters"):
            kinrank.register(name, Manhattan)
    for other in (int, 3, Manhattan()):
        with pytest.raises(kinrank.InvalidInputError, match=r"derived from kinrank.Method"):
            kinrank.register("mine", other)

    class Plain(kinrank.DistanceMethod):
        pass

    with pytest.raises(kinrank.InvalidInputError, match=r"must be a dataclass"):
        kinrank.register("mine", Plain)


def test_compare_imports_a_module_also_in_other_processes(module, tmp_path):
    for isolate in ("--no-isolate", "--isolate"):
        result = run(
            "compare", "--data", "toy", "--methods", "none,mine(power=2),mine", "--import", module,
            isolate, "--work", tmp_path / isolate, "--out", tmp_path / "table.csv",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
    lines = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()
    figures = {line.split(",")[0].strip('"'): line.split(",")[1:3] for line in lines[1:]}
    assert len(lines) == 4
    assert figures


def test_an_edit_is_computed_again(module, tmp_path, monkeypatch):
    import importlib

    monkeypatch.syspath_prepend(tmp_path)  # before folders of earlier tests
    importlib.invalidate_caches()
    imported = importlib.import_module(module)
    before = registry.code_digest("mine")
    assert imported.Mine is registry.method_class("mine")
    (tmp_path / "my_module.py").write_text(MODULE + "\n# edited\n", encoding="utf-8")
    assert registry.code_digest("mine") != before
    assert registry.code_digest("cas") is None


def test_rerank_and_methods_import_a_module(module, tmp_path):
    np.save(tmp_path / "g.npy", kinrank.datasets.load("toy").gallery.features)
    result = run(
        "rerank", "--gallery", "g.npy", "--method", "mine", "--import", module, "--power", 2,
        "-k", 3, "--out", "out.npz",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "mine" in run("methods").output
    failed = run("methods", "--import", "nobody")
    assert failed.exit_code == 2
    assert "nobody cannot be imported" in failed.output


def test_a_class_that_no_process_can_import():
    @dataclass(frozen=True, kw_only=True)
    class Local(Manhattan):
        pass

    kinrank.register("local", Local)
    with pytest.raises(kinrank.InvalidInputError, match=r"another process cannot import.*isolate"):
        registry.import_path("local")
    assert registry.import_path("cas") is None


def test_entry_points(module, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    group = registry.ENTRY_POINTS
    points = [
        EntryPoint("offered", "my_module:Mine", group),
        EntryPoint("cas", "my_module:Mine", group),
        EntryPoint("lost", "nobody:Mine", group),
        EntryPoint("number", "math:pi", group),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry._offered.cache_clear()
    try:
        assert "offered" in kinrank.methods()
        assert kinrank.rerank(np.eye(4)[:2], np.eye(4), "offered", power=2.0).k == 4
        assert registry.method_class("cas") is kinrank.CAS
        with pytest.raises(kinrank.InvalidInputError, match=r"'lost' of nobody:Mine cannot be"):
            registry.method_class("lost")
        with pytest.raises(kinrank.InvalidInputError, match=r"derived from kinrank.Method"):
            registry.method_class("number")
    finally:
        registry._offered.cache_clear()
