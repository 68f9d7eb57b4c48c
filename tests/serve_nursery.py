"""Forks services: a process that has loaded once what each of them would load for two seconds.

python tests/serve_nursery.py 3     # the number of the socket that requests come from
"""

import json
import os
import resource
import runpy
import signal
import socket
import sys

import numpy as np

import kinrank.cli.serve
import kinrank.serve.load


def warm():
    """Load kernels, on this thread alone: others would not be there after a fork."""
    rows = np.random.default_rng(0).normal(size=(60, 4))
    index = kinrank.CAS(k1=8, k2=3).fit(rows, threads=1)
    for base in (False, True):
        index.search(rows[:1], 1, base=base, threads=1)
    index.neighbors(0, 1)
    index.add(rows[:1] + 1, threads=1)
    index.remove([0], threads=1)


def requests(control):
    """For each request a process that becomes the service; here they end with the tests."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    while True:
        words, files, *_ = socket.recv_fds(control, 1 << 20, 3)
        if not words:
            return None
        if os.fork() == 0:
            control.close()
            return json.loads(words), files
        for file in files:
            os.close(file)


def keep(told):
    """Fork the service; this process tells its number and, at its end, how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    service = os.fork()
    if service == 0:
        os.close(told)
        return
    os.write(told, b"%d\n" % service)
    for file in (1, 2):
        os.close(file)
    os.write(told, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(service, 0)[1]))
    os._exit(0)


def become(request, files):
    """The process that was asked for: its arguments, folder, environment, files and limit."""
    out, error, told = files
    os.dup2(out, 1)
    os.dup2(error, 2)
    for file in (out, error):
        os.close(file)
    keep(told)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["handles"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (request["handles"],) * 2)
    if request["fresh"]:
        os.execv(sys.executable, [sys.executable, "-m", "kinrank", *request["words"]])  # noqa: S606
    sys.argv = ["kinrank", *request["words"]]
    runpy.run_module("kinrank", run_name="__main__")


if __name__ == "__main__":
    warm()
    if asked := requests(socket.socket(fileno=int(sys.argv[1]))):
        become(*asked)
