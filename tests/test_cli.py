import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import kinrank
from cli_helpers import GALLERY, QUERIES, process, run
from fakes import Fake
from kinrank.cli.app import app
from kinrank.progress import format_seconds

COMMANDS = {"ablate", "compare", "demo", "eval", "methods", "report", "rerank", "train"}


# The app


def test_version():
    assert run("--version").stdout == f"kinrank, version {kinrank.__version__}\n"


def test_every_command_has_help():
    assert set(app.commands) >= COMMANDS
    for name, command in app.commands.items():
        assert command.help, name
        assert run(name, "--help").exit_code == 0


def test_methods(fake_method):
    result = run("methods")
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert ["fake", "Plain Euclidean order, with a parameter of every kind."] in lines


def test_methods_json(fake_method):
    rows = json.loads(run("methods", "--json").stdout)
    assert [row["name"] for row in rows] == kinrank.methods()
    assert all(row["summary"] for row in rows)


@pytest.mark.parametrize(
    "command", [["-m", "kinrank"], ["-c", "from kinrank.cli import main; main()"]]
)
def test_started_as_a_process(command):
    done = subprocess.run(
        [sys.executable, *command, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"kinrank, version {kinrank.__version__}\n"


def test_without_click_the_cure_is_said():
    code = "import sys; sys.modules['click'] = None; from kinrank.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pip install 'kinrank[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


# rerank


def test_the_ranking_is_that_of_the_library(files, tmp_path):
    result = run(*files, "-k", 5)
    assert result.exit_code == 0, result.output
    ranking = kinrank.Ranking.load(tmp_path / "ranking.npz")
    expected = kinrank.rerank(QUERIES, GALLERY, method="fake", k=5)
    np.testing.assert_array_equal(ranking.indices, expected.indices)
    np.testing.assert_array_equal(ranking.distances, expected.distances)


def test_nothing_is_printed_in_a_pipe(files):
    result = run(*files)
    assert result.stdout == ""
    assert result.stderr == ""


def test_json_summary(files, tmp_path):
    result = run(*files, "--json", "-k", 7, "--k1", 40)
    summary = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert summary["method"] == "fake"
    assert summary["parameters"] == {**vars(Fake()), "k1": 40}
    assert (summary["n_queries"], summary["n_gallery"], summary["k"]) == (4, 30, 7)
    assert list(summary["stages"]) == ["neighbors", "diffuse"]
    assert 0 <= sum(summary["stages"].values()) <= summary["seconds"]
    assert summary["peak_memory_bytes"] > 1e6
    assert summary["warnings"] == ["`k1` is 40: 30 is used."]
    assert summary["output"] == str(tmp_path / "ranking.npz")


def test_warnings_are_one_line_each(files):
    assert run(*files, "--k1", 40).stderr == "Warning: `k1` is 40: 30 is used.\n"


def test_npz_and_safetensors_with_names(files, tmp_path):
    from safetensors.numpy import save_file

    np.savez(tmp_path / "both.npz", q=QUERIES, g=GALLERY)
    save_file({"q": QUERIES, "g": GALLERY}, tmp_path / "both.safetensors")
    for name in ("both.npz", "both.safetensors"):
        file = tmp_path / name
        result = run(*files, "--query", f"{file}:q", "--gallery", f"{file}:g", "--json")
        assert json.loads(result.stdout)["n_gallery"] == 30
    result = run(*files, "--query", tmp_path / "both.npz")
    assert result.exit_code == 2
    assert "holds 2 arrays (q, g): say which" in result.stderr


# Errors


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--k1", "0"], "`k1` must be an integer of at least 1, got 0."),
        (["-k", "31"], "`k` must be an integer between 1 and 30, got 31."),
        (["--query", "none.npy"], "there is no file 'none.npy'"),
        (["--out", "none/x.npz"], "there is no folder 'none'"),
        (["--method", "fuke"], "got 'fuke'. Did you mean 'fake'?"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(files, tmp_path, extra, message):
    result = run(*files, *extra)
    assert result.exit_code == 2
    assert message in result.stderr
    assert sum("Error" in line for line in result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert not (tmp_path / "ranking.npz").exists()


def test_library_errors_have_no_usage_lines(files):
    assert run(*files, "--k1", 0).stderr == (
        "Error: `k1` must be an integer of at least 1, got 0.\n"
    )


def test_a_folder_cannot_be_the_output(files, tmp_path):
    assert "is a folder" in run(*files, "--out", tmp_path).stderr


def test_broken_file(files, tmp_path):
    (tmp_path / "q.npy").write_bytes(b"\x93NUMPY")
    result = run(*files)
    assert result.exit_code == 2
    assert "must be a whole file of plain arrays" in result.stderr


def test_system_errors_are_one_line(files, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device", "ranking.npz")

    monkeypatch.setattr("kinrank.types.save_npz", full)
    result = run(*files)
    assert result.exit_code == 1
    assert result.stderr == "Error: ranking.npz: No space left on device\n"


def test_out_of_memory_is_one_line(files, monkeypatch):
    def large(*args, **kwargs):
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr(Fake, "ranked", large)
    result = run(*files)
    assert result.exit_code == 1
    assert result.stderr == "Error: Not enough memory: Unable to allocate 9 GiB\n"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_leaves_no_file(files, tmp_path):
    started = tmp_path / "started"
    running = subprocess.Popen(
        process(*files, "--pause", 60),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KINRANK_FAKE_STARTED": str(started)},
    )
    while not started.exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 1
    assert (out, err.strip()) == ("", "Aborted!")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.npy", "q.npy", "started"]


# On a terminal


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals of POSIX")
def test_on_a_terminal_each_stage_has_a_line(files, tmp_path):
    import pty
    import termios

    main, side = pty.openpty()
    termios.tcsetwinsize(side, (24, 80))
    running = subprocess.Popen(
        process(*files, "--pause", 0.6, "--k1", 40), stdout=subprocess.PIPE, stderr=side
    )
    os.close(side)
    shown = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(main)
    assert running.wait(timeout=30) == 0
    assert running.stdout.read() == b""
    running.stdout.close()
    text = shown.decode()
    assert "Warning: `k1` is 40: 30 is used." in text
    assert "% |" in text  # a bar, for the stage that takes its time
    lines = [line.rsplit("\r", 1)[-1].split() for line in text.replace("\r\n", "\n").split("\n")]
    stages = [line for line in lines if line and line[0] in {"neighbors", "diffuse"}]
    assert [line[0] for line in stages] == ["neighbors", "diffuse"]
    assert all(line[-1] in {"ms", "s"} for line in stages)
    assert "4 queries over 30 gallery rows, first 30 of each, by fake:" in text
    assert f"Written to {tmp_path / 'ranking.npz'}" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12 ms"),
        (0.9999, "1.0 s"),
        (3.44, "3.4 s"),
        (59.96, "1 min 0 s"),
        (125, "2 min 5 s"),
    ],
)
def test_times_for_people(seconds, text):
    assert format_seconds(seconds) == text


def test_large_clusters_are_said_before_the_work(capsys):
    from kinrank.cli.rerank import _tell_large_clusters

    _tell_large_clusters(kinrank.CAS(k1=20), 100_000)
    _tell_large_clusters(kinrank.CAS(k1=200), 300)
    _tell_large_clusters(kinrank.AQE(), 100_000)
    assert capsys.readouterr().err == ""
    _tell_large_clusters(kinrank.CAS(k1=200), 7000)
    assert "k1=200 takes up to 100 times as long as k1=20" in capsys.readouterr().err
