"""`kinrank demo --images`: from files to the page."""

import re
import sys

import numpy as np
import pytest
from PIL import Image

from cli_helpers import run
from kinrank import KinrankWarning
from kinrank.demo.images import run_images
from kinrank.report.pages import demo_page

RNG = np.random.default_rng(0)


def paint(folder, classes, each, flat=False):
    """Pictures of a few colours: those of a class are alike."""
    for kind in range(classes):
        base = RNG.integers(0, 256, (4, 5, 3)).astype(float)
        for number in range(each):
            pixels = np.clip(base + RNG.normal(scale=40, size=base.shape), 0, 255).astype(np.uint8)
            image = Image.fromarray(pixels).resize((90, 60 + number), Image.Resampling.BICUBIC)
            file = folder / (f"{kind}_{number}.jpg" if flat else f"<kind> {kind}/{number}.jpg")
            file.parent.mkdir(parents=True, exist_ok=True)
            image.save(file)


@pytest.fixture
def classes(tmp_path):
    paint(tmp_path / "photos", 5, 8)
    return tmp_path / "photos"


def test_files_of_the_digits_end_to_end(tmp_path):
    out = tmp_path / "page.html"
    result = run("demo", "--images", "--out", out)
    assert result.exit_code == 0, result.output
    assert "100 handwritten digits among 1,697 others" in result.stdout
    words = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if line}
    before, after = (float(words[name][0]) for name in ("Euclidean", "CAS"))
    assert before > 40
    assert after > before + 10
    assert "extract" in words
    page = out.read_text(encoding="utf-8")
    # Ten queries with twice ten results, and ten of each of ten groups.
    assert page.count("data:image/jpeg;base64,") == 310
    assert "kinrank demo --images" in page


def test_a_folder_per_class(classes, tmp_path):
    out = tmp_path / "page.html"
    result = run("demo", "--images", classes, "--out", out)
    assert result.exit_code == 0, result.output
    assert "40 pictures among 39 others" in result.stdout
    assert "mAP" in result.stdout
    page = out.read_text(encoding="utf-8")
    assert "&lt;kind&gt; 3" in page
    assert "<kind>" not in page
    assert not re.search(r"https?://|url\((?!#)|@import", page)
    assert str(tmp_path) not in page


def test_a_folder_without_classes_shows_what_changed(tmp_path):
    paint(tmp_path / "photos", 4, 8, flat=True)
    out = tmp_path / "page.html"
    result = run("demo", "--images", tmp_path / "photos", "--out", out)
    assert result.exit_code == 0, result.output
    assert "queries have new results in their first ten" in result.stdout
    assert "mAP" not in result.stdout
    page = out.read_text(encoding="utf-8")
    assert "Changed most" in page
    assert '<li class="new">' in page
    assert "✕" not in page


def test_bad_pictures_and_lonely_classes_do_no_harm(classes, tmp_path):
    (classes / "<kind> 0" / "broken.jpg").write_bytes(b"no")
    (classes / "alone").mkdir()
    Image.new("RGB", (30, 30), "red").save(classes / "alone" / "only.jpg")
    result = run("demo", "--images", classes, "--out", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "could not be used: 1, such as <kind> 0/broken.jpg (not a picture" in result.stderr
    context = run_images(str(classes))
    with pytest.warns(KinrankWarning, match="could not be used: 1"):
        demo = context.__enter__()
    assert "alone" not in demo.queries.labels
    assert np.isfinite(demo.before.ap).all()


def test_queries_and_gallery_that_are_given(tmp_path):
    for side in ("query", "gallery"):
        paint(tmp_path / "set" / side, 3, 5)
    with run_images(str(tmp_path / "set")) as demo:
        assert (len(demo.queries), len(demo.gallery)) == (15, 15)
        assert demo.judged


def test_too_few_pictures(tmp_path):
    paint(tmp_path / "photos", 1, 3)
    result = run("demo", "--images", tmp_path / "photos", "--out", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "at least 4 pictures to rank, got 3" in result.stderr


def test_without_the_extra_the_cure_is_said(classes, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    result = run("demo", "--images", classes, "--out", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "pip install 'kinrank[images]'" in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_in_a_browser(classes, tmp_path, browser):
    with run_images(str(classes)) as demo:
        (tmp_path / "page.html").write_text(demo_page(demo), encoding="utf-8")
    context = browser.new_context(color_scheme="dark", viewport={"width": 360, "height": 740})
    tab = context.new_page()
    complaints, asked = [], []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto((tmp_path / "page.html").as_uri())
    sizes = tab.evaluate("[...document.images].map(image => [image.complete, image.naturalWidth])")
    assert sizes
    assert all(complete and width >= 60 for complete, width in sizes)
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
    assert complaints == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    # Pictures come before times, and are called by their files.
    pictures = tab.locator("article.query").first.bounding_box()
    assert pictures["y"] < tab.locator("table.times").bounding_box()["y"]
    names = tab.locator(".asked .file").all_inner_texts()
    files = {file.relative_to(classes).as_posix() for file in classes.rglob("*.jpg")}
    assert {name.splitlines()[0] for name in names} <= files
    titles = tab.eval_on_selector_all("li img", "all => all.map(one => one.title)")
    assert set(titles) <= files
    assert "query 0" not in tab.inner_text("body")
    shown = "getComputedStyle(document.images[0]).filter"
    assert tab.evaluate(shown) == "none"  # photos keep their colours in the dark
    context.close()
