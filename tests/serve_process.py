"""The service in a process of its own, on loopback and a free port."""

import io
import json
import re
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection

import numpy as np

START = 120  # seconds that kernels may take to compile on a new machine


class Server:
    """A running service."""

    def __init__(self, process, url):
        self.process, self.url = process, url

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def stop(self):
        """Ask it to stop; its last words."""
        self.process.terminate()
        _, words = self.process.communicate(timeout=60)
        return words


@contextmanager
def serving(*args, **options):
    """Start `kinrank serve` with these arguments, and stop it at the end.

    options : of the process
    """
    command = [sys.executable, "-m", "kinrank", "serve", *map(str, args), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipes, **options)
    try:
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate(timeout=START)[1])
        yield Server(process, re.search(r"http://\S+", line).group())
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


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
