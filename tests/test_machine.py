"""Machine code that comes with an installation: made by hatch_build.py, found by the kernels."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kinrank import compiling
from kinrank.kernels import jit
from test_start import ROOT_OBEYS, compiled, copied, run

HOOK = Path(__file__).parents[1] / "hatch_build.py"
BEFORE = ROOT_OBEYS if os.geteuid() == 0 else []


def hook_of(tree):
    """The build hook of a source tree."""
    spec = importlib.util.spec_from_file_location("hatch_build", tree / HOOK.name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def source_tree(folder):
    copied(folder / "src")
    shutil.copy(HOOK, folder)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A tree whose code is that of the simplest method, for any processor of this kind."""
    tree = source_tree(tmp_path_factory.mktemp("built"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KINRANK_TARGETS", "generic")
        [folder] = hook_of(tree).machine_code("aqe")
        generic = {path.name for path in folder.glob("*.kernel")}
        patch.setenv("KINRANK_TARGETS", "native")
        assert hook_of(tree).machine_code("aqe") == {folder}
    assert len(list(folder.glob("*.kernel"))) >= 2 * 3
    return tree, generic


@pytest.fixture
def tree(built, tmp_path):
    """A copy that may be spoilt."""
    return shutil.copytree(built[0], tmp_path / "tree")


@pytest.fixture
def generic(built):
    """The names of the files with code for any processor."""
    return built[1]


def alone(tree):
    """The environment of a process whose caches are empty."""
    nowhere = {"KINRANK_CACHE": str(tree / "cache"), "NUMBA_CACHE_DIR": str(tree / "numba")}
    return {"PYTHONPATH": str(tree / "src"), "HOME": "/nonexistent", **nowhere}


def first_call(tree, *before):
    """How many functions are compiled, and what is said."""
    return compiled(*before, **alone(tree))


def missing(tree, **environment):
    """How many kernels would have to be compiled."""
    code = "from kinrank.compiling import jobs; print([e.cached() for e in jobs()['aqe']])"
    return run(code, **alone(tree), **environment)[0].count("False")


def code_files(tree):
    return list((tree / "src/kinrank/machine").rglob("*.kernel"))


def test_a_first_call_compiles_nothing_where_nothing_can_be_written(tree):
    folders = [tree, *tree.rglob("*/")]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert first_call(tree, *BEFORE) == (0, "")
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert not (tree / "cache").exists()


def test_code_for_a_kind_of_processors_is_found_where_none_is_native(tree, generic):
    for path in code_files(tree):
        if path.name not in generic:
            path.unlink()
    assert first_call(tree) == (0, "")
    for path in code_files(tree):
        path.unlink()
    assert missing(tree) == 3


def test_changed_kernels_do_not_meet_old_code(tree):
    with (tree / "src/kinrank/kernels/lists.py").open("a") as file:
        file.write("# changed\n")
    assert missing(tree) == 3


def test_code_for_another_processor_is_not_used(tree):
    assert missing(tree, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == 0
    assert missing(tree, NUMBA_CPU_NAME="another", NUMBA_CPU_FEATURES="") == 3


def test_code_that_cannot_be_read_is_as_good_as_none(tree):
    whole = {path: path.read_bytes() for path in code_files(tree)}
    for path, code in whole.items():
        path.write_bytes(code[:20])
    assert missing(tree) == 3
    for path, code in whole.items():
        if not path.name.startswith("expand."):
            path.write_bytes(code)
    assert first_call(tree)[0] > 0


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_code_is_trusted_as_the_sources_beside_it(tree):
    files = code_files(tree)
    for path in files:
        path.chmod(0o664)
    assert missing(tree) == 3
    (tree / "src/kinrank/kernels/jit.py").chmod(0o664)
    assert missing(tree) == 0


@pytest.mark.parametrize(
    ("has", "names"),
    [
        (set(), ["generic"]),
        ({"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}, ["x86-64-v3", "generic"]),
        ({"avx2", "fma"}, ["generic"]),
    ],
)
def test_a_processor_runs_what_it_has_the_features_for(monkeypatch, has, names):
    monkeypatch.setattr(jit.llvm, "get_host_cpu_features", lambda: dict.fromkeys(has, True))
    monkeypatch.setattr(jit.config, "CPU_NAME", None)
    assert list(jit.targets.__wrapped__()) == names
    monkeypatch.setattr(jit.config, "CPU_NAME", "znver4")  # what numba is told holds
    assert jit.targets.__wrapped__() == ()


# The hook


@pytest.fixture
def hook(tmp_path, monkeypatch):
    """The hook of a tree whose compiler is what a test says."""
    module = hook_of(source_tree(tmp_path))
    monkeypatch.setenv("KINRANK_TARGETS", "native")

    def compiler(code):
        monkeypatch.setattr(module, "COMPILE", code)

    return SimpleNamespace(module=module, compiler=compiler)


def wheel(module, version="standard"):
    """What the hook says of a wheel."""
    build_data = {"force_include": {}}
    module.MachineCode.__new__(module.MachineCode).initialize(version, build_data)
    return build_data


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "print()", "import os; os.abort()"])
def test_a_compiler_that_fails_stops_no_installation(hook, capfd, code):
    hook.compiler(code)
    assert wheel(hook.module) == {"force_include": {}}
    assert "kernels are compiled at first calls" in capfd.readouterr().out


def test_code_that_cannot_be_loaded_is_removed(hook, monkeypatch, capfd):
    folder = hook.module.MACHINE / "kernels" / "abc"
    folder.mkdir(parents=True)
    hook.compiler(f"print(3, {str(folder)!r})")
    aborts = "import os; 'NUMBA_CPU_NAME' in os.environ and os.abort()"
    monkeypatch.setattr(hook.module, "LOAD", aborts)
    monkeypatch.setenv("KINRANK_TARGETS", "native,generic")  # both are in one folder
    assert wheel(hook.module) == {"force_include": {}}
    assert not folder.exists()


def test_a_wheel_with_code_has_the_tags_of_its_platform(hook):
    folder, old = (hook.module.MACHINE / "kernels" / name for name in ("abc", "old"))
    for each in (folder, old):
        each.mkdir(parents=True)
    hook.compiler(f"print(0, {str(folder)!r})")
    assert wheel(hook.module) == {
        "force_include": {str(folder): "kinrank/machine/kernels/abc"},
        "pure_python": False,
        "infer_tag": True,
    }
    assert not old.exists()
    assert wheel(hook.module, "editable") == {"force_include": {}}  # the folder is in its place


def test_a_wheel_for_others_can_be_uploaded(hook, monkeypatch):
    monkeypatch.setenv("KINRANK_TARGETS", "x86-64-v3,x86-64-v4")
    hook.module.MACHINE.mkdir()
    hook.compiler(f"print(0, {str(hook.module.MACHINE)!r})")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    if sys.platform == "linux":  # where a package index takes no other tags
        assert wheel(hook.module)["tag"].startswith(f"{python}-{python}-manylinux_2_17_")


def test_no_targets_are_no_code_and_no_requirements(hook, monkeypatch):
    core = SimpleNamespace(dependencies=["numba>=0.60"])
    metadata = SimpleNamespace(metadata=SimpleNamespace(core=core))
    assert hook.module.MachineCode.dependencies(metadata) == ["numba>=0.60"]
    monkeypatch.setenv("KINRANK_TARGETS", "none")
    assert hook.module.MachineCode.dependencies(metadata) == []
    assert wheel(hook.module) == {"force_include": {}}


def check(tree):
    """What `python hatch_build.py` says of a work tree, and its exit code."""
    command = [sys.executable, HOOK.name, "aqe"]
    environment = {**os.environ, **alone(tree)}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def test_an_edit_that_does_not_compile_is_told_first(tree):
    assert check(tree)[0] == 0
    file = tree / "src/kinrank/kernels/expand.py"
    text = file.read_text()
    begin = text.index("def weighted_sums(")
    docstring_end = text.index('"""', text.index('"""', begin) + 3) + 3
    file.write_text(text[:docstring_end] + "\n    low.nothing()" + text[docstring_end:])
    code, said = check(tree)
    assert code == 1
    assert f"The kernel expand.weighted_sums ({file}:" in said
    assert "Unknown attribute 'nothing'" in said
    file.write_text(text + "\n\n@kernel\ndef another(a):\n    return a\n")
    code, said = check(tree)
    assert code == 0
    assert "expand.another" in said


def test_kernels_of_edited_files_are_compiled_first():
    entries = compiling.kernels_of("all")
    first = compiling.edited_first(entries, {"gather"})
    assert sorted(first, key=str) == sorted(entries, key=str)
    modules = [entry.name.partition(".")[0] for entry in first]
    imports = ["gather" in compiling._imported(module) for module in modules]
    assert True in imports
    assert imports == sorted(imports, reverse=True)
    assert compiling.edited_first(entries, set())[0].seconds == max(e.seconds for e in entries)
