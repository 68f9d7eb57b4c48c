"""Whatever users call an array, at every door: the right answer, or one clear sentence."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import kinrank
from engine_data import clustered
from kinrank import CAS, Index, InvalidInputError, Ranking, UnknownIdError, UnsupportedError
from kinrank.methods.context.kreciprocal import KReciprocal
from kinrank.methods.diffusion.fsr import FSR
from kinrank.methods.query_expansion.expansion import AQE

X = clustered(90, d=6, seed=2)
Q, G = X[:6], X[6:]
METHOD = CAS(k1=6, k2=3)
D = np.sqrt(((G[:, None].astype(np.float64) - G) ** 2).sum(-1))
LISTS = np.argsort(D, axis=1, kind="stable")[:, 1:20]
NEAR = np.take_along_axis(D, LISTS, axis=1)


class OnlyArray:
    """Knows how to become an array, and nothing else."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


class Broken:
    def __array__(self, *_, **__):
        raise RuntimeError("not today")


# Every door through which vectors enter.
DOORS = {
    "rerank": lambda q, g: METHOD.rerank(q, g, k=5),
    "rerank aqe": lambda q, g: AQE().rerank(q, g, k=5),
    "fit, search": lambda q, g: METHOD.fit(g).search(q, k=5),
    "fit, search aqe": lambda q, g: AQE().fit(g).search(q, k=5),
    "context": lambda q, g: METHOD.fit(G, context=g).search(q, k=5),
    "add": lambda q, g: added(METHOD.fit(G[:40]), g).search(q, k=5),
    "pool": lambda q, g: kinrank.rerank_pool(q, [g] * 6, METHOD, k=5),
    "from_neighbors": lambda q, g: Index.from_neighbors(METHOD, NEAR, LISTS, vectors=g).search(q),
    "jaccard_graph": lambda _, g: kinrank.jaccard_graph(g, 6, 3, metric="cosine"),
    "tune": lambda q, g: kinrank.tune(q, g, budget=1.0),
    "compat": lambda q, g: kinrank.compat.re_ranking_features(q, g, 6, 3, 0.3),
}


def added(index, rows):
    index.add(rows)
    return index


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("kind", [OnlyArray, np.matrix, np.ma.array, np.ndarray.tolist])
def test_arrays_of_other_kinds(door, kind):
    expected, found = door(Q, G), door(kind(Q), kind(G))
    if isinstance(expected, Ranking):
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(found.distances, expected.distances)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ma.array(G, mask=G > 1.5), "must have no masked entries"),
        (Broken(), r"must be an array, got Broken \(not today\)"),
        ([[1.0, 2.0], [3.0]], "must be an array, got rows of different lengths"),
        (np.where(G > 1.5, np.nan, G), "must be finite"),
        (G.astype(object), "must hold real numbers"),
    ],
    ids=["masked", "broken", "ragged", "nan", "objects"],
)
def test_what_is_no_array_of_numbers(door, bad, message):
    with pytest.raises(InvalidInputError, match=message):
        door(Q, bad)


@pytest.mark.parametrize(
    "options",
    [
        *({name: None} for name in ("k1", "k2", "geodesic_k", "sigma", "mu", "omega", "tol")),
        {"sigma": 1e-30}, {"sigma": 10**400}, {"mu": 1e-30}, {"kappa": 1e-30}, {"k1": [3]},
        {"k1": np.arange(500)},
    ],
    ids=str,
)  # fmt: skip
def test_options_that_cannot_be(options):
    with pytest.raises(InvalidInputError, match=f"`{next(iter(options))}` must be") as caught:
        CAS(**options)
    assert len(str(caught.value)) < 200


def test_ids_that_cannot_be():
    ragged = [[1], [2, 3]] * 42
    with pytest.raises(InvalidInputError, match="`ids` must be an array, got rows of different"):
        METHOD.fit(G, ids=ragged)
    with pytest.raises(InvalidInputError, match="`ids` must have no masked entries, got 1"):
        METHOD.fit(G, ids=np.ma.array(np.arange(84), mask=np.arange(84) == 3))
    index = METHOD.fit(G, ids=[2**63 - 1, *range(83)])
    with pytest.raises(InvalidInputError, match="do not fit behind 9223372036854775807"):
        index.add(Q)
    index.add(Q, ids=range(100, 106))
    with pytest.raises(UnknownIdError, match="no row with the id 999"):
        index.vectors(number for number in (1, 999))
    with pytest.raises(InvalidInputError, match="`k` must be an integer"):
        kinrank.rerank(Q, G, k="", run=kinrank.Run(memory_budget="4GB"))
    one = kinrank.rerank_pool(Q[:1], memoryview(G), METHOD)
    np.testing.assert_array_equal(one.indices, kinrank.rerank_pool(Q[:1], G, METHOD).indices)
    assert len(index) == 90
    for call in (index.remove, lambda ids: index.update(ids, Q)):
        with pytest.raises(InvalidInputError, match="`ids` is missing: name the items"):
            call(None)
    with pytest.raises(InvalidInputError, match="one list for each of the 6 queries, got 5"):
        kinrank.rerank_pool(Q, [G] * 6, ids=5)
    with pytest.raises(InvalidInputError, match="`base` must be True or False"):
        index.search(Q, base=np.ones(2))


def test_all_rows_updated_are_a_fresh_index():
    index = METHOD.fit(G)
    index.update(np.arange(84), G[::-1] + 1)
    fresh = METHOD.fit(G[::-1] + 1).search(Q, k=20)
    found = index.search(Q, k=20)
    np.testing.assert_array_equal(found.ids, fresh.ids)
    np.testing.assert_allclose(found.distances, fresh.distances, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"farthest": np.ones(5)}, "`farthest` must be one number or one for each of the 84 rows"),
        ({"farthest": "far"}, "`farthest` must be one number or one for each"),
        ({"farthest": [1, [2]]}, "`farthest` must be an array"),
        ({"farthest": np.nan}, "`farthest` has a value that is not positive"),
        ({"farthest": 1e-300}, "`farthest` must have a largest value between"),
        ({"vectors": G[:50]}, r"`vectors` must be one per row of `distances` \(84\), got 50"),
        ({"indices": None}, "`distances` needs `indices`"),
        ({"distances": 3}, "`distances` must be two-dimensional"),
        ({"distances": NEAR * 1e30}, "`distances` must have a largest value between"),
        ({"squared": "yes"}, "`squared` must be True or False"),
        ({"ids": [1]}, r"`ids` must be one per row \(84\), got 1"),
    ],
)
def test_lists_that_cannot_be(change, message):
    given = {"distances": NEAR, "indices": LISTS, "vectors": G, "farthest": 20.0, **change}
    with pytest.raises(InvalidInputError, match=message):
        Index.from_neighbors(METHOD, **given)


def test_what_methods_cannot_do_is_said():
    with pytest.raises(UnsupportedError, match="KReciprocal ranks queries and gallery together"):
        KReciprocal().fit(G)
    with pytest.raises(UnsupportedError, match="A fitted AQE can only `search`, got `save`"):
        AQE().fit(G).save("an.index")
    assert not hasattr(KReciprocal(), "fit")
    with pytest.raises(AttributeError, match="'AQE' object has no attribute 'nope'"):
        AQE().nope  # noqa: B018
    again = pickle.loads(pickle.dumps(AQE().fit(G)))  # noqa: S301
    np.testing.assert_array_equal(again.search(Q).indices, AQE().fit(G).search(Q).indices)


def test_an_index_is_not_pickled():
    index = METHOD.fit(G)
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(UnsupportedError, match=r"`save` it, and `kinrank.open` the file"):
            call(index)


def test_rankings_of_anything():
    for given in (([[1], [2, 3]], [[1.0]]), ([[1]], [["a"]]), ([[1]], [[1.0]], [[1], [2, 3]])):
        with pytest.raises(InvalidInputError):
            Ranking(*given)
    with pytest.raises(InvalidInputError, match="`k` must be an integer"):
        Ranking([[1]], [[1.0]]).top("a")
    assert Ranking([[1, 2]], [[1.0, 2.0]], [["a", "b"]]).top(1).ids.tolist() == [["a"]]


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_graphs_without_eigenvectors_that_iteration_finds():
    apart = np.eye(70)
    for ranking in (
        FSR(rank=30, k1=5).rerank(apart[:3], apart[3:]),
        FSR(rank=60, k1=5).rerank(np.ones((2, 4)), np.ones((70, 4))),
        CAS(k1=5, k2=2, symmetric=False, sigma=1e-3).rerank(apart[:3], apart[3:]),
        kinrank.rerank(apart[:3], apart[3:], "rdp", sigma=1e-6),
    ):
        assert np.isfinite(ranking.distances).all()


CRASHES = {
    "an empty list": """
order = np.argsort(D, axis=1)[:, 1:4]; order[4] = -1
near = np.take_along_axis(D, order, axis=1)
kinrank.CAS().rerank_neighbors(near, order, n_queries=3, farthest=9.0)
kinrank.Index.from_neighbors(kinrank.CAS(), near, order, vectors=X).search(X)
""",
    "no list at all": """
kinrank.CAS().rerank_neighbors(D[:, :1], np.full((40, 1), -1), n_queries=3, farthest=9.0)
""",
    "one row": 'kinrank.jaccard_graph(X[:1], dialect="zhong")',
    "huge rows": """
index = kinrank.CAS().fit(X)
for _ in range(50):
    try:
        index.add(np.full((1, 4), 1e38))
    except kinrank.InvalidInputError:
        pass
for _ in range(50):
    index.add(np.full((1, 4), 1e15))
assert np.isfinite(index.search(X).distances).all()
""",
}


def test_nothing_ends_the_process():
    """All in one process; what it printed last is what ended it."""
    code = """
import warnings, numpy as np, kinrank
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(40, 4))
D = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
"""
    for name, calls in CRASHES.items():
        code += f"print({name!r}, flush=True)\n{calls}\n"
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
    assert run.stdout.splitlines() == list(CRASHES)
