"""Many at a time, and the end."""

import statistics
import threading
import time
from http.client import HTTPConnection, HTTPException

import numpy as np
import pytest

from index_data import QUERIES
from serve_process import npy, serving

CONNECTIONS = 32


def hammer(server, stop, done, failed):
    """Search again and again over one connection at a time, as a product does."""
    body = npy(QUERIES[:1].astype(np.float32))
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    while not stop.is_set():
        begun = time.perf_counter()
        try:
            connection.request(
                "POST", "/v1/search?k=10", body, {"Content-Type": "application/x-npy"}
            )
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            failed.append(repr(error))
            break
        if answer.status != 200 or not content.endswith(b"}"):
            failed.append(f"{answer.status} {content[:100]!r}")
        done.append(time.perf_counter() - begun)
    connection.close()


def load(server, seconds, then=lambda: None):
    """Seconds of each answer, and what went wrong, of 32 connections."""
    stop, done, failed = threading.Event(), [], []
    threads = [
        threading.Thread(target=hammer, args=(server, stop, done, failed))
        for _ in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    then()
    stop.set()
    for thread in threads:
        thread.join(60)
    return done, failed


def check_load(server, seconds):
    done, failed = load(server, seconds)
    assert failed == []
    assert len(done) > 10 * seconds
    p99 = statistics.quantiles(done, n=100)[98]
    print(f"{len(done) / seconds:.0f} requests a second, p99 {1000 * p99:.0f} ms")  # noqa: T201
    assert p99 < 5


def test_load_for_a_moment(pictures):
    check_load(pictures, 3)


@pytest.mark.long
def test_load_for_half_a_minute(pictures):
    check_load(pictures, 30)


def test_a_stop_under_load_loses_nothing_that_was_accepted(folder):
    with serving(folder / "an.index") as server:
        words = []
        done, failed = load(server, 2, lambda: words.append(server.stop()))
        # What the service answered is what its clients got, each whole; then connections closed.
        assert f"Stopped after {len(done):,} requests." in words[0]
        assert len(failed) <= CONNECTIONS
        assert all("Error" in one or "Disconnected" in one for one in failed), failed
        assert server.returncode == 0
