import pytest

from kinrank.kernels.jit import kernel_folder


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory):
    """A cache for converted networks, with the kernels of the user's: they are slow to make."""
    kernels, folder = kernel_folder().parent, tmp_path_factory.mktemp("cache")
    kernels.mkdir(parents=True, exist_ok=True)
    (folder / "kernels").symlink_to(kernels)
    return folder


@pytest.fixture(autouse=True)
def cache(shared_cache, monkeypatch):
    """Converted networks stay out of the user's cache."""
    monkeypatch.setenv("KINRANK_CACHE", str(shared_cache))
    return shared_cache
