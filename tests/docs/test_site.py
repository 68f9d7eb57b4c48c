"""The site builds without a warning, and works from a folder without a network."""

import os
import subprocess
import sys

import pytest

from doc_files import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def page(browser, request):
    width, scheme, *scripts = getattr(request, "param", (1200, "light"))
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme,
        java_script_enabled=scripts != ["without scripts"],
    )  # fmt: skip
    page = context.new_page()
    page.wanted = []
    page.on("request", lambda asked: page.wanted.append(asked.url))
    yield page
    context.close()


def test_search_works_without_a_network(site, page):
    page.goto(f"file://{site}/index.html")
    page.keyboard.press("/")
    page.keyboard.type("unknown_rate")
    first = page.locator(".md-search-result__link").first
    first.wait_for(timeout=20_000)
    assert ".html" in first.get_attribute("href")
    assert all(url.startswith(("file:", "blob:", "data:")) for url in page.wanted), page.wanted


@pytest.mark.parametrize("page", [(390, "dark"), (1200, "light")], indirect=True)
@pytest.mark.parametrize(
    "name", ["index", "which", "how", "reference/methods", "reference/commands"]
)
def test_pages_fit_the_screen(site, page, name):
    page.goto(f"file://{site}/{name}.html")
    across = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert across <= 0
    broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
    assert page.evaluate(broken) == []


@pytest.mark.parametrize(
    "page",
    [
        (1280, "light", "without scripts"),
        pytest.param((1280, "light"), marks=pytest.mark.long),
        pytest.param((1920, "light"), marks=pytest.mark.long),
    ],
    indirect=True,
)
def test_code_is_not_cut_off_on_a_desktop(site, page):
    """On any page: no block of code is wider than its frame."""
    wider = (
        "[...document.querySelectorAll('.md-typeset pre > code')]"
        ".filter(code => code.scrollWidth > code.clientWidth).map(code => code.innerText)"
    )
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        assert page.evaluate(wider) == [], path.name


def test_no_link_is_broken(site):
    import re

    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for link in re.findall(r'href="([^"#?:]+)(?:#[^"]*)?"', text):
            if path.name != "404.html":
                assert (path.parent / link).exists(), (path.name, link)
