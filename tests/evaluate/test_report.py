"""The report: what is in it, and how it looks in a browser."""

import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest

from kinrank import InvalidInputError, OptionalDependencyError, datasets
from kinrank.evaluate.reporting import pictures, plots, report
from kinrank.evaluate.reporting.gather import gather, histogram
from kinrank.evaluate.reporting.page import plot_style
from kinrank.evaluate.reporting.svg import nice_ticks
from kinrank.evaluate.spec import parse_method
from kinrank.metrics.bootstrap import Interval
from kinrank.png import encode_grey
from kinrank.types import Ranking

METHODS = "none,cas(k1=8,k2=3),cas(k1=12,k2=4)"
SIZES = {"wide": (1200, 900), "phone": (360, 740)}


@pytest.fixture(scope="module")
def picture_set(tmp_path_factory):
    """A set of the Revisited protocol with images and boxes."""
    folder = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    centres = random.normal(size=(4, 6))
    queries = centres + random.normal(scale=0.3, size=(4, 6))
    gallery = np.repeat(centres, 12, axis=0) + random.normal(scale=0.8, size=(48, 6))
    names = {"query": [f"q{i}.png" for i in range(4)], "gallery": [f"g{i}.png" for i in range(48)]}
    for name in [*names["query"], *names["gallery"]]:
        (folder / name).write_bytes(encode_grey(random.integers(0, 255, (40, 30)).astype(np.uint8)))
    gnd = [
        {"easy": [*range(b, b + 5)], "hard": [*range(b + 5, b + 9)], "junk": [b + 9]}
        for b in range(0, 48, 12)
    ]
    return datasets.Dataset(
        name="buildings",
        protocol="revisited",
        query=datasets.Part(paths=names["query"], features=queries.astype(np.float32)),
        gallery=datasets.Part(paths=names["gallery"], features=gallery.astype(np.float32)),
        gnd=[{**entry, "bbx": [2, 2, 20, 30]} for entry in gnd],
        images=folder,
    )


@pytest.fixture(scope="module")
def page_file(picture_set, toy_set, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "report.html"
    report(
        [toy_set, picture_set],
        out,
        methods=METHODS,
        studies=["bsd", "nss", "distance", "k2"],
        values={"k2": [2, 3, 4]},
        isolate=False,
    )
    return out


class Tags(HTMLParser):
    """Counts elements and checks that they are closed."""

    VOID = ("meta", "img", "br", "link", "input")

    def __init__(self, text) -> None:
        super().__init__()
        self.open, self.seen, self.addresses = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        self.seen.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs) -> None:
        self.seen.append(tag)


def test_the_page_is_whole_and_needs_no_network(page_file) -> None:
    text = page_file.read_text(encoding="utf-8")
    tags = Tags(text)
    assert not tags.open
    assert all(a.startswith(("data:image/", "#")) for a in tags.addresses)
    assert not re.search(r"https?://(?!www\.w3\.org)|@import|url\(", text)
    without_images = re.sub(r"data:image/[^\"]*", "", text)
    assert len(without_images.encode()) < 2_000_000
    for key in ("comparison", "queries", "examples", "distances", "ablations", "cost"):
        assert f'<section id="{key}">' in text
    assert tags.seen.count("table") >= 4
    assert tags.seen.count("figure") >= 15
    assert "Effect of k₂" in text
    assert "Effectiveness of Bidirectional Similarity Diffusion" in text


def test_examples_show_the_query_and_ten_before_and_after(page_file) -> None:
    text = page_file.read_text(encoding="utf-8")
    examples = re.findall(r'<article class="example">.*?</article>', text, re.DOTALL)
    assert examples
    for example in examples:
        assert example.count("<li ") == 20
        assert example.count("<img ") == 21
    assert 'class="right"' in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_in_chromium(browser, page_file, tmp_path, scheme, size) -> None:
    width, height = SIZES[size]
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
    )
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert page.locator("table:visible").count() >= 4
    assert page.locator("figure.plot > svg").count() >= 12
    for plot in page.locator("figure.plot > svg").all():
        box = plot.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 40
    # Nothing sticks out to the side, and plots have text that can be read.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    smallest = page.evaluate(
        """Math.min(...[...document.querySelectorAll('figure.plot > svg text')].map(
            t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))"""
    )
    assert smallest >= 8
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background
    page.click("#theme")
    page.locator("summary").first.click()
    assert page.locator("details[open] table").first.is_visible()
    shot = tmp_path / "report.png"
    page.screenshot(path=shot, full_page=True)
    assert shot.read_bytes().startswith(b"\x89PNG")
    assert shot.stat().st_size > 50_000
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_thumbnails_have_the_box_of_the_query(picture_set) -> None:
    image = pytest.importorskip("PIL.Image")
    uri = pictures.picture(picture_set, "query", 0)
    content = BytesIO(b64decode(uri.partition(",")[2]))
    with image.open(content) as small:
        assert small.height == pictures.HEIGHT
        pixels = np.asarray(small.convert("RGB"), int)
    orange = (pixels[..., 0] > 200) & (abs(pixels[..., 1] - 140) < 60) & (pixels[..., 2] < 90)
    assert orange.sum() > 50


def test_without_pillow_small_files_are_taken_as_they_are(picture_set, monkeypatch) -> None:
    def absent(package, *, extra, purpose):
        raise OptionalDependencyError(package, extra, purpose)

    monkeypatch.setattr(pictures, "require", absent)
    uri = pictures.picture(picture_set, "gallery", 3)
    assert b64decode(uri.partition(",")[2]) == (picture_set.images / "g3.png").read_bytes()
    monkeypatch.setattr(pictures, "MAX_RAW_BYTES", 10)
    assert pictures.picture(picture_set, "gallery", 3) is None


def test_files_that_are_no_images_are_left_out(picture_set, tmp_path) -> None:
    (tmp_path / "g0.png").write_bytes(b"no image")
    broken = replace(picture_set, images=tmp_path)
    assert pictures.picture(broken, "gallery", 0) is None
    assert pictures.picture(broken, "gallery", 1) is None


def test_without_images_and_studies(toy_set) -> None:
    text = report([toy_set], methods="none", isolate=False)
    assert "Retrieval examples" not in text
    assert "Ablations" not in text
    assert not Tags(text).open


def test_names_are_escaped(toy_set) -> None:
    named = replace(toy_set, name="<script>alert(1)</script>")
    text = report([named], methods="none,cas(k1=8,k2=3)", isolate=False, title="<i>")
    assert "<script>alert" not in text
    assert "<i>" not in text


def test_focus(toy_set) -> None:
    with pytest.raises(InvalidInputError, match="`focus` must be one of the methods"):
        report([toy_set], methods="none", focus="cas", isolate=False)
    text = report([toy_set], methods=METHODS, focus="cas(k1=12, k2=4)", isolate=False)
    assert "<b>cas(k1=12, k2=4)</b> against" in text


def test_histogram_counts_matches_apart() -> None:
    # Matches at 1 and 2, others at 2 and 5: 1 < 2, 1 < 5, 2 = 2 (half), 2 < 5.
    data = datasets.Dataset(
        name="four",
        protocol="reid",
        query=datasets.Part(labels=np.array([7])),
        gallery=datasets.Part(labels=np.array([7, 7, 1, 2, -1])),
    )
    ranking = Ranking(np.array([[0, 1, 2, 3, 4]]), np.array([[1.0, 2.0, 2.0, 5.0, 9.0]]))
    found = histogram(data, ranking)
    assert found.order == pytest.approx(3.5 / 4)
    assert found.matches.sum() == pytest.approx(1)
    assert found.edges[-1] == 5  # junk is not looked at


def test_the_largest_loss_is_shown_too(toy_set) -> None:
    found = gather(toy_set, parse_method("none"), parse_method("cas(k1=8,k2=3)"), n_examples=3)
    gains = found.ap_after - found.ap_before
    if gains.min() < 0:
        assert found.examples[-1].query == int(np.argmin(gains))
    assert len(found.examples) <= 3


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3.2, 3.3), (-7, 80), (66.1, 91.9), (5, 5)])
def test_ticks_are_round_and_cover(low, high) -> None:
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low <= high <= ticks[-1]
    assert 2 <= len(ticks) <= 8


def test_plots_as_files_are_whole(tmp_path) -> None:
    from xml.etree import ElementTree as ET

    values = np.linspace(0, 1, 40)
    figures = [
        plots.curves("c", ["1", "2"], {"mAP": {"a": [0.1, 0.2], "b": [0.3, None]}}, own="2"),
        plots.bars("b", ["x"], {"<&>": [0.4], "other": [None]}),
        plots.before_after("s", values, values[::-1], [f"q{i}" for i in range(40)]),
        plots.sorted_gains("g", values - 0.3),
        plots.distributions("d", np.arange(4.0), np.array([1, 0, 0]), np.array([0, 0.5, 0.5])),
        plots.intervals("i", {"m": Interval(0.1, -0.1, 0.3)}, caption="said"),
        plots.amounts("t", {"m": 0.001, "n": 2.0}, "s"),
    ]
    for figure in figures:
        ET.fromstring(figure.file(plot_style()))  # noqa: S314 - our own
        assert not Tags(str(figure)).open


def test_plots_of_nothing() -> None:
    assert plots.curves("c", ["1"], {"mAP": {"a": [None]}}) is None
    assert plots.bars("b", ["x"], {"a": [None]}) is None
    assert plots.intervals("i", {}) is None
    assert plots.sorted_gains("g", np.array([np.nan])) is None
