"""`kinrank rerank --cluster`, in processes of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import run
from cluster_data import METHODS, assert_same, data
from kinrank import Ranking
from kinrank.cache import cache_folder

SECONDS = 180


@pytest.fixture
def command(tmp_path):
    queries, gallery = data()
    np.save(tmp_path / "q.npy", queries)
    np.save(tmp_path / "g.npy", gallery)
    words = ["rerank", "--query", "q.npy", "--gallery", "g.npy", "--out", "r.npz", "-k", "40"]
    words += ["--method", "kreciprocal", "--k1", str(METHODS["kreciprocal"]["k1"]), "--json"]

    def run(*more, **environment):
        return subprocess.run(
            [sys.executable, "-m", "kinrank", *words, *map(str, more)],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    return run


def checked(result, tmp_path):
    assert result.returncode == 0, result.stderr
    assert_same(Ranking.load(tmp_path / "r.npz"), "kreciprocal")
    return json.loads(result.stdout)["cluster"]


def test_by_the_client_with_storage(command, joined, nodes, tmp_path):  # both nodes are there
    folder = tmp_path / "shared"
    folder.mkdir()
    words = ("--cluster", nodes.client, "--storage", folder, "--block-size", 300)
    told = checked(command(*words), tmp_path)
    assert {node["node"] for node in told["nodes"]} == set(nodes.hosts)
    assert told["stages"]["neighbours"]["tasks"] > 0
    assert list(folder.iterdir()) == []


def test_local(command, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("RAY_AUTH")]:
        monkeypatch.delenv(name)
    places = {"HOME": str(tmp_path), "KINRANK_CACHE": str(cache_folder())}
    told = checked(command("--cluster", "local", "--threads", 1, **places), tmp_path)
    assert [node["node"] for node in told["nodes"]] == ["127.0.0.2"]
    assert not (tmp_path / ".ray").exists()  # its token stays in memory


@pytest.mark.long  # Ray tries for half a minute
def test_a_wrong_token_is_said_in_one_line(command, nodes):
    result = command("--cluster", nodes.client, RAY_AUTH_TOKEN="0" * 64)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith("Error: The cluster 'ray://")


def test_nobody_listens(command):
    result = command("--cluster", "127.0.0.1:9")
    assert result.returncode == 2
    assert "Error: The cluster '127.0.0.1:9' cannot be reached" in result.stderr


def test_without_a_cluster_nothing_of_it_is_imported():
    code = (
        "import sys, numpy as np, kinrank; rows = np.eye(40); "
        "kinrank.rerank(rows[:2], rows[2:], k=3, k1=4, k2=2); "
        "assert not {'ray', 'fsspec', 'kinrank.runs.ray.runner'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=SECONDS)


@pytest.mark.parametrize(
    "words",
    [
        ["index", "build", "--k1", "12", "--k2", "4", "--out", "{}.kinrank"],
        ["group", "--out", "{}.csv"],
    ],
    ids=["index", "group"],
)
def test_other_commands(joined, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    np.save("g.npy", data()[1])
    Path("shared").mkdir()
    places = ["--cluster", "auto", "--storage", "shared"]
    for name, more in (("here", []), ("there", places)):
        run(*(word.format(name) for word in words), "--gallery", "g.npy", *more)
    (here,) = tmp_path.glob("here.*")
    assert here.read_bytes() == here.with_stem("there").read_bytes()
    assert list(Path("shared").iterdir()) == []
