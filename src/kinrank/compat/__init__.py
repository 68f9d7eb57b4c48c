"""Drop-ins for functions that people already call.

Change one import and keep the call:

    from kinrank.compat.torchreid import re_ranking                  # also fast-reid, the original
    from kinrank.compat.strong_baseline import re_ranking            # also TransReID, SOLIDER
    from kinrank.compat.features import RerankMatcher, rerank_embeddings, rerank_features
from kinrank.compat.spcl import compute_jaccard_distance         # also Cluster Contrast
    from kinrank.compat.oml import Reranker                          # open-metric-learning
    from kinrank.compat import rerank_features, rerank_embeddings    # what scripts retype
    from kinrank.compat import RerankMatcher                         # wildlife-tools

They compute k-reciprocal encoding as the library they stand for, or CAS with ``method="cas"``; the
matcher takes any method.
"""

from __future__ import annotations

from kinrank.compat.features import RerankMatcher, rerank_embeddings, rerank_features
from kinrank.compat.spcl import compute_jaccard_distance
from kinrank.compat.strong_baseline import re_ranking as re_ranking_features
from kinrank.compat.torchreid import re_ranking

__all__ = [
    "RerankMatcher",
    "compute_jaccard_distance",
    "re_ranking",
    "re_ranking_features",
    "rerank_embeddings",
    "rerank_features",
]
