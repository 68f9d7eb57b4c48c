"""CAS beside what others offer for the same rows, in one process.

    python benchmarks/bench_peers.py [--sizes 10000x128,20000x256] [--pools 1000x512] [--k 100]
    python benchmarks/bench_peers.py --graphs 100000x128 [--group 20] [--sizes ""] [--pools ""]

Random clusters of twenty, a tenth of the rows queries. "faiss" and "scikit-learn" search the k
nearest of all rows and rank nothing; "k-reciprocal, n x n" is the usual re-ranking of person
re-identification by dense matrices, written from its formula, where n x n matrices fit. A pool is
one query with its candidates; there "pyvisim" is its `KReciprocalReranker`. A package that is not
installed is left out.

--graphs compares searches that are not exact: the 21 nearest of every row, with building. Others
are given settings that look at more and more rows, and the first that finds as many of the true
neighbours as kinrank's search in cells counts (within half a point), or their last.

Seconds of all cores (CPU), each the least of some rounds in turn, and the ratio of CAS to them.
"""

from __future__ import annotations

import argparse
import importlib
import time
import warnings

import numpy as np

import kinrank
import results
from kinrank.parallel import Runner
from kinrank.search.cells import CellSearch
from kinrank.search.exact import exact_neighbors, exact_search

GROUP, LARGEST_MATRIX = 20, 6000


def random_rows(n, width, group=GROUP):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(max(1, n // group), width))
    rows = centres[rng.integers(0, len(centres), n)] + rng.normal(size=(n, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def faiss_search(rows, k):
    faiss = importlib.import_module("faiss")
    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(rows)
    index.search(rows, k)


def brute_search(rows, k):
    neighbors = importlib.import_module("sklearn.neighbors")
    fitted = neighbors.NearestNeighbors(n_neighbors=k, algorithm="brute").fit(rows)
    fitted.kneighbors(rows)


def pyvisim_pool(rows):
    """A call that re-ranks the pool of row 0 with pyvisim, which reads vectors from its store."""
    retrieval = importlib.import_module("pyvisim.retrieval.image_store")
    data = importlib.import_module("pyvisim.retrieval.data")
    reranking = importlib.import_module("pyvisim.retrieval.reranking")

    class Store(retrieval.InMemoryImageEmbeddingStore):
        space = "cosine"

        def __init__(self) -> None:
            """No pictures: the vectors are there."""

        def embeddings_of(self, paths):
            return rows[[int(path) for path in paths]]

    distances = 1 - rows[1:] @ rows[0]
    order = 1 + np.argsort(distances)
    candidates = [data.Candidate(str(i), float(distances[i - 1])) for i in order]
    return lambda: reranking.KReciprocalReranker(Store()).rerank(candidates, len(candidates))


def dense_k_reciprocal(rows, n_queries, k1, k2, share=0.3):
    """Zhong et al., CVPR 2017, by its formulas: all distances, sets row by row, n x n matrices."""
    n = len(rows)
    squared = 2 - 2 * (rows @ rows.T)
    squared /= squared.max(axis=0)
    order = np.argsort(squared, axis=1)
    weights = np.zeros((n, n), np.float32)
    for i in range(n):
        near = _reciprocal(order, i, k1)
        joined = near
        for j in near:
            other = _reciprocal(order, j, round(k1 / 2))
            if len(np.intersect1d(other, near)) > 2 / 3 * len(other):
                joined = np.append(joined, other)
        joined = np.unique(joined)
        weight = np.exp(-squared[i, joined])
        weights[i, joined] = weight / weight.sum()
    weights = np.stack([weights[order[i, :k2]].mean(axis=0) for i in range(n)])
    jaccard = np.empty((n_queries, n), np.float32)
    for i in range(n_queries):
        least = np.minimum(weights[i], weights).sum(axis=1)
        jaccard[i] = 1 - least / (2 - least)
    return ((1 - share) * jaccard + share * squared[:n_queries])[:, n_queries:]


def _reciprocal(order, row, k):
    forward = order[row, : k + 1]
    return forward[(order[forward, : k + 1] == row).any(axis=1)]


def measure(n, width, k, k1, k2, rounds):
    """Print a table of one set."""
    rows, n_queries, cas = random_rows(n, width), n // 10, kinrank.CAS(k1=k1, k2=k2)
    queries, gallery = rows[:n_queries], rows[n_queries:]
    calls = {
        "CAS": lambda: cas.rerank(queries, gallery, k),
        "its search": lambda: exact_neighbors(rows, k, Runner.of()),
        "faiss IndexFlatL2": lambda: faiss_search(rows, k),
        "scikit-learn brute": lambda: brute_search(rows, k),
    }
    if n <= LARGEST_MATRIX:
        calls["k-reciprocal, n x n"] = lambda: dense_k_reciprocal(rows, n_queries, k1, k2)
    cas.rerank(queries[:50], gallery[:1000], 10)  # compiled before the clock starts
    print(f"\nn = {n:,} ({n_queries:,} queries), d = {width}, k = {k}, k1 = {k1}, k2 = {k2}")
    table(calls, rounds)


def measure_pool(m, width, rounds):
    """Print a table of one query and its candidates."""
    rows = random_rows(m + 1, width)
    calls = {
        "CAS": lambda: kinrank.rerank_pool(rows[0], rows[1:]),
        "kinrank kreciprocal": lambda: kinrank.rerank_pool(rows[0], rows[1:], "kreciprocal"),
        "k-reciprocal, n x n": lambda: dense_k_reciprocal(rows, 1, 20, 6),
    }
    try:
        calls["pyvisim"] = pyvisim_pool(rows)
    except ImportError:
        print("\npyvisim is not installed.")
    print(f"\na pool of {m:,}, d = {width}")
    table(calls, rounds + 1)


def cells_graph(rows, k):
    """kinrank's search in cells."""
    return CellSearch(rows, Runner.of()).rows(0, len(rows), k).indices


def ivf_graph(rows, k, probes):
    """faiss: inverted lists, as many as it advises, with whole vectors."""
    faiss = importlib.import_module("faiss")
    index = faiss.index_factory(rows.shape[1], f"IVF{int(4 * len(rows) ** 0.5)},Flat")
    index.train(rows)
    index.add(rows)
    index.nprobe = probes
    return index.search(rows, k)[1]


def fast_scan_graph(rows, k, probes):
    """faiss: inverted lists of 4-bit codes scanned in registers, 8 k of them refined exactly."""
    faiss = importlib.import_module("faiss")
    width = rows.shape[1]
    lists = int(4 * len(rows) ** 0.5)
    index = faiss.index_factory(width, f"IVF{lists},PQ{width // 2}x4fs,RFlat")
    index.train(rows)
    index.add(rows)
    index.k_factor = 8
    faiss.extract_index_ivf(index.base_index).nprobe = probes
    return index.search(rows, k)[1]


def hnsw_graph(rows, k, effort):
    """hnswlib: M = 16, ef_construction and ef as given."""
    hnswlib = importlib.import_module("hnswlib")
    index = hnswlib.Index("l2", rows.shape[1])
    index.init_index(len(rows), M=16, ef_construction=effort)
    index.set_ef(max(k, effort))
    index.add_items(rows)
    return index.knn_query(rows, k)[0]


def descent_graph(rows, k, trees):
    """pynndescent: its graph of k neighbours, trees as given."""
    pynndescent = importlib.import_module("pynndescent")
    return pynndescent.NNDescent(rows, n_neighbors=k, n_trees=trees, random_state=0).neighbor_graph[
        0
    ]


GRAPHS = {
    "faiss IVF, whole vectors": (ivf_graph, (32, 128, 512)),
    "faiss IVF-PQ, fast scan": (fast_scan_graph, (32, 128, 512)),
    "hnswlib": (hnsw_graph, (50, 100, 200)),
    "pynndescent": (descent_graph, (8, 16, 32)),
}


def measure_graphs(n, width, group, k=21):
    """Print a table of searches that are not exact, each at the recall of ours."""
    rows = random_rows(n, width, group)
    some = np.arange(0, n, max(1, n // 500))
    exact = exact_search(rows[some], rows, k, Runner.of()).indices
    few = random_rows(3000, width)
    cells_graph(few, k)  # compiled before the clock starts

    def measured(graph, *effort):
        begun = time.process_time()
        found = graph(rows, k, *effort)[some]
        seconds = time.process_time() - begun
        held = [len(np.intersect1d(*pair)) / k for pair in zip(found, exact, strict=True)]
        return seconds, float(np.mean(held))

    ours = min(measured(cells_graph) for _ in range(2))
    print(f"\nThe {k} nearest of {n:,} rows, {width} columns, groups of {group}\n")
    print("| search | setting | CPU s | recall | over ours |\n| --- | --- | --- | --- | --- |")
    print(f"| kinrank, cells | | {ours[0]:.1f} | {ours[1]:.3f} | 1.0 |", flush=True)
    for name, (graph, efforts) in GRAPHS.items():
        try:
            graph(few, k, efforts[0])  # loaded and compiled
            for effort in efforts:
                seconds, recall = measured(graph, effort)
                if recall >= ours[1] - 0.005:
                    break
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        ratio = seconds / ours[0]
        print(f"| {name} | {effort} | {seconds:.1f} | {recall:.3f} | {ratio:.1f} |", flush=True)


def table(calls, rounds):
    """The least CPU seconds of each call; calls of packages that are not there are left out."""
    took = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            begun = time.process_time()
            try:
                call()
            except ImportError as error:
                took[name] = error
                continue
            took[name] = min(took[name], time.process_time() - begun)
    print(f"{'':<22} {'CPU s':>8} {'CAS over it':>12}")
    for name, seconds in took.items():
        if isinstance(seconds, ImportError):
            print(f"{name:<22} {seconds}")
        else:
            print(f"{name:<22} {seconds:>8.3f} {took['CAS'] / seconds:>12.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="5000x256,10000x128,20000x256,20000x1280")
    parser.add_argument("--pools", default="1000x512")
    parser.add_argument("--graphs", default="")
    parser.add_argument("--group", type=int, default=GROUP, help="rows of a group of the graphs")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--k1", type=int, default=20)
    parser.add_argument("--k2", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        for size in filter(None, args.graphs.split(",")):
            measure_graphs(*map(int, size.split("x")), args.group)
        for size in filter(None, args.sizes.split(",")):
            n, width = map(int, size.split("x"))
            measure(n, width, args.k, args.k1, args.k2, args.rounds)
        for size in filter(None, args.pools.split(",")):
            measure_pool(*map(int, size.split("x")), args.rounds)


if __name__ == "__main__":
    results.run(main, __doc__)
