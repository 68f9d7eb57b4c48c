"""``compute_jaccard_distance`` of SpCL, Cluster Contrast and OpenUnReID."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.jaccard import jaccard_rows
from kinrank.parallel import Runner


def compute_jaccard_distance(
    target_features: Any,
    k1: int = 20,
    k2: int = 6,
    print_flag: bool = True,
    search_option: int = 0,
    use_float16: bool = False,
) -> npt.NDArray[np.floating[Any]]:
    """The Jaccard distance of all pairs, (n, n), as clustering code of these projects expects it.

    A new program is better off with ``kinrank.jaccard_graph``, which needs no n x n matrix.

    Parameters
    ----------
    target_features : (n, d) array or tensor, unit vectors
    k1, k2 : as in the original
    print_flag, search_option : taken and left aside: nothing is printed, the search is exact
    use_float16 : return float16; sums are float32 all the same

    Returns
    -------
    array, (n, n), float32 or float16
    """
    del print_flag, search_option
    graph = jaccard_rows(target_features, k1, k2, Runner.of(), metric="cosine")
    out = np.ones((len(graph), len(graph)), np.float16 if use_float16 else np.float32)
    out[graph.owners, graph.indices] = graph.values
    return out
