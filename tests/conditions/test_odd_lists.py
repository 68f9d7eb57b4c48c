"""Lists of ids in forms that people try: the right answer, or one clear error."""

import numpy as np
import pytest

import kinrank
from kinrank import CAS
from kinrank.errors import InvalidInputError, UnknownIdError
from struck import rows

N = 60
QUERIES = rows(3, 2)


@pytest.fixture(scope="module")
def index():
    return CAS(k1=6, k2=3).fit(rows(N, 1))


def same(got, expected):
    np.testing.assert_array_equal(got.ids, expected.ids)
    np.testing.assert_array_equal(got.distances, expected.distances)


@pytest.mark.parametrize("name", ["right", "wrong"])
def test_one_id_for_one_query(index, name):
    expected = index.search(QUERIES[0], 5, **{name: [17]})
    for given in (17, np.int64(17), [17], [[17]], (17,), {17}, np.array([17]), np.array([[17]])):
        same(index.search(QUERIES[0], 5, **{name: given}), expected)


def test_one_text_id_for_one_query():
    named = CAS(k1=6, k2=3).fit(rows(N, 1), ids=[f"r{n}" for n in range(N)])
    same(
        named.search(QUERIES[0], 5, right="r17", wrong="r3"),
        named.search(QUERIES[0], 5, right=["r17"], wrong=["r3"]),
    )
    with pytest.raises(UnknownIdError, match="nobody"):
        named.search(QUERIES[0], 5, right="nobody")


@pytest.mark.parametrize("name", ["right", "wrong"])
def test_several_queries_need_lists(index, name):
    expected = index.search(QUERIES, 5, **{name: [[0], [], [2, 4]]})
    same(index.search(QUERIES, 5, **{name: [[0], None, {2, 4}]}), expected)
    same(index.search(QUERIES, 5, **{name: (np.array([0]), (), [4, 2])}), expected)
    for given in ([0, 1, 2], 17, "a", [[0], 1, [2]], [[0], [1]], np.arange(3), {0, 1, 2}, {"a": 1}):
        with pytest.raises(InvalidInputError, match="one list of ids for each of the 3 queries"):
            index.search(QUERIES, 5, **{name: given})


def test_marks_of_nobody(index):
    plain = index.search(QUERIES, 5)
    for given in ([None, None, None], [[], [], []], [None, [], ()]):
        got = index.search(QUERIES, 5, right=given)
        np.testing.assert_array_equal(got.ids, plain.ids)


def test_none_is_no_condition_for_a_query(index):
    every = list(range(N))
    cases = [
        ({"exclude": [[0], [], None]}, {"exclude": [[0], [], []]}),
        ({"exclude": [None, [0, 1], None]}, {"exclude": [[], [0, 1], []]}),
        ({"allowed": [[0, 5], None, [7]]}, {"allowed": [[0, 5], every, [7]]}),
        ({"allowed": [None, [3], {4}]}, {"allowed": [every, [3], [4]]}),
    ]
    for given, plain in cases:
        same(index.search(QUERIES, 8, **given), index.search(QUERIES, 8, **plain))
        got = kinrank.rerank(QUERIES, rows(N, 1), k=8, k1=6, k2=3, **given)
        expected = kinrank.rerank(QUERIES, rows(N, 1), k=8, k1=6, k2=3, **plain)
        np.testing.assert_array_equal(got.indices, expected.indices)


@pytest.mark.parametrize(
    "given", [[[0], 1, [2]], [[0], "a", []], [[[0]], [[1]], [[2]]], [[None], [], []], 3, [None] * 3]
)
@pytest.mark.parametrize("name", ["allowed", "exclude"])
def test_what_is_no_list(index, name, given):
    with pytest.raises(kinrank.KinrankError):
        index.search(QUERIES, 5, **{name: given})
    with pytest.raises(InvalidInputError, match=f"`{name}` must be"):
        kinrank.rerank(QUERIES, rows(N, 1), k=5, **{name: given})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CAS(whiten=""), "`whiten` must be None, 'pairs', 'views' or a power"),
        (lambda: CAS(whiten="."), "`whiten` must be None, 'pairs', 'views' or a power"),
        (lambda: kinrank.Run(work=0), "`work` must be the path of a file or folder, got 0"),
        (lambda: kinrank.Run(work=""), "`work` must be the path"),
        (lambda: CAS().fit(rows(N, 1), ids=np.array(3)), r"one-dimensional, got shape \(\)"),
        (lambda: CAS().fit(rows(2, 1), ids=[True, 2]), "all text or all integers"),
        (lambda: kinrank.open(0), "`path` must be the path"),
        (lambda: kinrank.Client(7), "`url` must be like"),
        (lambda: kinrank.Client("http://a:b"), "`url` must be like"),
        (lambda: kinrank.Client("http://a:1", "é"), "`token` must be text"),
        (lambda: kinrank.datasets.load("toy", unit="no"), "`unit` must be True or False"),
        (lambda: kinrank.tune(rows(N, 1), method=["cas"]), "one that can be tuned"),
    ],
)
def test_other_odd_calls(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()


GROUPS = np.array(["a", "b"])[np.arange(N) % 2]


@pytest.mark.parametrize(
    ("of_queries", "words"),
    [
        (np.array([b"a", b"b", b"a"]), "got bytes for queries and text for the gallery"),
        ([1, 2, 1], "got whole numbers for queries and text"),
        (["a\0", "b", "a"], "does not end with the character"),
        (["a", 1, "b"], "all numbers or all text, got both"),
    ],
)
def test_groups_of_other_kinds(of_queries, words):
    with pytest.raises(InvalidInputError, match=words):
        kinrank.rerank(QUERIES, rows(N, 1), k=5, groups=(of_queries, GROUPS))


def test_groups_of_bytes_on_both_sides():
    got = kinrank.rerank(
        QUERIES, rows(N, 1), k=5, k1=6, k2=3, groups=([b"a", b"b", b"a"], GROUPS.astype(bytes))
    )
    expected = kinrank.rerank(
        QUERIES, rows(N, 1), k=5, k1=6, k2=3, groups=(["a", "b", "a"], GROUPS)
    )
    np.testing.assert_array_equal(got.indices, expected.indices)
