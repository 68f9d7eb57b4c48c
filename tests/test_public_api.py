import json
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

import kinrank

HEAVY = ["torch", "faiss", "numba", "scipy", "click", "tqdm", "sklearn"]


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_all_is_true():
    assert len(kinrank.__all__) == len(set(kinrank.__all__))
    for name in kinrank.__all__:
        assert getattr(kinrank, name) is not None
    assert set(kinrank.__all__) <= set(dir(kinrank))


def test_every_public_name_is_in_all():
    modules = {name for name, value in vars(kinrank).items() if type(value).__name__ == "module"}
    public = {name for name in vars(kinrank) if not name.startswith("_")} - modules
    public -= {"annotations", "import_module", "Any", "TYPE_CHECKING"}
    assert public <= set(kinrank.__all__)


def test_the_names_that_are_promised():
    promised = {"rerank", "methods", "CAS", "Ranking", "KinrankError", "KinrankWarning"}
    assert promised <= set(kinrank.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        kinrank.nope  # noqa: B018


def test_import_loads_nothing_heavy():
    code = f"import sys, json, kinrank; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    assert json.loads(run(code)) == []


def test_import_prints_nothing_and_starts_no_threads():
    code = "import threading, kinrank; assert threading.active_count() == 1"
    assert run(code) == ""


def test_errors_have_one_base():
    for name in ("InvalidInputError", "FileFormatError", "UnknownNameError"):
        error = getattr(kinrank, name)
        assert issubclass(error, kinrank.KinrankError)
        assert issubclass(error, ValueError)
    assert issubclass(kinrank.OptionalDependencyError, (kinrank.KinrankError, ImportError))
    assert issubclass(kinrank.KinrankWarning, UserWarning)


def test_unknown_method_lists_the_names_and_the_nearest():
    with pytest.raises(kinrank.UnknownNameError, match=r"one of .*cas.*, got 'caz'\. Did you mean"):
        kinrank.rerank([[1.0]], [[1.0]], method="caz")


def test_unknown_parameter_lists_the_names_and_the_nearest(fake_method):
    with pytest.raises(kinrank.UnknownNameError, match=r"got 'k_1'\. Did you mean 'k1'"):
        kinrank.rerank([[1.0]], [[1.0]], method=fake_method, k_1=3)


def test_methods_are_frozen(fake_method):
    from fakes import Fake

    with pytest.raises(FrozenInstanceError):
        Fake().k1 = 3
    with pytest.raises(TypeError):
        Fake(3)


def test_methods_are_listed(fake_method):
    assert kinrank.methods() == sorted({*kinrank.methods(), "cas", "fake"})


def test_the_function_methods_outlives_an_import_of_the_package_methods():
    code = "import kinrank, kinrank.methods.base; from kinrank.methods import base"
    assert run(f"{code}; print(kinrank.methods()[0])") == f"{kinrank.methods()[0]}\n"
