"""Real engines: faiss, LanceDB in a folder, and a PostgreSQL server that the tests start."""

import os
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest

import store_makers

N, WIDTH = 600, 24


@dataclass(frozen=True, eq=False)
class Data:
    """Clustered rows with ids of two kinds, and queries near them."""

    rows: np.ndarray
    queries: np.ndarray
    numbers: np.ndarray
    names: np.ndarray

    @property
    def unit(self):
        return self.rows / np.linalg.norm(self.rows, axis=1, keepdims=True)


@pytest.fixture(scope="session")
def data():
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(30, WIDTH))
    owners = rng.integers(0, 30, N + 40)
    points = (centres[owners] + 0.5 * rng.normal(size=(N + 40, WIDTH))).astype(np.float32)
    numbers = rng.permutation(2**62 + 7 * np.arange(N))
    names = np.array([f'it\'s "{number}"' for number in numbers])
    return Data(points[:N], points[N:], numbers, names)


@pytest.fixture(scope="session")
def postgres():
    """The text that connects to a server of the tests' own; CI never goes without."""
    from postgres_server import installed, running

    if installed() is None and not os.environ.get("CI"):
        pytest.skip("no package that brings PostgreSQL is installed (extra test)")
    with running() as connection:
        import psycopg

        with psycopg.connect(connection, autocommit=True) as setup:
            setup.execute("CREATE EXTENSION vector")
        yield connection


@pytest.fixture(
    scope="session",
    params=[*store_makers.FILES, *store_makers.MORE, *store_makers.SERVED],
    ids=lambda maker: maker.__name__,
)
def made(request, data, tmp_path_factory):
    """A store of each kind; CI has all engines."""
    package = store_makers.MORE.get(request.param)
    if package is not None and not find_spec(package) and not os.environ.get("CI"):
        pytest.skip(f"{package} is not installed (extra test)")
    if request.param in store_makers.SERVED:
        made = request.param(data, request.getfixturevalue("postgres"))
    else:
        made = request.param(data, tmp_path_factory.mktemp("store"))
    yield made
    if request.param in store_makers.SERVED:
        made.store.close()
