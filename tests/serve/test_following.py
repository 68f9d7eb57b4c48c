"""A service whose index follows the store of its vectors, and the command that does so."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import kinrank
from serve_process import ask, serving

ROWS = np.random.default_rng(2).normal(size=(90, 6)).astype(np.float32)
# A store in a file, which a test replaces; without the file the engine is gone.
SHOP = """
import os, signal
from pathlib import Path

import numpy as np
import kinrank


class FileStore:
    metric = "euclidean"
    width = 6

    def rows(self):
        try:
            saved = np.load("rows.npz")
        except OSError as error:
            raise kinrank.StoreError("The engine is gone.") from error
        return dict(zip(saved["ids"].tolist(), saved["vectors"]))

    def __len__(self):
        return len(self.rows())

    def ids(self):
        return list(self.rows())

    def search(self, queries, k):
        raise AssertionError("not asked")

    def fetch(self, ids):
        rows = self.rows()
        if Path("deadly").exists() and 95 in np.asarray(ids).tolist():
            os.kill(os.getpid(), signal.SIGKILL)
        return np.array([rows[name] for name in np.asarray(ids).tolist()], np.float32)


store = FileStore()
"""


def hold(rows):
    """Let the store hold these rows, by id."""
    new = Path("new.npz")
    with new.open("wb") as file:
        np.savez(file, ids=np.array(list(rows)), vectors=np.array(list(rows.values())))
    new.replace("rows.npz")


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """A folder with a store and an index over what it has."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    rows = dict(enumerate(ROWS[:80]))
    hold(rows)
    kinrank.CAS(k1=8, k2=4).fit(ROWS[:80], list(rows)).save("items.index")
    return rows


def wait_until(holds):
    """Wait for what a service does by itself."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def found_first(server, vector):
    """The id that a service answers first."""
    status, _, body = ask(server, "POST", "/v1/search", {"vectors": [vector.tolist()], "k": 1})
    assert status == 200, body
    return body["ids"][0][0]


def test_a_service_follows_its_store(rows):
    with serving("items.index", "--follow", "shop:store", "--every", 0.1) as server:
        new = {**rows, 5: ROWS[85] * 2, 200: ROWS[86] * 2}
        del new[7]
        hold(new)
        wait_until(lambda: found_first(server, ROWS[86] * 2) == 200)
        assert found_first(server, ROWS[85] * 2) == 5
        with pytest.raises(kinrank.LockedError):
            kinrank.open("items.index", writable=True)
        Path("rows.npz").unlink()
        time.sleep(0.3)  # in which it asks a store that is gone
        hold({**new, 201: ROWS[87] * 3})
        wait_until(lambda: found_first(server, ROWS[87] * 3) == 201)
        metrics = ask(server, "GET", "/metrics")[2].decode()
        assert re.search(r"^kinrank_followed_timestamp_seconds [1-9]", metrics, re.MULTILINE)
    assert "1 came, 1 changed, 1 went; 80 rows" in server.words
    assert "The engine is gone. It is asked again in 0.1 s." in server.words
    saved = kinrank.open("items.index")
    assert set(saved.ids.tolist()) == {*new, 201}


def command(*words):
    return [sys.executable, "-m", "kinrank", "index", "follow", "items.index", *words]


def test_the_command_goes_on_until_it_is_stopped(rows):
    process = subprocess.Popen(
        command("--store", "shop:store", "--every", "0.1", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert json.loads(process.stdout.readline())["came"] == 0
    Path("rows.npz").unlink()
    assert "The engine is gone. It is asked again in 0.1 s." in process.stderr.readline()
    hold({**rows, 300: ROWS[88]})
    told = json.loads(process.stdout.readline())
    assert (told["came"], told["rows"], told["whole"]) == (1, 81, True)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.communicate()
    assert 300 in kinrank.open("items.index")


def test_a_command_that_is_killed_leaves_the_index_as_it_was(rows, tmp_path):
    hold({**rows, **{90 + at: row for at, row in enumerate(ROWS[80:])}})
    (tmp_path / "deadly").touch()
    before = (tmp_path / "items.index").read_bytes()
    done = subprocess.run(command("--store", "shop:store"), check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "items.index").read_bytes() == before
    (tmp_path / "deadly").unlink()
    done = subprocess.run(
        command("--store", "shop:store"), check=True, capture_output=True, text=True
    )
    assert done.stdout == "10 came, 0 changed, 0 went; 90 rows\n"
    assert len(kinrank.open("items.index", verify=True)) == 90
