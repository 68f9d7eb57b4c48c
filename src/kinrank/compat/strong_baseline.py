"""``re_ranking`` of reid-strong-baseline, TransReID and SOLIDER, on features."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kinrank.compat.blocks import as_square, check_blocks, divided, make_ranker, rank_blocks
from kinrank.errors import InvalidInputError
from kinrank.index.state import Scaling
from kinrank.search.exact import dense_search
from kinrank.types import Floats
from kinrank.validation import as_matrix, check_bool, check_finite, refuse_too_large


def re_ranking(
    probFea: Any,  # noqa: N803 - the names of the original
    galFea: Any,  # noqa: N803
    k1: int,
    k2: int,
    lambda_value: float,
    local_distmat: Any = None,
    only_local: bool = False,
    *,
    method: Literal["kreciprocal", "cas"] = "kreciprocal",
) -> npt.NDArray[np.float32]:
    """New distances between queries and gallery from their features.

    Everything is computed in float32; the original keeps features in float16 and is off by up to
    0.002 for that.

    Parameters
    ----------
    probFea, galFea : (nq, d), (ng, d) arrays or tensors
    k1, k2, lambda_value : as in the original
    local_distmat : (nq + ng, nq + ng) distances that are added to the squared Euclidean ones
    only_local : use ``local_distmat`` alone
    method : "cas" for cluster-aware similarity diffusion instead, with omega = lambda_value

    Returns
    -------
    array, (nq, ng), float32
    """
    probFea = as_matrix("probFea", probFea)  # noqa: N806
    galFea = as_matrix("galFea", galFea)  # noqa: N806
    check_finite("probFea", probFea)
    check_finite("galFea", galFea)
    ranker = make_ranker(method, len(probFea) + len(galFea), k1, k2, lambda_value)
    if local_distmat is not None or check_bool("only_local", only_local):
        return rank_blocks(_local(probFea, galFea, local_distmat, only_local), ranker)
    return as_square(ranker.rerank(probFea, galFea))


def _local(
    queries: Any, gallery: Any, local: Any, only_local: bool
) -> tuple[Floats, Floats, Floats]:
    n_queries = len(queries)
    n = len(queries) + len(gallery)
    if local is None:
        raise InvalidInputError("`only_local` needs `local_distmat`, which was not given.")
    matrix = as_matrix("local_distmat", local)
    if matrix.shape != (n, n):
        raise InvalidInputError(f"`local_distmat` must be {(n, n)}, got shape {matrix.shape}.")
    if not only_local:
        vectors, scaling = Scaling.fit(("probFea", queries), ("galFea", gallery), cosine=False)
        refuse_too_large([("local_distmat", matrix)], 2 * scaling.exponent)
        matrix = divided(matrix, 2 * scaling.exponent) + dense_search(vectors, vectors)
    head = matrix[:n_queries]
    tail = matrix[n_queries:]
    return check_blocks(head[:, n_queries:], head[:, :n_queries], tail[:, n_queries:])
