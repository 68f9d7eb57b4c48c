"""A reranker for the queries of LanceDB (extra ``lancedb``).

table.search(vector).limit(1000).rerank(Reranker(vector, k=10), query_string="").to_arrow()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.methods.base import Method
from kinrank.optional import require
from kinrank.pool import pool_method, rerank_pool
from kinrank.stores.lancedb import column_vectors
from kinrank.validation import as_array, check_choice, check_int

__all__ = ["Reranker"]  # noqa: F822  made on first use, below


class VectorReranker:
    """Orders the rows that a query found by what their vectors know of each other.

    LanceDB hands a reranker the text of a query and not its vector, so the vector, or a function
    that makes it from the text, is given here. ``limit`` of the query is the size of the pool,
    ``k`` how many of them are returned; the column of vectors has to be among those selected.
    Answers have ``_relevance_score``, 1 - distance, descending.

    Parameters
    ----------
    query : (d,) the vector that is searched for; None with ``embed``
    embed : takes the text of the query and returns its vector; for tables that embed text
    method : a name of ``kinrank.methods()`` or a method
    k : how many rows are returned; None returns all that were found
    vector_column : its name
    return_score : "relevance", or "all" to keep LanceDB's own scores too
    **params : parameters of the method
    """

    def __init__(
        self,
        query: Any = None,
        *,
        embed: Callable[[str], Any] | None = None,
        method: str | Method = "cas",
        k: int | None = None,
        vector_column: str = "vector",
        return_score: str = "relevance",
        **params: Any,
    ) -> None:
        check_choice("return_score", return_score, ("relevance", "all"))
        super().__init__(return_score)  # type: ignore[call-arg]  # LanceDB's class comes next
        if (query is None) == (embed is None):
            raise InvalidInputError("Give either `query` or `embed`, not both or neither.")
        self.vector = None if query is None else as_array("query", query)
        self.embed = embed
        self.method = pool_method(method, params)
        self.k = None if k is None else check_int("k", k, 1)
        self.vector_column = vector_column

    def rerank_vector(self, query: str, vector_results: Any) -> Any:
        """The rows of a vector search in their new order."""
        return self._reranked(query, vector_results)

    def rerank_fts(self, query: str, fts_results: Any) -> Any:
        """The rows of a text search, ordered by their vectors."""
        return self._reranked(query, fts_results)

    def rerank_hybrid(self, query: str, vector_results: Any, fts_results: Any) -> Any:
        """The rows of both searches, each once, ordered by their vectors."""
        merge = self._merge_and_keep_scores if self.score == "all" else self.merge_results  # type: ignore[attr-defined]
        return self._reranked(query, merge(vector_results, fts_results))

    def _reranked(self, query: str, table: Any) -> Any:
        arrow = require("pyarrow", extra="lancedb", purpose="A LanceDB reranker")
        if self.vector_column not in table.column_names:
            raise InvalidInputError(
                f"The rows found have no column {self.vector_column!r}, only {table.column_names}: "
                "select it."
            )
        order = np.empty(0, np.int64)
        scores = np.empty(0, np.float32)
        if len(table):
            vector = self.vector if self.embed is None else self.embed(query)
            candidates = vectors_of(table[self.vector_column])
            k = len(table) if self.k is None else min(self.k, len(table))
            ranking = rerank_pool(vector, candidates, self.method, k)
            order = ranking.indices[0].astype(np.int64)
            scores = 1 - ranking.distances[0]
        table = table.take(arrow.array(order))
        if "_relevance_score" in table.column_names:
            table = table.drop_columns(["_relevance_score"])
        table = table.append_column("_relevance_score", arrow.array(scores, arrow.float32()))
        return self._keep_relevance_score(table)  # type: ignore[attr-defined]


def vectors_of(column: Any) -> Any:
    """Vectors of a result: lists of a fixed length, or lists that turn out to have one."""
    if hasattr(column.type, "list_size"):
        return column_vectors(column)
    return as_array("vectors", column.to_pylist())


def __getattr__(name: str) -> Any:
    """``Reranker``: ``VectorReranker`` as LanceDB's own class, once the package is asked for."""
    if name != "Reranker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = require("lancedb.rerankers", extra="lancedb", purpose="A LanceDB reranker")
    about = {"__doc__": VectorReranker.__doc__, "__module__": __name__}
    globals()[name] = type(name, (VectorReranker, module.Reranker), about)
    return globals()[name]
