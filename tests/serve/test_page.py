"""The page in a browser."""

import io
import json
import re
from contextlib import closing

import pytest
from PIL import Image
from playwright.sync_api import expect

from serve_process import ask
from windows import PHONE, WIDE


def opened(tab, server, tile=5):
    """The page at a query, with its parameters open."""
    tab.goto(server.url)
    tab.wait_for_selector("#right-list .result")
    with tab.expect_response("**/v1/compare"):
        tab.click(f".tile >> nth={tile}")
    settled(tab)
    show_parameters(tab)
    return tab


def show_parameters(tab):
    if not tab.locator("#parameters").evaluate("one => one.open"):
        tab.click("#parameters summary")


def say(tab, word, at):
    """Mark a result, and wait for what follows."""
    with tab.expect_response("**/v1/compare"):
        tab.click(f'#right-list li >> nth={at} >> [data-mark="{word}"]')
    settled(tab)


def distances(tab):
    """Of the right list as it is shown, by id."""
    shown = tab.eval_on_selector_all(
        "#right-list .result",
        "all => all.map(one => [one.dataset.id, one.querySelector('.facts').innerText])",
    )
    return {item: float(re.search(r"\d\.\d{4}", facts).group()) for item, facts in shown}


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
    assert "false-match rate of pairs" in before
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
    assert tab.complaints == []


def test_it_opens_on_a_query_that_gains(tab, demo):
    """What is shown at once has more right results after than before."""
    tab.goto(demo.url)
    tab.wait_for_selector("#right-list .result")
    settled(tab)
    before = tab.locator("#left-list .card.right").count()
    after = tab.locator("#right-list .card.right").count()
    assert after >= before + 5
    listed = ask(demo, "GET", "/v1/items?order=gained&limit=500")[2]["items"]
    assert listed[0]["id"] in tab.inner_text("#asked")
    assert listed[0]["after"] > listed[0]["before"]
    said = tab.inner_text("#opening")
    assert f"{100 * listed[0]['before']:.1f} % before" in said
    assert f"{100 * listed[0]['after']:.1f} % after" in said
    tab.click(".tile >> nth=0")
    expect(tab.locator("#opening")).to_be_hidden()
    tab.goto(f"{demo.url}/#query-0003")  # a link is followed
    tab.reload()
    expect(tab.locator("#asked")).to_contain_text("query-0003")
    expect(tab.locator("#opening")).to_be_hidden()
    assert tab.complaints == []


def test_it_opens_on_the_first_row_where_labels_are_not_known(tab, limited):
    tab.goto(limited.url)
    tab.wait_for_selector("#right-list .result")
    assert tab.get_attribute(".tile >> nth=0", "aria-selected") == "true"
    expect(tab.locator("#opening")).to_be_hidden()
    assert not any("order=gained" in url for url in tab.asked)


def test_thumbnails_are_enlarged(tab, pictures, artefacts):
    """By a click and by a key; Escape closes, and the focus is where it was."""
    tab.goto(f"{pictures.url}/#blue")
    tab.wait_for_selector("#right-list .result")
    dialog = tab.locator("#enlarged")
    expect(dialog).to_be_hidden()
    tab.click("#asked .thumb")
    expect(dialog).to_be_visible()
    expect(tab.locator("#enlarged-words")).to_contain_text("blue")
    expect(tab.locator("#enlarged-query")).to_be_hidden()  # it is the query
    image = tab.locator("#enlarged-picture img")
    assert "/v1/items/blue/image?size=1024" in image.get_attribute("src")
    assert image.bounding_box()["width"] > 300
    tab.screenshot(path=artefacts / "enlarged.png")
    tab.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(tab.locator("#asked .thumb")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    tab.mouse.click(3, 3)  # beside the picture
    expect(dialog).to_be_hidden()


@pytest.mark.parametrize("tab", [("light", WIDE), ("light", PHONE)], indirect=True)
def test_an_enlarged_result_can_become_the_query(tab, demo):
    opened(tab, demo)
    asked, wanted = tab.inner_text("#asked"), order(tab)[4]
    tab.focus("#right-list .thumb >> nth=4")
    tab.keyboard.press("Space")
    expect(tab.locator("#enlarged-words")).to_contain_text(wanted)
    box = tab.locator("#enlarged-picture img").bounding_box()
    assert box["width"] > 0.5 * min(tab.viewport_size["width"], 576)
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= tab.viewport_size["width"]
    assert tab.inner_text("#asked") == asked  # to look is not to choose
    with tab.expect_response("**/v1/compare"):
        tab.click("#enlarged-query")
    expect(tab.locator("#enlarged")).to_be_hidden()
    expect(tab.locator("#asked")).to_contain_text(wanted)
    assert tab.complaints == []


# The page is told a moment after the parameters are hidden.
STORED_AS_CLOSED = """() => new Promise(resolve => {
  const look = () =>
    localStorage.getItem("kinrank-parameters") === "no" ? resolve() : setTimeout(look, 20);
  look();
})"""


def test_parameters_are_behind_a_word_and_stay_as_they_were(browser, demo):
    with closing(browser.new_context(viewport=WIDE)) as context:
        tab = context.new_page()
        tab.goto(demo.url)
        tab.wait_for_selector("#right-list .result")
        expect(tab.locator("#set-k1")).to_be_hidden()
        tab.click("#parameters summary")
        expect(tab.locator("#set-k1")).to_be_visible()
        for name in ("k1", "k2", "omega", "sigma", "mu", "kappa", "geodesic"):
            hint = tab.inner_text(f"label:has(#set-{name}) .hint")
            assert hint.endswith(".")
            assert len(hint.split()) > 6
        tab.reload()
        tab.wait_for_selector("#right-list .result")
        expect(tab.locator("#set-k1")).to_be_visible()
        tab.click("#parameters summary")
        tab.evaluate(STORED_AS_CLOSED)
        tab.reload()
        tab.wait_for_selector("#right-list .result")
        expect(tab.locator("#set-k1")).to_be_hidden()


def test_it_says_what_its_figures_are(tab, demo):
    tab.goto(demo.url)
    tab.wait_for_selector("#right-list .result")
    assert "a vector of 64 numbers" in tab.inner_text("#about")
    words = tab.inner_text("body")
    assert "average precision, is 100 % when" in words
    for unexplained in ("columns", "regulariser", "As the index"):
        assert unexplained not in words


def test_a_mark_moves_rows_and_leaves_distances(tab, demo):
    """Each row has the distance that it had before, whatever is said of others."""
    tab.goto(f"{demo.url}/#query-0005")
    tab.wait_for_selector("#right-list .result")
    tab.select_option("#k", "100")
    expect(tab.locator("#right-list .result")).to_have_count(100)
    settled(tab)
    before = distances(tab)
    first = order(tab)
    for word, at in (("right", 6), ("wrong", 9)):
        say(tab, word, at)
        after = distances(tab)
        both = before.keys() & after.keys()
        assert len(both) > 50
        assert {item: after[item] for item in both} == {item: before[item] for item in both}
    assert order(tab)[0] == first[6]
    assert order(tab) != first


def test_without_marks_for_this_query_nothing_is_said_of_it(tab, demo):
    opened(tab, demo)
    say(tab, "right", 3)
    assert "Your marks" in tab.inner_text("#said-words")
    with tab.expect_response("**/v1/compare"):
        tab.click(".tile >> nth=8")
    settled(tab)
    assert tab.inner_text("#said-words") == "No marks for this query; 1 other query has marks."
    expect(tab.locator("#undo")).to_be_hidden()
    expect(tab.locator("#export")).to_be_visible()
    say(tab, "wrong", 0)
    assert "Your marks" in tab.inner_text("#said-words")
    with tab.expect_response("**/v1/compare"):
        tab.click("#undo")
    settled(tab)
    assert "No marks for this query" in tab.inner_text("#said-words")
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
    tab.focus("#parameters summary")
    if not tab.locator("#parameters").evaluate("one => one.open"):
        tab.keyboard.press("Enter")
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
    say(tab, "wrong", 0)
    assert before[0] not in order(tab)
    assert tab.inner_text("#said-list") == f"✕ {before[0]}"
    second = order(tab)[3]
    say(tab, "right", 3)
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
