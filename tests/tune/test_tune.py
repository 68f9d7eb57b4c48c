"""`kinrank.tune` on small collections of which the answer is known."""

import json

import numpy as np
import pytest

import kinrank
from kinrank.projection import kinds
from kinrank.tune import lists, look, views
from kinrank.tune.rules import SIZES
from row_data import blobs, hidden

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
    assert found.params == {"whiten": None, "k1": 20, "geodesic": True}
    assert set(found.reasons) == set(found.params)
    assert found.gain > 0
    assert found.seconds > 0
    assert found.n_rows == len(ROWS)
    assert found.n_sampled == 50
    assert isinstance(found.make(), kinrank.CAS)
    assert found.make().k1 == found.params["k1"]


def test_the_same_for_a_seed_and_any_number_of_threads(found):
    again = kinrank.tune(QUERIES, GALLERY, budget=1, threads=1, run=kinrank.Run(block_size=101))
    assert without_time(again) == without_time(found)


def test_two_seeds_choose_alike(found):
    assert kinrank.tune(QUERIES, GALLERY, budget=1, seed=1).params == found.params


def test_rerank_with_params_auto():
    expected = kinrank.tune(QUERIES, GALLERY, k2=4).make().rerank(QUERIES, GALLERY, k=10)
    ranking = kinrank.rerank(QUERIES, GALLERY, k=10, params="auto", k2=4)
    np.testing.assert_array_equal(ranking.indices, expected.indices)
    with pytest.raises(kinrank.UnknownNameError, match="`params` must be one of auto"):
        kinrank.rerank(QUERIES, GALLERY, params="best")


def test_given_parameters_stay():
    tuning = kinrank.tune(QUERIES, GALLERY, budget=20, k1=9, omega=0.2, metric="cosine")
    assert set(tuning.reasons) == {"whiten", "geodesic"}
    assert tuning.n_sampled == len(ROWS)
    made = tuning.make()
    assert (made.k1, made.omega, made.metric) == (9, 0.2, "cosine")


def test_auto_of_a_gallery_alone():
    method = kinrank.CAS.auto(GALLERY, budget=1, k2=4)
    assert (method.k1, method.k2, method.geodesic) == (20, 4, True)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_other_methods(name):
    tuning = kinrank.tune(QUERIES, GALLERY, name, budget=1)
    assert tuning.params["whiten"] is None
    assert tuning.make().rerank(QUERIES, GALLERY, k=5).indices.shape == (30, 5)


@pytest.mark.parametrize("name", ["alone", "random", "uniform"])
def test_it_will_not_help_where_there_are_no_groups(name):
    random = np.random.default_rng(0)
    rows = {
        # One image of each thing: features of few factors, and noise.
        "alone": random.normal(size=(300, 10)) @ random.normal(size=(10, 64)),
        "random": random.normal(size=(300, 64)),
        "uniform": random.random(size=(300, 16)),
    }[name]
    rows = rows + 0.3 * random.normal(size=rows.shape)
    with pytest.warns(kinrank.KinrankWarning, match="not expected to help here"):
        tuning = kinrank.tune(rows[:50], rows[50:], budget=1)
    assert tuning.diagnosis.verdict == "will not help"
    assert tuning.gain == 0


def test_pairs_are_not_enough():
    with pytest.warns(kinrank.KinrankWarning, match="unsure"):
        tuning = kinrank.tune(None, blobs(200, 2, noise=0.3))
    assert tuning.diagnosis.verdict == "unsure"
    assert tuning.params["omega"] == 0.9


def test_few_rows_keep_the_defaults():
    with pytest.warns(kinrank.KinrankWarning, match="only 20 rows, too few"):
        tuning = kinrank.tune(QUERIES[:5], GALLERY[:15], k2=4)
    assert tuning.params == {"k2": 4}
    assert tuning.reasons == {}
    assert "too few rows" in str(tuning)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_a_map_is_learnt_once(monkeypatch):
    rows = hidden()
    learnt = kinrank.Projection.fit(rows[40:], kind="views")
    calls = []
    learn = kinds._learn
    monkeypatch.setattr(kinds, "_learn", lambda *args: calls.append(1) or learn(*args))
    tuning = kinrank.tune(rows[:40], rows[40:])
    assert tuning.params["whiten"] == "views"
    assert tuning.make().whiten is tuning.projection
    assert tuning.projection.digest == learnt.digest
    assert "projection" not in tuning.to_dict()
    ranking = kinrank.rerank(rows[:40], rows[40:], k=20, params="auto")
    index = kinrank.CAS().fit(rows[40:], params="auto")
    assert index.projection.digest == learnt.digest
    assert len(calls) == 3
    twin = kinrank.rerank(rows[:40], rows[40:], k=20, **tuning.params)
    np.testing.assert_array_equal(ranking.indices, twin.indices)
    np.testing.assert_array_equal(ranking.distances, twin.distances)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_a_map_that_is_asked_for_is_learnt_once():
    tuning = kinrank.tune(None, hidden(), whiten="pairs")
    assert tuning.params["whiten"] == "pairs"
    assert tuning.make().whiten.kind == "pairs"


def test_large_collections_are_sampled(monkeypatch):
    monkeypatch.setattr(lists, "WHOLE", 500)
    monkeypatch.setattr(look, "SAMPLE", 500)
    monkeypatch.setattr(views, "MOST_ROWS", 500)
    rows = blobs(200, 12, noise=0.4)
    tuning = kinrank.tune(rows[:100], rows[100:], budget=2)
    assert tuning.n_sampled == 100
    assert tuning.params["k1"] == 20
    assert tuning.diagnosis.verdict == "will help"


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
    assert "cas(whiten=None,k1=20,geodesic=True)" in text
    for word in ("re-ranking will help", "singletons", "hubness", "belong together", "Paths"):
        assert word in text


def test_all_of_it_is_json(found):
    plain = found.to_dict()
    assert json.loads(json.dumps(plain))["diagnosis"]["verdict"] == "will help"
    fitted = kinrank.tune(
        QUERIES, GALLERY, budget=1, whiten=kinrank.Projection.fit(GALLERY, kind=0.25)
    )
    assert "Projection" in json.dumps(fitted.to_dict())
