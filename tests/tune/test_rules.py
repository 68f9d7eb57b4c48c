"""Rules: each threshold, what it decides, and the reason that is given."""

import numpy as np
import pytest

import kinrank
from kinrank.parallel import Runner
from kinrank.tune import rules
from kinrank.tune.look import Look, contrast, unit_rows
from kinrank.tune.rules import (
    SIZES,
    choose,
    contrast_gain,
    fits,
    half_whitened,
    neighborhood,
    whitening_power,
)  # fmt: skip
from kinrank.tune.views import Evidence

RUN = Runner(1)


def seen(**changes):
    known = {
        "rows": 2000, "columns": 24, "common": 0.5, "contrast": 2.0, "hubness": 0.5,
        "together": {3: 0.5, 10: 0.4, 40: 0.2}, "mutual": {3: 0.5, 10: 0.4, 40: 0.4},
    }  # fmt: skip
    return Look(**(known | changes))


def uneven(n=400, width=24, seed=0):
    """Unit rows of groups in weak directions, below a few strong ones that say nothing."""
    random = np.random.default_rng(seed)
    rows = np.repeat(random.normal(size=(n // 10, width)), 10, axis=0)
    rows = rows + 0.3 * random.normal(size=rows.shape)
    rows[:, :3] = 8 * random.normal(size=(n, 3)) + 6
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(
    ("changes", "size", "words"),
    [
        ({}, 1, "groups end before"),
        ({"together": {10: 0.4, 40: 0.3}}, 2, "groups are large"),
        ({"together": {10: 0.4, 40: 0.3}, "rows": 500}, 1, "only 500 rows"),
        ({"together": {3: 0.4}, "mutual": {3: 0.4}, "rows": 64}, 1, "only 64 rows"),
        ({"mutual": {3: 0.8, 10: 0.3}}, 0, "groups have few rows"),
    ],
)
def test_sizes(changes, size, words):
    chosen, reason = neighborhood(seen(**changes))
    assert chosen == size
    assert words in reason


@pytest.mark.parametrize("changes", [{}, {"hubness": 3.0, "common": 0.05}])
def test_no_hubs_or_nothing_in_common_is_no_whitening(changes):
    power, reason = whitening_power(seen(**changes), uneven(), np.random.default_rng(0), RUN)
    assert power is None
    assert "as they are" in reason


def test_whitening_where_neighbours_stand_out_by_it(monkeypatch):
    rows = uneven()
    clearer = contrast_gain(rows, np.random.default_rng(0), RUN)
    assert clearer > 1.35
    for limit, power in ((1.35, 0.25), (clearer, 0.0)):
        monkeypatch.setattr(rules, "CLEARER", limit)
        found, reason = whitening_power(seen(hubness=2.0), rows, np.random.default_rng(0), RUN)
        assert found == power
        assert "hubness 2.0" in reason


def test_few_rows_are_only_centred():
    few = seen(hubness=2.0, rows=799)
    assert whitening_power(few, uneven(), np.random.default_rng(0), RUN)[0] == 0.0


def test_equal_rows_have_no_contrast():
    rows = np.ones((100, 8), np.float32)
    assert contrast_gain(rows, np.random.default_rng(0), RUN) == 0.0


def test_vectors_of_many_lengths_are_not_whitened():
    rows = uneven() * np.linspace(1, 2, 400, dtype=np.float32)[:, None]
    power, reason = whitening_power(seen(hubness=2.0), rows, np.random.default_rng(0), RUN)
    assert power is None
    assert "length" in reason


@pytest.mark.parametrize("shape", [(400, 24), (30, 64)])  # fewer columns than rows, and more
def test_rows_are_whitened_as_by_the_option(shape):
    rows = uneven(*shape)
    exact = kinrank.Projection.fit(rows, kind=0.25).apply(rows)
    quick = unit_rows(half_whitened(rows))
    np.testing.assert_allclose(quick @ quick.T, exact @ exact.T, atol=2e-3)
    expected = contrast(exact, np.random.default_rng(1), RUN)
    assert contrast(quick, np.random.default_rng(1), RUN) == pytest.approx(expected, 0.01)


def chosen(method="cas", fixed=None, agreed=0.05, **changes):
    said = Evidence(
        better=0.5, gained=0.1, before=0.3, agreed=agreed, agreed_error=0.01, sizes=np.ones(4)
    )
    random = np.random.default_rng(0)
    return choose(method, fixed or {}, seen(**changes), said, uneven(), random, RUN)


LARGE = {"together": {10: 0.4, 40: 0.4}}
SMALL = {"mutual": {3: 0.9, 10: 0.3}}


def test_cas_in_full():
    assert chosen().params == {"whiten": None, "k1": 20, "geodesic": True}
    assert chosen(**LARGE).params == {"whiten": None, "k1": 40, "geodesic": True}
    white = chosen(hubness=2.0, **LARGE)
    assert white.params == {
        "whiten": 0.25, "k2": 4, "enhance_k": 8, "k1": 40, "geodesic": True
    }  # fmt: skip
    assert set(white.reasons) == {"whiten", "k2", "k1", "geodesic"}
    small = chosen(**SMALL).params
    assert small == {"whiten": None, "k1": 10, "k2": 3, "enhance_k": 6, "geodesic": True}


def test_paths_do_not_lead_through_hubs():
    hubs = {"hubness": 1.8, "rows": 500}
    assert chosen(**hubs).params == {"whiten": 0.0, "k1": 20, "geodesic": False}
    assert "crowd all lists" in chosen(**hubs).reasons["geodesic"]
    assert chosen(hubness=1.8, common=0.05).params["geodesic"]
    assert chosen(fixed={"geodesic": True}, **hubs).params["geodesic"]
    assert chosen(hubness=1.8, **LARGE).params["geodesic"]  # half-whitened


def test_some_hubs_change_nothing():
    found = chosen(hubness=1.3, rows=500)
    assert found.params == {"whiten": None, "k1": 20, "geodesic": True}
    assert "but not much" in found.reasons["whiten"]


@pytest.mark.parametrize(
    ("agreed", "rows", "omega"),
    [(-0.03, 500, 0.7), (0.01, 500, 0.5), (0.03, 500, None), (-0.03, 1501, None)],
)
def test_steps_are_smaller_where_evidence_is_weak(agreed, rows, omega):
    found = chosen(agreed=agreed, rows=rows)
    assert found.params.get("omega") == omega
    assert ("omega" in found.reasons) == (omega is not None)
    assert "omega" not in chosen("kreciprocal", agreed=agreed, rows=rows).params
    assert chosen(fixed={"omega": 0.2}, agreed=agreed, rows=rows).params["omega"] == 0.2


def test_without_paths_large_groups_weigh_more():
    assert chosen(fixed={"geodesic": False}, **LARGE).params["omega"] == 0.1
    assert "omega" not in chosen(fixed={"geodesic": False}).params


@pytest.mark.parametrize("method", sorted(SIZES))
@pytest.mark.parametrize("changes", [{}, LARGE, SMALL])
def test_every_choice_is_a_method(method, changes):
    found = chosen(method, **changes)
    made = kinrank.registry.make_method(method, **found.params)
    assert made.whiten is None
    assert set(found.reasons) <= set(found.params)


def test_what_is_given_stays_and_has_no_reason():
    found = chosen(fixed={"k1": 9, "whiten": 0.1}, **LARGE)
    assert (found.params["k1"], found.params["whiten"]) == (9, 0.1)
    assert not {"k1", "whiten"} & set(found.reasons)


def test_sizes_that_do_not_go_with_what_is_given_are_not_chosen():
    assert not fits("cas", {"k1": 10, "k2": 15})
    assert chosen(fixed={"k2": 15}, **SMALL).params["k1"] == 20
