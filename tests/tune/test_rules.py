"""Rules: the fact that decides, what it decides, and the reason that is given."""

from dataclasses import asdict

import numpy as np
import pytest

import kinrank
from kinrank.parallel import Runner
from kinrank.tune import agreement, lists, rules
from kinrank.tune.agreement import UnderMap, look_under_map
from kinrank.tune.lists import Lists
from kinrank.tune.look import Look
from kinrank.tune.rules import (
    SIZES,
    choose,
    choose_map,
    choose_paths,
    choose_share,
    choose_size,
    fits,
    two_of_a_kind,
)
from kinrank.tune.views import Evidence
from row_data import hidden, unit

RUN = Runner(1)


def seen(**changes):
    known = {
        "rows": 2000,
        "columns": 24,
        "common": 0.5,
        "hubness": 0.5,
        "together": {1: 0.5, 3: 0.5, 10: 0.4, 40: 0.2},
        "mutual": {1: 0.5, 3: 0.5, 10: 0.4, 40: 0.4},
        "near_dimension": 7.0,
        "wide_dimension": 9.0,
    }
    return Look(**(known | changes))


def said(agreed=0.05):
    return Evidence(
        better=0.5, gained=0.1, before=0.3, agreed=agreed, agreed_error=0.01, sizes=np.ones(4)
    )


def clear(n_groups=80, size=12, seed=0):
    """Groups that need no map."""
    random = np.random.default_rng(seed)
    centres = np.repeat(random.normal(size=(n_groups, 24)), size, axis=0)
    return unit(centres + 0.5 * random.normal(size=centres.shape)).astype(np.float32)


SURFACES = {"near_dimension": 10.0, "wide_dimension": 6.0}
SPREAD = {"near_dimension": 15.0, "wide_dimension": 21.0}
COUPLES = {"mutual": {1: 0.9, 3: 0.3, 10: 0.3}}
LARGE = {"together": {10: 0.4, 40: 0.4}}
SMALL = {"mutual": {1: 0.6, 3: 0.9, 10: 0.3}}
HUBS = {"hubness": 2.0}
NOTHING = UnderMap()


def under_map(gallery, queries=None):
    asked = gallery[:0] if queries is None else queries
    vectors = np.vstack([asked, gallery]).astype(np.float32)
    learnt = kinrank.Projection.fit(gallery, kind="views")
    return look_under_map(Lists(vectors, RUN), len(asked), learnt, np.random.default_rng(0))


def test_a_map_makes_neighbours_agree_where_it_finds_groups():
    assert under_map(hidden()).gain > rules.GAIN
    assert under_map(clear()).gain < rules.GAIN


def test_where_nothing_is_learnt_nothing_is_gained():
    rows = np.eye(20, dtype=np.float32)
    assert under_map(rows[:1].repeat(900, axis=0)) == UnderMap()
    assert under_map(rows.repeat(50, axis=0)).gain <= 1
    assert under_map(clear(5)) == UnderMap()


def test_longer_lists_are_shared_as_much_where_groups_go_on(monkeypatch):
    assert under_map(hidden()).lasting < rules.LASTING  # groups of 12 end before 40
    monkeypatch.setattr(agreement, "FAR", 4)
    monkeypatch.setattr(agreement, "VAST", 10)
    assert under_map(hidden()).lasting > rules.LASTING


def test_queries_of_another_kind_are_confirmed_less():
    random = np.random.default_rng(1)
    gallery = hidden()
    alike = gallery[random.choice(len(gallery), 60)]
    strange = unit(alike + 0.35 * random.normal(size=alike.shape))
    assert under_map(gallery, alike).confirmed > rules.CONFIRMED
    assert under_map(gallery, strange).confirmed < rules.CONFIRMED
    assert under_map(gallery, strange[:10]).confirmed == 1


def test_of_a_large_collection_some_rows_are_looked_at_under_the_map(monkeypatch):
    random = np.random.default_rng(1)
    gallery = hidden()
    queries = gallery[random.choice(len(gallery), 60)]
    queries = unit(queries + 0.1 * random.normal(size=queries.shape))
    monkeypatch.setattr(agreement, "COMPARED", len(gallery))
    whole = under_map(gallery, queries)
    monkeypatch.setattr(lists, "WHOLE", 500)
    monkeypatch.setattr(lists, "PIECE", 300)
    monkeypatch.setattr(agreement, "AT_FIRST", len(gallery) + 60)  # all, a piece at a time
    pieces = under_map(gallery, queries)
    assert asdict(pieces) == pytest.approx(asdict(whole))


def test_more_rows_are_looked_at_where_some_leave_it_open(monkeypatch):
    monkeypatch.setattr(lists, "WHOLE", 500)
    counts = []
    measured = agreement.agreement
    monkeypatch.setattr(
        agreement, "agreement", lambda asked, of: counts.append(len(asked)) or measured(asked, of)
    )
    under_map(hidden())
    assert counts == [300, 300]
    counts.clear()
    monkeypatch.setattr(agreement, "GAIN", 2.0)
    under_map(hidden())
    assert counts == [300, 300, 700, 700]


@pytest.mark.parametrize(
    ("gain", "changes", "kind", "words"),
    [
        (1.5, {}, "views", "found what groups differ in"),
        (1.1, SURFACES, None, "which is little"),
        (1.1, {}, 0.0, "says nothing of any group"),
        (1.1, {**SURFACES, **HUBS}, 0.0, "the mean of all rows is taken out"),
        (1.0, {"rows": 500}, None, "500 rows are too few"),
        (1.0, {"rows": 500, **HUBS}, 0.0, "hubness 2.0"),
        (1.0, COUPLES, None, "rows come in couples"),
    ],
)
def test_the_map(gain, changes, kind, words):
    found, reason = choose_map(seen(**changes), clear(), UnderMap(gain=gain))
    assert found == kind
    assert words in reason


def test_vectors_that_differ_in_length_get_no_map():
    rows = clear() * np.linspace(1, 2, 960)[:, None]
    found, reason = choose_map(seen(), rows, UnderMap(gain=2.0))
    assert found is None
    assert "differ in length" in reason


@pytest.mark.parametrize(
    ("changes", "learnt", "size", "words"),
    [
        ({}, False, "usual", "groups end before"),
        (LARGE, False, "large", "groups are large"),
        ({**LARGE, "rows": 500}, False, "usual", "only 500 rows"),
        ({"together": {3: 0.4}, "mutual": {1: 0.4, 3: 0.4}}, False, "usual", "only 2,000 rows"),
        (SMALL, False, "few", "groups have few rows"),
        ({}, True, "learnt", "takes out the noise"),
        (SURFACES, True, "surface", "sure of the next ones only"),
    ],
)
def test_sizes(changes, learnt, size, words):
    found, reason = choose_size(seen(**changes), UnderMap(), learnt=learnt)
    assert found == size
    assert words in reason


@pytest.mark.parametrize("changes", [{}, SURFACES])
def test_sizes_of_groups_of_hundreds(changes):
    found, reason = choose_size(seen(**changes), UnderMap(lasting=1.04), learnt=True)
    assert found == "vast"
    assert "1.04 times" in reason
    assert choose_size(seen(**changes), UnderMap(lasting=1.04), learnt=False)[0] == "usual"
    few = seen(**changes, rows=1200)
    assert choose_size(few, UnderMap(lasting=1.04), learnt=True)[0] != "vast"


@pytest.mark.parametrize(
    ("changes", "paths", "words"),
    [
        (SURFACES, True, "10 dimensions near a row and 6 farther away: they lie along surfaces"),
        (SPREAD, False, "no surface"),
        ({**SPREAD, "rows": 500}, True, "in small collections"),
        ({**SURFACES, "rows": 500, **HUBS}, False, "lead astray"),
    ],
)
def test_paths(changes, paths, words):
    found, reason = choose_paths(seen(**changes), NOTHING)
    assert found is paths
    assert words in reason


def test_queries_of_another_kind_follow_no_paths():
    found, reason = choose_paths(seen(**SURFACES), UnderMap(confirmed=0.8))
    assert not found
    assert "queries are of another kind" in reason


@pytest.mark.parametrize(
    ("agreed", "changes", "confirmed", "share"),
    [
        (-0.03, {"rows": 500}, 1.0, 0.7),
        (0.01, {"rows": 500}, 1.0, 0.5),
        (0.03, {"rows": 500}, 1.0, None),
        (-0.03, {}, 1.0, None),
        (0.05, {}, 0.8, 0.7),
        (0.05, COUPLES, 1.0, 0.9),
    ],
)
def test_the_share_of_the_original_distance(agreed, changes, confirmed, share):
    found, reason = choose_share(seen(**changes), said(agreed), UnderMap(confirmed=confirmed))
    assert found == share
    assert bool(reason) == (share is not None)


def test_couples():
    assert two_of_a_kind(seen(**COUPLES))
    assert not two_of_a_kind(seen())
    assert not two_of_a_kind(seen(**SMALL))


def chosen(method="cas", fixed=None, mapped=NOTHING, agreed=0.05, **changes):
    return choose(method, fixed or {}, seen(**changes), mapped, said(agreed), clear())


def test_cas_in_full():
    assert chosen(**SURFACES).params == {"whiten": None, "k1": 20, "geodesic": True}
    learnt = chosen(mapped=UnderMap(gain=1.5))
    assert learnt.params == {
        "whiten": "views",
        "k1": 40,
        "k2": 4,
        "enhance_k": 8,
        "geodesic": False,
    }
    assert set(learnt.reasons) == {"whiten", "k1", "geodesic"}
    couples = chosen(**COUPLES)
    assert couples.params == {"whiten": None, "k1": 20, "geodesic": False, "omega": 0.9}


def test_what_is_given_stays():
    found = chosen(fixed={"k1": 9, "geodesic": True, "omega": 0.2}, **COUPLES)
    assert found.params == {"k1": 9, "geodesic": True, "omega": 0.2, "whiten": None}
    assert set(found.reasons) == {"whiten"}


def test_sizes_follow_a_map_that_was_given():
    assert chosen(fixed={"whiten": "pairs"}).params["k2"] == 4
    fitted = kinrank.Projection.fit(hidden(), kind="pairs")
    assert chosen(fixed={"whiten": fitted}).params["k2"] == 4
    assert "k2" not in chosen(fixed={"whiten": 0.25}).params


@pytest.mark.parametrize("method", sorted(SIZES))
@pytest.mark.parametrize("changes", [{}, LARGE, SMALL, SPREAD])
def test_every_choice_is_a_method(method, changes):
    found = chosen(method, **changes)
    made = kinrank.registry.make_method(method, **found.params)
    assert made.whiten == 0.0
    assert set(found.reasons) <= set(found.params)
    assert all(reason.endswith(".") for reason in found.reasons.values())


def test_sizes_that_do_not_fit_what_was_given_are_left_out():
    assert not fits("cas", {"k1": 3, "k2": 5})
    found = chosen(fixed={"k1": 2}, **SMALL).params
    assert kinrank.CAS(**found).k1 == 2
