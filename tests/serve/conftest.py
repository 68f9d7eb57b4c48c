from contextlib import ExitStack, closing
from functools import cache

import pytest
from PIL import Image

from index_data import ROWS
from kinrank import CAS
from serve_process import serving
from windows import WIDE


@pytest.fixture(scope="package")
def demo():
    with serving("--demo") as server:
        yield server


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    """An index with names as ids, pictures of some of its rows, and traps."""
    root = tmp_path_factory.mktemp("served")
    images = root / "images"
    (images / "sub").mkdir(parents=True)
    (root / "secret.png").write_bytes(b"not for you")
    Image.new("RGB", (300, 200), (200, 30, 30)).save(images / "sub" / "red.png")
    Image.new("RGB", (40, 40), (30, 30, 200)).save(images / "blue.jpg")
    (images / "words.txt").write_text("no picture")
    (images / "link.png").symlink_to(root / "secret.png")
    (images / "out").symlink_to(root)
    special = [
        "sub/red.png", "blue", "words.txt", "link.png", "out/secret.png", "../secret.png",
        str(root / "secret.png"), "nul\tbyte", "none",
    ]  # fmt: skip
    ids = [*special, *(f"row {n}" for n in range(len(ROWS) - len(special)))]
    CAS(k1=10, k2=4).fit(ROWS, ids=ids).save(root / "an.index")
    (root / "labels.txt").write_text("\n".join(str(n % 23) for n in range(len(ROWS))))
    return root


@pytest.fixture(scope="package")
def pictures(folder):
    with serving(
        folder / "an.index", "--images", folder / "images", "--labels", folder / "labels.txt"
    ) as server:
        yield server


@pytest.fixture(scope="package")
def guarded(folder):
    """Without pictures, and only for those who have the token."""
    token = "sesame, open up!"  # noqa: S105
    served = (folder / "an.index", "--labels", folder / "labels.txt", "--token", token)
    with serving(*served) as server:
        server.token = token
        yield server


@pytest.fixture(scope="package")
def limited(folder):
    """A service that takes little, and does not wait long."""
    with serving(folder / "an.index", "--max-body", 300_000, "--timeout", 3) as server:
        yield server


@pytest.fixture
def writable(folder, tmp_path):
    path = tmp_path / "an.index"
    path.write_bytes((folder / "an.index").read_bytes())
    with serving(path, "--writable") as server:
        server.path = path
        yield server


@pytest.fixture(scope="session")
def artefacts(request):
    """Where screenshots are kept to be looked at; those of the run before are replaced."""
    where = request.config.rootpath / "test-artifacts"
    where.mkdir(exist_ok=True)
    return where


@pytest.fixture(scope="package")
def windows(browser):
    """A window for each look; what the page remembers, it remembers for a tab."""
    with ExitStack() as opened:

        @cache
        def window(scheme, width, height):
            size = {"width": width, "height": height}
            context = browser.new_context(color_scheme=scheme, viewport=size)
            return opened.enter_context(closing(context))

        yield window


@pytest.fixture
def tab(windows, request):
    """An empty tab, and everything that it complains of."""
    scheme, size = getattr(request, "param", ("light", WIDE))
    page = windows(scheme, **size).new_page()
    page.complaints, page.asked = [], []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda asked: page.asked.append(asked.url))
    yield page
    page.close()


def pytest_terminal_summary(terminalreporter, config):
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    if any("tests/serve/test_page.py" in report.nodeid for report in reports):
        where = config.rootpath / "test-artifacts"
        terminalreporter.write_line(f"Screenshots of the page are in {where}")
