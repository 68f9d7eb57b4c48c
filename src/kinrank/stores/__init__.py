"""Collections of vectors that somebody else keeps, as neighbour providers.

store = kinrank.stores.FaissStore(index)
index = kinrank.attach(store)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinrank.stores.faiss import FaissStore
    from kinrank.stores.lancedb import LanceStore
    from kinrank.stores.lancedb_reranker import Reranker
    from kinrank.stores.pgvector import PgVectorStore
    from kinrank.stores.protocol import Store

__all__ = ["FaissStore", "LanceStore", "PgVectorStore", "Reranker", "Store"]

_LAZY = {
    "FaissStore": "kinrank.stores.faiss",
    "LanceStore": "kinrank.stores.lancedb",
    "PgVectorStore": "kinrank.stores.pgvector",
    "Reranker": "kinrank.stores.lancedb_reranker",
    "Store": "kinrank.stores.protocol",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'kinrank.stores' has no attribute {name!r}")
