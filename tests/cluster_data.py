"""What the tests of the cluster rank, and what one process makes of it."""

from functools import cache

from engine_data import clustered
from kinrank.registry import make_method

METHODS = {
    "cas": {"k1": 12, "k2": 4},
    "kreciprocal": {"k1": 10},
    "gnn": {"k1": 12, "k2": 4},
    "rdp": {"k1": 12},
    "ecn": {},
}


@cache
def data():
    rows = clustered(900, d=24, clusters=50)
    return rows[:90], rows[90:]


@cache
def alone(name):
    return make_method(name, **METHODS[name]).rerank(*data(), k=40)


def on(cluster, name, block_size=300):
    return cluster.rerank(make_method(name, **METHODS[name]), *data(), 40, block_size=block_size)


def assert_same(ranking, name):
    expected = alone(name)
    assert (ranking.indices == expected.indices).all()
    assert ranking.distances.tobytes() == expected.distances.tobytes()
