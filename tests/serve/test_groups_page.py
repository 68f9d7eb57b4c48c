"""The page of groups in a browser: real clicks, keys and drags."""

import csv
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from kinrank import CAS
from serve_process import ask, serving
from windows import PHONE, WIDE

N_GROUPS = 12
SIZE = 6
N_SINGLES = 8


def group_rows(n_groups, size, n_singles, dims=24, seed=0):
    """Rows of clear groups, then rows that belong to none; and whose each is, -1 for none."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n_groups + n_singles, dims))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    owners = np.concatenate([np.repeat(np.arange(n_groups), size), np.arange(n_singles) + n_groups])
    rows = centres[owners] + 0.05 * random.normal(size=(len(owners), dims))
    return rows.astype(np.float32), np.where(owners < n_groups, owners, -1)


@pytest.fixture(scope="module")
def sorted_folder(tmp_path_factory):
    """An index of pictures: a colour for each group."""
    root = tmp_path_factory.mktemp("sorted")
    rows, owners = group_rows(N_GROUPS, SIZE, N_SINGLES)
    ids = [f"{'single' if o < 0 else f'g{o:02d}'}-{n:02d}.png" for n, o in enumerate(owners)]
    (root / "images").mkdir()
    random = np.random.default_rng(1)
    colours = random.integers(40, 220, (N_GROUPS + 1, 3))
    for name, owner in zip(ids, owners, strict=True):
        shade = tuple(int(c) for c in np.clip(colours[owner] + random.integers(-15, 15, 3), 0, 255))
        Image.new("RGB", (120, 90), shade).save(root / "images" / name)
    CAS(k1=6, k2=3).fit(rows, ids=ids).save(root / "an.index")
    return root


@pytest.fixture
def sortable(sorted_folder, tmp_path):
    """A service whose groups may be corrected."""
    path = tmp_path / "an.index"
    path.write_bytes((sorted_folder / "an.index").read_bytes())
    arguments = (path, "--images", sorted_folder / "images", "--writable")
    with serving(*arguments) as server:
        server.arguments = arguments
        yield server


def opened(tab, server):
    tab.goto(f"{server.url}/groups")
    tab.wait_for_selector("#grid .group")
    return tab


def answered(server, path):
    status, _, content = ask(server, "GET", path)
    assert status == 200, content
    return content


def by_row(server):
    """The group of each row, as the service exports it."""
    return {row["id"]: row["group"] for row in answered(server, "/v1/groups/export?kind=json")}


def together(server, one, other):
    groups = by_row(server)
    return groups[one] == groups[other]


def rows_of(server, number):
    return [item["id"] for item in answered(server, f"/v1/groups/{number}")["members"]]


def corrected(tab):
    return tab.expect_response("**/v1/groups/corrections")


def counts(server):
    """How many groups and single rows the service finds."""
    answer = answered(server, "/v1/groups?limit=1")
    return answer["groups"], answer["singles"]


def tile_of(tab, server, row):
    return tab.locator(f'.group[data-number="{by_row(server)[row]}"]')


@pytest.mark.parametrize(
    "tab",
    [("light", WIDE), ("dark", WIDE), ("light", PHONE)],
    indirect=True,
    ids=["light", "dark", "phone"],
)
def test_groups_are_shown_with_pictures(tab, sortable, artefacts, request):
    opened(tab, sortable)
    n_groups, n_singles = counts(sortable)
    expect(tab.locator("#about")).to_contain_text(
        f"{N_GROUPS * SIZE + N_SINGLES} items in {n_groups} groups, {n_singles} in none."
    )
    name = request.node.callspec.id
    tab.wait_for_load_state("networkidle")
    tab.screenshot(path=artefacts / f"groups-{name}.png")
    tab.click(".group >> nth=0")
    expect(tab.locator("#members .item").nth(SIZE - 1)).to_be_visible()
    tab.wait_for_load_state("networkidle")
    tab.screenshot(path=artefacts / f"groups-open-{name}.png")
    tab.click("#panel-close")
    tab.click("#tab-singles")
    expect(tab.locator(".single")).to_have_count(n_singles)
    tab.screenshot(path=artefacts / f"groups-singles-{name}.png")
    assert tab.evaluate("document.documentElement.scrollWidth") <= tab.viewport_size["width"]
    assert tab.complaints == []


def test_dragging_a_group_onto_another_merges_them_for_good(tab, sortable):
    opened(tab, sortable)
    n_groups, _ = counts(sortable)
    one = tile_of(tab, sortable, "g00-00.png")
    other = tile_of(tab, sortable, "g01-06.png")
    with corrected(tab):
        one.drag_to(other)
    expect(tab.locator("#about")).to_contain_text(f"in {n_groups - 1} groups")
    assert together(sortable, "g00-00.png", "g01-06.png")
    tab.reload()
    expect(tab.locator("#about")).to_contain_text(f"in {n_groups - 1} groups")
    os.kill(sortable.pid, signal.SIGKILL)
    with serving(*sortable.arguments) as again:
        assert together(again, "g00-00.png", "g01-06.png")


def test_what_was_merged_is_taken_apart_again_by_undo(tab, sortable):
    opened(tab, sortable)
    n_groups, _ = counts(sortable)
    with corrected(tab):
        tile_of(tab, sortable, "g00-00.png").drag_to(tile_of(tab, sortable, "g01-06.png"))
    expect(tab.locator("#about")).to_contain_text(f"in {n_groups - 1} groups")
    with corrected(tab):
        tab.keyboard.press("u")
    expect(tab.locator("#about")).to_contain_text(f"in {n_groups} groups")
    assert not together(sortable, "g00-00.png", "g01-06.png")


def test_a_group_is_split_named_and_confirmed_by_keys(tab, sortable):
    opened(tab, sortable)
    n_groups, _ = counts(sortable)
    tile = tile_of(tab, sortable, "g02-12.png")
    tile.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#members .item")
    tab.locator("#members .item >> nth=0").focus()
    chosen = []
    for _ in range(2):
        chosen.append(tab.evaluate("document.activeElement.dataset.id"))
        tab.keyboard.press("Space")
        tab.keyboard.press("ArrowRight")
    with corrected(tab):
        tab.keyboard.press("s")
    expect(tab.locator("#about")).to_contain_text(f"in {n_groups + 1} groups")
    groups = by_row(sortable)
    apart = {groups[item] for item in chosen}
    assert len(apart) == 1
    assert sorted(rows_of(sortable, apart.pop())) == sorted(chosen)
    tab.keyboard.press("n")
    tab.fill("#naming-input", "Anna")
    with corrected(tab):
        tab.keyboard.press("Enter")
    expect(tab.locator("#panel-title")).to_contain_text("Anna")
    with corrected(tab):
        tab.keyboard.press("c")
    expect(tab.locator("#panel-title")).to_contain_text("confirmed")
    tab.keyboard.press("Escape")
    expect(tab.locator("#panel")).to_be_hidden()
    tab.check("#open-only")
    expect(tab.locator(".group", has_text="Anna")).to_have_count(0)
    tab.uncheck("#open-only")
    tab.fill("#search", "anna")
    expect(tab.locator(".group")).to_have_count(1)


def test_items_are_dragged_to_another_group_and_taken_out(tab, sortable):
    opened(tab, sortable)
    _, n_singles = counts(sortable)
    tile_of(tab, sortable, "g03-18.png").click()
    moved = tab.locator('#members [data-id="g03-18.png"]')
    with corrected(tab):
        moved.drag_to(tile_of(tab, sortable, "g04-24.png"))
    assert together(sortable, "g03-18.png", "g04-24.png")
    expect(tab.locator("#members .item")).to_have_count(SIZE - 1)
    tab.click('#members [data-id="g03-19.png"]')
    with corrected(tab):
        tab.click('[data-do="remove"]')
    expect(tab.locator("#about")).to_contain_text(f"{n_singles + 1} in none")
    assert "g03-19.png" not in rows_of(sortable, by_row(sortable)["g03-20.png"])


def test_a_tap_chooses_the_group_to_merge_with_on_a_phone(browser, sortable):
    context = browser.new_context(viewport=PHONE, has_touch=True)
    tab = context.new_page()
    opened(tab, sortable)
    n_groups, _ = counts(sortable)
    target = by_row(sortable)["g06-36.png"]
    first = tab.locator(".group").first
    if first.get_attribute("data-number") == str(target):
        first = tab.locator(".group >> nth=1")
    first.tap()
    tab.tap('[data-do="merge"]')
    expect(tab.locator("#picking")).to_be_visible()
    tab.locator(f'.group[data-number="{target}"]').scroll_into_view_if_needed()
    with corrected(tab):
        tab.tap(f'.group[data-number="{target}"]')
    expect(tab.locator("#about")).to_contain_text(f"in {n_groups - 1} groups")
    context.close()


def test_a_single_item_is_put_to_a_likely_group(tab, sortable):
    opened(tab, sortable)
    tab.click("#tab-singles")
    button = tab.locator(".single .likely button").first
    words = button.get_attribute("aria-label")
    row = re.search(r"Put (\S+) to", words).group(1)
    with corrected(tab):
        button.click()
    expect(tab.locator("#said")).to_have_text("Moved 1 item.")
    assert list(by_row(sortable).values()).count(by_row(sortable)[row]) > 1


def test_two_people_do_not_overwrite_each_other(tab, sortable, browser):
    opened(tab, sortable)
    tile_of(tab, sortable, "g05-30.png").click()
    tab.click('#members [data-id="g05-31.png"]')
    context = browser.new_context(viewport=WIDE)
    second = context.new_page()
    opened(second, sortable)
    with corrected(second):
        tile_of(second, sortable, "g05-30.png").drag_to(tile_of(second, sortable, "g07-42.png"))
    context.close()
    with corrected(tab) as refused:
        tab.click('[data-do="split"]')
    assert refused.value.status == 409
    expect(tab.locator("#notice")).to_contain_text("Somebody else has changed this group")
    assert together(sortable, "g05-31.png", "g07-42.png")
    with corrected(tab) as undone:  # of one's own corrections there is none
        tab.keyboard.press("u")
    assert undone.value.status == 422
    assert together(sortable, "g05-31.png", "g07-42.png")


def test_an_answer_is_never_asked_again(tab, sortable):
    asked = answered(sortable, "/v1/groups/questions?limit=50")["listed"]
    if not asked:
        pytest.fail("clear groups and single rows leave something to ask")
    opened(tab, sortable)
    tab.click("#tab-questions")
    expect(tab.locator("#answer-no")).to_be_visible()
    with corrected(tab):
        tab.keyboard.press("n")
    expect(tab.locator("#said")).to_have_text("Noted: not the same.")
    first = (asked[0]["one"]["id"], asked[0]["other"]["id"])
    left = answered(sortable, "/v1/groups/questions?limit=50")["listed"]
    assert first not in [(one["one"]["id"], one["other"]["id"]) for one in left]
    assert not together(sortable, *first)


def test_the_table_is_exported(tab, sortable):
    opened(tab, sortable)
    tab.click("summary >> text=Export")
    with tab.expect_download() as download:
        tab.click("#export-csv")
    with Path(download.value.path()).open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) == N_GROUPS * SIZE + N_SINGLES
    assert {row["id"] for row in table} == set(by_row(sortable))


def test_who_may_not_write_cannot_correct(tab, sorted_folder):
    with serving(sorted_folder / "an.index", "--images", sorted_folder / "images") as server:
        opened(tab, server)
        tab.click(".group >> nth=0")
        tab.wait_for_selector("#members .item")
        expect(tab.locator('[data-do="confirm"]')).to_be_disabled()
        status, _, _ = ask(server, "POST", "/v1/groups/corrections", {"kind": "undo"})
        assert status == 403


@pytest.mark.parametrize("n_groups", [500, pytest.param(2500, marks=pytest.mark.long)])
def test_many_groups_draw_only_what_is_seen(tab, tmp_path, n_groups):
    rows, _ = group_rows(n_groups, 4, 0, dims=48)
    CAS(k1=6, k2=3).fit(rows).save(tmp_path / "an.index")
    with serving(tmp_path / "an.index", "--writable") as server:
        tab.goto(f"{server.url}/groups")
        tab.wait_for_selector("#grid .group", timeout=120_000)
        for _ in range(5):
            tab.locator("#grid").evaluate("one => one.scrollBy(0, 3000)")
            tab.wait_for_timeout(100)
        assert tab.locator(".group").count() < 120
        # While rows are grouped the service says so, and is asked again.
        assert all("503" in complaint for complaint in tab.complaints)
        text = tab.locator(".group").first.inner_text()
        assert re.search(r"\d+", text)  # names of rows where there are no pictures


@pytest.mark.long
def test_ten_thousand_pictures_are_sorted_by_drawing_what_is_seen(tab, tmp_path):
    rows, owners = group_rows(2500, 4, 0, dims=48)
    ids = [f"g{owner:04d}-{row:05d}.png" for row, owner in enumerate(owners)]
    (tmp_path / "images").mkdir()
    Image.new("RGB", (60, 45), (90, 120, 60)).save(tmp_path / "one.png")
    picture = (tmp_path / "one.png").read_bytes()
    for name in ids:
        (tmp_path / "images" / name).write_bytes(picture)
    CAS(k1=6, k2=3).fit(rows, ids=ids).save(tmp_path / "an.index")
    arguments = (tmp_path / "an.index", "--images", tmp_path / "images", "--writable")
    with serving(*arguments) as server:
        tab.goto(f"{server.url}/groups")
        tab.wait_for_selector("#grid .group", timeout=300_000)
        for _ in range(10):
            tab.locator("#grid").evaluate("one => one.scrollBy(0, 3000)")
            tab.wait_for_timeout(100)
        assert tab.locator(".group").count() < 120
        tab.wait_for_load_state("networkidle")
        fetched = {url for url in tab.asked if ".png" in url}
        assert 0 < len(fetched) < 2000
        tab.locator("#grid").evaluate("one => one.scrollTo(0, 0)")
        n_groups, _ = counts(server)
        begin = time.monotonic()
        with corrected(tab):
            tab.locator(".group").nth(0).drag_to(tab.locator(".group").nth(1))
        expect(tab.locator("#about")).to_contain_text(f"in {n_groups - 1:,} groups")
        assert time.monotonic() - begin < 10
        assert all("503" in complaint for complaint in tab.complaints)


def test_odd_corrections_are_refused_in_words(sortable):
    for sent, status in [
        ({"kind": "merge", "groups": [0]}, 422),
        ({"kind": "merge", "groups": [0, 999_999]}, 422),
        ({"kind": "move", "ids": ["nobody"], "to": 0}, 404),
        ({"kind": "move", "ids": ["g00-00.png"]}, 422),
        ({"kind": "split", "groups": [0], "ids": []}, 422),
        ({"kind": "apart", "ids": ["g00-00.png"]}, 422),
        ({"kind": "name", "groups": [0], "name": "x" * 300}, 422),
        ({"kind": "explode"}, 422),
        ({"kind": "confirm", "groups": [0], "seen": {"0": "another"}}, 409),
    ]:
        answer = ask(sortable, "POST", "/v1/groups/corrections", sent)
        assert answer[0] == status, (sent, answer)
        assert answer[2]["detail"]
