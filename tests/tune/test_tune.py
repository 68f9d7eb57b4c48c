"""`kinrank.tune` on small collections of which the answer is known."""

import warnings

import numpy as np
import pytest

import kinrank
from kinrank.parallel import Runner
from kinrank.tune import split as sampling
from kinrank.tune.param_grid import PARAM_GRIDS
from kinrank.tune.split import list_length, split, view

DIMENSION = 24


def blobs(n_groups=25, size=12, noise=0.6, seed=0):
    """Groups that overlap a little, shuffled."""
    random = np.random.default_rng(seed)
    centres = np.repeat(random.normal(size=(n_groups, DIMENSION)), size, axis=0)
    rows = centres + noise * random.normal(size=centres.shape)
    return random.permutation(rows).astype(np.float32)


ROWS = blobs()
QUERIES, GALLERY = ROWS[:30], ROWS[30:]


@pytest.fixture(scope="module")
def found():
    return kinrank.tune(QUERIES, GALLERY, budget=1)


def without_time(tuning):
    return {key: value for key, value in tuning.to_dict().items() if key != "seconds"}


def test_what_is_found(found):
    assert found.method == "cas"
    assert found.diagnosis.verdict == "will help"
    assert 6 <= found.params["k1"] <= 30  # groups of 12
    assert found.gain > 0
    assert found.seconds > 0
    assert found.n_rows == found.n_sampled == len(ROWS)
    assert found.n_pairs == 2
    assert isinstance(found.make(), kinrank.CAS)
    assert found.make().k1 == found.params["k1"]


def test_all_parameters_have_curves_with_their_errors(found):
    curves = {curve.parameter: curve for curve in found.curves}
    assert list(curves) == ["k1", "geodesic", "omega", "k2", "variant"]
    for curve in found.curves:
        assert len(curve.values) == len(curve.agreement) == len(curve.error)
        assert all(0 <= value <= 1 for value in curve.agreement)
        assert curve.error[int(np.argmax(curve.agreement))] == 0
        assert found.params[curve.parameter] == curve.chosen


def test_the_same_for_a_seed_and_any_number_of_threads(found):
    again = kinrank.tune(QUERIES, GALLERY, budget=1, threads=1, block_size=101)
    assert without_time(again) == without_time(found)


def test_two_seeds_choose_alike(found):
    other = kinrank.tune(QUERIES, GALLERY, budget=1, seed=1)
    sizes = sorted([found.params["k1"], other.params["k1"]])
    assert sizes[1] <= 1.5 * sizes[0]


def test_trials_that_leave_out_light_walks_choose_the_same(found):
    assert "tol" not in found.params
    exact = kinrank.tune(QUERIES, GALLERY, budget=1, tol=kinrank.CAS.tol)
    assert exact.params == {**found.params, "tol": kinrank.CAS.tol}
    for quick, slow in zip(found.curves, exact.curves, strict=True):
        np.testing.assert_allclose(quick.agreement, slow.agreement, atol=0.005)


def test_rerank_with_params_auto():
    expected = kinrank.tune(QUERIES, GALLERY, k2=4).make().rerank(QUERIES, GALLERY, k=10)
    ranking = kinrank.rerank(QUERIES, GALLERY, k=10, params="auto", k2=4)
    np.testing.assert_array_equal(ranking.indices, expected.indices)
    with pytest.raises(kinrank.UnknownNameError, match="`params` must be one of auto"):
        kinrank.rerank(QUERIES, GALLERY, params="best")


def test_given_parameters_stay():
    tuning = kinrank.tune(QUERIES, GALLERY, budget=20, k1=9, omega=0.2, metric="cosine")
    assert {curve.parameter for curve in tuning.curves} == {"k2", "geodesic", "variant"}
    assert tuning.n_pairs == 4
    made = tuning.make()
    assert (made.k1, made.omega, made.metric) == (9, 0.2, "cosine")


def test_auto_of_a_gallery_alone():
    method = kinrank.CAS.auto(GALLERY, budget=1, k2=4)
    assert method.k2 == 4
    assert 6 <= method.k1 <= 30


@pytest.mark.parametrize("name", sorted(set(PARAM_GRIDS) - {"cas"}))
def test_other_methods(name):
    tuning = kinrank.tune(QUERIES, GALLERY, name, budget=1)
    grid = PARAM_GRIDS[name]
    assert tuning.curves[0].parameter == grid.size
    assert grid.values[0] <= tuning.params[grid.size] <= grid.values[-1]
    assert {curve.parameter for curve in tuning.curves[1:]} <= set(grid.rest)
    assert tuning.make().rerank(QUERIES, GALLERY, k=5).indices.shape == (30, 5)


@pytest.mark.parametrize("name", ["alone", "random", "uniform", "line"])
def test_it_will_not_help_where_there_are_no_groups(name):
    random = np.random.default_rng(0)
    rows = {
        # One image of each thing: features of few factors, and noise.
        "alone": random.normal(size=(300, 10)) @ random.normal(size=(10, 64)),
        "random": random.normal(size=(300, 64)),
        "uniform": random.random(size=(300, 16)),
        "line": np.sort(random.random(size=(300, 1)), axis=0) @ np.ones((1, 8)),
    }[name]
    rows = rows + 0.3 * random.normal(size=rows.shape)
    with pytest.warns(kinrank.KinrankWarning, match="not expected to help here"):
        tuning = kinrank.tune(rows[:50], rows[50:], budget=1)
    assert tuning.diagnosis.verdict == "will not help"
    assert tuning.diagnosis.singletons > 0.9
    assert tuning.gain == 0


def test_pairs_are_not_enough():
    with pytest.warns(kinrank.KinrankWarning, match="only one"):
        tuning = kinrank.tune(None, blobs(200, 2, noise=0.3), budget=1)
    assert not tuning.diagnosis.helps


def test_few_rows_keep_the_defaults():
    with pytest.warns(kinrank.KinrankWarning, match="only 20 rows, too few"):
        tuning = kinrank.tune(QUERIES[:5], GALLERY[:15], k2=4)
    assert tuning.params == {"k2": 4}
    assert tuning.curves == ()
    assert "too few rows" in str(tuning)


def test_a_small_collection_is_tried_with_small_sizes_only():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)  # of the verdict
        tuning = kinrank.tune(None, blobs(8, 9), budget=1)
    assert max(tuning.curves[0].values) <= 36


def test_large_collections_are_sampled(monkeypatch):
    monkeypatch.setattr(sampling, "MAX_ROWS", 400)
    monkeypatch.setattr(sampling, "REGION_SIZE", 30)
    rows = blobs(200, 12)
    tuning = kinrank.tune(rows[:100], rows[100:], budget=1)
    assert tuning.n_sampled < 800 < tuning.n_rows
    assert 6 <= tuning.params["k1"] <= 30
    assert tuning.diagnosis.helps


def test_regions_hold_the_nearest_of_the_rows_that_are_asked_for(monkeypatch):
    monkeypatch.setattr(sampling, "MAX_ROWS", 100)
    monkeypatch.setattr(sampling, "REGION_SIZE", 25)
    d2 = ((ROWS[:, None] - ROWS[None]) ** 2).sum(axis=2)
    looks = list(sampling.draw(ROWS, 30, 3, np.random.default_rng(0), Runner(1)))
    assert len(looks) == 3
    for found in looks:
        assert len(set(found.rows.tolist())) == len(found.rows)
        assert 0 < found.n_asked <= sampling.REGIONS * sampling.CORE
        assert (found.rows < 30).any()
        kept = set(found.rows.tolist())
        for row in found.rows[: found.n_asked]:
            nearest = np.argsort(d2[row])[:5]
            assert len(kept & set(nearest.tolist())) >= 3


def test_a_small_sample_is_the_whole_collection():
    (found,) = sampling.draw(ROWS, 30, 1, np.random.default_rng(0), Runner(1))
    assert sorted(found.rows.tolist()) == list(range(len(ROWS)))
    assert (found.rows[: found.n_asked] < 30).sum() == 30


def test_halves_hold_all_that_the_features_say():
    pair = split(ROWS, 10, 20, np.random.default_rng(0), Runner(1), unit=False)
    halves = [half.rows.vectors for half in (pair.one, pair.other)]
    assert [half.shape[1] for half in halves] == [12, 12]
    products = sum(half @ half.T for half in halves)
    np.testing.assert_allclose(products, ROWS @ ROWS.T, atol=1e-3)


@pytest.mark.parametrize("name", sorted(PARAM_GRIDS))
def test_a_view_ranks_as_the_method_does(name):
    method = kinrank.registry.make_method(name)
    rows = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    expected = method.rerank(rows[:30], rows[30:], k=10).indices
    seen = view(rows, 30, max(list_length(method), 100), Runner(1))
    np.testing.assert_array_equal(seen.first(method, 10, Runner(1)), expected)


def test_stages_that_do_not_change_are_kept():
    seen = view(ROWS, 30, 100, Runner(1))
    method = kinrank.CAS(k1=10)
    seen.first(method, 10, Runner(1))
    kept = next(iter(seen.compared.values()))
    for changes in ({"omega": 0.1}, {"geodesic": True}, {"geodesic": True, "omega": 0.6}):
        other = method.replace(**changes)
        expected = other.rerank(ROWS[:30], ROWS[30:], k=10).indices
        np.testing.assert_array_equal(seen.first(other, 10, Runner(1)), expected)
        assert list(seen.compared.values()) == [kept]
    expected = kinrank.CAS(k1=12).rerank(ROWS[:30], ROWS[30:], k=10).indices
    np.testing.assert_array_equal(seen.first(kinrank.CAS(k1=12), 10, Runner(1)), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "dqe"}, r"one that can be tuned \(alphaqe, cas.*, got 'dqe'"),
        ({"budget": 0}, "`budget` must be a number in"),
        ({"seed": -1}, "`seed` must be an integer of at least 0"),
        ({"gallery": GALLERY[:, :1], "queries": None}, "at least 2 columns"),
        ({"k3": 4}, "parameter of cas"),
    ],
)
def test_what_is_refused(change, message):
    arguments = {"queries": QUERIES, "gallery": GALLERY, **change}
    with pytest.raises(kinrank.KinrankError, match=message):
        kinrank.tune(**arguments)


def test_vectors_of_other_kinds_choose_the_same(found):
    tuning = kinrank.tune(QUERIES.astype(np.float64), GALLERY.astype(np.float64), budget=1)
    assert tuning.params == found.params


def test_text_names_what_was_chosen(found):
    text = str(found)
    assert f"cas(k1={found.params['k1']}," in text
    for word in ("re-ranking will help", "singletons", "hubness", "dimension", "agreement"):
        assert word in text
    assert max(map(len, text.splitlines())) < 200
