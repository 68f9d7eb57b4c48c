"""Rules: each threshold, what it decides, and the reason that is given."""

import numpy as np
import pytest

import kinrank
from kinrank.parallel import Runner
from kinrank.tune.look import Look
from kinrank.tune.rules import SIZES, choose, fits, neighborhood, whitened_contrast, whitening_power

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


def test_whitening_where_neighbours_stand_out_by_it():
    rows, random = uneven(), np.random.default_rng(0)
    clearer = whitened_contrast(rows, random, RUN)
    for contrast, power in ((clearer / 2, 0.25), (clearer, 0.0)):
        found, reason = whitening_power(seen(hubness=2.0, contrast=contrast), rows, random, RUN)
        assert found == power
        assert "hubness 2.0" in reason


def test_few_rows_have_no_covariance():
    rows = uneven()
    few = seen(hubness=2.0, contrast=0.1, rows=40)
    assert whitening_power(few, rows, np.random.default_rng(0), RUN)[0] == 0.0


def test_vectors_of_many_lengths_are_not_whitened():
    rows = uneven() * np.linspace(1, 2, 400, dtype=np.float32)[:, None]
    power, reason = whitening_power(seen(hubness=2.0), rows, np.random.default_rng(0), RUN)
    assert power is None
    assert "length" in reason


def test_the_contrast_is_that_of_whitened_rows():
    from kinrank.tune.look import contrast

    rows = uneven()
    exact = kinrank.Whitening.fit(rows, 0.25).apply(rows)
    expected = contrast(exact, np.random.default_rng(1), RUN)
    assert whitened_contrast(rows, np.random.default_rng(0), RUN) == pytest.approx(expected, 0.03)


def chosen(method="cas", fixed=None, **changes):
    return choose(method, fixed or {}, seen(**changes), uneven(), np.random.default_rng(0), RUN)


LARGE = {"together": {10: 0.4, 40: 0.4}}
SMALL = {"mutual": {3: 0.9, 10: 0.3}}


def test_cas_in_full():
    assert chosen().params == {"whiten": None, "k1": 20, "geodesic": True}
    assert chosen(**LARGE).params == {"whiten": None, "k1": 40, "geodesic": True}
    white = chosen(hubness=2.0, contrast=0.1, **LARGE)
    assert white.params == {
        "whiten": 0.25, "k2": 4, "enhance_k": 8, "k1": 40, "geodesic": True
    }  # fmt: skip
    assert set(white.reasons) == {"whiten", "k2", "k1", "geodesic"}
    small = chosen(**SMALL).params
    assert small == {"whiten": None, "k1": 10, "k2": 3, "enhance_k": 6, "geodesic": True}


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
