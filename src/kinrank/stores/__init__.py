"""Collections of vectors that somebody else keeps, as searchers.

store = kinrank.stores.FaissStore(index)
index = kinrank.attach(store)

A store is one module of this folder. Its ``__all__`` names what users find here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers
    from kinrank.search.searcher import FilteringStore, ListingStore, Searcher, Store
    from kinrank.stores.chroma import ChromaStore
    from kinrank.stores.faiss import FaissStore
    from kinrank.stores.follow import Followed
    from kinrank.stores.lancedb import LanceStore
    from kinrank.stores.lancedb_reranker import Reranker
    from kinrank.stores.milvus import MilvusStore
    from kinrank.stores.pgvector import PgVectorStore
    from kinrank.stores.qdrant import QdrantStore
    from kinrank.stores.sqlite_vec import SqliteVecStore

__all__ = [
    "ChromaStore",
    "FaissStore",
    "FilteringStore",
    "Followed",
    "LanceStore",
    "ListingStore",
    "MilvusStore",
    "PgVectorStore",
    "QdrantStore",
    "Reranker",
    "Searcher",
    "SqliteVecStore",
    "Store",
]

_SEAMS = ("FilteringStore", "ListingStore", "Searcher", "Store")


@cache
def _modules_by_name() -> dict[str, str]:
    """The module of each public name; engines are imported when a store is made."""
    modules = dict.fromkeys(_SEAMS, "kinrank.search.searcher")
    for found in iter_modules(__path__, f"{__name__}."):
        for name in getattr(import_module(found.name), "__all__", ()):
            modules[name] = found.name
    return modules


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _modules_by_name():
        raise AttributeError(f"module 'kinrank.stores' has no attribute {name!r}")
    return getattr(import_module(_modules_by_name()[name]), name)


def __dir__() -> list[str]:
    return sorted(_modules_by_name())
