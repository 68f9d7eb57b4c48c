"""The functions of the package's front door."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kinrank.errors import InvalidInputError, UnknownNameError
from kinrank.registry import method_class
from kinrank.types import Ranking

if TYPE_CHECKING:
    from kinrank.methods.base import Method


def rerank(
    queries: Any,
    gallery: Any,
    method: str = "cas",
    k: int | None = None,
    *,
    threads: int | None = None,
    block_size: int | None = None,
    **params: Any,
) -> Ranking:
    """Rank the gallery for each query, the second time right.

    Parameters
    ----------
    queries : (n_queries, d) array of any real dtype, or a torch tensor
    gallery : (n_gallery, d) likewise
    method : a name of ``kinrank.methods()``
    k : how many results per query; None ranks the whole gallery
    threads : how many threads to use; None is one per core
    block_size : how many rows a thread takes at a time; never changes the result
    **params : parameters of the method, see its class

    Returns
    -------
    Ranking
        ``indices`` and ``distances``, (n_queries, k), nearest first.

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> points = np.random.default_rng(0).normal(size=(100, 8))
    >>> kinrank.rerank(points[:3], points[3:], k=5, k1=6, k2=3).indices.shape
    (3, 5)
    """
    return make_method(method, **params).rerank(
        queries, gallery, k, threads=threads, block_size=block_size
    )


def make_method(method: str, **params: Any) -> Method:
    """An instance of the method registered under ``method``."""
    cls = method_class(method)
    known = [field.name for field in fields(cls)]
    for name in params:
        if name not in known:
            raise UnknownNameError(f"parameter of {method}", name, known)
    try:
        return cls(**params)
    except TypeError as error:
        raise InvalidInputError(f"{method}: {error}") from error
