"""Relevance judgements (qrels): what is right for each query by name, in grades.

Figures are those of trec_eval: a document without a judgement is not relevant, relevant documents
that the gallery does not have count as never found, and the gain of a document is its grade.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, shown
from kinrank.io import PathLike
from kinrank.metrics.hits import NOTHING, Hits, as_indices, check_ranking, listed_hits
from kinrank.metrics.protocols import as_depths
from kinrank.metrics.results import RetrievalEvaluation
from kinrank.trec import Qrels, read_qrels
from kinrank.types import Ints, Longs, Ranking, Values
from kinrank.validation import as_list, check_int

DEPTHS = (10, 100)


def judged(
    ranking: Ranking | npt.NDArray[Any],
    qrels: Qrels | PathLike,
    queries: Any = None,
    gallery: Any = None,
    *,
    k: int | Sequence[int] = DEPTHS,
    least: int = 1,
) -> RetrievalEvaluation:
    """Text search: MAP, MRR, and nDCG, recall, precision and hit at k, by relevance judgements.

    Queries without a relevant document are named and do not count.

    Parameters
    ----------
    ranking : (n_queries, k), whole for an exact MAP; see ``Evaluation.missing``
    qrels : query -> document -> grade, or a file that ``read_qrels`` reads; a document without a
        grade is not relevant
    queries : (n_queries,) names of the queries; None for their numbers from 0
    gallery : (n_gallery,) names of the documents; None for the ids of the ranking, or row numbers
    k : one depth or several
    least : the grade from which on a document is relevant; nDCG counts each by its grade

    Returns
    -------
    RetrievalEvaluation
        ``mAP``, ``nDCG``, ``recall``, ``precision``, ``hit`` by k, ``ap`` per query, and "MRR", the
        mean of one over the rank of the first relevant document.

    Examples
    --------
    >>> import numpy as np
    >>> qrels = {"what is it?": {"a": 2, "c": 1}}
    >>> result = judged(np.array([[1, 2, 0]]), qrels, ["what is it?"], ["a", "b", "c"], k=2)
    >>> round(result.mAP, 4), round(result.nDCG[2], 4)
    (0.5833, 0.2398)
    """
    qrels = _as_qrels(qrels)
    check_int("least", least, 1)
    depths = as_depths("k", k)
    indices, documents = _rows_and_names(ranking, gallery)
    if not len(indices):
        raise InvalidInputError("`ranking` must have at least one query, got none.")
    names = _query_names(queries, len(indices))
    check_ranking(indices, len(names), max(len(documents), 1), "`queries`")
    graded = [_at_least(1, qrels.get(name, {})) for name in names]
    if not any(graded):
        raise InvalidInputError(
            "No query of the ranking has a relevant document: its queries are such as "
            f"{shown(names[0])}, and `qrels` are of queries such as {shown(next(iter(qrels)))}."
        )
    row_of = _numbers(documents, graded)
    hits_of_any_grade = _hits(indices, graded, row_of, len(documents))
    hits = hits_of_any_grade
    if least > 1:
        relevant = [_at_least(least, grades) for grades in graded]
        hits = _hits(indices, relevant, row_of, len(documents))
    gains = _gains(indices, hits_of_any_grade, graded, documents)
    values = {"mAP": hits.average_precision(), "MRR": _reciprocal_rank(hits)}
    for depth in depths:
        values[f"nDCG@{depth}"] = _graded_ndcg(hits_of_any_grade, gains, graded, depth)
    by_depth = {"recall": hits.recall_at, "precision": hits.precision_at, "hit": hits.found_within}
    for name, metric in by_depth.items():
        for depth in depths:
            values[f"{name}@{depth}"] = metric(depth)
    return RetrievalEvaluation(values, hits.no_match, hits.missing)


def _as_qrels(qrels: Any) -> Qrels:
    """Judgements with names of text, read if they are a file."""
    if not isinstance(qrels, Mapping):
        return read_qrels(qrels)
    for query, graded in qrels.items():
        if not isinstance(graded, Mapping):
            raise InvalidInputError(
                "`qrels` must be a dict of queries to dicts of documents to grades, got "
                f"{shown(graded)} for {shown(query)}."
            )
        for document, grade in graded.items():
            check_int(f"qrels[{query!r}][{document!r}]", grade, -(1 << 31), 1 << 31)
    if not qrels:
        raise InvalidInputError("`qrels` must have at least one query, got none.")
    return {
        str(query): {str(document): int(grade) for document, grade in graded.items()}
        for query, graded in qrels.items()
    }


def _query_names(queries: Any, n: int) -> list[str]:
    """The names of the queries of a ranking as text."""
    if queries is None:
        return [str(number) for number in range(n)]
    what = "one name for each query of the ranking"
    names = [str(name) for name in as_list("queries", queries, what)]
    if len(names) != n:
        raise InvalidInputError(f"`queries` must be {what} ({n}), got {len(names)}.")
    return names


def _rows_and_names(ranking: Any, gallery: Any) -> tuple[Ints, list[str]]:
    """A ranking by row numbers, and the name of each row."""
    indices = as_indices(ranking)
    if gallery is not None:
        return indices, [str(name) for name in as_list("gallery", gallery, "names of documents")]
    if not isinstance(ranking, Ranking) or ranking.ids is None:
        return indices, [str(row) for row in range(int(indices.max(initial=-1)) + 1)]
    listed = indices >= 0
    known, numbers = np.unique(ranking.ids[listed], return_inverse=True)
    named = np.full(indices.shape, -1, np.int32)
    named[listed] = numbers
    return named, [str(name) for name in known.tolist()]


def _at_least(least: int, graded: Mapping[str, int]) -> dict[str, int]:
    """The documents of a grade or a better one."""
    return {document: grade for document, grade in graded.items() if grade >= least}


def _numbers(documents: list[str], graded: list[dict[str, int]]) -> dict[str, int]:
    """The row of each document; a relevant one has to have one name of its own."""
    row_of = {document: row for row, document in enumerate(documents)}
    if len(row_of) < len(documents):
        relevant = set().union(*graded)
        for row, document in enumerate(documents):
            if row_of[document] != row and document in relevant:
                raise InvalidInputError(
                    f"`gallery` must name each document once, got {shown(document)} in rows {row} "
                    f"and {row_of[document]}."
                )
    return row_of


def _hits(
    indices: Ints, graded: list[dict[str, int]], row_of: dict[str, int], n_gallery: int
) -> Hits:
    """The positions of the relevant documents, those that the gallery lacks among the totals."""
    right = [
        np.array([row_of[document] for document in grades if document in row_of], np.int32)
        for grades in graded
    ]
    hits = listed_hits(indices, right, [NOTHING] * len(right), max(n_gallery, 1))
    totals: Longs = np.array([len(grades) for grades in graded], np.int64)
    return replace(hits, totals=totals)


def _gains(indices: Ints, hits: Hits, graded: list[dict[str, int]], documents: list[str]) -> Values:
    """The grade of the document at each position of ``hits``."""
    gains = []
    for query, grades in enumerate(graded):
        listed = indices[query][indices[query] >= 0]
        places = hits.positions[hits.indptr[query] : hits.indptr[query + 1]]
        gains += [grades[documents[row]] for row in listed[places]]
    return np.array(gains, np.float64)


def _graded_ndcg(hits: Hits, gains: Values, graded: list[dict[str, int]], k: int) -> Values:
    """Discounted gain of the first ``k`` over the most that there can be."""
    discounted = np.where(hits.positions < k, gains / np.log2(hits.positions + 2.0), 0.0)
    sums = np.bincount(hits.rows, discounted, len(hits))
    result = np.full(len(hits), np.nan)
    for query, grades in enumerate(graded):
        ideal = np.sort(np.fromiter(grades.values(), np.float64))[::-1][:k]
        if len(ideal):
            most = float((ideal / np.log2(np.arange(len(ideal)) + 2.0)).sum())
            result[query] = sums[query] / most
    return result


def _reciprocal_rank(hits: Hits) -> Values:
    """One over the rank of the first relevant document, 0 where none is listed."""
    ranks = np.full(len(hits), np.inf)
    found = hits.found > 0
    ranks[found] = hits.positions[hits.indptr[:-1][found]] + 1.0
    return np.where(hits.totals > 0, 1 / ranks, np.nan)
