"""What an index over a store costs: one query, with and without the distances that lists lack.

    python benchmarks/bench_stores.py [--rows 20000] [--queries 200] [-k 10]

Clusters of twenty in 128 dimensions, unit norm, the same graph for every store: faiss (flat, one
thread), LanceDB (no vector index; with and without a scalar index on the ids) and PostgreSQL (no
vector index, and HNSW; served as for the tests). Milliseconds of one query (p50): the store's own
search, and answers without and with refine; vectors fetched and round trips for them; and how far
both answers are from those of the index over the vectors.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank.stores import FaissStore, LanceStore, PgVectorStore

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import postgres_server
from store_makers import lance_table, pg_table

WIDTH = 128


class Counting:
    """A store that counts what is fetched."""

    def __init__(self, store):
        self.store, self.vectors, self.trips = store, 0, 0
        self.metric, self.width, self.ids = store.metric, store.width, store.ids
        self.search = store.search

    def __len__(self):
        return len(self.store)

    def fetch(self, ids):
        self.vectors += len(ids)
        self.trips += 1
        return self.store.fetch(ids)


def clustered(n):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(max(1, n // 20), WIDTH))
    rows = centres[rng.integers(len(centres), size=n)] + 0.8 * rng.normal(size=(n, WIDTH))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def p50(queries, *calls):
    """Milliseconds of each call, query by query in turn: others may be busy on the machine too."""
    took = np.empty((len(queries), len(calls)))
    for call in calls:
        call(queries[:1])
    for at in range(len(queries)):
        for place, call in enumerate(calls):
            begun = time.perf_counter()
            call(queries[at : at + 1])
            took[at, place] = time.perf_counter() - begun
    return 1e3 * np.median(took, axis=0)


def stores(rows, folder, stack):
    """Names and stores over the same rows, whose ids are their numbers."""
    import faiss
    from lancedb.index import BTree

    faiss.omp_set_num_threads(1)  # its threads wait in loops, which others pay for
    index, numbers = faiss.IndexFlatL2(WIDTH), np.arange(len(rows))
    index.add(rows)
    yield "faiss, flat", FaissStore(index)
    table = lance_table(folder, "rows", rows, numbers)
    yield "LanceDB", LanceStore(table)
    table.create_index("id", config=BTree())
    yield "LanceDB, ids indexed", LanceStore(table)
    if postgres_server.installed() is None:
        return
    import psycopg

    text = stack.enter_context(postgres_server.running())
    with psycopg.connect(text, autocommit=True) as setup:
        setup.execute("CREATE EXTENSION vector")
    pg_table(text, "rows", "bigint", rows, numbers)
    yield "pgvector", stack.enter_context(PgVectorStore(text, "rows"))
    pg_table(text, "hnsw", "bigint", rows, numbers, "hnsw (embedding vector_l2_ops)")
    yield "pgvector, HNSW", stack.enter_context(PgVectorStore(text, "hnsw"))


def measure(name, store, path, queries, k, length, wanted):
    counting = Counting(store)
    index = kinrank.open(path, store=counting)
    plain = kinrank.open(path, store=store, refine=False)
    times = p50(
        queries,
        lambda query: store.search(query, max(length, k + k // 4 + 16)),
        lambda query: plain.search(query, k),
        lambda query: index.search(query, k),
    )
    fetched = np.array([counting.vectors, counting.trips]) / (len(queries) + 1)
    off, on = (np.abs(one.search(queries, k).distances - wanted).max() for one in (plain, index))
    cells = [f"{one:8.2f}" for one in times] + [f"{one:8.1f}" for one in fetched]
    print(f"{name:<22}", *cells, f"{off:9.1e} {on:9.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("-k", type=int, default=10)
    options = parser.parse_args()
    points = clustered(options.rows + options.queries)
    rows, queries, k = points[: options.rows], points[options.rows :], options.k
    method = kinrank.CAS(metric="euclidean")
    wanted = method.fit(rows).search(queries, k).distances
    length = kinrank.index.list_length(method, len(rows)) - 1
    heads = ("search", "refine=0", "refine=1", "vectors", "trips")
    print(f"{'store':<22}", *(f"{head:>8}" for head in heads), f"{'off by':>9} {'off by':>9}")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "graph"
        for name, store in stores(rows, folder, stack):
            if not path.exists():
                kinrank.attach(store, method).save(path)
            measure(name, store, path, queries, k, length, wanted)


if __name__ == "__main__":
    results.run(main, __doc__)
