"""Workers and nodes that are killed, memory that runs out, clusters that are not there."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import cluster_kernels
import kinrank
import ray_nodes
from cluster_data import assert_same, on, runner_on
from kinrank import (
    ClusterError,
    InvalidInputError,
    OptionalDependencyError,
    UnknownNameError,
    progress,
)
from kinrank.cluster import connect
from kinrank.parallel import Out
from kinrank.runs.ray.join import explained, is_lost, join, reach
from kinrank.runs.ray.workers import put_block


def at_stage(name, act):
    """A listener that acts once, when the first blocks of a stage are done."""
    done = []

    def listen(stage, finished, total):
        if stage == name and finished > 0 and not done:
            done.append(stage)
            act()

    return listen, done


def kill_a_worker(nodes, killed):
    """Kill the first worker that is seen with a block, while blocks are handed out."""
    end = time.monotonic() + 60
    while time.monotonic() < end and not killed:
        for worker in nodes.workers(b"ray::fill_block", b"ray::rows_block")[:1]:
            os.kill(worker, signal.SIGKILL)
            killed.append(worker)


def test_a_worker_is_killed_in_the_middle(cluster, nodes):
    killed = []
    killer = threading.Thread(target=kill_a_worker, args=(nodes, killed))
    listen, done = at_stage("clusters", killer.start)
    with progress.listen(listen):
        ranking = on(cluster, "cas", 150)
    killer.join()
    assert done
    assert killed
    assert_same(ranking, "cas")


def test_every_block_is_killed_once(cluster, tmp_path):
    out = runner_on(cluster, 40).fill(
        "numbers", cluster_kernels.die_once, (str(tmp_path),), 100, Out(np.int64)
    )
    assert (out == np.arange(100)).all()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_node_is_killed_in_the_middle(cluster, nodes):
    try:
        listen, done = at_stage("diffusion", nodes.kill_second)
        with progress.listen(listen):
            ranking = on(cluster, "cas", 150)
        assert done
        assert_same(ranking, "cas")
        ray_nodes.wait_for_nodes(cluster.ray, 1)
    finally:
        nodes.start_second()
        ray_nodes.wait_for_nodes(cluster.ray, 2)


def test_workers_that_die_every_time_are_given_up(joined):
    text = r"Workers were lost 1 times in the stage 'numbers', rows .* use block_size=(4|2)"
    with connect(retries=0) as cluster:
        run = runner_on(cluster, 8)
        with pytest.raises(ClusterError, match=text):
            run.fill("numbers", cluster_kernels.die_always, (), 20, Out(np.int64))


def test_what_was_lost_is_stored_again(cluster, tmp_path):
    values = np.arange(200_000)
    stage = (cluster_kernels.doubled_the_second_time, (str(tmp_path), values), len(values))
    out = runner_on(cluster, 100_000).fill("numbers", *stage, Out(np.int64))
    assert (out == 2 * values).all()
    known = cluster.report.summary()["stages"]["numbers"]
    assert known["retried"] == 2
    assert known["sent_bytes"] >= 2 * values.nbytes


def test_out_of_memory_says_the_block_size_to_use(cluster):
    stage = (cluster_kernels.only_small_blocks, (64,), 1000, Out(np.int64))
    with pytest.raises(ClusterError, match="ran out of memory in the stage 'numbers'") as error:
        runner_on(cluster, 100).fill("numbers", *stage)
    assert error.match("smaller than 100 rows, use block_size=50")
    assert runner_on(cluster, 50).fill("numbers", *stage).sum() == 1000


def test_rays_own_out_of_memory_error_is_said_likewise(joined):
    ray = joined.ray
    error = ray.exceptions.OutOfMemoryError("Task was killed due to the node running low on memory")
    assert not is_lost(error, ray)
    said = explained(error, ray, "diffusion", (512, 1024), 1)
    assert isinstance(said, ClusterError)
    assert "block_size=256" in str(said)


HUNGRY = """
import sys
import numpy as np
import cluster_kernels
from cluster_data import runner_on
from kinrank.cluster import connect
from kinrank.parallel import Out
with connect("local") as cluster:
    stage = (cluster_kernels.hungry, (int(sys.argv[1]),), 8, Out(np.int64))
    runner_on(cluster, 8).fill("numbers", *stage)
"""


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (True, "ran out of memory in the stage 'numbers', rows 0 to 8: .* use block_size=4"),
        # Another cluster of its own: slow.
        pytest.param(False, "A node ended a worker before it began", marks=pytest.mark.long),
    ],
)
def test_ray_ends_a_worker_that_takes_too_much(left, said, tmp_path):
    """Ray's own watch on the memory, which begins a little above what is in use now, or below."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    known = {name.rstrip(":"): 1024 * int(value) for name, value, *_ in lines}
    total, used = known["MemTotal"], known["MemTotal"] - known["MemAvailable"]
    room = min(0.04 * total, 1e9)
    environment = {name: v for name, v in os.environ.items() if not name.startswith("RAY_")}
    environment |= {
        "RAY_memory_usage_threshold": str((used + room) / total if left else 0.001),
        "RAY_memory_monitor_refresh_ms": "50",
        "RAY_task_oom_retries": "0",
        "PYTHONPATH": ray_nodes.PYTHONPATH,
        "HOME": str(tmp_path),
    }
    result = subprocess.run(
        [sys.executable, "-c", HUNGRY, str(int(2.5 * room))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 1
    assert re.search(said, result.stderr), result.stderr


def test_errors_of_a_kernel_are_its_own(cluster):
    with pytest.raises(ValueError, match="rows 0 to 10"):
        runner_on(cluster, 10).fill("numbers", cluster_kernels.refuse, (), 10, Out(np.int64))


def test_storage_that_workers_do_not_see(joined):
    values = np.arange(50_000)
    with connect(storage="memory://here", retries=0) as cluster:
        stage = (cluster_kernels.doubled, (values,), len(values), Out(np.int64))
        with pytest.raises(ClusterError, match="could not read or write in the stage 'numbers'"):
            runner_on(cluster, 50_000).fill("numbers", *stage)


def test_files_that_are_changed_while_tasks_run(joined, tmp_path):
    values = np.arange(50_000)
    with connect(storage=tmp_path, retries=0) as cluster:
        cluster.storage.keep(values)
        np.save(next(tmp_path.glob("*/*.npy")), values[:9])
        stage = (cluster_kernels.doubled, (values,), len(values), Out(np.int64))
        with pytest.raises(ClusterError, match=r"int64 \(9,\) instead of int64 \(50000,\)"):
            runner_on(cluster, 50_000).fill("numbers", *stage)


def test_answers_of_a_wrong_size(joined, tmp_path):
    with connect() as cluster, connect(storage=tmp_path) as shared:
        for one in (cluster, shared):
            with pytest.raises(ClusterError, match=r"got 50 rows and \[50, 50\] entries"):
                runner_on(one, 50).rows("entries", cluster_kernels.short_rows, (), 100, 100)
        run = runner_on(cluster, 50)
        with pytest.raises(ClusterError, match=r"of shape \(50, 3\) for rows 0 to 50, got \(3,\)"):
            put_block(np.empty((50, 3)), np.zeros(3), (0, 50))
        found = run.rows("entries", cluster_kernels.some_rows, (), 100, 100)
        assert found.indptr[-1] == len(found.indices) == 200


def test_a_cluster_that_is_lost_while_waiting(cluster, monkeypatch):
    def lost(*_, **__):
        raise ConnectionError("nobody is there")

    run = runner_on(cluster, 50)
    monkeypatch.setattr(cluster.ray, "wait", lost)
    with pytest.raises(ClusterError, match="lost in the stage 'numbers': nobody is there"):
        run.fill("numbers", cluster_kernels.doubled, (np.arange(100),), 100, Out(np.int64))


def test_kernels_must_be_importable(cluster):
    with pytest.raises(InvalidInputError, match=r"`kernel` must be importable, got .*<lambda>"):
        runner_on(cluster).fill("numbers", lambda *_: None, (), 10, Out(np.int64))


def test_a_closed_connection_is_refused(joined):
    with connect() as cluster:
        pass
    cluster.close()
    with pytest.raises(ClusterError, match="is closed: connect again"):
        cluster.workers()


def test_a_connection_that_others_closed_is_refused(cluster, monkeypatch):
    monkeypatch.setattr(cluster.ray, "is_initialized", lambda: False)
    with pytest.raises(ClusterError, match="is closed: connect again"):
        cluster.workers()
    monkeypatch.undo()


NOWHERE = [
    "nowhere",
    "http://127.0.0.1:80",
    "127.0.0.1",
    "ray://:x",
    "ray://[",
    "",
    "ray://h:70000",
]


@pytest.mark.parametrize("address", [*NOWHERE, None, 5, b"local", []], ids=repr)
def test_addresses_that_are_none(address):
    with pytest.raises(InvalidInputError, match="`cluster` must be 'local', 'auto', 'HOST:PORT'"):
        join(None, address, 1)


@pytest.mark.parametrize("host", ["x" * 70, "\ud800", "nobody.invalid"], ids=ascii)
def test_hosts_that_cannot_be(host):
    with pytest.raises(ClusterError, match="cannot be reached"):
        reach(f"ray://{host}:10001")


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_nobody_listens(prefix):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"{prefix}127.0.0.1:{taken.getsockname()[1]}"
    begun = time.monotonic()
    with pytest.raises(ClusterError, match=r"cannot be reached: .*refused"):
        reach(address)
    assert time.monotonic() - begun < 15


def test_storage_that_is_not_there(joined, tmp_path):
    with pytest.raises(InvalidInputError, match="`storage` must be a folder that all machines see"):
        connect(storage=tmp_path / "missing")
    with pytest.raises(InvalidInputError, match="`storage` must be a folder or a URL that fsspec"):
        connect(storage="nosuch://place")


@pytest.mark.parametrize("package", ["ray", "fsspec"])
def test_without_the_extra(monkeypatch, package):
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(OptionalDependencyError, match=r"pip install 'kinrank\[ray\]'"):
        connect("local")


def test_kernels_with_frozen_arguments_are_refused(cluster):
    kernel = partial(cluster_kernels.refuse, values=np.zeros(3))
    with pytest.raises(InvalidInputError, match="must be importable"):
        runner_on(cluster).fill("numbers", kernel, (), 3, Out(np.int64))


def test_what_does_not_go_together(cluster):
    rows = np.eye(8)
    with pytest.raises(InvalidInputError, match="`storage` is for work on a cluster"):
        kinrank.rerank(rows[:2], rows[2:], run=kinrank.Run(storage="somewhere"))
    with pytest.raises(InvalidInputError, match="has its storage already"):
        kinrank.rerank(rows[:2], rows[2:], run=kinrank.Run(cluster=cluster, storage="somewhere"))
    with pytest.raises(UnknownNameError, match="`search` must be one of approximate, exact, got"):
        kinrank.rerank(rows[:2], rows[2:], run=kinrank.Run(cluster=cluster, search="nearest"))


class Busy:
    """Stands for Ray: a client's server does not start in time, some times."""

    class exceptions:  # noqa: N801
        RayError = RuntimeError

    def __init__(self, times):
        self.left, self.asked = times, 0

    def init(self, *_, **__):
        self.asked += 1
        if self.asked <= self.left:
            raise ConnectionAbortedError("Initialization failure from server:\nTimed out.")


@pytest.mark.parametrize(("times", "asked"), [(0, 1), (2, 3), (3, 3)])
def test_a_busy_cluster_is_asked_again(times, asked):
    ray = Busy(times)
    if times < asked:
        join(ray, "auto", 1)
    else:
        with pytest.raises(ClusterError, match="'auto' cannot be joined: Initialization failure"):
            join(ray, "auto", 1)
    assert ray.asked == asked
