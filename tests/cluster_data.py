"""What the tests of the cluster rank, and what one process makes of it."""

from functools import cache

import kinrank
from engine_data import clustered
from kinrank.parallel import Runner
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


def on(cluster, name, block_size=300, **where):
    run = kinrank.Run(cluster=cluster, block_size=block_size, **where)
    return make_method(name, **METHODS[name]).rerank(*data(), 40, run=run)


def runner_on(cluster, block_size=None):
    """A runner in memory whose blocks are tasks."""
    return Runner(1, block_size, cluster.workers())


def assert_same(ranking, name):
    assert_equal(ranking, alone(name))


def assert_equal(ranking, expected):
    """The same bits."""
    assert (ranking.indices == expected.indices).all()
    assert ranking.distances.tobytes() == expected.distances.tobytes()
