"""The page in a browser."""

import io
import json
import re
from contextlib import ExitStack, closing
from functools import cache

import pytest
from PIL import Image
from playwright.sync_api import expect

WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 400, "height": 800}


@pytest.fixture(scope="module")
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


def opened(tab, server, tile=5):
    tab.goto(server.url)
    tab.click(f".tile >> nth={tile}")
    settled(tab)
    return tab


def settled(tab):
    """Wait until all rows are ranked."""
    tab.wait_for_selector('#lists[aria-busy="false"]')


def order(tab, side="right"):
    return tab.eval_on_selector_all(
        f"#{side}-list .result", "all => all.map(one => one.dataset.id)"
    )


def move(tab, name, value):
    """Move a slider and wait for what follows."""
    with tab.expect_response("**/v1/compare"):
        tab.locator(f"#set-{name}").fill(str(value))
    settled(tab)


@pytest.mark.parametrize(
    "tab", [("light", WIDE), ("dark", WIDE), ("light", PHONE)], indirect=True,
    ids=["light", "dark", "phone"],
)  # fmt: skip
def test_everything_is_shown(tab, demo, artefacts, request):
    opened(tab, demo)
    tab.click("#cluster summary")
    tab.wait_for_selector("#graph g.query")
    tab.focus("#graph g >> nth=3")
    tab.wait_for_selector("#node img")
    assert re.search(r"before smoothing, .* after", tab.inner_text("#node"))
    tab.click("#curves summary")
    tab.wait_for_selector("#scatter circle", timeout=60_000)
    before = tab.inner_text("#rates")
    tab.locator("#threshold").fill("80")
    assert tab.inner_text("#rates") != before
    assert "false-match rate" in before
    tab.evaluate("scrollTo(0, 0)")
    tab.screenshot(path=artefacts / f"{request.node.callspec.id}.png", full_page=True)
    width = tab.viewport_size["width"]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    dark = request.node.callspec.id == "dark"
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == dark
    assert tab.complaints == []
    assert all(url.startswith((demo.url, "blob:", "data:")) for url in tab.asked)


def test_it_starts_with_a_query(tab, demo):
    tab.goto(f"{demo.url}/#%")  # an address that was cut off
    tab.wait_for_selector("#right-list .result")
    settled(tab)
    assert tab.get_attribute(".tile >> nth=0", "aria-selected") == "true"
    assert tab.get_attribute(".tile >> nth=0", "data-id") in tab.inner_text("#asked")
    assert tab.complaints == []


def test_dots_of_the_cluster_show_their_pictures(tab, pictures, guarded):
    """Those that have one; the others stay dots."""
    tab.goto(f"{pictures.url}/#blue")
    tab.wait_for_selector("#right-list .result")
    tab.click("#cluster summary")
    tab.wait_for_selector("#graph g.query image[href*='/v1/items/blue/image']")
    expect(tab.locator("#graph image")).to_have_count(1)  # no other row of it has a file
    assert tab.locator("#graph circle.disc").count() > 5
    tab.goto(guarded.url)
    tab.fill("#token", guarded.token)
    tab.click("#login button")
    tab.wait_for_selector("#right-list .result")
    tab.click("#cluster summary")
    tab.wait_for_selector("#graph circle.disc")
    assert tab.locator("#graph image").count() == 0


def test_distances_without_labels_are_neither_right_nor_wrong(tab, limited, artefacts):
    tab.goto(limited.url)
    tab.wait_for_selector("#right-list .result")
    tab.click("#curves summary")
    tab.wait_for_selector("#charts:not([hidden])", timeout=60_000)
    assert tab.locator("#after rect.bar-all").count() == 40
    assert tab.locator("#after .bar-wrong, #after .bar-right").count() == 0
    fill = "getComputedStyle(document.querySelector('#after rect')).fill"
    red, green, blue = map(int, re.findall(r"\d+", tab.evaluate(fill))[:3])
    assert max(red, green, blue) - min(red, green, blue) < 40  # grey
    tab.locator("#curves").screenshot(path=artefacts / "no-labels.png")
    assert tab.complaints == []


def test_sliders_change_the_order(tab, demo):
    opened(tab, demo)
    first = order(tab)
    move(tab, "omega", 1)
    plain = order(tab)
    assert plain == order(tab, "left")  # omega = 1 is the old distance
    assert plain != first
    assert "omega 1" in tab.inner_text("#right-title")
    move(tab, "omega", 0.1)
    other = order(tab)
    assert other != plain
    with tab.expect_response("**/v1/compare"):
        tab.check("#set-geodesic")
    settled(tab)
    assert "geodesic" in tab.inner_text("#right-title")
    with tab.expect_response("**/v1/compare"):
        tab.click("#reset")
    settled(tab)
    assert order(tab) == first
    assert tab.complaints == []


def test_two_settings_are_compared(tab, demo):
    opened(tab, demo)
    move(tab, "k1", 12)
    kept = order(tab)
    with tab.expect_response("**/v1/compare"):
        tab.click("#keep")
    settled(tab)
    assert order(tab, "left") == kept
    move(tab, "sigma", 1)
    assert order(tab, "left") == kept
    assert "sigma 1" in tab.inner_text("#right-title")
    for method in ("kreciprocal", "aqe"):
        with tab.expect_response("**/v1/compare"):
            tab.select_option("#right", method)
        settled(tab)
        assert method in tab.inner_text("#right-title")
    assert tab.complaints == []


def test_queries_are_found_by_label_and_by_what_they_are_worth(tab, demo):
    tab.goto(demo.url)
    tab.wait_for_selector(".tile")
    with tab.expect_response("**/v1/items?search=7*"):
        tab.fill("#search", "7")
    expect(tab.locator(".tile").first).to_have_text("7")
    with tab.expect_response("**/v1/items?search=nobody*"):
        tab.fill("#search", "nobody")
    expect(tab.locator(".tile")).to_have_count(0)
    assert "Try another word" in tab.inner_text("#found")
    with tab.expect_response("**/v1/items?search=&*"):
        tab.fill("#search", "")
    with tab.expect_response("**/v1/items?*worst*", timeout=60_000):
        tab.select_option("#order", "worst")
    expect(tab.locator(".tile").first).to_have_text(re.compile("^AP"))
    texts = tab.eval_on_selector_all(".tile", "all => all.map(one => +one.innerText.slice(3))")
    assert texts == sorted(texts)
    assert tab.complaints == []


def test_it_works_with_the_keyboard(tab, demo):
    tab.goto(demo.url)
    tab.focus(".tile")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#right-list .result")
    tab.focus("#set-k1")
    with tab.expect_response("**/v1/compare"):
        tab.keyboard.press("ArrowLeft")
    assert tab.inner_text("label:has(#set-k1) output") == "59"
    tab.focus("#right-list .result")
    wanted = order(tab)[0]
    with tab.expect_response("**/v1/compare"):
        tab.keyboard.press("Enter")
    expect(tab.locator("#asked")).to_contain_text(wanted)
    assert tab.complaints == []


def test_a_picture_is_described_and_searched(tab, demo):
    stream = io.BytesIO()
    picture = Image.new("L", (64, 64), 255)
    picture.paste(0, (28, 8, 36, 56))  # a one
    picture.save(stream, "PNG")
    tab.goto(demo.url)
    tab.wait_for_selector(".tile")
    sent = {"name": "one.png", "mimeType": "image/png", "buffer": stream.getvalue()}
    tab.set_input_files("#file", sent)
    expect(tab.locator("#asked")).to_contain_text("Your picture, one.png")
    settled(tab)
    labels = tab.eval_on_selector_all(
        "#right-list .facts", "all => all.map(one => one.innerText.split('· ')[1])"
    )
    assert labels.count("1") > len(labels) / 2
    tab.set_input_files("#file", {**sent, "buffer": b"no picture"})
    tab.wait_for_selector("#notice:not([hidden])")
    assert "could not be read" in tab.inner_text("#notice")


def test_errors_tell_what_to_do(tab, demo, artefacts):
    opened(tab, demo)
    tab.route("**/v1/compare", lambda route: route.abort())
    tab.click(".tile >> nth=1")
    tab.wait_for_selector("#notice:not([hidden])")
    assert "Is it still running?" in tab.inner_text("#notice")
    tab.screenshot(path=artefacts / "error.png")
    tab.unroute("**/v1/compare")
    tab.click(".tile >> nth=2")
    tab.wait_for_selector("#notice", state="hidden")


def test_without_pictures_ids_and_labels_are_shown(tab, guarded, artefacts):
    tab.goto(guarded.url)
    tab.wait_for_selector("#login:not([hidden])")  # it asks for the token first
    expect(tab.locator("#notice")).to_be_hidden()
    tab.screenshot(path=artefacts / "login.png")
    tab.fill("#token", "something else")
    tab.click("#login button")
    expect(tab.locator("#notice")).to_contain_text("not the token of the service")
    tab.fill("#token", guarded.token)
    tab.click("#login button")
    tab.click(".tile >> nth=20")
    settled(tab)
    assert "row 11, label" in tab.inner_text("#asked")
    assert tab.locator("#results img").count() == 0
    assert tab.locator("#drop").is_hidden()
    tab.screenshot(path=artefacts / "no-pictures.png", full_page=True)


def test_it_says_that_it_is_empty_or_at_work(tab, demo, artefacts):
    tab.route("**/v1/compare", lambda route: route.abort())
    tab.goto(demo.url)
    tab.wait_for_selector("#notice:not([hidden])")
    assert "Pick a query" in tab.inner_text("#empty")
    tab.screenshot(path=artefacts / "empty.png")
    tab.unroute("**/v1/compare")
    opened(tab, demo)
    held = []
    tab.route("**/v1/compare", lambda route: held.append(route))  # noqa: PLW0108  it needs a name

    def next_held():
        while not held:
            tab.wait_for_timeout(20)
        return held.pop()

    tab.locator("#set-k1").fill("33")
    tab.wait_for_selector("#lists.loading")
    assert tab.get_attribute("#lists", "aria-busy") == "true"
    tab.screenshot(path=artefacts / "loading.png")
    tab.wait_for_timeout(700)  # all rows seem to take long
    next_held().continue_()
    settled(tab)
    tab.locator("#set-k1").fill("34")
    next_held().continue_()
    expect(tab.locator("#scope")).to_contain_text("Ranking all rows")
    tab.screenshot(path=artefacts / "nearest.png", full_page=True)
    next_held().fulfill(status=503, json={"detail": "There was no answer within 30 s."})
    expect(tab.locator("#scope")).to_contain_text("All rows: There was no answer")
    # The nearest where longer lists are still being searched.
    assert re.search("rows around it|nearest rows", tab.inner_text("#right-title"))
    settled(tab)


def test_sliders_that_move_are_not_queued(tab, demo):
    """However many moves there are, only the last one is asked for behind the one under way."""
    opened(tab, demo)
    tab.asked.clear()
    for value in range(30, 60):
        tab.evaluate(
            "value => { const one = document.getElementById('set-k1'); one.value = value; "
            "one.dispatchEvent(new Event('input', { bubbles: true })); }",
            value,
        )
    settled(tab)
    assert "k1 59" in tab.inner_text("#right-title")
    assert "all rows" in tab.inner_text("#right-title")
    assert len([url for url in tab.asked if url.endswith("/v1/compare")]) < 30
    assert tab.complaints == []


def test_what_is_said_is_followed_undone_and_exported(tab, demo, artefacts):
    opened(tab, demo)
    before = order(tab)

    def say(word, at):
        with tab.expect_response("**/v1/compare"):
            tab.click(f'#right-list li >> nth={at} >> [data-mark="{word}"]')
        settled(tab)

    say("wrong", 0)
    assert before[0] not in order(tab)
    assert tab.inner_text("#said-list") == f"✕ {before[0]}"
    second = order(tab)[3]
    say("right", 3)
    assert order(tab)[0] == second
    pressed = tab.locator('#right-list [data-mark="right"][aria-pressed="true"]')
    expect(pressed).to_have_count(1)
    tab.screenshot(path=artefacts / "said.png", full_page=True)
    with tab.expect_download() as download:
        tab.click("#export")
    exported = json.loads(download.value.path().read_text())
    assert exported == [
        {"query": tab.evaluate("decodeURIComponent(location.hash.slice(1))"), "right": [second],
         "wrong": [before[0]]}
    ]  # fmt: skip
    with tab.expect_response("**/v1/compare"):
        tab.click("#undo")
    settled(tab)
    with tab.expect_response("**/v1/compare"):
        tab.click("#said-list button")
    settled(tab)
    assert order(tab) == before
    expect(tab.locator("#said")).to_be_hidden()
    assert tab.complaints == []
