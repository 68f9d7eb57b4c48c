"""The map that pairs teach: against its dense twin, on data with known answers, on bad input."""

import numpy as np
import pytest

import kinrank
import naive_projection
from kinrank import FileFormatError, InvalidInputError, Projection
from kinrank.io import save_safetensors
from kinrank.parallel import Runner
from kinrank.projection import kinds
from kinrank.projection.arrays import leading_directions
from kinrank.projection.learning import Coordinates, learnt_matrix
from kinrank.projection.pairs import (
    Pairs,
    balanced,
    found_pairs,
    label_numbers,
    labelled_pairs,
    with_labels,
)
from kinrank.projection.sample import learning_rows

RUN = Runner.of(1)


def kinds_of(n_kinds=70, per_kind=12, telling=8, noisy=24, seed=0, noise=0.8):
    """Rows whose kinds differ in a few directions and whose items differ in many others."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_kinds), per_kind)
    signal = random.normal(size=(n_kinds, telling))[labels]
    signal += 0.15 * random.normal(size=signal.shape)
    rows = np.hstack(
        [signal, noise * random.normal(size=(len(labels), noisy)) * np.linspace(1.0, 0.1, noisy)]
    )
    order = random.permutation(len(rows))
    return rows[order] @ _turn(telling + noisy), labels[order]


def _turn(d):
    return np.linalg.qr(np.random.default_rng(9).normal(size=(d, d)))[0]


def precision(rows, labels):
    """Mean average precision of plain search, each row without itself."""
    similarity = rows @ rows.T
    np.fill_diagonal(similarity, -np.inf)
    order = np.argsort(-similarity, axis=1)[:, :-1]
    hits = labels[order] == labels[:, None]
    found = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return float(((found * hits).sum(axis=1) / hits.sum(axis=1)).mean())


def test_it_is_the_dense_twin():
    rows, labels = kinds_of(n_kinds=12, per_kind=5, telling=4, noisy=6)
    pairs = labelled_pairs(labels)
    weights = np.random.default_rng(1).random(len(pairs)) + 0.1
    pairs = Pairs(pairs.first, pairs.second, weights)
    mean, expected = naive_projection.learnt(
        rows, zip(pairs.first, pairs.second, pairs.weight, strict=True)
    )
    unit = naive_projection.unit(rows)
    np.testing.assert_allclose(unit.mean(axis=0), mean)
    matrix = learnt_matrix(
        Coordinates.of(naive_projection.unit(unit - mean).astype(np.float32)), pairs, RUN
    )
    # The same map but for the signs and order of directions: products are the same.
    np.testing.assert_allclose(matrix.T @ matrix, expected.T @ expected, rtol=1e-4, atol=1e-4)


def test_partners_are_those_of_cas():
    rows, labels = kinds_of(noise=0.3)
    unit = naive_projection.unit(rows - rows.mean(axis=0)).astype(np.float32)
    pairs = found_pairs(unit, RUN)
    assert (pairs.first < pairs.second).all()
    assert len(np.unique(np.stack([pairs.first, pairs.second]), axis=1).T) == len(pairs)
    method = kinrank.CAS(k1=10, k2=3, enhance_k=6, omega=0.0, geodesic=False)
    ranking = method.rerank(unit, k=len(unit) - 1)
    distance = np.ones((len(unit), len(unit)), np.float32)
    np.put_along_axis(distance, ranking.indices, ranking.distances, axis=1)
    expected = (1 - distance[pairs.first, pairs.second].astype(np.float64)) ** 2
    np.testing.assert_allclose(pairs.weight, expected, atol=2e-5)
    certain = pairs.weight > 0.5
    assert np.mean(labels[pairs.first[certain]] == labels[pairs.second[certain]]) > 0.95


def test_plain_search_finds_more():
    rows, labels = kinds_of()
    learnt = Projection.fit(rows)
    assert learnt.kind == "pairs"
    assert learnt.rows == len(rows)
    assert "pairs that CAS found among 840" in learnt.reason
    before = precision(naive_projection.unit(rows), labels)
    assert precision(learnt.transform(rows), labels) > before + 0.1
    views = Projection.fit(rows, kind="views")
    assert views.blocks[0] == rows.shape[1]
    assert views.blocks[1:] == learnt.blocks
    half = Projection.fit(rows, kind=0.25)
    side_by_side = np.hstack([half.transform(rows), learnt.transform(rows)]) * np.sqrt(0.5)
    products = views.transform(rows) @ views.transform(rows).T
    np.testing.assert_allclose(products, side_by_side @ side_by_side.T, atol=0.05)


def test_labels_take_the_place_of_pairs():
    rows, labels = kinds_of(noise=2.0)
    before = precision(naive_projection.unit(rows), labels)
    text = np.array([f"kind {label}" for label in labels])
    learnt = Projection.fit(rows, text)
    assert learnt.matrix.tobytes() == Projection.fit(rows, labels).matrix.tobytes()
    assert precision(learnt.transform(rows), labels) > before + 0.2
    assert "their labels" in learnt.reason
    some = labels.copy()
    some[::2] = -1
    joined = Projection.fit(rows, some)
    assert joined.digest != learnt.digest
    assert precision(joined.transform(rows), labels) > before + 0.1


def test_labels_and_pairs_join():
    found = Pairs(np.array([0, 0, 1]), np.array([1, 3, 2]), np.array([0.5, 0.6, 0.7]))
    labels = label_numbers(["a", "a", "b", None], 4)
    assert labels.tolist()[3] == -1
    joined = with_labels(found, labels)
    assert set(zip(joined.first.tolist(), joined.second.tolist(), strict=True)) == {(0, 1), (0, 3)}
    many = labelled_pairs(np.zeros(40, np.int64))
    counts = np.bincount(np.concatenate([many.first, many.second]))
    assert counts.min() == counts.max() == 32
    for bad, message in (
        ([1, 2], "one label for each of the 4 vectors"),
        ([0.5, 1, 2, 3], "all text or all whole numbers"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            label_numbers(bad, 4)
    with pytest.raises(InvalidInputError, match="learns nothing from labels"):
        Projection.fit(np.eye(9), np.arange(9), kind=0.25)


def test_large_groups_do_not_outvote_small_ones():
    labels = np.concatenate([np.zeros(60, np.int64), np.arange(1, 31).repeat(2)])
    pairs = balanced(labelled_pairs(labels), len(labels))
    large = labels[pairs.first] == 0
    assert pairs.weight[large].sum() == pytest.approx(30)  # half a pair a row, as for all others
    assert pairs.weight[~large].sum() == pytest.approx(30)


@pytest.mark.parametrize("kind", ["pairs", "views"])
def test_the_same_bits_on_any_threads(kind):
    rows, _ = kinds_of()
    one = Projection.fit(rows, kind=kind, threads=1)
    several = Projection.fit(rows.astype(np.float64), kind=kind, threads=3)
    assert one.digest == several.digest
    whole = one.transform(rows)
    assert whole.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)
    for size in (1, 7, 100):
        parts = [one.transform(rows[at : at + size]) for at in range(0, len(rows), size)]
        assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_of_many_rows_those_around_some_are_learnt_from(monkeypatch):
    rows, labels = kinds_of(n_kinds=200, per_kind=10)
    monkeypatch.setattr("kinrank.projection.sample.MOST", 1000)
    monkeypatch.setattr("kinrank.projection.sample.DRAWN", 150)
    monkeypatch.setattr("kinrank.projection.sample.AROUND", 10)
    matrices = [("gallery", rows[:1700]), ("context", rows[1700:])]
    sample = learning_rows(matrices, RUN)
    chosen = sample.rows
    assert len(sample.drawn) == 150
    assert 800 < len(chosen) <= 1500
    assert (np.diff(chosen) > 0).all()
    before = precision(naive_projection.unit(rows), labels)
    learnt = Projection.fit(rows)
    assert f"{len(chosen):,} rows" in learnt.reason
    assert precision(learnt.transform(rows), labels) > before + 0.03


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (np.random.default_rng(0).normal(size=(900, 1)), "one column"),
        (np.ones((900, 4)), "All rows are equal"),
        (np.repeat(np.eye(4), 225, axis=0), "Only 4 rows differ"),
        (np.eye(4), "too few to learn from"),
        (np.random.default_rng(0).normal(size=(900, 32)), "no kinds to learn from"),
        (kinds_of(n_kinds=500, per_kind=2, noise=0.3)[0], "come in twos"),
    ],
)
def test_the_identity_with_a_reason(rows, reason):
    for kind in ("pairs", "views"):
        learnt = Projection.fit(rows, kind=kind)
        assert learnt.kind == "identity"
        assert reason in learnt.reason
        unit = naive_projection.unit(rows)
        np.testing.assert_allclose(learnt.transform(rows), unit, atol=1e-6)
        if rows.shape[1] > 1:
            kinrank.CAS(k1=3, k2=2, whiten=kind).rerank(rows, k=3)


def test_copies_are_no_partners():
    rows, _ = kinds_of()
    assert Projection.fit(np.repeat(rows, 2, axis=0)).kind == "pairs"


def test_the_leading_directions_of_wide_rows():
    """They hold nearly as much of the variance as the best, and are turned as they should be."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(600, 300)) * np.linspace(1, 0.05, 300) ** 2
    rows = rows.astype(np.float32)
    variances, directions = leading_directions(rows, 40)
    every = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1]
    assert variances.sum() == pytest.approx(every[:40].sum(), rel=0.02)
    inside = directions @ np.cov(rows.T, bias=True) @ directions.T
    np.testing.assert_allclose(inside, np.diag(variances), atol=1e-5)
    np.testing.assert_allclose(directions @ directions.T, np.eye(40), atol=1e-5)


def test_labels_that_make_no_pairs():
    rows = np.random.default_rng(0).normal(size=(900, 16))
    assert "0 pairs were found" in Projection.fit(rows, np.arange(900)).reason
    without = Projection.fit(rows, np.full(900, -1))
    assert without.words == Projection.fit(rows).words


def test_maps_that_do_not_fit(tmp_path):
    rows = np.eye(9)
    narrow = Projection(np.zeros(5), np.eye(5))
    with pytest.raises(InvalidInputError, match="of 9 columns, as `vectors` has, got one of 5"):
        kinrank.rerank(rows, whiten=narrow, k=3)
    with pytest.raises(InvalidInputError, match="must have 5 columns"):
        narrow.transform(rows)
    with pytest.raises(InvalidInputError, match="`matrix` must be finite, got NaN"):
        Projection(np.zeros(9), np.full((2, 9), np.nan))
    arrays = {"mean": np.zeros(9, np.float32), "matrix": np.full((2, 9), np.inf, np.float32)}
    save_safetensors(tmp_path / "map", arrays, {})
    with pytest.raises(FileFormatError, match="must be a projection"):
        Projection.load(tmp_path / "map")


def test_fewer_rows_than_columns():
    rows, _ = kinds_of(n_kinds=100, per_kind=8, noisy=900)
    learnt = Projection.fit(rows)
    assert learnt.width == rows.shape[1]
    assert np.isfinite(learnt.transform(rows)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "triples"}, "`kind` must be 'pairs', 'views' or a power"),
        ({"vectors": np.ones(3)}, "`vectors` must"),
        ({"vectors": np.full((20, 3), np.nan)}, "`vectors` must"),
        ({"threads": 0}, "`threads` must"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        Projection.fit(**({"vectors": np.eye(20)} | arguments))


def test_kinds_of_methods():
    rows, _ = kinds_of()
    learnt = Projection.fit(rows)
    for name in ("cas", "kreciprocal", "ecn", "aqe"):
        ranking = kinrank.rerank(rows[:20], rows, name, k=10, whiten="pairs")
        twin = kinrank.rerank(rows[:20], rows, name, k=10, whiten=learnt)
        assert ranking.distances.tobytes() == twin.distances.tobytes()
    assert kinds.check_whiten("whiten", "views") == "views"
