"""An index over vectors that stay where they are."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from kinrank import progress
from kinrank.cas import CAS
from kinrank.errors import InvalidInputError
from kinrank.index.ids import Ids, IdTable, as_ids, refuse_duplicates
from kinrank.index.index import Index
from kinrank.index.search import check_store, store_search
from kinrank.index.state import Scaling, check_online, list_length
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.pool import pool_method
from kinrank.registry import method_class
from kinrank.search.exact import exact_neighbors
from kinrank.search.searcher import METRICS, ListingStore, Store, checked_fetch
from kinrank.types import Floats, Ints, Longs
from kinrank.validation import as_vectors, check_choice, check_int

_ROWS = 1024  # fetched and searched at a time
_SPARE = 4  # asked for beside those wanted: the row itself, rows that came meanwhile
_SAMPLE = 32768  # rows that tell how far the farthest is: all, if there are no more
_NUMBERS = 1 << 25  # of their vectors, at most
_TILE = 4096  # of them at a time
_TRIED = 64  # rows whose norms are looked at before the work
_UNIT = 1e-3  # how far from 1 a norm may be
_MOST_ROWS = 100_000  # that are compared with each other here: the time is quadratic
_MOST_NUMBERS = 1 << 28  # of their vectors, a gigabyte

Lists: TypeAlias = Literal["auto", "vectors", "store", "neighbors"]


def attach(
    store: Store,
    method: str | CAS = "cas",
    *,
    lists: Lists = "auto",
    refine: bool = True,
    threads: int | None = None,
    block_size: int | None = None,
    attributes: Any = None,
    **params: Any,
) -> Index:
    """Build the graph of a store's rows; vectors stay in the store.

    Every row is fetched once, its nearest rows are found, and only its list of them is kept.
    Answers carry the store's ids. Rows that come into the store later are not in the graph and are
    left out of answers until ``kinrank.follow`` is called. ``with progress.listen(print):``, from
    ``kinrank``, shows how far it is.

    Parameters
    ----------
    store : FaissStore, LanceStore, PgVectorStore of ``kinrank.stores``, or an object of the same
        form (``kinrank.stores.Store``)
    method : "cas" or a ``kinrank.CAS``; by its name, the metric is the store's. Its ``whiten`` is
        None, or the fitted Projection whose ``transform`` made the rows of the store: queries are
        then projected by it
    lists : where the lists of neighbours come from. "vectors" fetches all vectors at once and finds
        the nearest rows here, exactly; "store" fetches a block at a time and asks the store once
        for each row, which takes no memory for the vectors. "neighbors" asks a store that can
        (QdrantStore, PgVectorStore) for the lists of all its rows; only a sample of vectors is
        fetched then. "auto" is "vectors" up to 100,000 rows and a gigabyte, else "store".
    refine : whether a search also fetches the vectors of rows that matter to its answers and were
        not listed by the store, so that answers are those of an index over the vectors. Without
        it a search asks the store once, and such rows count as near as the last one listed.
    threads : how many threads build the graph; None is one per core
    block_size : how many rows are fetched, or searched for, at a time
    attributes : what is known of the rows, one value per row in the order of ``store.ids()``; see
        ``CAS.fit``
    **params : parameters of the method

    Returns
    -------
    Index
        Its ``search`` asks the store for neighbours and re-ranks them. It keeps no vectors, so
        ``add``, ``remove``, ``update``, ``upsert``, ``neighbors``, ``vectors`` and ``calibrate``
        are not available, nor is ``Ranking.presence``.

    Examples
    --------
    >>> import faiss, kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> engine = faiss.IndexFlatL2(8)
    >>> engine.add(data.gallery.features)
    >>> index = kinrank.attach(kinrank.stores.FaissStore(engine))
    >>> index.search(data.query.features, k=3).ids[0].tolist()
    [284, 7, 58]
    """
    if not isinstance(store, Store):
        raise InvalidInputError(
            "`store` must be a store of kinrank.stores, or have its metric, width, ids, search "
            f"and fetch, got {type(store).__name__}."
        )
    check_choice("store.metric", store.metric, METRICS)
    check_int("store.width", store.width, 1)
    check_choice("lists", lists, get_args(Lists))
    fitted = _method(store, method, params)
    rows = _ROWS if block_size is None else check_int("block_size", block_size, 1)
    ids = as_ids(store.ids())
    if len(ids) < 2:
        raise InvalidInputError(f"`store` must have at least two rows, got {len(ids)}.")
    refuse_duplicates(ids)
    cosine = fitted.metric == "cosine"
    rows_as_queries(store, fitted, ids[:_TRIED])  # before the work: norms, then distances
    check_store(store, IdTable(ids), Scaling(store.width, cosine))
    small = len(ids) <= _MOST_ROWS and len(ids) * store.width <= _MOST_NUMBERS
    if lists == "neighbors":
        found = _lists_of_neighbors(store, fitted, ids)
    elif lists == "vectors" or (lists == "auto" and small):
        found = _lists_ofrows_as_queries(store, fitted, ids, rows, threads)
    else:
        found = _lists_of_store(store, fitted, ids, rows)
    index = Index.from_neighbors(
        fitted,
        found.squared,
        found.indices,
        ids=ids,
        store=store,
        refine=refine,
        squared=True,
        farthest=found.farthest,
        attributes=attributes,
        threads=threads,
    )
    index.fingerprints = found.fingerprints
    return index


class _Lists(NamedTuple):
    """The neighbours of all rows, and what else was seen while they were found.

    squared, indices : (n, K) squared distances and row numbers of the neighbours of every row
    farthest : (n,) about the largest squared distance of each row to any; None if not seen
    fingerprints : (n,) of the vectors; None if these were not seen
    """

    squared: Floats
    indices: Ints
    farthest: Floats | None
    fingerprints: Longs | None


def fingerprints_of(vectors: Floats) -> Longs:
    """A number for each row, (n,), which is another one when the row is."""
    rows = np.ascontiguousarray(vectors + np.float32(0), "<f4")  # -0 is 0
    digests = [blake2b(row.data, digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(digests), "<i8").astype(np.int64)


def _method(store: Store, method: str | CAS, params: dict[str, Any]) -> CAS:
    """The method, measured as the store measures unless something else was asked for."""
    kind: type[Any] = type(method)
    if isinstance(method, str):
        kind = method_class(method)
        params = {"metric": "euclidean" if store.metric == "euclidean" else "cosine", **params}
    if not issubclass(kind, CAS):
        raise InvalidInputError(f"`method` must be CAS for an index, got {method!r}.")
    made = pool_method(method, params)
    assert isinstance(made, CAS)
    check_online(made)
    return made


def _lists_ofrows_as_queries(
    store: Store, method: CAS, ids: Ids, block: int, threads: int | None
) -> _Lists:
    """Fetch all rows, ``block`` at a time, and find the nearest of each here; all exact."""
    n = len(ids)
    fingerprints = np.empty(n, np.int64)
    vectors = np.empty((n, store.width), np.float32)
    with progress.stage("fetching", n) as advance:
        for low in range(0, n, block):
            fetched = rows_as_queries(store, method, ids[low : low + block])
            vectors[low : low + block] = fetched
            fingerprints[low : low + block] = fingerprints_of(fetched)
            advance(len(fetched))
    rows, scaling = Scaling.fit(("vectors", vectors), cosine=method.metric == "cosine")
    found = exact_neighbors(rows, list_length(method, n), Runner.of(threads))
    exponent = 2 * scaling.exponent
    squared = np.ldexp(found.distances[:, 1:], exponent)
    farthest = np.maximum(np.ldexp(found.farthest, exponent), np.finfo(np.float32).tiny)
    return _Lists(squared, found.indices[:, 1:], farthest, fingerprints)


def _lists_of_store(store: Store, method: CAS, ids: Ids, block: int) -> _Lists:
    """Fetch all rows and search for each of them, ``block`` at a time."""
    n = len(ids)
    table = IdTable(ids)
    wanted = list_length(method, n) - 1
    squared = np.empty((n, wanted), np.float32)
    indices = np.empty((n, wanted), np.int32)
    farthest = np.empty(n, np.float32)
    fingerprints = np.empty(n, np.int64)
    sample = _sample(store, method, ids, block)
    with progress.stage("neighbours", n) as advance:
        for low in range(0, n, block):
            rows = slice(low, min(low + block, n))
            vectors = rows_as_queries(store, method, ids[rows])
            places, values = store_search(store, vectors, min(n, wanted + _SPARE), table)
            numbers = np.arange(low, rows.stop, dtype=np.int32)
            squared[rows], indices[rows] = _nearest_others(places, values, numbers, wanted, ids)
            farthest[rows] = _farthest(vectors, sample)
            fingerprints[rows] = fingerprints_of(vectors)
            advance(rows.stop - low)
    return _Lists(squared, indices, farthest, fingerprints)


def _lists_of_neighbors(store: Store, method: CAS, ids: Ids) -> _Lists:
    """The lists that a store has of its own rows."""
    if not isinstance(store, ListingStore):
        raise InvalidInputError(
            "`lists` can be 'neighbors' for a store that lists neighbours of its own rows, such as "
            f"QdrantStore and PgVectorStore, got {type(store).__name__}."
        )
    n = len(ids)
    table = IdTable(ids)
    wanted = list_length(method, n) - 1
    squared = np.empty((n, wanted), np.float32)
    indices = np.empty((n, wanted), np.int32)
    is_listed = np.zeros(n, np.bool_)
    with progress.stage("neighbours", n) as advance:
        for names, listed in store.neighbors(min(n, wanted + _SPARE)):
            owners = table.find(as_ids(names))
            known = np.flatnonzero(owners >= 0)  # others came meanwhile
            rows = owners[known]
            places = table.find(listed.indices[known].ravel()).reshape(len(rows), -1)
            values = np.where(places >= 0, listed.distances[known], np.float32(np.inf))
            squared[rows], indices[rows] = _nearest_others(places, values, rows, wanted, ids)
            is_listed[rows] = True
            advance(len(rows))
    if not is_listed.all():
        raise InvalidInputError(
            f"The store listed neighbours of {is_listed.sum():,} of its {n:,} rows, and not of "
            f"{ids[is_listed.argmin()].item()!r}: use lists='store'."
        )
    return _Lists(squared, indices, None, None)


def _nearest_others(
    places: Ints, values: Floats, of_rows: Ints, wanted: int, ids: Ids
) -> tuple[Floats, Ints]:
    """The first ``wanted`` of ascending lists beside the rows themselves.

    places, values : rows and their squared distances, -1 for none; of_rows : the row of each list
    """
    others = (places >= 0) & (places != of_rows[:, None])
    counts = others.sum(axis=1)
    if counts.min() < wanted:
        raise InvalidInputError(
            f"The store found {counts.min()} of the {wanted} rows asked for beside "
            f"{ids[of_rows[counts.argmin()]].item()!r}: search more of its lists (nprobe, probes, "
            "ef_search), or exactly."
        )
    first = np.argsort(~others, axis=1, kind="stable")[:, :wanted]
    return np.take_along_axis(values, first, axis=1), np.take_along_axis(places, first, axis=1)


def _sample(store: Store, method: CAS, ids: Ids, block: int) -> Floats:
    """Rows that tell how far the farthest is, as (d + 1, m) columns -2 y and |y|^2."""
    chosen = ids[:: -(-len(ids) // max(2, min(_SAMPLE, _NUMBERS // store.width)))]
    out = np.empty((store.width + 1, len(chosen)), np.float32)
    for low in range(0, len(chosen), block):
        vectors = rows_as_queries(store, method, chosen[low : low + block])
        columns = slice(low, low + len(vectors))
        out[:-1, columns] = -2 * vectors.T
        out[-1, columns] = np.einsum("ij,ij->i", vectors, vectors)
    return out


def _farthest(vectors: Floats, sample: Floats) -> Floats:
    """The largest squared distance of each row to the rows of ``sample``; never 0."""
    rows = np.concatenate([vectors, np.ones((len(vectors), 1), np.float32)], axis=1)
    tiles = (sample[:, low : low + _TILE] for low in range(0, sample.shape[1], _TILE))
    largest = np.max([np.max(rows @ tile, axis=1) for tile in tiles], axis=0)
    largest += np.einsum("ij,ij->i", vectors, vectors)
    return np.asarray(np.maximum(largest, np.finfo(np.float32).tiny), np.float32)


def rows_as_queries(store: Store, method: CASMethod, ids: Ids) -> Floats:
    """The vectors of some rows, as queries to the store."""
    vectors = checked_fetch(store, ids, store.width)
    cosine = method.metric == "cosine"
    if store.metric != method.metric:
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        off = np.abs(norms - 1)
        if off.max() > _UNIT:
            worst = int(off.argmax())
            raise InvalidInputError(
                f"The row {ids[worst].item()!r} of the store has the norm {norms[worst]:.4g}. The "
                f"store measures {store.metric!r} and the method {method.metric!r}, which agree "
                "for rows of unit norm only."
            )
    return as_vectors(("vectors", vectors), cosine=cosine, together=False)
