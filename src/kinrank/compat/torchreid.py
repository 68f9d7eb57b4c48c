"""``re_ranking`` of torchreid, fast-reid and the original of Zhong et al., on distance matrices."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kinrank.compat.blocks import check_blocks, make_ranker, rank_blocks


def re_ranking(
    q_g_dist: Any,
    q_q_dist: Any,
    g_g_dist: Any,
    k1: int = 20,
    k2: int = 6,
    lambda_value: float = 0.3,
    *,
    method: Literal["kreciprocal", "cas"] = "kreciprocal",
) -> npt.NDArray[np.float32]:
    """New distances between queries and gallery from the three blocks of old ones.

    Like the originals it squares what it is given: Euclidean distances become d^2 as in the paper,
    squared Euclidean distances, which torchreid passes, become d^4.

    Parameters
    ----------
    q_g_dist, q_q_dist, g_g_dist : (nq, ng), (nq, nq), (ng, ng) arrays or tensors
    k1, k2, lambda_value : as in the original
    method : "cas" for cluster-aware similarity diffusion instead, with omega = lambda_value

    Returns
    -------
    array, (nq, ng), float32
    """
    q_g, q_q, g_g = check_blocks(q_g_dist, q_q_dist, g_g_dist)
    ranker = make_ranker(method, sum(q_g.shape), k1, k2, lambda_value)
    return rank_blocks((q_g**2, q_q**2, g_g**2), ranker)
