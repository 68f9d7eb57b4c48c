"""The report: what is in it, and how it looks in a browser."""

import re
import sys
from base64 import b64decode
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from io import BytesIO
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import kinrank
from kinrank import InvalidInputError, OptionalDependencyError, datasets
from kinrank.evaluate.comparison import compare
from kinrank.evaluate.reporting import histogram, rank_before_and_after, report
from kinrank.evaluate.spec import parse_method
from kinrank.metrics.results import Interval
from kinrank.png import encode_grey
from kinrank.report import figures, pages, thumbnails
from kinrank.report.figures import FORMATS
from kinrank.report.pages import cost_charts, gain_charts
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
    assert not re.search(r"https?://(?!www\.w3\.org)|@import|url\((?!#)", text)
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
    # Nothing sticks out to the side.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
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
    from PIL import Image

    uri = thumbnails.picture(picture_set, "query", 0)
    content = BytesIO(b64decode(uri.partition(",")[2]))
    with Image.open(content) as small:
        assert small.height == thumbnails.HEIGHT
        pixels = np.asarray(small.convert("RGB"), int)
    orange = (pixels[..., 0] > 200) & (abs(pixels[..., 1] - 140) < 60) & (pixels[..., 2] < 90)
    assert orange.sum() > 50


def test_files_that_are_no_images_are_left_out(picture_set, tmp_path) -> None:
    (tmp_path / "g0.png").write_bytes(b"no image")
    broken = replace(picture_set, images=tmp_path)
    assert thumbnails.picture(broken, "gallery", 0) is None
    assert thumbnails.picture(broken, "gallery", 1) is None


def test_without_images_and_studies(toy_set) -> None:
    text = report([toy_set], methods="none", isolate=False)
    assert "Retrieval examples" not in text
    assert "Ablations" not in text
    assert not Tags(text).open


def test_what_was_chosen_and_why(toy_set) -> None:
    page = report([toy_set], methods="none,cas(params=auto)", isolate=False)
    tuning = kinrank.tune(toy_set.query.features, toy_set.gallery.features)
    assert "Parameters chosen without labels" in page
    for sentence in (tuning.call, *tuning.chosen.sentences().values()):
        assert escape(sentence) in page
    assert "chosen without labels" not in report([toy_set], methods="none,cas", isolate=False)


@pytest.mark.parametrize("size", SIZES)
def test_reasons_are_not_cut_off(browser, toy_set, tmp_path, size) -> None:
    out = tmp_path / "report.html"
    report([toy_set], out, methods="none,cas(params=auto)", isolate=False)
    tuned = tmp_path / "tuning.html"
    tuning = kinrank.tune(toy_set.query.features, toy_set.gallery.features)
    tuned.write_text(pages.tuning_page(tuning), encoding="utf-8")
    width, height = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height})
    for file in (out, tuned):
        page.goto(file.as_uri())
        cells = page.locator(".facts td")
        assert cells.count() > 3
        for cell in cells.all():
            box = cell.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


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
    found = rank_before_and_after(
        toy_set, (parse_method("none"), parse_method("cas(k1=8,k2=3)")), n_examples=3
    )
    gains = found.sides[1].ap - found.sides[0].ap
    if gains.min() < 0:
        assert found.examples[-1].query == int(np.argmin(gains))
    assert len(found.examples) <= 3


VALUES = np.linspace(0, 1, 40)


def charts():
    edges, shares = np.arange(4.0), (np.array([1, 0, 0.0]), np.array([0, 0.5, 0.5]))
    return [
        figures.curves("c", ["1", "2"], {"mAP": {"a": [0.1, 0.2], "b": [0.3, None]}}, base="2"),
        figures.bars("b", ["x"], {"<&>": [0.4], "other": [None]}),
        figures.before_after("s", VALUES, VALUES[::-1], [f"<q{i}>" for i in range(40)]),
        figures.sorted_gains("g", VALUES - 0.3),
        figures.distributions("d", edges, *shares, "said"),
        figures.intervals("i", {"m": Interval(0.1, -0.1, 0.3)}, "points"),
        figures.amounts("t", {"m": 0.001, "n": 2.0}, "time", "s"),
    ]


def test_figures_are_the_same_bytes_each_time_and_need_no_style_sheet() -> None:
    for one, other in zip(charts(), charts(), strict=True):
        contents = {form: one.content(form) for form in FORMATS}
        for form, content in contents.items():
            assert content == other.content(form)
            assert content.startswith({"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}[form])
        text = contents["svg"].decode()
        ET.fromstring(text)  # noqa: S314 - our own
        assert "var(" not in text
        assert "<text" not in text  # letters are outlines: no font is needed
        assert b"/CreationDate" not in contents["pdf"]
        assert not Tags(one.svg()).open


def axis_titles(chart) -> set[str]:
    return {title for ax in chart.canvas.axes for title in (ax.get_xlabel(), ax.get_ylabel())}


def test_axes_have_units() -> None:
    curves, bars, scatter, gains, shares, intervals, amounts = map(axis_titles, charts())
    assert any("(%)" in title for title in curves)
    assert "%" in bars
    assert {"AP before (%)", "AP after (%)"} <= scatter
    assert "gain in AP (points)" in gains
    assert "share of pairs" in shares
    assert "points" in intervals
    assert "time (s)" in amounts


def test_methods_have_their_published_names_in_figures(toy_set) -> None:
    comparison = compare("none,aqe(kqe=4)", [toy_set], isolate=False)
    text = {
        label.get_text()
        for chart in (*gain_charts(comparison), *cost_charts(comparison))
        for label in chart.canvas.axes[0].get_yticklabels()
    }
    assert text == {"Baseline", "AQE (kqe=4)"}
    titles = set().union(*map(axis_titles, gain_charts(comparison)))
    assert "gain in mAP over Baseline (points)" in titles


def test_figures_for_a_column_have_small_letters(tmp_path) -> None:
    for chart in charts():
        chart.save(tmp_path / "column.svg", figures.COLUMN)
        width = ET.parse(tmp_path / "column.svg").getroot().get("width")  # noqa: S314 - our own
        assert float(width.removesuffix("pt")) == pytest.approx(72 * figures.COLUMN, abs=0.1)
        ax = chart.canvas.axes[0]
        sizes = {
            text.get_fontsize()
            for text in (ax.xaxis.label, ax.yaxis.label, *ax.get_yticklabels())
            if text.get_text()
        }
        assert max(sizes) == pytest.approx(figures.FONT * figures.COLUMN / figures.WIDTH)


def test_figures_leave_settings_alone() -> None:
    import matplotlib as mpl

    names = ("svg.hashsalt", "svg.fonttype", "pdf.fonttype", "font.size", "axes.grid")
    before = {name: mpl.rcParams[name] for name in names}
    charts()[0].content("svg")
    assert {name: mpl.rcParams[name] for name in names} == before
    assert "matplotlib.pyplot" not in sys.modules


def test_dots_say_which_query_they_are() -> None:
    text = figures.before_after("s", VALUES, VALUES[::-1], [f"<q{i}>" for i in range(40)]).svg()
    assert "<title>&lt;q0&gt;: 0.0 before, 100.0 after</title>" in text


def test_figures_of_nothing() -> None:
    assert figures.curves("c", ["1"], {"mAP": {"a": [None]}}) is None
    assert figures.bars("b", ["x"], {"a": [None]}) is None
    assert figures.intervals("i", {}, "points") is None
    assert figures.sorted_gains("g", np.array([np.nan])) is None


@pytest.mark.parametrize("package", ["matplotlib.figure", "jinja2"])
def test_without_the_extra_the_cure_is_said_before_the_work(package, toy_set, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    pages._environment.cache_clear()
    with pytest.raises(OptionalDependencyError, match=r"kinrank\[report\]"):
        report([toy_set], methods="none", isolate=False)
