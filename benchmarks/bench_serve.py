"""How fast the service answers, and the sliders of its page.

Starts `kinrank serve` over synthetic rows on loopback: single queries over 32 connections, then one
query at a time with other settings than those of the index, as the sliders ask.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from kinrank import CAS

WIDTH, SIZE = 128, 20


def rows(n: int) -> np.ndarray:
    random = np.random.default_rng(0)
    centres = random.normal(size=(n // SIZE, WIDTH))
    made = np.repeat(centres, SIZE, axis=0) + 0.7 * random.normal(size=(n, WIDTH))
    return random.permutation(made).astype(np.float32)


def post(connection: HTTPConnection, path: str, body: bytes, kind: str) -> float:
    begun = time.perf_counter()
    connection.request("POST", path, body, {"Content-Type": kind})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{answer.status}: {content[:200]!r}")
    return time.perf_counter() - begun


def load(port: int, queries: np.ndarray, seconds: float, connections: int) -> list[float]:
    done: list[float] = []
    end = time.perf_counter() + seconds

    def hammer(at: int) -> None:
        stream = io.BytesIO()
        np.save(stream, queries[at : at + 1])
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        while time.perf_counter() < end:
            done.append(post(connection, "/v1/search?k=10", stream.getvalue(), "application/x-npy"))
        connection.close()

    threads = [threading.Thread(target=hammer, args=(at,)) for at in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def sliders(port: int, params: dict[str, object], repeats: int) -> list[float]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    out = []
    for at in range(repeats):
        right = {"method": "cas", "params": {**params, "sigma": 0.3 + 0.01 * at}}
        body = json.dumps({"query": {"id": str(at * 7)}, "right": right}).encode()
        out.append(post(connection, "/v1/compare", body, "application/json"))
    connection.close()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=32)
    args = parser.parse_args()
    vectors = rows(args.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "an.index"
        CAS().fit(vectors).save(path)
        command = [sys.executable, "-m", "kinrank", "serve", str(path), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)$", process.stdout.readline().strip())
            assert found is not None
            report(int(found.group(1)), vectors, args)
        finally:
            process.terminate()
            process.wait(60)


def report(port: int, vectors: np.ndarray, args: argparse.Namespace) -> None:
    load(port, vectors, 1, 2)  # kernels are loaded
    done = 1000 * np.sort(load(port, vectors, args.seconds, args.connections))
    middle, most = np.percentile(done, [50, 99])
    print(f"{args.rows:,} rows, {args.connections} connections, {args.seconds:g} s:")
    print(f"  {len(done) / args.seconds:,.0f} requests a second, no error")
    print(f"  median {middle:.0f} ms, p99 {most:.0f} ms, longest {done[-1]:.0f} ms")
    print("| sliders | median ms | longest ms |\n| --- | --- | --- |")
    for params in ({}, {"geodesic": True}, {"k1": 60, "k2": 6}, {"k1": 100, "k2": 6}):
        sliders(port, params, 2)
        times = 1000 * np.array(sliders(port, params, 15))
        name = ", ".join(f"{key}={value}" for key, value in params.items()) or "k1=20, k2=5"
        print(f"| {name} | {np.median(times):.0f} | {times.max():.0f} |")


if __name__ == "__main__":
    main()
