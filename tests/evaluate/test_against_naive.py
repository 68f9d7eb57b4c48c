"""Metrics against slow versions, on rankings that hypothesis makes."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive_metrics as naive
from kinrank import evaluate


@st.composite
def rankings(draw, n_queries, n_gallery):
    """Whole, cut, with none at the end or in the middle."""
    rows = [draw(st.permutations(range(n_gallery))) for _ in range(n_queries)]
    k = draw(st.integers(1, n_gallery))
    ranking = np.array(rows, np.int32)[:, :k]
    if draw(st.booleans()):
        ranking[
            np.array(draw(st.lists(st.booleans(), min_size=k, max_size=k)))
            * np.ones_like(ranking, bool)
        ] = -1
    return ranking


@st.composite
def identities(draw):
    n_queries, n_gallery = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    ids, cams = st.integers(-1, 3), st.integers(0, 2)

    def column(values, size):
        return draw(st.lists(values, min_size=size, max_size=size))

    sides = [(column(ids, n), column(cams, n)) for n in (n_queries, n_gallery)]
    return draw(rankings(n_queries, n_gallery)), sides[0], sides[1]


def compare(values, expected):
    np.testing.assert_allclose(values, expected, atol=1e-12)


@settings(deadline=None)
@given(identities(), st.booleans())
def test_reid(case, with_cameras) -> None:
    ranking, (query_ids, query_cams), (gallery_ids, gallery_cams) = case
    right, removed = [], []
    for label, camera in zip(query_ids, query_cams, strict=True):
        junk = {j for j, other in enumerate(gallery_ids) if other == -1}
        same = {j for j, other in enumerate(gallery_ids) if other == label} - junk
        own = {j for j in same if gallery_cams[j] == camera} if with_cameras else set()
        right.append(same - own)
        removed.append(junk | own)
    assume(any(right))
    cameras = (query_cams, gallery_cams) if with_cameras else ()
    result = evaluate.reid(ranking, query_ids, gallery_ids, *cameras, ranks=(1, 3))
    rows = list(zip(ranking.tolist(), right, removed, strict=True))
    compare(result.ap, [naive.ap(*row) for row in rows])
    compare(result.per_query["mINP"], [naive.inp(*row) for row in rows])
    for k in (1, 3):
        compare(result.per_query[f"R{k}"], [naive.hit(r, y, k, x) for r, y, x in rows])
    assert result.no_match.tolist() == [i for i, y in enumerate(right) if not y]
    assert result.missing == sum(len(y - set(r)) for r, y, _ in rows)


@st.composite
def ground_truths(draw):
    n_queries, n_gallery = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    kinds = st.sampled_from(["easy", "hard", "junk", "wrong"])
    entries = []
    for _ in range(n_queries):
        drawn = draw(st.lists(kinds, min_size=n_gallery, max_size=n_gallery))
        entry = {kind: [j for j, k in enumerate(drawn) if k == kind] for kind in set(drawn)}
        entries.append({kind: entry.get(kind, []) for kind in ("easy", "hard", "junk")})
    return draw(rankings(n_queries, n_gallery)), entries, n_gallery


@settings(deadline=None)
@given(ground_truths())
def test_revisited(case) -> None:
    ranking, gnd, n_gallery = case
    result = evaluate.revisited(ranking, gnd, n_gallery=n_gallery)
    recipes = {
        "easy": (("easy",), ("hard", "junk")),
        "medium": (("easy", "hard"), ("junk",)),
        "hard": (("hard",), ("easy", "junk")),
    }
    for level, (right, junk) in recipes.items():
        found = getattr(result, level)
        rows = [
            (row, {j for n in right for j in e[n]}, {j for n in junk for j in e[n]})
            for row, e in zip(ranking.tolist(), gnd, strict=True)
        ]
        compare(found.ap, [naive.trapezoidal_ap(*row) for row in rows])
        for k in (1, 5, 10):
            expected = [naive.revisited_precision(r, y, k, x) for r, y, x in rows]
            compare(found.per_query[f"mP@{k}"], expected)


@settings(deadline=None)
@given(identities(), st.booleans())
def test_retrieval(case, leave_out) -> None:
    ranking, (queries, _), (gallery, _) = case
    own = [i % len(gallery) if i % 2 else -1 for i in range(len(queries))]
    removed = [{o} if leave_out else set() for o in own]
    right = [
        {j for j, other in enumerate(gallery) if other == label} - out
        for label, out in zip(queries, removed, strict=True)
    ]
    assume(any(right))
    result = evaluate.retrieval(
        ranking, queries, gallery, k=(1, 4), query_rows=own if leave_out else None
    )
    rows = list(zip(ranking.tolist(), right, removed, strict=True))
    compare(result.ap, [naive.ap(*row) for row in rows])
    by_depth = {
        "mAP": naive.ap_at,
        "recall": naive.recall,
        "precision": naive.precision,
        "nDCG": naive.ndcg,
        "hit": naive.hit,
    }
    for name, slow in by_depth.items():
        for k in (1, 4):
            expected = [slow(r, y, k, x) for r, y, x in rows]
            compare(result.per_query[f"{name}@{k}"], expected)


@settings(deadline=None)
@given(identities())
def test_all_values_are_fractions(case) -> None:
    ranking, (queries, _), (gallery, _) = case
    assume(set(queries) & set(gallery))
    for values in evaluate.retrieval(ranking, queries, gallery, k=3).per_query.values():
        counted = values[~np.isnan(values)]
        assert ((counted >= 0) & (counted <= 1 + 1e-12)).all()
