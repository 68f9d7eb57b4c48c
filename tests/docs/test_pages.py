"""What the pages say of options, names and files is so; none is too long."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from types import ModuleType

import pytest

import kinrank
from doc_files import PAGES, ROOT
from kinrank.cli.app import app
from kinrank.datasets.load import BUILT_IN, READERS
from kinrank.features.preprocess import FIELDS, PRESETS
from kinrank.learned.recipes import RECIPES

DOCS = ROOT / "docs"
# Pages to look things up in; all others are to be read from beginning to end.
LOOKED_UP = {"benchmarks.md", "maintainers.md", "methods.md"}
USER = [path for path in DOCS.glob("*.md") if path.name not in LOOKED_UP]


def text(name):
    return (DOCS / name).read_text(encoding="utf-8")


def words_of(path):
    """Words that somebody wrote: no tables that scripts make, no bars between cells."""
    written = re.sub(r"(?s)<!-- table: .*?<!-- /table -->", "", path.read_text(encoding="utf-8"))
    return sum(any(letter.isalnum() for letter in word) for word in written.split())


def test_people_can_finish_the_pages():
    words = {path.name: words_of(path) for path in USER}
    assert max(words.values()) <= 1000, words
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_every_page_is_in_the_site():
    listed = set(re.findall(r"(\S+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_results_are_on_the_pages():
    command = [sys.executable, str(ROOT / "benchmarks" / "page.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_figures_are_made_by_their_script(tmp_path):
    spec = importlib.util.spec_from_file_location("figures", DOCS / "make" / "figures.py")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    figures.main(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        path.name for path in (DOCS / "assets").glob("*.svg")
    }


def test_every_command_is_in_the_reference():
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "make" / "hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = hooks.on_page_markdown(text("reference/commands.md"))
    for name, command in app.commands.items():
        assert f"## kinrank {name}\n" in page
        for below in getattr(command, "commands", {}):
            assert f"## kinrank {name} {below}\n" in page
    assert "--omega" in page


def test_everything_public_is_in_the_reference():
    pages = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    for name in kinrank.__all__:
        value = getattr(kinrank, name)
        if name != "__version__" and not isinstance(value, ModuleType):
            assert re.search(rf"::: kinrank\.[\w.]*{name}\n|`{name}`", pages), name


def test_formats_presets_and_fields_are_listed():
    page = text("reference/formats.md")
    for name in [
        *READERS,
        *BUILT_IN,
        *PRESETS,
        *(f"--{name.replace('_', '-')}" for name in FIELDS),
    ]:
        assert f"`{name}`" in page
    for name in ("mac", "spoc", "gem", "rmac", "none"):
        assert f"`{name}`" in text("features.md")
    both = page + text("features.md") + text("reference/commands.md")
    for name in ("extract", "whiten", "models"):
        assert f"kinrank {name}" in both


def test_methods_are_listed():
    table = text("methods.md")
    for name in kinrank.methods():
        assert f"| `{name}` |" in table
    for name in RECIPES:
        assert f"kinrank train {name}" in text("learned.md")
    for name in re.findall(r"from (kinrank\.compat\.\w+) import", table):
        importlib.import_module(name)


def test_options_of_the_service_exist():
    known = {word for option in app.commands["serve"].params for word in option.opts}
    pages = text("serve.md") + text("reference/http.md")
    assert set(re.findall(r"--[a-z][a-z-]+", pages)) - {"--data-binary"} <= known


def test_every_extra_is_listed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in text("reference/extras.md"), extra


def test_the_map_of_the_house_is_right():
    page = text("maintainers.md")
    files = [
        path
        for folder in ("src", "tests", "docs", "benchmarks", ".ci", ".github")
        for path in (ROOT / folder).rglob("*.*")
    ]
    files += ROOT.iterdir()
    rooms = [path for path in (ROOT / "src" / "kinrank").iterdir() if path.suffix in ("", ".py")]
    for path in rooms:
        name = f"{path.name}/" if path.is_dir() else path.name
        assert path.name == "__pycache__" or re.search(rf"\s{re.escape(name)}\s", page), name
    for name in re.findall(r"`([\w/.-]+\.(?:py|md|yml|js))`", page):
        assert any(path.match(name) for path in files), name


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), (page.name, target)


def test_the_changelog_and_the_citation_know_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {kinrank.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{kinrank.__version__}]" in changes or "## [Unreleased]" in changes
