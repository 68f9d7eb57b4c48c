"""A small part of the campaign, always the same; `make fuzz` runs the rest."""

import time

import pytest

from fuzz.campaign import attack, environment, runner_of
from fuzz.odd_calls import PAIRS
from fuzz.outcome import Outcomes

LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("what", "count"),
    [
        ("calls", 2000),
        ("damaged", 1000),
        pytest.param("calls", 16_000, marks=LONG),
        pytest.param("damaged", 4000, marks=LONG),
    ],
)
def test_every_call_ends_in_a_result_or_a_refusal(what, count):
    report = attack(what, 0, count, time.monotonic() + 600, 1, environment())
    assert not report.failures, "\n" + report.text(what)
    assert report.calls >= count
    assert report.valid > report.calls // 4
    assert report.refused > report.calls // 10


@pytest.mark.parametrize(
    "count", [len(PAIRS) // 2, pytest.param(len(PAIRS) + 3000, marks=LONG)], ids=["half", "all"]
)
def test_every_argument_may_be_odd(count):
    """Half of the odd values one at a time; or all of them, and then some two at a time."""
    report = attack("odd", 0, count, time.monotonic() + 600, 1, environment())
    assert not report.failures, "\n" + report.text("odd")
    assert report.calls >= count
    assert report.valid > report.calls // 30
    assert report.refused > report.calls // 2


@pytest.mark.parametrize("seed", [70015786, 70030485])
def test_seeds_of_longer_campaigns_that_found_something(seed, tmp_path):
    """Many steps over copies; walks of a query whose weights underflow."""
    outcomes = Outcomes()
    runner_of("calls")(seed, outcomes, tmp_path)
    assert outcomes.valid > 0


@pytest.mark.parametrize(
    ("variant", "count"),
    [
        ("nojit", 120),
        pytest.param("nojit", 500, marks=LONG),
        pytest.param("boundscheck", 250, marks=LONG),  # compiles every kernel once more
    ],
)
def test_kernels_that_check_every_index(variant, count):
    """As plain Python, which raises on what lies outside, and with numba's bounds check."""
    report = attack("calls", 0, count, time.monotonic() + 1200, 1, environment(**{variant: True}))
    assert not report.failures, "\n" + report.text("calls", f" --{variant}")
