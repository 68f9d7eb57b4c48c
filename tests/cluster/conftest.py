import os
from tempfile import TemporaryDirectory

import pytest

import ray_nodes
from kinrank.cluster import connect


@pytest.fixture(scope="package")  # which are busy with each other as long as they live
def nodes():
    """Two nodes for all tests; the environment knows their token."""
    # Not below pytest's folder: paths of sockets may have no more than 107 characters.
    short = TemporaryDirectory(prefix="r", ignore_cleanup_errors=True)
    with (
        short as folder,
        pytest.MonkeyPatch.context() as patch,
        ray_nodes.running(folder) as running,
    ):
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture(scope="package")
def joined(nodes):
    """This process as a part of the cluster."""
    before = {name for name in os.environ if name.startswith("RAY_")}
    with connect(nodes.address) as cluster:
        ray_nodes.wait_for_nodes(cluster.ray, 2)
        after = {name for name in os.environ if name.startswith("RAY_")}
        assert after - before <= {"RAY_CLIENT_MODE"}  # Ray's own doing
        yield cluster


@pytest.fixture
def cluster(joined):
    """A connection of one test."""
    ray_nodes.wait_for_nodes(joined.ray, 2)
    with connect() as connection:
        yield connection
