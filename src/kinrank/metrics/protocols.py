"""The field's ways of measuring a ranking.

    kinrank.evaluate.reid(ranking, query_ids, gallery_ids, query_cams, gallery_cams)
    kinrank.evaluate.revisited(ranking, gnd)
    kinrank.evaluate.retrieval(ranking, query_labels, gallery_labels)

Each takes a ``Ranking`` or an integer array of gallery rows, nearest first, -1 for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.metrics import per_query
from kinrank.metrics.ground_truth import as_gnd, encode, levels, rows_of_queries
from kinrank.metrics.hits import Hits, as_indices, check_ranking, label_hits, listed_hits
from kinrank.metrics.results import (
    LevelEvaluation,
    ReidEvaluation,
    RetrievalEvaluation,
    RevisitedEvaluation,
)
from kinrank.types import Ints, Ranking
from kinrank.validation import check_size

RankingLike = Ranking | npt.NDArray[Any]

REID_RANKS = (1, 5, 10, 20)
REVISITED_DEPTHS = (1, 5, 10)
_MOST_ROWS = 1 << 26  # of a gallery: each thread has a mark for each


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
    _require_match(hits, "`query_ids` and `gallery_ids`", bool(len(cameras)))
    values = {"mAP": per_query.average_precision(hits)}
    for rank in as_depths("ranks", ranks):
        values[f"R{rank}"] = per_query.found_within(hits, rank)
    values["mINP"] = per_query.inverse_negative_penalty(hits)
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
    size = _gallery_size(indices, entries, n_gallery)
    check_ranking(indices, len(entries), size, "the ground truth")
    results = {}
    for letter, right, junk in levels(entries):
        hits = listed_hits(indices, right, junk, size)
        values = {"mAP": per_query.trapezoidal_ap(hits)}
        for depth in as_depths("depths", depths):
            values[f"mP@{depth}"] = per_query.precision_until_last(hits, depth)
        results[letter] = LevelEvaluation(values, hits.no_match, hits.missing)
    # Metrics outside, levels inside: the columns of the paper's tables.
    names = next(iter(results.values())).per_query
    joined = {f"{n} {letter}": r.per_query[n] for n in names for letter, r in results.items()}
    easy, medium, hard = results["E"], results["M"], results["H"]
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
    _require_match(hits, "`query_labels` and `gallery_labels`", False)
    values = {"mAP": per_query.average_precision(hits)}
    by_depth = {
        "mAP": per_query.average_precision_at,
        "recall": per_query.recall_at,
        "precision": per_query.precision_at,
        "nDCG": per_query.ndcg_at,
        "hit": per_query.found_within,
    }
    for name, metric in by_depth.items():
        for depth in depths:
            values[f"{name}@{depth}"] = metric(hits, depth)
    return RetrievalEvaluation(values, hits.no_match, hits.missing)


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


def _gallery_size(indices: Ints, entries: list[dict[str, Ints]], given: int | None) -> int:
    named = max((int(rows.max(initial=-1)) for e in entries for rows in e.values()), default=-1)
    listed = int(indices.max(initial=-1)) + 1
    if given is not None:
        size = check_size("n_gallery", given)
    elif indices.size and listed == indices.shape[1] and indices.min() >= 0:
        size = listed  # A whole ranking: it tells how large its gallery is.
    else:
        size = max(named + 1, listed, 1)
    if size > _MOST_ROWS:
        raise InvalidInputError(
            f"`ranking`, `gnd` and `n_gallery` must be of at most {_MOST_ROWS:,} gallery rows, "
            f"got {size:,}."
        )
    if named >= size:
        raise InvalidInputError(
            f"`gnd` must name gallery rows from 0 to {size - 1}, got {named}: "
            "the ranking is over another gallery."
        )
    return size


def _require_match(hits: Hits, names: str, with_cameras: bool) -> None:
    if not (hits.totals > 0).any():
        where = " across cameras" if with_cameras else ""
        raise InvalidInputError(f"No query has a match: {names} share no value{where}.")
