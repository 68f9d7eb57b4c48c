"""The service in a process of its own, on loopback and a free port."""

import atexit
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from threading import Timer

import numpy as np

START = 120  # seconds that kernels may take to compile on a new machine


@cache
def nursery():
    """The socket of the process that forks services for the tests of this one."""
    here, there = socket.socketpair()
    script = Path(__file__).with_name("serve_nursery.py")
    process = subprocess.Popen(
        [sys.executable, script, str(there.fileno())], pass_fds=[there.fileno()]
    )
    there.close()
    atexit.register(lambda: (here.close(), process.wait(60)))
    return here


class Server:
    """A running service: `kinrank serve` with these arguments.

    handles : how many files it may have open; fresh : begins as a user's would, with nothing loaded
    """

    def __init__(self, *args, handles=None, fresh=False):
        request = {
            "words": ["serve", *map(str, args), "--port", "0"],
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "handles": handles,
            "fresh": fresh,
        }
        pipes = [os.pipe() for _ in range(3)]
        socket.send_fds(nursery(), [json.dumps(request).encode()], [end for _, end in pipes])
        for _, end in pipes:
            os.close(end)
        self.out, self.error, self.told = (os.fdopen(end) for end, _ in pipes)
        self.pid, self.returncode, self.words = int(self.told.readline()), None, None
        line = self.out.readline()
        if not line:
            raise AssertionError(self.stop())
        self.url = re.search(r"http://\S+", line).group()

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def stop(self):
        """Ask it to stop; its last words."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            impatient = Timer(60, os.kill, (self.pid, signal.SIGKILL))
            impatient.start()
            self.words = self.error.read()
            self.returncode = int(self.told.readline())
            impatient.cancel()
            for file in (self.out, self.error, self.told):
                file.close()
        return self.words


@contextmanager
def serving(*args, **options):
    """Start `kinrank serve` with these arguments, and stop it at the end."""
    server = Server(*args, **options)
    try:
        yield server
    finally:
        server.stop()


def ask(server, method, path, body=None, **headers):
    """Status, headers and content of an answer; headers : with _ for -."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if isinstance(body, (dict, list)):
        body, named = json.dumps(body), {"Content-Type": "application/json", **named}
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if (answer.getheader("content-type") or "").endswith("json"):
        content = json.loads(content)
    return answer.status, dict(answer.getheaders()), content


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()
