import pytest


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(shared_cache, monkeypatch):
    """Converted networks stay out of the user's cache."""
    monkeypatch.setenv("KINRANK_CACHE", str(shared_cache))
    return shared_cache
