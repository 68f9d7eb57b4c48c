"""One query, ranked by any setting, and the cluster that it was ranked by.

The index answers with its own parameters, and with others as far as its ``Explorer`` can. Where it
cannot, and for other methods, the pool of the query's nearest rows is ranked, which takes a moment
however many rows there are. Behind these rows all others follow by plain distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from kinrank.cas import CAS
from kinrank.errors import InvalidInputError, UnknownNameError
from kinrank.index.explorer import Explorer, LocalCluster, Query, RankedRows
from kinrank.methods.base import Method
from kinrank.pool import rerank_pool
from kinrank.registry import make_method, method_class, ready_methods

POOL = 500  # so that sliders answer soon, however many rows there are
PLAIN = "plain"
INDEX = "index"
_SLOW = frozenset({"gss"})  # learns anew for every query


def served_methods() -> list[str]:
    """The methods that answer at once and read no files."""
    return [name for name in ready_methods() if name not in _SLOW]


def served_method(name: str, params: Mapping[str, Any]) -> Method:
    """A method by its name; parameters that name files of this machine are refused."""
    if name not in served_methods():
        raise UnknownNameError("method", name, served_methods())
    files = {field.name for field in fields(method_class(name)) if field.metadata.get("cli") is str}
    if files & params.keys() or "method" in params:
        raise InvalidInputError("`params` must not name files or the method here.")
    method: Method = make_method(name, **params)
    return method


def rank(
    explorer: Explorer,
    query: Query,
    name: str,
    params: Mapping[str, Any],
    marks: Any = None,
    *,
    whole: bool,
    threads: int | None,
) -> RankedRows:
    """By any setting.

    name : "plain", "index", or one of ``served_methods``
    marks : ids that were said to be right, and wrong; for the index
    whole : rank all rows by parameters that are not those of the index, however long it takes
    """
    if name in (PLAIN, INDEX) and params:
        raise InvalidInputError(f"`params` must be empty for {name!r}, got {sorted(params)}.")
    if marks is not None and name != INDEX:
        raise InvalidInputError(
            f"`right_ids` and `wrong_ids` must go with the index on the right, got {name!r}."
        )
    if name == PLAIN:
        return explorer.plain(query)
    if name == INDEX:
        return explorer.rank(query) if marks is None else explorer.rank_marked(query, *marks)
    method = _method(explorer, name, params)
    if isinstance(method, CAS):
        whole = whole or len(explorer) <= POOL  # so few rows take no longer than their pool
        ranked = explorer.rank_by(query, method, whole=whole, threads=threads)
        if ranked is not None:
            return ranked
    first = explorer.plain(query).order
    pool = rerank_pool(query.vector[0], explorer.vectors(first[:POOL]), method, threads=1)
    order = np.concatenate([first[:POOL][pool.indices[0]], first[POOL:]])
    return RankedRows(order, pool.distances[0])


def cluster(
    explorer: Explorer, query: Query, name: str, params: Mapping[str, Any], threads: int | None
) -> LocalCluster:
    """The query's local cluster by CAS with parameters, or else by the index."""
    method = _method(explorer, name, params) if name == "cas" else None
    if not isinstance(method, CAS):
        return explorer.cluster(query)
    local = explorer.cluster_by(query, method, threads=threads)
    if local is not None:
        return local
    first = explorer.plain(query).order[:POOL]
    plain = method.replace(metric="euclidean", geodesic=False)
    pool = plain.fit(explorer.vectors(first), threads=1).explorer()
    local = pool.cluster(pool.vector_query(query.vector))
    positions = np.append(first, -1).tolist()  # the query stays -1
    members = [replace(member, position=positions[member.position]) for member in local.members]
    return LocalCluster(members, local.edges)


def _method(explorer: Explorer, name: str, params: Mapping[str, Any]) -> Method:
    """A method; of CAS the options of the index, and the parameters instead of some of them."""
    method = served_method(name, params)
    return explorer.method.replace(**params) if isinstance(method, CAS) else method
