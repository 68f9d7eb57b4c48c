"""How fast the service answers, and the sliders of its page.

    python benchmarks/bench_serve.py [load] [slow] [stop] [sliders] [--rows N] [--seconds S]

Starts `kinrank serve` over synthetic rows (clusters of 20, 128 columns) on loopback.

load     single queries over 32 connections at a time
slow     one caller at a time, alone and beside 64 clients that never finish what they send
stop     SIGTERM under that load: whether everything that was accepted is answered
sliders  the page in Chromium: from a move to new lists, and to those of all rows
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import numpy as np

import results
from kinrank import CAS

WIDTH, SIZE = 128, 20
PARTS = ("load", "slow", "stop", "sliders")
# What is moved, and where to, each place once; the first is that of the index.
SLIDERS = {
    "omega": (0.3, [0.2, 0.5, 0.4, 0.1, 0.6, 0.9, 0.8, 0.7, 0.0, 1.0]),
    "sigma": (0.3, [0.31, 0.35, 0.25, 0.4, 0.2, 0.5, 0.28, 0.33, 0.6, 0.45]),
    "mu": (0.23, [0.25, 0.3, 0.2, 0.4, 0.1, 0.5, 0.8, 0.15, 1.0, 2.0]),
    "kappa": (2, [2.1, 2.5, 1.5, 3, 1, 4, 5, 1.8, 2.3, 8]),
    "k2": (5, [6, 7, 4, 3, 8, 9, 10, 2]),
    "k1": (20, [21, 22, 19, 18, 23, 25, 15, 30, 12, 40]),
    "k1, far": (20, [60, 80, 100, 70]),
}
MOVE = """async ([name, value]) => {
  const lists = document.getElementById("lists"), slider = document.getElementById(`set-${name}`);
  const begun = performance.now();
  if (slider.type === "checkbox") slider.checked = value; else slider.value = value;
  for (const name of ["input", "change"])
    slider.dispatchEvent(new Event(name, { bubbles: true }));
  const after = (done) => new Promise((resolve) => {
    const look = () => done()
      ? requestAnimationFrame(() => resolve(performance.now() - begun)) : setTimeout(look, 4);
    look();
  });
  const near = await after(() => !lists.classList.contains("loading"));
  const all = await after(() => lists.getAttribute("aria-busy") === "false");
  return [near, all, document.getElementById("right-title").innerText];
}"""


def rows(n: int) -> np.ndarray:
    random = np.random.default_rng(0)
    centres = random.normal(size=(n // SIZE, WIDTH))
    made = np.repeat(centres, SIZE, axis=0) + 0.7 * random.normal(size=(n, WIDTH))
    return random.permutation(made).astype(np.float32)


@contextmanager
def serving(path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "kinrank", "serve", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)$", process.stdout.readline().strip())
        assert found is not None
        yield process, int(found.group(1))
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=120)


def npy(row: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, row[None])
    return stream.getvalue()


def search(connection: HTTPConnection, body: bytes) -> float:
    begun = time.perf_counter()
    kind = {"Content-Type": "application/x-npy"}
    connection.request("POST", "/v1/search?k=10", body, kind)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{answer.status}: {content[:200]!r}")
    return time.perf_counter() - begun


def hammer(port: int, vectors: np.ndarray, seconds: float, connections: int) -> list[float]:
    """Seconds of each answer; connections that are closed at the end of the service end it."""
    done: list[float] = []
    end = time.perf_counter() + seconds

    def ask(at: int) -> None:
        body, connection = npy(vectors[at]), HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            while time.perf_counter() < end:
                done.append(search(connection, body))
        except (OSError, HTTPException):
            pass  # only `stop` ends so; `load` counts what the service says it answered
        connection.close()

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def told(seconds: Any) -> str:
    values = 1000 * np.asarray(seconds)
    middle, most = np.percentile(values, [50, 99])
    return f"p50 {middle:.0f} ms, p99 {most:.0f} ms, longest {values.max():.0f} ms"


def load(path: Path, vectors: np.ndarray, args: argparse.Namespace) -> None:
    with serving(path) as (process, port):
        done = hammer(port, vectors, args.seconds, args.connections)
        process.terminate()
        _, words = process.communicate(timeout=120)
    answered = int(re.search(r"after ([\d,]+) requests", words).group(1).replace(",", ""))
    print(f"load: {args.connections} connections, {args.seconds:g} s")
    print(f"  {len(done) / args.seconds:,.0f} requests a second, {told(done)}")
    print(f"  {answered:,} answers sent, {len(done):,} received whole with status 200")


def slow(path: Path, vectors: np.ndarray, args: argparse.Namespace) -> None:
    with serving(path) as (_, port):
        hammer(port, vectors, 0.5, 1)
        alone = hammer(port, vectors, args.seconds / 6, 1)
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(64)]
        for connection in held:
            connection.sendall(
                b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
                b"Content-Type: application/json\r\n\r\n{"
            )
        beside = hammer(port, vectors, args.seconds / 6, 1)
        for connection in held:
            connection.close()
    print(f"slow: alone {told(alone)}; beside 64 slow clients {told(beside)}")


def stop(path: Path, vectors: np.ndarray, args: argparse.Namespace) -> None:
    with serving(path) as (process, port):
        timer = threading.Timer(args.seconds / 6, process.terminate)
        timer.start()
        done = hammer(port, vectors, args.seconds, args.connections)
        _, words = process.communicate(timeout=120)
    print(f"stop: {len(done):,} received whole; the service: {words.strip()}")


def sliders(path: Path, vectors: np.ndarray, _: argparse.Namespace) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with serving(path) as (_, port), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        page.goto(f"http://127.0.0.1:{port}/#{len(vectors) // 2}")
        page.wait_for_selector('#lists[aria-busy="false"]')
        page.evaluate(MOVE, ["mu", 0.5])  # kernels of the stages are loaded
        page.evaluate(MOVE, ["mu", 0.23])
        time.sleep(10)  # the lists for all places are searched
        print("| slider | moves | something new: p50, p95 ms | all rows: p50, p95, longest ms |")
        print("| --- | --- | --- | --- |")
        for name, (usual, values) in SLIDERS.items():
            own = name.partition(",")[0]
            times = [moved(page, own, value) for value in values]
            page.evaluate(MOVE, [own, usual])
            print(f"| {name} | {_cells(times)} |", flush=True)
        times = []
        for value in SLIDERS["mu"][1][:6]:
            page.evaluate(MOVE, ["mu", value + 0.01])
            times.append(moved(page, "geodesic", True))
            page.evaluate(MOVE, ["geodesic", False])
        print(f"| geodesic on | {_cells(times)} |", flush=True)
        drag(page)
        browser.close()


def moved(page: Any, name: str, value: Any) -> tuple[float, float]:
    """Milliseconds until the lists are new, and until they are those of all rows."""
    near, everything, title = page.evaluate(MOVE, [name, value])
    return near, everything if "all rows" in title else np.inf


def _cells(times: list[tuple[float, float]]) -> str:
    first, last = (np.percentile(part, [50, 95, 100]) for part in zip(*times, strict=True))
    return " | ".join([f"{len(times)}", _cell(first[:2]), _cell(last)])


def _cell(milliseconds: Any) -> str:
    return ", ".join(f"{one:.0f}" for one in milliseconds)


def drag(page: Any) -> None:
    """A slider that moves 60 times a second for two seconds, as under a hand."""
    begun = time.perf_counter()
    for at in range(120):
        time.sleep(max(0, begun + at / 60 - time.perf_counter()))
        page.evaluate(
            "value => { const one = document.getElementById('set-mu'); one.value = value; "
            "one.dispatchEvent(new Event('input', { bubbles: true })); }",
            0.3 + 0.01 * at,
        )
    near, everything, _ = page.evaluate(MOVE, ["mu", 0.29])
    print(f"drag: after the last of 120 moves {near:.0f} ms to the rows around it, "
          f"{everything:.0f} ms to all rows")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=(*PARTS, []), default=[])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--vectors", help="an npy file of rows instead of synthetic ones")
    args = parser.parse_args()
    vectors = rows(args.rows) if args.vectors is None else np.load(args.vectors)
    print(f"{len(vectors):,} rows, {vectors.shape[1]} columns, CAS(k1=20, k2=5)")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "an.index"
        CAS().fit(vectors).save(path)
        for part in args.parts or PARTS:
            globals()[part](path, vectors, args)


if __name__ == "__main__":
    results.run(main, __doc__)
