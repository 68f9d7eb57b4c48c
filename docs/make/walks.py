"""Walks through the package: what one call touches, from real call stacks.

python docs/make/walks.py prints a line for each walk: calls of Python functions of the package,
files, and frames of the deepest stack. Everything is loaded by a first call that is not counted.
"""

import asyncio
import json
import sys
import threading
import warnings
from pathlib import Path

import numpy as np

import kinrank

ROOT = str(Path(kinrank.__file__).parent)


class Walk:
    """Counts the calls of functions in files of the package while it is entered.

    depth : the largest number of frames of the package on one stack, generators and lambdas counted
    """

    def __init__(self):
        self.calls = 0
        self.files = set()
        self.depth = 0

    def note(self, frame, event, _):
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(ROOT):
            return
        self.calls += 1
        self.files.add(name)
        depth = 0
        while frame is not None:
            depth += frame.f_code.co_filename.startswith(ROOT)
            frame = frame.f_back
        self.depth = max(self.depth, depth)

    def __enter__(self):
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)


def with_budget(queries, gallery):
    """``rerank`` in files under a budget."""
    if hasattr(kinrank, "Run"):
        run = kinrank.Run(memory_budget="2GB")
        return kinrank.rerank(queries, gallery, k=20, threads=1, run=run)
    return kinrank.rerank(queries, gallery, k=20, threads=1, memory_budget="2GB")


def ask_service(index, query):
    """One search of a service in this process, as a server hands it a request."""
    from kinrank.serve.app import create_app
    from kinrank.serve.service import Service
    from kinrank.serve.settings import Settings

    body = json.dumps({"vectors": query.tolist(), "k": 10}).encode()
    received = [{"type": "http.request", "body": body, "more_body": False}]
    sent = []

    async def receive():
        if received:
            return received.pop()
        await asyncio.sleep(60)  # the caller stays until it has the answer
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/search",
        "raw_path": b"/v1/search",
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"host", b"127.0.0.1"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    asyncio.run(create_app(Service(index, Settings()))(scope, receive, send))
    if sent[0]["status"] != 200:
        raise RuntimeError(str(sent))


def walks():
    """(name, calls, files, frames) of each walk."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(40, 16))
    rows = (np.repeat(centres, 15, axis=0) + 0.3 * random.normal(size=(600, 16))).astype("float32")
    queries = rows[:30]
    gallery = rows[30:]
    method = kinrank.CAS()
    index = method.fit(gallery, threads=1)
    jobs = {
        "rerank": lambda: kinrank.rerank(queries, gallery, k=20, threads=1),
        "fit": lambda: method.fit(gallery, threads=1),
        "search": lambda: index.search(queries[:1], k=10, threads=1),
        "add": lambda: index.add(random.normal(size=(1, 16)), threads=1),
        "rerank under a budget": lambda: with_budget(queries, gallery),
        "a request of the service": lambda: ask_service(index, queries[:1]),
    }
    for name, job in jobs.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            job()
            with Walk() as walk:
                job()
        yield name, walk.calls, len(walk.files), walk.depth


if __name__ == "__main__":
    for line in walks():
        print(json.dumps(line))
