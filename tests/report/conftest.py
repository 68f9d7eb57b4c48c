import pytest

from kinrank import datasets


@pytest.fixture(scope="session")
def toy_set():
    return datasets.toy(n_classes=4, per_class=40, n_queries=20)
