"""The block page in a real browser, behind a real Airflow: what a person sees, presses and is told."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from browsing import BLOCKS, FEW, MANY, VIEWER, House, in_view, logged_in, window
from lakes import STREAM
from playwright.sync_api import Browser, Page, Route, expect

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
CANVAS = "#chart canvas"


def show(page: Page, house: House, stream: str, blocks: int) -> None:
    """Open a stream, and wait until all of its blocks are in view."""
    page.goto(f"{house.url}#{stream}")
    in_view(page, blocks)


def drawing(page: Page) -> dict[str, int]:
    """Return the time range that the canvas shows, and how many blocks it has drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found: dict[str, str] = page.locator(CANVAS).evaluate("canvas => ({...canvas.dataset})")
    return {name: int(value) for name, value in found.items() if name != "ms"}


def colours(page: Page) -> int:
    """Return how many colours the canvas has."""
    script = """canvas => new Set(new Uint32Array(
        canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
    found: int = page.locator(CANVAS).evaluate(script)
    return found


def api(house: House, path: str) -> Any:
    """Return what an endpoint answers."""
    headers = {"Authorization": f"Bearer {house.client.token}"}
    request = urllib.request.Request(f"{house.url}api/{path}", headers=headers)  # noqa: S310 -- ours
    with urllib.request.urlopen(request) as answer:  # noqa: S310 -- as above
        return json.load(answer)


def test_airflows_menu_leads_to_all_streams(page: Page, house: House) -> None:
    """The menu of Airflow has the page; it lists every stream, with the reason where one cannot be read."""
    page.goto(house.home.url)
    page.get_by_role("button", name="Browse").click()
    with page.context.expect_page() as opened:
        page.get_by_role("menuitem", name="Drystone").click()
    page = opened.value
    page.wait_for_url("**/drystone/")
    lines = page.locator("#streams tbody tr")
    expect(lines).to_have_count(3)
    expect(lines.filter(has_text="broken")).to_contain_text("no-folder")
    expect(lines.filter(has_text=MANY)).to_contain_text(f"{BLOCKS:,}")
    page.get_by_role("link", name=STREAM, exact=True).click()
    in_view(page, FEW)


def test_ten_thousand_blocks_are_drawn_and_zoomed(page: Page, house: House) -> None:
    """All blocks are drawn at once; zooming and moving by button, wheel and drag changes what is; the table follows."""
    show(page, house, MANY, BLOCKS)
    all_of_it = drawing(page)
    assert colours(page) > 20
    assert all_of_it["drawn"] > 500
    page.get_by_role("button", name="Zoom in").click()
    half = drawing(page)
    width = all_of_it["to"] - all_of_it["from"]
    assert abs((half["to"] - half["from"]) - width / 2) <= 2
    box = page.locator(CANVAS).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 100)
    page.keyboard.down("Control")
    for _ in range(20):
        page.mouse.wheel(0, -60)
    page.keyboard.up("Control")
    near = drawing(page)
    assert near["to"] - near["from"] < width / 100
    assert half["from"] < near["from"] < near["to"] < half["to"]
    caption = page.locator("#table caption")
    expect(caption).not_to_contain_text(f"of {BLOCKS:,}")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4 + 200, box["y"] + 100, steps=4)
    page.mouse.up()
    moved = drawing(page)
    assert moved["from"] < near["from"]
    assert abs((moved["to"] - moved["from"]) - (near["to"] - near["from"])) <= 2
    page.get_by_role("button", name="All", exact=True).click()
    in_view(page, BLOCKS)
    assert drawing(page) == all_of_it


def test_only_what_can_be_seen_is_drawn(page: Page, house: House) -> None:
    """A range without blocks draws none, and blocks that would have the pixels of others are not drawn."""
    show(page, house, MANY, BLOCKS)
    assert drawing(page)["drawn"] < BLOCKS
    page.locator("#from").fill("2019-01-01T00:00:00")
    page.locator("#from").blur()
    page.locator("#to").fill("2019-02-01T00:00:00")
    page.locator("#to").blur()
    page.locator("#from").fill("2019-01-01T00:00:00")
    page.locator("#from").blur()
    in_view(page, 3)
    assert drawing(page)["drawn"] == 0


def test_filters(page: Page, house: House) -> None:
    """States, levels and a text choose blocks, as the API has them; clearing shows all."""
    table = api(house, f"streams/{MANY}/blocks")
    show(page, house, MANY, BLOCKS)
    page.get_by_label("Healthy", exact=False).first.uncheck()
    left = sum(state != "Healthy" for state in table["state"])
    in_view(page, left)
    page.locator("#levels").get_by_label("1 (", exact=False).uncheck()
    in_view(page, sum(s != "Healthy" and level != 1 for s, level in zip(table["state"], table["level"], strict=True)))
    page.get_by_role("button", name="Clear filters").click()
    in_view(page, BLOCKS)
    ulid = table["ulid"][5000]
    page.get_by_label("Find").fill(ulid.lower())
    in_view(page, 1)
    expect(page.locator("#table tbody tr")).to_contain_text(ulid)
    page.get_by_label("Find").fill("2013-03-0")
    in_view(page, sum("2013-03-0" in chunk for chunk in table["chunk"]))


def test_a_block_its_lineage_and_its_run(page: Page, house: House) -> None:
    """A click on a block opens it; its lineage leads on; its run's link leads to the run's page in Airflow."""
    show(page, house, STREAM, FEW)
    # The first lane is that of the highest level; the leftmost block there is `f`.
    table = api(house, f"streams/{STREAM}/blocks")
    place = table["ulid"].index(house.made)
    now, box = drawing(page), page.locator(CANVAS).bounding_box()
    assert box is not None
    middle = (table["start"][place] + table["end"][place]) / 2
    x = 46 + (middle - now["from"]) / (now["to"] - now["from"]) * (box["width"] - 46)
    page.mouse.click(box["x"] + x, box["y"] + 26 + 6 + 8)
    title = page.locator("#block-title")
    expect(title).to_have_text(f"Block {house.made}")
    panel = page.get_by_role("complementary")
    came = panel.locator("div", has=page.get_by_role("heading", name="Came from")).get_by_role("button")
    assert sorted(came.all_inner_texts()) == sorted(house.lake.ulid(name) for name in "abc")
    expect(panel).to_contain_text("sources")
    came.filter(has_text=house.lake.ulid("b")).click()
    expect(title).to_have_text(f"Block {house.lake.ulid('b')}")
    expect(panel).to_contain_text("HealthyOverlapped")
    by = panel.locator("div", has=page.get_by_role("heading", name="Replaced by")).get_by_role("button")
    by.filter(has_text=house.made).click()
    expect(title).to_have_text(f"Block {house.made}")
    panel.get_by_role("link", name="compact_minor").click()
    page.wait_for_url(f"**/dags/{STREAM}__lifecycle/runs/**")
    expect(page.get_by_text(house.run_id[:20]).first).to_be_visible()


def test_a_block_that_is_opened_while_the_rest_loads_stays_open(page: Page, house: House) -> None:
    """Who is quicker than the plan opens a block; when the plan is there, the block still is."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        """Keep a request waiting."""
        held.append(route)

    page.route("**/plan?**", hold)
    with page.expect_request("**/plan?**"):
        show(page, house, STREAM, FEW)
    page.locator("#table tbody button").first.click()
    expect(page.locator("#block-title")).to_be_visible()
    for route in held:
        route.continue_()
    expect(page.locator("#plan")).to_contain_text("action")
    page.evaluate("new Promise(done => setTimeout(done))")
    expect(page.locator("#block-title")).to_be_visible()


def test_the_plan_of_the_next_run(page: Page, house: House) -> None:
    """The plan of each kind is shown as the planner makes it."""
    show(page, house, STREAM, FEW)
    made = api(house, f"streams/{STREAM}/plan?kind=minor")
    lines = page.locator("#plan tbody tr")
    expect(lines).to_have_count(len(made["merges"]))
    expect(lines.first).to_contain_text(made["merges"][0]["reason"])
    page.get_by_role("button", name="mark", exact=True).click()
    marks = api(house, f"streams/{STREAM}/plan?kind=mark")["marks"]
    expect(lines).to_have_count(len(marks))
    expect(lines.filter(has_text=marks[0]["ulid"])).to_contain_text(marks[0]["reason"])


def test_forms_are_airflows_own(page: Page, house: House) -> None:
    """What can be started about a block has its values ready; Airflow's form takes them."""
    page.goto(f"{house.url}#{STREAM}/{house.lake.ulid('b')}")
    page.get_by_role("button", name="Hold it").click()
    dialog = page.get_by_role("dialog")
    values = json.loads(dialog.get_by_role("textbox").input_value())
    assert values["blocks"] == [house.lake.ulid("b")]
    assert values["action"] == "hold"
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#block")).to_be_visible()
    page.get_by_role("link", name=f"Open {STREAM}__lifecycle").click()
    page.wait_for_url(f"**/dags/{STREAM}__lifecycle**")
    page.get_by_test_id("trigger-dag-button").first.click()
    form = page.get_by_role("dialog")
    expect(form).to_contain_text("Dry run")
    form.get_by_role("button", name="Advanced Options").click()
    expect(form).to_contain_text("Configuration JSON")


def test_by_keyboard_alone(page: Page, house: House) -> None:
    """Arrows go from block to block and say which it is, Enter opens it, Escape leads back."""
    show(page, house, STREAM, FEW)
    canvas = page.locator(CANVAS)
    canvas.focus()
    page.keyboard.press("ArrowRight")
    live = page.locator("#live")
    expect(live).to_contain_text("level 2")
    page.keyboard.press("ArrowDown")
    expect(live).to_contain_text("level")
    ulid = live.inner_text().split(",")[0]
    page.keyboard.press("Enter")
    title = page.locator("#block-title")
    expect(title).to_have_text(f"Block {ulid}")
    expect(title).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#block")).to_be_hidden()
    expect(canvas).to_be_focused()
    before = drawing(page)
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowRight")
    after = drawing(page)
    assert after["to"] - after["from"] < before["to"] - before["from"]
    page.keyboard.press("0")
    assert drawing(page) == before


def test_what_a_screen_reader_finds(page: Page, house: House) -> None:
    """The tree of accessible names has the blocks as a table, what the canvas is for, and a name for each control."""
    show(page, house, STREAM, FEW)
    tree = page.locator("body").aria_snapshot()
    for part in (
        'application "Blocks by time and level"',
        'table "Blocks in view',
        'combobox "Stream"',
        "status",
    ):
        assert part in tree, part
    assert house.made in tree
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, a, input, select, canvas[tabindex]')].filter(each =>
            !(each.ariaLabel || each.textContent.trim() || each.labels?.length)).map(each => each.outerHTML)"""
    )
    assert unnamed == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_dark_wide_and_narrow(browser: Browser, house: House, login: Any, width: int, scheme: Any) -> None:
    """At both widths nothing sticks out sideways; in the dark the page and the chart are dark."""
    with window(browser, house, login, viewport={"width": width, "height": 844}, color_scheme=scheme) as page:
        page.goto(f"{house.url}#{STREAM}/{house.made}")
        in_view(page, FEW)
        expect(page.locator("#block-title")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, back.removeprefix("rgb(").removesuffix(")").split(","))) < 128 * 3) == (scheme == "dark")
        assert colours(page) > 10


def test_a_bad_bucket_is_one_line(page: Page, house: House) -> None:
    """A stream whose bucket cannot be read shows the reason, and nothing of a stack trace."""
    page.goto(f"{house.url}#broken")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("no-folder")
    assert "\n" not in alert.inner_text()
    assert "Traceback" not in page.content()


def test_nobody_looks_without_a_login(browser: Browser, house: House) -> None:
    """Whoever is not logged in gets 401 from the page, from its files and from every endpoint."""
    for path in ("", "assets/page.js", "api/streams", f"api/streams/{STREAM}", f"api/streams/{STREAM}/blocks"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{house.url}{path}")  # noqa: S310 -- ours
    context = browser.new_context()
    answer = context.new_page().goto(house.url)
    assert answer is not None
    assert answer.status == 401
    context.close()


def test_viewers_look_and_change_nothing(browser: Browser, house: House) -> None:
    """A viewer sees blocks and plans, opens a block, and no request of the page is anything but a GET."""
    with logged_in(browser, house, VIEWER) as context:
        page = context.new_page()
        methods: set[str] = set()
        page.on("request", lambda request: methods.add(request.method))
        show(page, house, STREAM, FEW)
        page.locator("#table tbody button").first.click()
        expect(page.locator("#block-title")).to_be_visible()
        expect(page.locator("#plan")).to_contain_text("overlap")
        page.get_by_role("button", name="Refresh").click()
        in_view(page, FEW)
        assert methods == {"GET"}
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            script = "async ([url, method]) => (await fetch(url, {method})).status"
            assert page.evaluate(script, [f"{house.url}api/streams/{STREAM}", method]) == 405
