"""Values and ranges of attributes: compared exactly, or refused in one clear sentence."""

from fractions import Fraction

import numpy as np
import pytest

from kinrank import CAS
from kinrank.errors import InvalidInputError, UnknownNameError
from struck import rows

N = 60
BIG = 2**53
PRICES = np.linspace(0, 1, N)
STOCK = np.arange(N) - 5
CODES = BIG + np.arange(N)  # of which float64 holds every second one
DAYS = np.array([f"2025-{1 + n // 28:02d}-{1 + n % 28:02d}" for n in range(N)])
COLUMNS = {
    "price": PRICES,
    "stock": STOCK,
    "code": CODES,
    "big": np.array([float(BIG + 2 * n) for n in range(N)]),
    "day": DAYS,
    "night": np.arange(N) % 2 == 0,
}


@pytest.fixture(scope="module")
def index():
    return CAS(k1=6, k2=3).fit(rows(N, 1), attributes=COLUMNS)


def found(index, **where):
    """The rows that a condition leaves, ascending."""
    ids = index.search(rows(1, 2), None, where=where).ids[0]
    return np.sort(ids[ids >= 0]).tolist()


def expected(name, *, low=None, high=None):
    """The same by Python's own comparisons, which never round."""
    return [
        row
        for row, value in enumerate(COLUMNS[name].tolist())
        if (low is None or value >= low) and (high is None or value <= high)
    ]


BOUNDS = {
    "price": (0, 0.5, PRICES[7], -1, 1, 2, 10**400, -np.inf, np.inf, Fraction(1, 3)),
    "stock": (0, 0.5, -0.5, 3, -5, 54, 10**30, -(10**30), np.int8(4), np.inf, np.array(7)),
    "code": (BIG, BIG + 1, BIG + 3, float(BIG + 4), 2**63, 2**63 - 1, -(2**63), -(2**63) - 1),
    "big": (BIG, BIG + 1, BIG + 2, BIG + 3, float(BIG + 4), 10**18, -(10**400)),
    "day": ("2025-01-15", "2025-02", "", "3", "2025-03-04", DAYS[3]),
}


@pytest.mark.parametrize("name", list(BOUNDS))
def test_ranges_are_those_of_python(index, name):
    for bound in BOUNDS[name]:
        low = bound.item() if hasattr(bound, "item") else bound
        assert found(index, **{name: {"min": bound}}) == expected(name, low=low)
        assert found(index, **{name: {"max": bound}}) == expected(name, high=low)
        for other in BOUNDS[name]:
            high = other.item() if hasattr(other, "item") else other
            if low <= high:
                got = found(index, **{name: {"min": bound, "max": other}})
                assert got == expected(name, low=low, high=high)
            else:
                with pytest.raises(InvalidInputError, match="'min' that is not above its 'max'"):
                    found(index, **{name: {"min": bound, "max": other}})


def test_an_end_may_be_none(index):
    assert found(index, stock={"min": 50, "max": None}) == found(index, stock={"min": 50})
    assert found(index, stock={"min": None, "max": 0}) == found(index, stock={"max": 0})


@pytest.mark.parametrize("name", ["code", "big", "stock", "price"])
def test_values_are_those_of_python(index, name):
    """Beyond 2^53 a float is no integer that is near it."""
    odd = (float(BIG), float(BIG + 4), BIG + 3, BIG + 2, 0.5, 3, 3.0, 1e300, 2**63 - 1, -5.0)
    for value in odd:
        equal = expected(name, low=value, high=value)
        assert found(index, **{name: value}) == equal
        assert found(index, **{name: [value]}) == equal
        kept = index.search(rows(1, 2), None, differ={name: [value]}).ids[0]
        others = sorted(set(range(N)) - set(equal))
        assert np.sort(kept[kept >= 0]).tolist() == others


def test_integers_that_floats_would_round_are_refused(index):
    with pytest.raises(InvalidInputError, match=f"got {BIG + 1} beside other numbers"):
        found(index, code=[BIG + 1, 0.5])
    assert found(index, code=[BIG + 2, 0.5]) == [2]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"price": (0, 0.5)}, r"write \{'min': 0, 'max': 0.5\}"),
        ({"stock": (1, 2)}, r"or \[1, 2\] for these two"),
        ({"stock": (np.int64(1), 2)}, "could be both"),
        ({"price": {}}, "must have 'min', 'max' or both"),
        ({"price": {"min": None}}, "must have 'min', 'max' or both"),
        ({"price": {"low": 0, "max": 1}}, "must have 'min', 'max' or both"),
        ({"price": {"min": "a"}}, "a range of numbers, as the attribute"),
        ({"price": {"min": True}}, "numbers or text as its ends, got True"),
        ({"price": {"min": [1]}}, "numbers or text as its ends"),
        ({"price": {"min": np.nan}}, "numbers or text as its ends, got nan"),
        ({"price": {"min": 1j}}, "numbers or text as its ends"),
        ({"price": {"min": 1, "max": "a"}}, "not above its 'max'"),
        ({"day": {"min": 3}}, "a range of text, as the attribute"),
        ({"day": {"min": "a\0"}}, "does not end with the character"),
        ({"night": {"min": 0}}, "must be True or False"),
        ({"price": None}, "must be a list of text, of integers"),
        ({"price": [None]}, "must be a list of text, of integers"),
        ({"stock": 10**30}, "must be a list of text, of integers"),
        ({"stock": [[1]]}, "must be a list of text, of integers"),
        ({"price": np.nan}, "finite"),
        ({"day": "2025\0"}, "does not end with the character"),
        ({"day": b"2025"}, "must be a list of text, of integers"),
    ],
)
def test_what_is_no_condition(index, where, words):
    with pytest.raises(InvalidInputError, match=words):
        found(index, **where)


def test_tuples_that_can_only_be_values(index):
    assert found(index, stock=(1, 2, 3)) == [6, 7, 8]
    assert found(index, stock=(1,)) == [6]
    assert found(index, day=(DAYS[4], DAYS[9])) == [4, 9]
    assert found(index, night=(True, False)) == list(range(N))
    assert found(index, stock=()) == []
    assert found(index, stock=np.array(3)) == [8]


def test_an_index_without_attributes():
    bare = CAS(k1=6, k2=3).fit(rows(N, 1))
    for call in (
        lambda: bare.search(rows(1, 2), 3, where={"stock": 1}),
        lambda: bare.search(rows(1, 2), 3, differ={"stock": [1]}),
        lambda: bare.add(rows(1, 2), attributes={"stock": [1]}),
        lambda: bare.update([3], attributes={"stock": [1]}),
    ):
        with pytest.raises(InvalidInputError, match="This index has no attributes, so there is no"):
            call()
    with pytest.raises(UnknownNameError, match="There is no `name` to choose from, got 'a'"):
        raise UnknownNameError("name", "a", [])


@pytest.mark.parametrize("given", [["a\0", "b"], np.array(["a\0", "b"], object)])
def test_text_that_numpy_would_shorten(given):
    with pytest.raises(InvalidInputError, match="does not end with the character"):
        CAS(k1=1, k2=1).fit(rows(2, 1), ids=given)
    with pytest.raises(InvalidInputError, match="does not end with the character"):
        CAS(k1=1, k2=1).fit(rows(2, 1), attributes={"name": given})


def test_a_null_inside_text_stays():
    index = CAS(k1=3, k2=2).fit(rows(4, 1), ids=["a\0b", "a", "b", "c"])
    assert "a\0b" in index
    assert "a\0" not in index
    assert index.search(rows(1, 2), None, allowed=["a\0b"]).ids[0, 0] == "a\0b"
