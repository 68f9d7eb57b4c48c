"""A small part of the campaign, always the same; `make fuzz` runs the rest."""

import time

import pytest

from fuzz.campaign import attack, environment, runner_of
from fuzz.odd_calls import PAIRS
from fuzz.outcome import Outcomes

CALLS, DAMAGED, SLOW_CALLS = 8000, 2000, 250


@pytest.mark.parametrize(("what", "count"), [("calls", CALLS), ("damaged", DAMAGED)])
def test_every_call_ends_in_a_result_or_a_refusal(what, count):
    report = attack(what, 0, count, time.monotonic() + 600, 2, environment())
    assert not report.failures, "\n" + report.text(what)
    assert report.calls >= count
    assert report.valid > report.calls // 4
    assert report.refused > report.calls // 10


@pytest.mark.parametrize("pairs", [100, pytest.param(3000, marks=pytest.mark.long)])
def test_every_argument_may_be_odd(pairs):
    """All of them one at a time, and then some two at a time."""
    count = len(PAIRS) + pairs
    report = attack("odd", 0, count, time.monotonic() + 600, 2, environment())
    assert not report.failures, "\n" + report.text("odd")
    assert report.calls >= count
    assert report.valid > 1000
    assert report.refused > report.calls // 2


@pytest.mark.parametrize("seed", [70015786, 70030485])
def test_seeds_of_longer_campaigns_that_found_something(seed, tmp_path):
    """Many steps over copies; walks of a query whose weights underflow."""
    outcomes = Outcomes()
    runner_of("calls")(seed, outcomes, tmp_path)
    assert outcomes.valid > 0


@pytest.mark.parametrize(
    "variant",
    [
        "nojit",
        pytest.param("boundscheck", marks=pytest.mark.long),  # compiles every kernel once more
    ],
)
def test_kernels_that_check_every_index(variant):
    """As plain Python, which raises on what lies outside, and with numba's bounds check."""
    report = attack(
        "calls", 0, SLOW_CALLS, time.monotonic() + 1200, 2, environment(**{variant: True})
    )
    assert not report.failures, "\n" + report.text("calls", f" --{variant}")
