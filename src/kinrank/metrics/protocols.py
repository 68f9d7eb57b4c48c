"""The field's ways of measuring a ranking.

    kinrank.evaluate.reid(ranking, query_ids, gallery_ids, query_cams, gallery_cams)
    kinrank.evaluate.revisited(ranking, gnd)
    kinrank.evaluate.retrieval(ranking, query_labels, gallery_labels)

Each takes a ``Ranking`` or an integer array of gallery rows, nearest first, -1 for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.metrics.ground_truth import as_gnd, encode, gallery_size, levels, rows_of_queries
from kinrank.metrics.hits import as_indices, check_ranking, label_hits, listed_hits
from kinrank.metrics.results import (
    MOST_DRAWS,
    LevelEvaluation,
    ReidEvaluation,
    RetrievalEvaluation,
    RevisitedEvaluation,
)
from kinrank.types import Ints, Ranking, Values
from kinrank.validation import check_int, check_size

RankingLike = Ranking | npt.NDArray[Any]

REID_RANKS = (1, 5, 10, 20)
REVISITED_DEPTHS = (1, 5, 10)


def reid(
    ranking: RankingLike,
    query_ids: Any,
    gallery_ids: Any,
    query_cams: Any = None,
    gallery_cams: Any = None,
    *,
    junk: int | str | None = -1,
    ranks: Sequence[int] = REID_RANKS,
) -> ReidEvaluation:
    """Re-identification: mAP, CMC and mINP.

    Gallery images with the identity and the camera of the query are taken out of its list, and so
    are those of the identity ``junk``. An identity that no query has (Market1501's 0) counts as
    wrong. Queries without a match are named and do not count.

    Parameters
    ----------
    ranking : (n_queries, k), whole for exact figures; see ``Evaluation.missing``
    query_ids, gallery_ids : identities, whole numbers or names
    query_cams, gallery_cams : cameras, both or neither
    junk : the identity of images that are neither right nor wrong; None for no such identity
    ranks : the ranks of the CMC curve

    Returns
    -------
    ReidEvaluation
        ``mAP``, ``cmc``, ``mINP`` as fractions, ``ap`` per query, ``no_match``.

    Examples
    --------
    >>> import numpy as np
    >>> result = reid(np.array([[0, 1, 2]]), [7], [5, 7, 7])
    >>> round(result.mAP, 4), result.cmc[1], round(result.mINP, 4)
    (0.5833, 0.0, 0.6667)
    """
    indices = as_indices(ranking)
    queries, gallery = encode("ids", query_ids, gallery_ids, junk=junk)
    cameras = _cameras(query_cams, gallery_cams, len(queries), len(gallery))
    check_ranking(indices, len(queries), len(gallery), "the identities")
    hits = label_hits(indices, queries, gallery, *cameras)
    _require_match(hits.totals, "`query_ids` and `gallery_ids`", bool(len(cameras)))
    values = {"mAP": hits.average_precision()}
    for rank in as_depths("ranks", ranks):
        values[f"R{rank}"] = hits.found_within(rank)
    values["mINP"] = hits.inverse_negative_penalty()
    return ReidEvaluation(values, hits.no_match, hits.missing)


def revisited(
    ranking: RankingLike,
    gnd: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    *,
    n_gallery: int | None = None,
    depths: Sequence[int] = REVISITED_DEPTHS,
) -> RevisitedEvaluation:
    """Revisited Oxford/Paris: mAP and mP@k for Easy, Medium and Hard.

    Easy: easy images are right, hard ones junk. Medium: both are right. Hard: hard images are
    right, easy ones junk. Junk is taken out of the list; AP is the trapezoidal one.

    Parameters
    ----------
    ranking : (n_queries, k), whole for exact figures; see ``Evaluation.missing``
    gnd : one mapping per query with the gallery rows ``easy``, ``hard`` and ``junk``, or the whole
        content of an official file, which has them under ``gnd``
    n_gallery : the size of the gallery; taken from the ranking and ``gnd`` if None
    depths : the k of mP@k

    Returns
    -------
    RevisitedEvaluation
        ``easy``, ``medium``, ``hard``, each with ``mAP``, ``mP`` and ``ap``.

    Examples
    --------
    >>> import numpy as np
    >>> gnd = [{"easy": [2], "hard": [0], "junk": [3]}]
    >>> revisited(np.array([[3, 0, 1, 2]]), gnd).mAP
    {'E': 0.25, 'M': 0.7916666666666666, 'H': 1.0}
    """
    indices = as_indices(ranking)
    entries = as_gnd(gnd)
    size = gallery_size(indices, entries, n_gallery)
    check_ranking(indices, len(entries), size, "the ground truth")
    results = {}
    for letter, right, junk in levels(entries):
        hits = listed_hits(indices, right, junk, size)
        values = {"mAP": hits.trapezoidal_ap()}
        for depth in as_depths("depths", depths):
            values[f"mP@{depth}"] = hits.precision_until_last(depth)
        results[letter] = LevelEvaluation(values, hits.no_match, hits.missing)
    # Metrics outside, levels inside: the columns of the paper's tables.
    names = next(iter(results.values())).per_query
    joined = {f"{n} {letter}": r.per_query[n] for n in names for letter, r in results.items()}
    easy = results["E"]
    medium = results["M"]
    hard = results["H"]
    return RevisitedEvaluation(joined, medium.no_match, medium.missing, easy, medium, hard)


def retrieval(
    ranking: RankingLike,
    query_labels: Any,
    gallery_labels: Any,
    *,
    k: int | Sequence[int] = (1, 10, 100),
    query_rows: Any = None,
) -> RetrievalEvaluation:
    """Plain labels: mAP, and mAP@k, recall@k, precision@k, nDCG@k, hit@k.

    mAP@k divides by the right answers that fit into k, min(k, total); recall@k by all of them;
    hit@k is 1 for a query with any right answer among its first k.

    Parameters
    ----------
    ranking : (n_queries, k), whole for an exact mAP; see ``Evaluation.missing``
    query_labels, gallery_labels : classes, whole numbers or names
    k : one depth or several
    query_rows : (n_queries,) the gallery row that is the query itself, -1 for none; it is taken out

    Returns
    -------
    RetrievalEvaluation
        ``mAP``, ``mAP_at``, ``recall``, ``precision``, ``nDCG``, ``hit``, ``ap`` per query.

    Examples
    --------
    >>> import numpy as np
    >>> result = retrieval(np.array([[0, 1, 2]]), ["cat"], ["dog", "cat", "cat"], k=2)
    >>> result.recall, result.precision
    ({2: 0.5}, {2: 0.5})
    """
    indices = as_indices(ranking)
    queries, gallery = encode("labels", query_labels, gallery_labels)
    depths = as_depths("k", k)
    check_ranking(indices, len(queries), len(gallery), "the labels")
    rows = rows_of_queries(query_rows, len(queries), len(gallery))
    hits = label_hits(indices, queries, gallery, query_rows=rows)
    _require_match(hits.totals, "`query_labels` and `gallery_labels`", False)
    values = {"mAP": hits.average_precision()}
    by_depth = {
        "mAP": hits.average_precision_at,
        "recall": hits.recall_at,
        "precision": hits.precision_at,
        "nDCG": hits.ndcg_at,
        "hit": hits.found_within,
    }
    for name, metric in by_depth.items():
        for depth in depths:
            values[f"{name}@{depth}"] = metric(depth)
    return RetrievalEvaluation(values, hits.no_match, hits.missing)


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
    _require_match(has_match, "`query_ids` and `gallery_ids`", True)
    values = {name: np.where(has_match, sums / repeats, np.nan) for name, sums in values.items()}
    listed = int((indices >= 0).sum(axis=1).min(initial=len(gallery)))
    return ReidEvaluation(values, np.flatnonzero(~has_match), max(0, len(gallery) - listed))


def as_depths(name: str, depths: Any) -> list[int]:
    """How many rows to look at, one number or several."""
    try:
        several = list(depths)
    except TypeError:
        several = [depths]
    return [check_size(name, depth) for depth in several]


def _cameras(queries: Any, gallery: Any, n_queries: int, n_gallery: int) -> tuple[Ints, ...]:
    if queries is None and gallery is None:
        return ()
    if queries is None or gallery is None:
        names = ["query_cams", "gallery_cams"]
        given, absent = names if gallery is None else names[::-1]
        raise InvalidInputError(
            f"`query_cams` and `gallery_cams` go together, got `{given}` without `{absent}`."
        )
    return encode("cams", queries, gallery, sizes=(n_queries, n_gallery))


def _require_match(matched: npt.NDArray[Any], names: str, with_cameras: bool) -> None:
    if not matched.any():
        where = " across cameras" if with_cameras else ""
        raise InvalidInputError(f"No query has a match: {names} share no value{where}.")


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
