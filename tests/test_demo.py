import re
import sys
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner

from kinrank.cli.app import app
from kinrank.demo import run
from kinrank.png import encode_grey
from kinrank.report.pages import demo_page, signed

WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def demo():
    return run()


@pytest.fixture(scope="module")
def page(demo):
    return demo_page(demo)


@pytest.fixture(scope="module")
def page_file(page, tmp_path_factory):
    file = tmp_path_factory.mktemp("demo") / "demo.html"
    file.write_text(page, encoding="utf-8")
    return file


# The experiment


def test_the_digits_are_those_of_the_protocol(demo):
    from sklearn.datasets import load_digits

    digits = load_digits()
    assert (len(demo.queries), len(demo.gallery)) == (100, 1697)
    np.testing.assert_array_equal(demo.queries.labels, digits.target[::18])
    np.testing.assert_array_equal(demo.gallery.labels[:17], digits.target[1:18])
    assert digits.images[18].max() == 16
    expected = 255 - np.round(digits.images[18] * 255 / 16)
    np.testing.assert_allclose(demo.queries.pixels[1], expected, atol=1)


def test_before_is_the_plain_ranking(demo):
    # mAP, R1 and mINP of the cosine ranking, from an evaluation that is not ours.
    assert list(demo.before.headline.values()) == pytest.approx([66.756, 100, 14.193], abs=1e-3)


def test_after_is_better_and_timed(demo):
    assert demo.after.headline["mAP"] > demo.before.headline["mAP"] + 15
    assert demo.after.headline["mINP"] > demo.before.headline["mINP"] + 15
    assert len(demo.after.seconds) >= 5
    assert all(seconds >= 0 for seconds in demo.after.seconds.values())


def test_examples_show_gains_and_a_loss_and_each_query_once(demo):
    examples = demo.examples()
    rows = [row for group in examples.values() for row in group]
    assert len(rows) == len(set(rows))
    assert {name: len(group) for name, group in examples.items()} == {
        "lost": 1,
        "top": 4,
        "gained": 2,
        "typical": 3,
    }
    assert demo.gains[examples["lost"][0]] == demo.gains.min() < 0
    assert (demo.gains[examples["gained"]] > np.median(demo.gains)).all()
    first = [demo.right(outcome)[:, :10].sum(axis=1) for outcome in (demo.before, demo.after)]
    assert (first[1] - first[0])[examples["top"][0]] == (first[1] - first[0]).max()


def test_groups_are_found_without_labels_and_shown(demo, page):
    assert demo.grouping.ari > 0.8
    assert 10 <= len(demo.groups) <= 40
    shown = demo.shown_groups()
    assert len(shown) == 10
    assert all(len(rows) == 10 for _, rows in shown)
    assert "Who is the same" in page
    assert f"adjusted Rand index {100 * demo.grouping.ari:.1f}" in " ".join(page.split())


# Pictures


def read_png(content):
    """Decode a grey PNG whose lines have no filter, checking every checksum."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        kind, data = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        crc = int.from_bytes(content[at + 8 + length : at + 12 + length], "big")
        assert crc == zlib.crc32(kind + data)
        chunks[kind] = data
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height = (int.from_bytes(chunks[b"IHDR"][i : i + 4], "big") for i in (0, 4))
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def test_png():
    pixels = np.arange(15, dtype=np.uint8).reshape(3, 5) * 17
    np.testing.assert_array_equal(read_png(encode_grey(pixels)), pixels)


def test_strips_have_a_cell_for_each_result(demo, page):
    strips = re.findall(r'<svg class="strip".*?</svg>', page, re.DOTALL)
    assert len(strips) == 20
    for strip in strips:
        right, total = map(int, re.search(r"(\d+) of the first (\d+) are right", strip).groups())
        assert strip.count("0h1v1h-1z") == right
        assert strip.count("M") == total


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.234, "+1.23"), (-0.5, "\N{MINUS SIGN}0.50"), (0, "±0.00"), (-0.001, "±0.00")],
)
def testsigned(number, text):
    assert signed(number) == text


# The page


class Outline(HTMLParser):
    """Collects tags and refuses what is not closed."""

    VOID = frozenset({"meta", "img", "br", "path", "circle", "rect"})

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def outline(page):
    parser = Outline()
    parser.feed(page)
    assert parser.open == []
    return parser.seen


def test_page_is_well_formed_and_needs_no_network(page):
    for tag, attributes in outline(page):
        assert tag not in {"script", "link", "iframe"}
        assert attributes.get("src", "data:").startswith("data:image/png;base64,") or tag != "img"
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"https?://|url\((?!#)|@import", page)


def test_page_shows_ten_before_and_ten_after(demo, page):
    tags = outline(page)
    queries = [attributes for tag, attributes in tags if attributes.get("class") == "query"]
    assert len(queries) == 10
    marks = [attributes["class"] for tag, attributes in tags if tag == "li"]
    assert marks.count("member") == 100  # ten of each of ten groups
    assert len(marks) == 300
    rows = [row for group in demo.examples().values() for row in group]
    right = sum(demo.right(outcome)[rows, :10].sum() for outcome in (demo.before, demo.after))
    assert marks.count("right") == right
    assert marks.count("wrong") == 200 - right > 0
    assert page.count("✓ ") == right + 1  # and one in the legend


def test_every_picture_says_what_it_shows(page):
    pictures = [attributes for tag, attributes in outline(page) if tag == "img"]
    assert len(pictures) == 310
    assert all(re.search(r"\d", picture["alt"]) for picture in pictures)


def test_page_has_the_figures_of_the_table(demo, page):
    for outcome in (demo.before, demo.after):
        for value in outcome.headline.values():
            assert f"{value:.2f}" in page
    for stage in demo.after.seconds:
        assert f">{stage}</th>" in page


# The command


def test_command_prints_the_table_and_writes_the_page(tmp_path, monkeypatch, demo):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("kinrank.demo.run", lambda threads: demo)
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["demo", "--out", str(out), "--open"])
    assert result.exit_code == 0, result.output
    words = [line.split() for line in result.stdout.splitlines()]
    assert ["mAP", "R1", "mINP"] in words
    assert ["Euclidean", "66.76", "100.00", "14.19"] in words
    assert ["CAS", *(f"{value:.2f}" for value in demo.after.headline.values())] in words
    assert ["change", *(f"{value:+.2f}" for value in demo.change.values())] in words
    for stage in demo.after.seconds:
        assert any(line[:1] == stage.split()[:1] for line in words)
    assert out.read_text(encoding="utf-8") == demo_page(demo)
    assert opened == [out.resolve().as_uri()]


def test_without_scikit_learn_the_cure_is_said(tmp_path, monkeypatch):
    for name in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "page.html")])
    assert result.exit_code == 2
    assert "pip install 'kinrank[demo]'" in result.stderr
    assert not list(tmp_path.iterdir())


# In a browser


@pytest.fixture(params=["light", "dark"], scope="module")
def shown(request, browser, page_file):
    """The page in a browser, and everything it asked for or complained of."""
    context = browser.new_context(color_scheme=request.param, viewport=WIDE)
    tab = context.new_page()
    tab.asked, tab.complaints, tab.scheme = [], [], request.param
    tab.on("request", lambda asked: tab.asked.append(asked.url))
    tab.on("console", lambda message: tab.complaints.append(message.text))
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.goto(page_file.as_uri())
    yield tab
    context.close()


def colour(tab, selector, name):
    text = tab.evaluate(
        "([selector, name]) => getComputedStyle(document.querySelector(selector))[name]",
        [selector, name],
    )
    return np.array([float(part) for part in re.findall(r"[\d.]+", text)[:3]])


def luminance(rgb):
    parts = rgb / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_browser_loads_it_alone(shown):
    assert {url.partition(":")[0] for url in shown.asked} <= {"file", "data"}
    assert shown.complaints == []
    sizes = shown.evaluate(
        "[...document.images].map(image => [image.complete, image.naturalWidth])"
    )
    assert len(sizes) == 310
    assert all(size == [True, 8] for size in sizes)


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_browser_never_scrolls_sideways(shown, viewport):
    shown.set_viewport_size(viewport)
    assert shown.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    narrow = shown.evaluate(
        "Math.min(...[...document.querySelectorAll('li')].map(item => item.clientWidth))"
    )
    assert narrow >= 40  # a digit can be seen on a phone
    shown.set_viewport_size(WIDE)


def test_browser_frames_right_green_and_wrong_red(shown):
    right, wrong = (
        colour(shown, f"li.{name} .frame", "borderTopColor") for name in ("right", "wrong")
    )
    assert right[1] == right.max() > right[0]
    assert wrong[0] == wrong.max() > wrong[1]
    styles = shown.evaluate(
        "['right', 'wrong'].map(name => "
        "getComputedStyle(document.querySelector(`li.${name} .frame`)).borderTopStyle)"
    )
    assert styles == ["solid", "dashed"]


def test_browser_text_can_be_read(shown):
    paper, card = (
        colour(shown, "body", "backgroundColor"),
        colour(shown, ".card", "backgroundColor"),
    )
    assert (luminance(paper) < 0.1) == (shown.scheme == "dark")
    for selector in ("h1", "header p", "figcaption"):
        assert contrast(colour(shown, selector, "color"), paper) >= 4.5, selector
    for selector in ("li.right span", "li.wrong span", ".asked p", ".note"):
        assert contrast(colour(shown, selector, "color"), card) >= 4.5, selector
