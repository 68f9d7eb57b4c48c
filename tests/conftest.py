import gc
import os
import shutil

import numpy as np
import pytest
from hypothesis import settings

from kinrank import registry

# Before a package with OpenMP is loaded: workers of pytest have twice as many threads as there are
# cores, and threads that wait would keep the cores busy.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
gc.disable()  # until all tests are collected
# Kernels compile on first use, so the time of one example says nothing.
settings.register_profile("kinrank", deadline=None, max_examples=50)
settings.load_profile("kinrank")

FEATURES = (  # a renderer in reserve for every tab, and Playwright's, whose list this replaces
    "SpareRendererForSitePerProcess", "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose", "HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable",
    "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning", "OptimizationHints",
    "AvoidCorsURLLoaderRestartOnRedirect", "NetworkTimeServiceQuerying", "PreconnectToSearch",
)  # fmt: skip
CHROMIUM_FLAGS = [
    "--no-sandbox",  # CI runs as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=" + ",".join(FEATURES),
]


# One worker runs all of a folder: its tests share a cluster of Ray, services, or PostgreSQL.
TOGETHER = ("tests/cluster/", "tests/serve/", "tests/stores/")
LONGEST = (
    "tests/cluster/", "tests/serve/", "tests/test_start.py", "tests/test_machine.py", "tests/fuzz/",
    "tests/docs/", "tests/report/", "tests/large/", "tests/stores/", "tests/learned/",
    "tests/features/", "tests/conditions/",
)  # fmt: skip


def room(nodeid):
    """What one worker runs from beginning to end: a file, or a folder."""
    folder = next((folder for folder in TOGETHER if nodeid.startswith(folder)), None)
    return folder or nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Rooms(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return room(nodeid)

    return Rooms(config, log)


def pytest_collection_modifyitems(items):
    """The longest rooms first, so that no worker is left alone with one at the end."""
    begins = [*LONGEST, ""]
    items.sort(key=lambda item: [item.nodeid.startswith(begin) for begin in begins].index(True))


def pytest_collection_finish():
    """What tests and packages have made until now stays: no collection looks at it."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def own_methods(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_REGISTERED", {})


@pytest.fixture
def fake_method(monkeypatch):
    """Register the method "fake" for one test."""
    monkeypatch.setitem(registry._METHODS, "fake", "fakes:Fake")
    return "fake"


@pytest.fixture
def files(tmp_path, fake_method):
    """The arguments of a run with the fake method."""
    from cli_helpers import GALLERY, QUERIES

    np.save(tmp_path / "q.npy", QUERIES)
    np.save(tmp_path / "g.npy", GALLERY)
    paths = {"query": "q.npy", "gallery": "g.npy", "out": "ranking.npz"}
    args = ["rerank", "--method", fake_method]
    for name, path in paths.items():
        args += [f"--{name}", tmp_path / path]
    return args


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; a machine without it skips, CI never does."""
    # The shell draws the same pages with half the work: it has no windows to draw them for.
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed, and CI must not skip the browser test")
        pytest.skip("chromium is not installed; `make test` as root installs it on Debian")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()
