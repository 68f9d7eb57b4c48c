"""`kinrank extract` from outside: killed, out of space, and in the usual case."""

import inspect
import json
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from cli_helpers import process, run
from kinrank.cli.app import app
from kinrank.features import Descriptor, Preprocessing, extract
from kinrank.features.extraction import BATCH, PART
from picture_files import tiny_network, two_halves, write_bad


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    for number in range(60):
        (folder / str(number % 4)).mkdir(parents=True, exist_ok=True)
        two_halves(30 + number, 40).save(folder / str(number % 4) / f"{number:02d}.jpg")
    return folder


@pytest.fixture
def arguments(tmp_path, pictures):
    model = tiny_network(tmp_path / "tiny.onnx")
    model.with_suffix(".json").write_text(json.dumps({"size": 16, "mean": [0, 0, 0]}))
    return ["extract", pictures, "--model", model, "--batch", 2, "--part", 4, "--json"]


def read(path):
    with np.load(path) as file:
        return dict(file)


def test_features_names_and_labels(arguments, tmp_path):
    result = run(*arguments, "--out", tmp_path / "f.npz", "--pool", "rmac", "--levels", 2)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["arrays"] == {"features": [60, 2], "names": [60], "labels": [60]}
    assert (summary["n_images"], summary["n_reused"], summary["failures"]) == (60, 0, [])
    assert summary["preprocessing"]["mean"] == [0, 0, 0]
    content = read(tmp_path / "f.npz")
    assert content["names"][0] == "0/00.jpg"
    assert content["labels"].tolist() == sorted(str(number % 4) for number in range(60))
    # Ready for everything else.
    file = tmp_path / "f.npz"
    ranked = run("rerank", "--query", f"{file}:features", "--gallery", f"{file}:features", "-k", 3,
                 "--out", tmp_path / "r.npz", "--method", "aqe")  # fmt: skip
    assert ranked.exit_code == 0, ranked.output


def test_every_field_of_the_preprocessing_is_an_option(arguments, tmp_path):
    options = {
        "size": "12x14", "resize": "stretch", "crop": "10", "filter": "bicubic", "pixel-max": "255",
        "mean": "1,2,3", "std": "4,5,6", "channels": "bgr", "layout": "nchw", "layer": "maps",
    }  # fmt: skip
    typed = [word for name, value in options.items() for word in (f"--{name}", value)]
    result = run(*arguments, "--out", tmp_path / "f.npz", *typed)
    assert result.exit_code == 0, result.output
    used = Preprocessing(**json.loads(result.stdout)["preprocessing"])
    assert used == Preprocessing(
        size=(12, 14), crop=10, filter="bicubic", pixel_max=255, mean=(1, 2, 3), std=(4, 5, 6),
        channels="bgr", layer="maps",
    )  # fmt: skip
    assert {name.replace("-", "_") for name in options} == set(used.describe())


def test_the_person_preset_is_one_option(arguments, tmp_path):
    result = run(*arguments, "--out", tmp_path / "f.npz", "--preset", "person")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["preprocessing"]["size"] == [256, 128]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "big"], "`size` must be N or HEIGHTxWIDTH, got 'big'"),
        (["--size", "1x²"], "`size` must be N or HEIGHTxWIDTH, got '1x²'"),
        (["--mean", "1,x,3"], "`mean` must be numbers with commas"),
        (["--pool", "gemm"], "Did you mean 'gem'"),
        (["--scales", ""], "`scales` must be numbers"),
        (["--preset", "people"], "`preset` must be one of"),
        (["--batch", "0"], "`batch` must be an integer of at least 1"),
    ],
)
def test_wrong_options_are_refused(arguments, tmp_path, options, message):
    result = run(*arguments, "--out", tmp_path / "f.npz", *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "f.npz").exists()


def test_bad_pictures_are_listed_and_strictness_makes_them_an_error(arguments, pictures, tmp_path):
    bad = write_bad(pictures)
    assert run(*arguments, "--out", tmp_path / "f.npz", "--strict").exit_code == 1
    result = run(*arguments, "--out", tmp_path / "f.npz")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert summary["arrays"]["features"] == [60, 2]
    assert [item["name"] for item in summary["failures"]] == sorted(bad)
    assert "6 of 66 pictures could not be used:" in result.stderr
    for name in bad:
        assert f"  {name}: " in result.stderr
    many = pictures / "many"
    many.mkdir()
    for number in range(30):
        (many / f"{number}.jpg").write_bytes(b"")
    shown = run(*arguments, "--out", tmp_path / "f.npz").stderr
    assert "and 16 more; --json lists all" in shown


def test_a_line_at_the_end_in_a_pipe(arguments, pictures, tmp_path):
    quiet = [argument for argument in arguments if argument != "--json"]
    (pictures / "0" / "none.jpg").write_bytes(b"")
    result = run(*quiet, "--out", tmp_path / "f.npz")
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("61 pictures by ")
    assert last.endswith(f"written to {tmp_path / 'f.npz'}")
    assert run(*quiet, "--out", tmp_path / "f.npz", "--strict").exit_code == 1


def test_names_of_any_bytes(arguments, pictures, tmp_path):
    strange = os.fsdecode(b"b\xffd.jpg")
    two_halves().save(pictures / "0" / "ok.jpg")
    (pictures / "0" / "ok.jpg").rename(pictures / "0" / strange)
    (pictures / "0" / f"x{strange}").write_bytes(b"")
    result = run(*arguments, "--out", tmp_path / "f.npz")
    assert result.exit_code == 0, result.output
    assert "0/xb\N{REPLACEMENT CHARACTER}d.jpg: an empty file" in result.stderr
    assert f"0/{strange}" in read(tmp_path / "f.npz")["names"]


def test_folders_that_are_not_there_or_empty(arguments, tmp_path):
    (tmp_path / "empty").mkdir()
    rest = ["--model", arguments[3], "--out", tmp_path / "f.npz"]
    result = run("extract", tmp_path / "empty", *rest)
    assert result.exit_code == 2
    assert "holds no pictures" in result.stderr
    result = run("extract", tmp_path / "nowhere", *rest)
    assert result.exit_code == 1
    assert "No such data set, folder or file" in result.stderr


def test_killed_and_gone_on_with(arguments, tmp_path):
    whole, out = tmp_path / "whole.npz", tmp_path / "f.npz"
    assert run(*arguments, "--out", whole).exit_code == 0
    parts = tmp_path / "f.npz.parts"
    # A slow run, so that it can be killed in the middle.
    slow = (
        "import time; from kinrank.features import images; read = images.read_image\n"
        "def slowly(*a, **k): time.sleep(0.05); return read(*a, **k)\n"
        "from kinrank.features import extractor; extractor.read_image = slowly\n"
        "from kinrank.cli import main; main()"
    )
    command = [sys.executable, "-c", slow, *map(str, arguments), "--out", str(out)]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while len(list(parts.glob("*.part"))) < 3:
        assert killed.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    finished = {file: file.stat().st_mtime_ns for file in parts.glob("*.part")}
    assert 3 <= len(finished) < 15
    assert not out.exists()
    result = run(*arguments, "--out", out)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["n_reused"] == 4 * len(finished)
    assert out.read_bytes() == whole.read_bytes()
    assert not parts.exists()


def limited(size):
    """What makes every file of a process end at ``size`` bytes, as a full disk would."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_no_room_for_a_part(arguments, tmp_path):
    out = tmp_path / "f.npz"
    command = process(*arguments, "--out", out)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=limited(300)
    )
    assert done.returncode == 1
    assert "File too large; finished parts are kept in" in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()
    assert run(*arguments, "--out", out).exit_code == 0


def test_no_room_for_the_whole(arguments, tmp_path):
    """The parts fit and the file that is made of them does not: nothing is computed again."""
    out = tmp_path / "f.npz"
    command = process(*arguments, "--out", out)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=limited(3000)
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert not out.exists()
    assert [file.suffix for file in (tmp_path / "f.npz.parts").iterdir()] == [".part"] * 15
    result = run(*arguments, "--out", out)
    assert json.loads(result.stdout)["n_reused"] == 60


def test_whitening_is_fitted_and_used(arguments, tmp_path):
    first, fitted = tmp_path / "f.npz", tmp_path / "w.npz"
    rows = np.random.default_rng(0).random((60, 2))
    np.savez(first, features=rows, labels=np.arange(60) % 4)
    assert run("whiten", f"{first}:features", "--out", fitted).exit_code == 0
    result = run(*arguments, "--out", tmp_path / "g.npz", "--whiten", fitted, "--dims", 1)
    assert json.loads(result.stdout)["arrays"]["features"] == [60, 1]
    labels = ["--labels", f"{first}:labels", "--dims", 1]
    learnt = run("whiten", f"{first}:features", "--out", fitted, *labels)
    assert learnt.exit_code == 0, learnt.output
    assert "2 dimensions to 1" in learnt.stderr
    regions = ["--pool", "rmac", "--region-whiten", fitted, "--regional"]
    result = run(*arguments, "--out", tmp_path / "g.npz", *regions)
    assert result.exit_code == 0, result.output
    arrays = json.loads(result.stdout)["arrays"]
    assert arrays["features"] == [60 * 14, 1]
    assert arrays["owners"] == [60 * 14]
    wrong = run(*arguments, "--out", tmp_path / "g.npz", "--whiten", first)
    assert wrong.exit_code == 2
    assert "must be a whole safetensors file" in wrong.stderr


def test_defaults_are_those_of_the_library(tmp_path):
    typed = ["photos", "--out", str(tmp_path / "f.npz")]
    with app.commands["extract"].make_context("extract", typed) as context:
        shown = context.params
    descriptor = Descriptor()
    for name in ("p", "levels", "scale_power", "regional", "pool", "dims"):
        assert shown[name] == getattr(descriptor, name)
    assert tuple(float(word) for word in shown["scales"].split(",")) == descriptor.scales
    assert (shown["batch"], shown["part"]) == (BATCH, PART)
    taken = inspect.signature(extract).parameters
    assert (shown["model"], shown["threads"]) == (taken["model"].default, taken["threads"].default)


def test_models_are_listed():
    rows = json.loads(run("models", "--json").stdout)
    assert rows[0]["name"] == "efficientnet-lite0"
    assert {"licence", "size", "sha256", "package"} <= set(rows[0])
    assert "efficientnet-lite2  1280 dimensions" in run("models").stdout


def test_a_torch_module_in_the_current_folder(arguments, tmp_path, monkeypatch):
    (tmp_path / "own_net.py").write_text("import torch\nbuild = torch.nn.Identity\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    options = ["--model", "own_net:build", "--size", 16, "--out", tmp_path / "f.npz"]
    result = run("extract", arguments[1], *options, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["arrays"]["features"] == [60, 3]
