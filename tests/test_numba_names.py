"""Names of numba that are its own may go: kernels are then compiled, and nothing crashes."""

import numpy as np
import pytest
from numba.core import codegen, compiler, cpu
from numba.core.runtime import rtsys

from kinrank import compiling
from kinrank.errors import KinrankWarning
from kinrank.kernels import jit


def doubled(values):
    for at in range(len(values)):
        values[at] *= 2


@pytest.fixture(autouse=True)
def forgotten(monkeypatch, tmp_path):
    """Code is kept in a folder of the test, and what is known of numba is found out again."""
    monkeypatch.setattr(jit, "kernel_folder", lambda: tmp_path)
    caches = (jit.keeps_code, jit.warn_unknown_numba)
    for known in caches:
        known.cache_clear()
    yield
    for known in caches:
        known.cache_clear()


def works(kernel):
    values = np.arange(3.0)
    kernel(values)
    return values.tolist() == [0, 2, 4]


def kept(folder):
    return len(list(folder.glob("*.kernel")))


def test_code_is_kept(tmp_path):
    assert works(jit.filling(doubled))
    assert kept(tmp_path) == 1
    again = jit.filling(doubled)
    assert works(again)
    assert sum(again.stats.cache_hits.values()) + kept(tmp_path) == 2
    again.recompile()
    assert works(again)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (compiler.CompileResult, "_rebuild"),
        (compiler.CompileResult, "_reduce"),
        (codegen.CPUCodeLibrary, "has_dynamic_globals"),
        (codegen.JITCPUCodegen, "magic_tuple"),
        (type(rtsys), "initialize"),
        (compiler, "CompileResult"),
    ],
)
def test_a_name_that_is_gone_ends_in_compiling(monkeypatch, tmp_path, owner, name):
    holders = [kind for kind in getattr(owner, "__mro__", [owner]) if name in vars(kind)]
    with monkeypatch.context() as patch:
        for holder in holders:
            patch.delattr(holder, name)
        with pytest.warns(KinrankWarning, match="every process compiles them again"):
            kernel = jit.filling(doubled)
        assert not jit.can_keep()
        compiling._prepared.discard("aqe")
        compiling.prepare("aqe")  # nothing that no other process could use
    assert works(kernel)
    assert kept(tmp_path) == 0


@pytest.mark.parametrize("name", ["_nrt", "no_cfunc_wrapper", "no_cpython_wrapper"])
def test_options_that_are_gone_are_left_out(monkeypatch, name):
    holders = [kind for kind in cpu.CPUTargetOptions.__mro__ if name in vars(kind)]
    with monkeypatch.context() as patch:
        for holder in holders:
            patch.delattr(holder, name)
        assert name not in jit._known_options({name: True, "nogil": True})
        assert works(jit.filling(doubled))


def test_options_are_the_public_ones_where_none_are_known(monkeypatch):
    monkeypatch.delattr(cpu, "CPUTargetOptions")
    assert jit._known_options({"_nrt": False, "nogil": True}) == {"nogil": True}
