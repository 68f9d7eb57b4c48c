"""Containers: the package, the home and the cache may be read-only, as docs/containers.md says."""

import json
import os
import pickle
import platform
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from PIL import Image

import kinrank
from index_data import ROWS
from kinrank.cache import cache_folder
from kinrank.cli.app import app
from kinrank.io import replacing
from kinrank.kernels import jit
from picture_files import tiny_network
from test_start import COUNT, ROOT_OBEYS, compiled, copied, run

PAGE = (Path(__file__).parents[1] / "docs" / "containers.md").read_text(encoding="utf-8")
# Code of the image's own processor would be of no use on another machine.
IMAGE = dict(re.findall(r"(NUMBA_\w+)=(\S*)", PAGE.partition("RUN kinrank")[0]))
BEFORE = ROOT_OBEYS if os.geteuid() == 0 else []
SERVE = """
import numpy as np, kinrank
x = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
index = kinrank.CAS().fit(x[5:])
index.search(x[:1], k=10)
index.add(x[:2])
print(kinrank.__file__, sum(e.is_start for _, e in timer.buffer))
"""
REFUSED = """
import json, os
import click, numpy as np, kinrank
from kinrank.cli.app import app
place = os.environ["PLACE"]
x = np.random.default_rng(0).normal(size=(40, 4))
ranking = kinrank.Ranking(np.zeros((1, 1), np.int32), np.zeros((1, 1)))
def command(*words):
    app([word.replace("PLACE", place) for word in words], standalone_mode=False)
index = kinrank.open(f"{place}/an.index")
calls = {
    "open": lambda: kinrank.open(f"{place}/an.index", writable=True),
    "save": lambda: index.save(f"{place}/x.index"),
    "ranking": lambda: ranking.save(f"{place}/ranking.npz"),
    "work": lambda: kinrank.rerank(x[:5], x[5:], "aqe", run=kinrank.Run(work=f"{place}/run")),
    "old work": lambda: kinrank.rerank(x[:5], x[5:], "aqe", run=kinrank.Run(work=f"{place}/empty")),
    "cache": lambda: command("extract", "PLACE/pictures", "--out", "PLACE/../a.npz"),
    "out": lambda: command(
        "extract", "PLACE/pictures", "--out", "PLACE/a.npz", "--model", "PLACE/tiny.onnx"
    ),
    "serve": lambda: command("serve", "PLACE/an.index", "--writable", "--port", "0"),
    "charts": lambda: command(
        "compare", "--data", "digits", "--methods", "knn", "--work", "PLACE/cells"
    ),
}
said = {}
for name, call in calls.items():
    try:
        call()
    except kinrank.KinrankError as error:
        said[name] = str(error)
    except click.ClickException as error:
        assert error.exit_code == 2, error
        said[name] = error.message
print(json.dumps(said))
"""


@pytest.fixture
def closed(tmp_path):
    """The environment of a container whose package and home are read-only; its cache is empty."""
    site, home, cache = (tmp_path / name for name in ("site", "home", "cache"))
    copied(site)
    home.mkdir()
    cache.mkdir()
    close(site, home)
    yield {"PYTHONPATH": str(site), "HOME": str(home), "KINRANK_CACHE": str(cache)}
    for folder in (tmp_path, *tmp_path.rglob("*/")):
        folder.chmod(0o755)


def close(*roots):
    """Let nobody write to folders."""
    for root in map(Path, roots):
        for folder in (root, *root.rglob("*/")):
            folder.chmod(0o555)


def test_a_second_process_compiles_nothing_where_all_is_read_only(closed):
    if platform.machine() == "x86_64":
        closed |= IMAGE
    first, said = compiled(*BEFORE, **closed)
    assert (first > 0, said) == (True, "")
    close(closed["KINRANK_CACHE"])
    assert compiled(*BEFORE, **closed) == (0, "")


@pytest.fixture
def warmed(closed):
    """The same with kernels in its cache, which is read-only too."""
    kinrank.warmup("serve")
    cache = Path(closed["KINRANK_CACHE"])
    for source in (jit.kernel_folder(), jit.shipped_folder()):  # the second comes with a build
        if source.exists():
            shutil.copytree(source, cache / "kernels" / source.name, dirs_exist_ok=True)
    close(cache)
    return closed


def test_an_image_that_was_warmed_up_serves_without_compiling(warmed):
    warmup = "from kinrank.cli.app import app; app(['warmup', '--for', 'serve'])"
    out, said = run(warmup, *BEFORE, **warmed)
    assert (out.startswith("0 kernels compiled"), said) == (True, "")
    out, said = run(COUNT + SERVE, *BEFORE, **warmed)
    assert (out.split(), said) == ([f"{warmed['PYTHONPATH']}/kinrank/__init__.py", "0"], "")


def test_what_cannot_be_written_is_an_error_with_its_cure(warmed, tmp_path):
    place = tmp_path / "place"
    for name in ("pictures", "empty"):
        (place / name).mkdir(parents=True)
    Image.new("RGB", (40, 40), (30, 30, 200)).save(place / "pictures" / "blue.png")
    tiny_network(place / "tiny.onnx").with_suffix(".json").write_text('{"size": 16}')
    kinrank.CAS().fit(ROWS).save(place / "an.index")
    close(place)
    out, _ = run(REFUSED, *BEFORE, PLACE=str(place), **warmed)
    said = json.loads(out)
    for name in ("open", "save", "serve"):
        assert f"{place} cannot be written to (" in said[name]
        assert said[name].endswith("To search it, leave out writable=True.")
    for name, path in (("ranking", "ranking.npz"), ("out", "a.npz.parts"), ("charts", "cells/")):
        assert said[name].startswith(f"{place}/{path}")
        assert said[name].endswith("(Permission denied). Choose a folder that can be written to.")
    for name, path in (("work", "run"), ("old work", "empty")):
        assert said[name].startswith("`work` must be a folder that can be written to, got ")
        assert said[name].endswith(f"{place}/{path}: Permission denied.")
    assert "Set KINRANK_CACHE to a folder that can be written to" in said["cache"]


def test_the_page_says_what_is_so():
    assert set(IMAGE) == {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"}
    commands = re.findall(r"(?:RUN |/bin/|`)kinrank (warmup|serve)([^\n`]*)", PAGE)
    commands += [("serve", re.search(r'CMD \["kinrank", "serve"(.*)\]', PAGE)[1].replace('"', ""))]
    assert len(commands) >= 4
    for name, rest in commands:
        options = {word for option in app.commands[name].params for word in option.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options
    with pytest.warns(kinrank.KinrankWarning) as warned:
        jit.warn_unwritable.__wrapped__()
    says = re.sub(r"kept in \S+,", "kept in FOLDER,", str(warned[0].message))
    assert says in re.sub(r"kept in \S+,", "kept in FOLDER,", " ".join(PAGE.split()))


def test_no_folder_for_temporary_files(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    with pytest.raises(kinrank.UnwritableError, match="Set TMPDIR to one that can"):
        kinrank.rerank(ROWS[:5], ROWS[5:], "aqe", run=kinrank.Run(memory_budget="1GB"))


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def unknown():
        raise RuntimeError("Could not determine home directory.")

    for name in ("KINRANK_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(NotADirectoryError):
        cache_folder().mkdir(parents=True)


def test_the_error_tells_what_the_system_said(tmp_path, monkeypatch):
    def refuse(path, *_):
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OSError, match=r"cannot be written \(Read-only") as info, replacing("x"):
        pass
    assert (info.value.errno, info.value.strerror) == (30, "Read-only file system")
    assert str(pickle.loads(pickle.dumps(info.value))) == str(info.value)  # noqa: S301
