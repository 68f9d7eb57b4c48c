"""Stores that are attached: faiss, LanceDB, and ones that answer what no store should."""

import numpy as np

import kinrank
from fuzz import values
from fuzz.calls import length, scenario
from fuzz.options import options
from fuzz.outcome import check_ranking
from kinrank import CAS


@scenario(4)
def faiss_stores(draw, outcomes):
    import faiss

    from kinrank.stores import FaissStore

    n, d = draw.size(4, 80), draw.pick((2, 4, 8))
    rows = values.plain_rows(draw, n, d).astype(np.float32)
    inner = draw.chance(0.3)
    if inner:
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
    metric = faiss.METRIC_INNER_PRODUCT if inner else faiss.METRIC_L2
    index = faiss.index_factory(d, draw.pick(("Flat", "Flat", "HNSW4,Flat", "IVF2,Flat", "SQ8")),
                                metric)  # fmt: skip
    index.verbose = False
    index.train(rows)
    index.add(rows)
    names = values.ids(draw, n) if draw.chance(0.5) else None
    vectors = None if draw.chance(0.7) else values.vectors(draw, n, d)
    store = outcomes.attempt("FaissStore", FaissStore, index, names, vectors)
    if store is not None:
        attached(draw, outcomes, store, d)


def attached(draw, outcomes, store, d):
    """Search an index over a store, and the store itself."""
    draw.refuse = None
    given = options(draw, CAS, 20, odd=0.02)
    k1 = {"k1": draw.size(1, 8), "k2": draw.size(1, 4)} if draw.chance(0.8) else {}
    for name in ("regularizer", "symmetric", "fusion", "divergence"):
        given.pop(name, None)
    index = outcomes.attempt(
        "attach", kinrank.attach, store, refine=draw.chance(0.7), threads=values.threads(draw),
        **{**given, **k1},
    )  # fmt: skip
    for _ in range(draw.size(1, 4)):
        draw.refuse = None
        queries = values.vectors(draw, draw.size(1, 3), d)
        k = draw.pick((3, 100, 500, values.count(draw, 20)))
        if index is None:
            if not isinstance(store, Liar):
                outcomes.attempt("Store.search", store.search, queries, k, refuse=draw.refuse)
            continue

        def check(ranking, k=k, queries=queries):
            wanted = len(index) if k is None else min(int(k), len(index))
            check_ranking(
                ranking,
                len(index),
                1 if getattr(queries, "ndim", 2) == 1 else length(queries),
                wanted,
                index.ids,
            )

        outcomes.attempt(
            "Index.search (store)", index.search, queries, k, base=draw.chance(0.2), check=check,
            threads=values.threads(draw), refuse=draw.refuse,
        )  # fmt: skip
        one = index.ids[draw.size(0, len(index) - 1)].item()
        outcomes.attempt("Index.explain (store)", index.explain, queries, one)


@scenario(1)
def lance_stores(draw, outcomes):
    if values.SMALL or draw.chance(0.8):  # a table takes as long as a hundred calls
        return
    from kinrank.stores import LanceStore
    from store_makers import lance_table

    n, d = draw.size(2, 60), draw.pick((2, 8))
    rows = values.plain_rows(draw, n, d).astype(np.float32)
    if draw.chance(0.3):
        rows[draw.size(0, n - 1)] = draw.pick((0, 1e20, 1e38, 1e-30))
    odd = draw.pick(("'", '"', "\\", "' OR 1=1 --", "é", "", "\n", "%", "\0", ")"))
    names = np.array([f"{odd}{i}" for i in range(n)])
    if draw.chance(0.4):
        names = draw.rng.permutation(n) - n // 2
    if draw.chance(0.1):
        names[0] = names[-1]
    table = lance_table(draw.file("lance"), "rows", rows, names)
    metric = draw.pick((None, "euclidean", "cosine", "inner", "other"))
    store = outcomes.attempt("LanceStore", LanceStore, table, metric=metric)
    if store is not None:
        attached(draw, outcomes, store, d)


class Liar:
    """A store over rows in memory that now and then answers what no store should."""

    metric = "euclidean"

    def __init__(self, draw, rows, lies):
        self.draw, self.rows, self.lies, self.width = draw, rows, lies, rows.shape[1]

    def __len__(self):
        return len(self.rows)

    def ids(self):
        return np.arange(len(self.rows)) * 3

    @np.errstate(all="ignore")
    def search(self, queries, k):
        rows = np.asarray(queries, np.float64)
        width = min(rows.shape[1], self.rows.shape[1])  # it may have lied about its own
        near = ((rows[:, None, :width] - self.rows[:, :width]) ** 2).sum(axis=2)
        order = np.argsort(near, axis=1, kind="stable")[:, :k]
        ids = order * 3
        squared = np.take_along_axis(near, order, axis=1).astype(np.float32)
        missing = k - order.shape[1]
        if missing > 0:
            ids = np.pad(ids, ((0, 0), (0, missing)), constant_values=-1)
            squared = np.pad(squared, ((0, 0), (0, missing)), constant_values=np.inf)
        if self.draw.chance(self.lies):
            return self._lie(ids, squared)
        return kinrank.Neighbors(ids, squared)

    def _lie(self, ids, squared):
        draw = self.draw
        shape = squared.shape
        at = (draw.size(0, shape[0] - 1), draw.size(0, shape[1] - 1))
        kind = draw.size(0, 9)
        if kind <= 3:
            squared[at] = draw.pick((np.nan, np.inf, -1.0, -np.inf, 1e38, 0.0))
        elif kind <= 5:
            ids[at] = draw.pick((-1, 1, 10**9, ids[0, 0], -(2**63)))
        else:
            lie = draw.pick((
                (ids[:, ::-1], squared[:, ::-1]), (ids[:, :-1], squared[:, :-1]), (ids, None),
                (ids.astype(float), squared), (ids.astype(str), squared), (None, squared),
                (ids[:0], squared[:0]), (ids.ravel(), squared.ravel()), None, (ids, squared, 1),
                (ids, squared.astype(object)), (ids, squared.astype(np.float64)),
                (ids.tolist(), squared.tolist()), (np.zeros_like(ids), np.zeros_like(squared)),
            ))  # fmt: skip
            if lie is None or draw.chance(0.1):
                return lie
            return kinrank.Neighbors(*lie)
        return kinrank.Neighbors(ids, squared)

    @np.errstate(all="ignore")
    def fetch(self, ids):
        rows = self.rows[np.asarray(ids) // 3]
        if self.draw.chance(self.lies):
            return self.draw.pick((
                rows[:-1], rows[:, :-1], rows * np.nan, rows * 1e38, None, rows.astype(object),
                rows.tolist(), np.zeros_like(rows), rows[0], rows.astype(np.float64),
            ))  # fmt: skip
        return rows


@scenario(4)
def lying_stores(draw, outcomes):
    n, d = draw.size(2, 60), draw.pick((2, 4, 8))
    rows = values.plain_rows(draw, n, d).astype(np.float32)
    attached(draw, outcomes, Liar(draw, rows, draw.pick((0.0, 0.1, 0.5, 1.0))), d)


@scenario(1)
def stores_that_measure_otherwise(draw, outcomes):
    """Distances that are halved, or not squared, are never believed."""
    n = draw.size(8, 60)
    d = draw.pick((4, 8))
    rows = draw.rng.normal(size=(n, d)).astype(np.float32)
    rows *= draw.pick((0.01, 1.0, 100.0))
    store = Liar(draw, rows, 0.0)
    search = store.search
    formula = draw.pick((lambda squared: squared / 2, np.sqrt, lambda squared: 50 * squared))
    store.search = lambda queries, k: kinrank.Neighbors(
        search(queries, k).indices, formula(search(queries, k).distances)
    )
    outcomes.attempt(
        "attach",
        kinrank.attach,
        store,
        k1=4,
        k2=2,
        lists=draw.pick(("auto", "store", "vectors")),
        refuse="distances of another formula",
    )
