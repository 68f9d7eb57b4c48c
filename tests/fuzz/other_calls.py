"""Calls around a ranking: of other libraries, measuring it, keeping it, making the vectors."""

import numpy as np

import kinrank
from fuzz import values
from fuzz.calls import length, scenario, width_of
from fuzz.outcome import check_finite, require
from kinrank import compat, evaluate, features


@scenario(6)
def compat_calls(draw, outcomes):
    n, n_queries = max(draw.rows_count(), 2), draw.size(1, 6)
    k1, k2 = values.count(draw, n, 0.05), values.count(draw, 6, 0.05)
    share = draw.pick((0.0, 0.3, 1.0, 0.3, 2, -1, None, np.nan))
    method = draw.pick(("kreciprocal", "cas", "kreciprocal", "cas", "other"))
    which = draw.size(0, 2)
    if which == 0:
        whole = np.sqrt(values.distances(draw, n + n_queries, 4))
        parts = (whole[:n_queries, n_queries:], whole[:n_queries, :n_queries],
                 whole[n_queries:, n_queries:])  # fmt: skip
        if draw.chance(0.2):
            at = draw.size(0, 2)
            parts = tuple(values.vectors(draw, *p.shape, 0.3) if i == at else p
                          for i, p in enumerate(parts))  # fmt: skip
        outcomes.attempt(
            "compat.re_ranking", compat.re_ranking, *parts, k1, k2, share, method=method,
            check=lambda found: check_finite(found, np.shape(parts[0])), refuse=draw.refuse,
        )  # fmt: skip
        return
    rows = values.vectors(draw, n, draw.width())
    if which == 1:
        outcomes.attempt(
            "compat.compute_jaccard_distance", compat.compute_jaccard_distance, rows, k1, k2,
            check=lambda found: check_finite(found, (length(rows),) * 2, 0), refuse=draw.refuse,
            use_float16=draw.chance(0.2),
        )  # fmt: skip
        return
    queries = values.vectors(draw, n_queries, width_of(rows))
    local = None if draw.chance(0.7) else np.zeros((n + n_queries,) * 2)
    outcomes.attempt(
        "compat.re_ranking_features", compat.re_ranking_features, queries, rows, k1, k2, share,
        local, draw.chance(0.1), method=method, refuse=draw.refuse,
        check=lambda found: check_finite(found, (length(queries), length(rows))),
    )  # fmt: skip


@scenario(6)
def evaluate_calls(draw, outcomes):
    n, n_queries = draw.size(2, 30), draw.size(1, 6)
    k = draw.size(1, n)
    ranked = np.stack([draw.rng.permutation(n)[:k] for _ in range(n_queries)]).astype(np.int32)
    if draw.chance(0.2):
        ranked[:, draw.size(0, k - 1) :] = draw.pick((-1, 0, n, -2, 2**31 - 1))
    ranking = draw.pick((ranked, ranked, ranked.astype(float), ranked.tolist(), ranked[0], None))
    ours, theirs = values.labels(draw, n_queries), values.labels(draw, n)
    if draw.chance(0.2):
        lists = [{name: draw.rng.integers(-1 if draw.chance(0.1) else 0, n, draw.size(0, 4))
                  for name in ("easy", "hard", "junk")} for _ in range(n_queries)]  # fmt: skip
        gnd = draw.pick((lists, lists, {"gnd": lists}, lists[:-1], None, "a", [{}], [None], {}))
        outcomes.attempt("revisited", evaluate.revisited, ranking, gnd)
        return
    given = {}
    protocol = draw.pick((evaluate.reid, evaluate.retrieval, evaluate.single_shot))
    if protocol is not evaluate.retrieval and draw.chance(0.7):
        given = {
            "query_cams": values.labels(draw, n_queries),
            "gallery_cams": values.labels(draw, n),
        }
    if protocol is evaluate.single_shot:
        given = {"query_cams": None, "gallery_cams": None, **given, "repeats": draw.size(1, 5)}
    outcomes.attempt(protocol.__name__, protocol, ranking, ours, theirs, **given)


@scenario(2)
def interval_calls(draw, outcomes):
    columns = values.vectors(draw, draw.size(1, 20), draw.size(1, 3), 0.3)
    given = {"level": draw.pick((0.95, 0.5, 0, 1, 2, None)), "draws": values.count(draw, 50, 0.05)}
    if isinstance(given["draws"], int) and given["draws"] > 1000:
        given["draws"] = 10
    call = evaluate.confidence_intervals
    if draw.chance(0.3):
        before = values.vectors(draw, draw.size(1, 20), draw.size(1, 3), 0.3)
        outcomes.attempt("paired_difference", evaluate.paired_difference, columns, before, **given)
    else:
        outcomes.attempt("confidence_intervals", call, columns, **given)


@scenario(5)
def feature_calls(draw, outcomes):
    shape = (draw.size(1, 3), draw.size(1, 5), draw.size(1, 6), draw.size(1, 6))
    maps = values.vectors(draw, shape[0] * shape[1], shape[2] * shape[3])
    if type(maps) is np.ndarray and maps.size == np.prod(shape):
        maps = maps.reshape(shape)
    name = draw.pick(("mac", "spoc", "gem", "rmac", "regional", "multiscale", "unit"))
    extra = {"gem": (draw.pick((1, 3.0, 0, np.inf, 1e6, None, "a", 1e-9, 50.0)),)}
    extra["rmac"] = extra["regional"] = (draw.pick((1, 2, 3, 0, -1, 2.5, "a", 12)),)
    args = extra.get(name, ()) if draw.chance(0.7) else ()
    outcomes.attempt(
        f"features.{name}",
        getattr(features, name),
        maps,
        *args,
        check=check_finite,
        refuse=draw.refuse,
    )


@scenario(4)
def whitening_calls(draw, outcomes):
    n, d = draw.size(2, 40), draw.size(1, 8)
    rows = values.vectors(draw, n, d)
    dims = None if draw.chance(0.6) else values.count(draw, d)
    if draw.chance(0.5):
        made = outcomes.attempt(
            "pca_whitening", features.pca_whitening, rows, dims, refuse=draw.refuse
        )
    else:
        pairs = draw.rng.integers(0, n, (draw.size(1, 20), 2)) if draw.chance(0.4) else None
        marks = values.labels(draw, n) if pairs is None or draw.chance(0.1) else None
        made = outcomes.attempt(
            "learned_whitening", features.learned_whitening, rows, labels=marks, pairs=pairs,
            dims=dims, refuse=draw.refuse,
        )  # fmt: skip
    if made is None:
        return
    draw.refuse = None
    other = values.vectors(draw, draw.size(1, 9), d)
    outcomes.attempt("Projection.apply", made.apply, other, check=check_finite, refuse=draw.refuse)
    path = draw.file(draw.pick(("a.npz", "a.safetensors", "a")))
    outcomes.attempt("Projection.save", made.save, path)
    outcomes.attempt("Projection.load", kinrank.Projection.load, path)


@scenario(2)
def ranking_calls(draw, outcomes):
    n, k = draw.size(0, 5), draw.size(0, 8)
    indices = draw.rng.integers(-1, 9, (n, k))
    if draw.chance(0.3):
        indices = values.vectors(draw, n + 1, k + 1, 0.3)
    names = values.ids(draw, k or 1) if draw.chance(0.3) else None
    if draw.chance(0.3):
        names = draw.pick((indices, np.full((n, k), "a"), np.full((n, k), None), [["a"] * k] * n))
    near = np.sort(draw.rng.random((n, k)), axis=1)
    made = outcomes.attempt("Ranking", kinrank.Ranking, indices, near, names)
    if made is None:
        return
    path = draw.file(draw.pick(("a.npz", "a", "a.ranking")))
    outcomes.attempt("Ranking.top", made.top, values.count(draw, k))
    if outcomes.attempt("Ranking.save", made.save, path) is None and not path.exists():
        return
    again = outcomes.attempt("Ranking.load", kinrank.Ranking.load, path)
    require(again is not None, "Ranking.load refused what save wrote")
    require(np.array_equal(again.indices, made.indices), "another ranking from the file")
    require((again.ids is None) == (made.ids is None), "Ranking.load lost ids")
