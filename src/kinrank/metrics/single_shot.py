"""Single-shot galleries: one image per identity, drawn again and again.

The classic protocol of CUHK03 (Li et al., CVPR 2014): for each query one gallery image of every
identity is drawn from the other cameras, the rank of the right one is noted, and the CMC curve is
the mean over many draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.metrics.bootstrap import MOST_DRAWS
from kinrank.metrics.ground_truth import encode
from kinrank.metrics.hits import as_indices, check_ranking
from kinrank.metrics.per_query import Values
from kinrank.metrics.protocols import REID_RANKS, RankingLike, as_depths
from kinrank.metrics.results import ReidEvaluation
from kinrank.types import Ints
from kinrank.validation import check_int


def single_shot(
    ranking: RankingLike,
    query_ids: Any,
    gallery_ids: Any,
    query_cams: Any,
    gallery_cams: Any,
    *,
    ranks: Sequence[int] = REID_RANKS,
    repeats: int = 100,
    seed: int = 0,
) -> ReidEvaluation:
    """CMC with one gallery image per identity, the mean over ``repeats`` random draws.

    Parameters
    ----------
    ranking : (n_queries, k), whole for exact figures
    query_ids, gallery_ids : identities
    query_cams, gallery_cams : cameras; the gallery of a query is what other cameras took
    ranks : the ranks of the CMC curve
    repeats : how many times a gallery is drawn
    seed : of the draws; the same seed gives the same figures

    Returns
    -------
    ReidEvaluation
        ``cmc``, and ``mAP``, which for one right answer is the mean of one over its rank.
    """
    indices = as_indices(ranking)
    queries, gallery = encode("ids", query_ids, gallery_ids)
    if query_cams is None or gallery_cams is None:
        raise InvalidInputError("Single shot needs cameras: give `query_cams` and `gallery_cams`.")
    sizes = (len(queries), len(gallery))
    cameras = encode("cams", query_cams, gallery_cams, sizes=sizes)
    check_ranking(indices, *sizes, "the identities")
    check_int("repeats", repeats, 1, MOST_DRAWS)
    ranks = as_depths("ranks", ranks)
    values = {name: np.zeros(len(queries)) for name in ("mAP", *(f"R{rank}" for rank in ranks))}
    random = np.random.default_rng(check_int("seed", seed, 0))
    has_match = np.zeros(len(queries), bool)
    for camera in np.unique(cameras[0]):
        rows = np.flatnonzero(cameras[0] == camera)
        columns = np.flatnonzero(cameras[1] != camera)
        matched = np.isin(queries[rows], gallery[columns])
        has_match[rows] = matched
        rows = rows[matched]
        places = _places(indices[rows], len(gallery))
        for _ in range(repeats):
            # One column of each identity: the first of each in a random order.
            mixed = random.permutation(columns)
            drawn = mixed[np.unique(gallery[mixed], return_index=True)[1]]
            right = _ranks(places, queries[rows], gallery, drawn)
            values["mAP"][rows] += 1 / right
            for rank in ranks:
                values[f"R{rank}"][rows] += right <= rank
    if not has_match.any():
        raise InvalidInputError(
            "No query has a match: `query_ids` and `gallery_ids` share no value across cameras."
        )
    values = {name: np.where(has_match, sums / repeats, np.nan) for name, sums in values.items()}
    listed = int((indices >= 0).sum(axis=1).min(initial=len(gallery)))
    return ReidEvaluation(values, np.flatnonzero(~has_match), max(0, len(gallery) - listed))


def _places(indices: Ints, n_gallery: int) -> npt.NDArray[np.int64]:
    """Where each gallery row stands in each list; the end for those not listed."""
    places = np.full((len(indices), n_gallery + 1), n_gallery, np.int64)
    np.put_along_axis(places, indices.astype(np.int64), np.arange(indices.shape[1])[None], axis=1)
    return places[:, :n_gallery]  # -1 for none was put into the column too many


def _ranks(places: Any, queries: Ints, gallery: Ints, drawn: Any) -> Values:
    """The rank of the right one among those drawn, infinite if it is not listed."""
    right = drawn[np.searchsorted(gallery[drawn], queries)]
    place = places[np.arange(len(places)), right][:, None]
    ranks: Values = 1.0 + (places[:, drawn] < place).sum(axis=1)
    ranks[place[:, 0] == places.shape[1]] = np.inf
    return ranks
