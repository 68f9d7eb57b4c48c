import numpy as np
import pytest

from kinrank import datasets


@pytest.fixture(scope="session")
def toy_set():
    return datasets.toy(n_classes=4, per_class=40, n_queries=20)


@pytest.fixture
def levels_set():
    """A small set of the Revisited protocol."""
    random = np.random.default_rng(3)
    centres = random.normal(size=(4, 8))
    queries = centres + random.normal(scale=0.4, size=(4, 8))
    gallery = np.repeat(centres, 12, axis=0) + random.normal(scale=0.7, size=(48, 8))
    gnd = [
        {
            "easy": list(range(b, b + 6)),
            "hard": list(range(b + 6, b + 10)),
            "junk": [b + 10, b + 11],
        }
        for b in range(0, 48, 12)
    ]
    return datasets.Dataset(
        name="levels",
        protocol="revisited",
        query=datasets.Part(features=queries.astype(np.float32)),
        gallery=datasets.Part(features=gallery.astype(np.float32)),
        gnd=gnd,
    )
