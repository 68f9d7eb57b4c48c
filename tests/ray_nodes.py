"""A Ray cluster of the tests' own: two nodes on loopback, joined by a token."""

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import kinrank

SECONDS = 120  # until something that should come up is given up
MEMORY = 100_000_000  # of each node's object store
# For kernels of the tests, and for the kinrank that is tested.
PYTHONPATH = os.pathsep.join(
    str(Path(file).parents[up]) for file, up in ((__file__, 0), (kinrank.__file__, 1))
)


class Nodes:
    """A head at 127.0.0.2 and a second node at 127.0.0.3, one processor each."""

    # Ray replaces 127.0.0.1 by another address of the machine, so both have others.
    hosts = ("127.0.0.2", "127.0.0.3")

    def __init__(self, folder):
        self._folder = Path(folder)
        token = self._folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32), encoding="ascii")
        self.environment = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": PYTHONPATH,
        }
        ports = _free_ports(self.hosts[0], 2)
        self.address = f"{self.hosts[0]}:{ports[0]}"
        self.client = f"ray://{self.hosts[0]}:{ports[1]}"
        self._running = {}

    def start_head(self):
        port, client = (address.rpartition(":")[2] for address in (self.address, self.client))
        more = [f"--port={port}", f"--ray-client-server-port={client}", "--include-dashboard=false"]
        self._start(self.hosts[0], ["--head", *more])
        self._await(lambda: _listens(self.address) and _listens(self.client), "the head")

    def start_second(self):
        self._start(self.hosts[1], [f"--address={self.address}"])

    def kill_second(self):
        """End the second node as a power cut would: its raylet, agents and workers at once."""
        process = self._running.pop(self.hosts[1])
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(SECONDS)

    def workers(self, *titles):
        """Processes of these nodes whose titles begin so."""
        own, found = {process.pid for process in self._running.values()}, []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                title = (folder / "cmdline").read_bytes()
                session = os.getsid(int(folder.name))
            except OSError:  # it has ended meanwhile
                continue
            if session in own and title.startswith(titles):
                found.append(int(folder.name))
        return found

    def stop(self):
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(SECONDS)
        self._running.clear()

    def _start(self, host, more):
        command = [Path(sys.executable).with_name("ray"), "start", f"--node-ip-address={host}"]
        command += ["--num-cpus=1", f"--object-store-memory={MEMORY}", "--disable-usage-stats"]
        command += ["--include-log-monitor=false", f"--temp-dir={self._folder / 'ray'}", "--block"]
        with (self._folder / f"{host}.log").open("w") as log:
            self._running[host] = subprocess.Popen(
                [*command, *more],
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
                start_new_session=True,  # a group of its own, which can be killed as one
                preexec_fn=_end_with_parent,  # noqa: PLW1509  no threads that fork could break
            )

    def _await(self, ready, what):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if ready():
                return
            if any(process.poll() is not None for process in self._running.values()):
                break
            time.sleep(0.1)
        logs = "\n".join(path.read_text() for path in self._folder.glob("*.log"))
        raise RuntimeError(f"{what} did not come up:\n{logs}")


@contextmanager
def running(folder):
    """Two nodes that live as long as the block."""
    nodes = Nodes(folder)
    try:
        nodes.start_head()
        nodes.start_second()
        yield nodes
    finally:
        nodes.stop()


def wait_for_nodes(ray, count):
    """Until so many nodes are there, or the rest is known to be dead."""
    end = time.monotonic() + SECONDS
    while sum(node["Alive"] for node in ray.nodes()) != count:
        assert time.monotonic() < end, f"there are not {count} nodes"
        time.sleep(0.1)


def _end_with_parent():
    """Let no node outlive tests that are killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _free_ports(host, count):
    taken = [socket.socket() for _ in range(count)]
    for one in taken:
        one.bind((host, 0))
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def _listens(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.removeprefix("ray://"), int(port)), 1).close()
    except OSError:
        return False
    return True
