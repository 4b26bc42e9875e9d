"""The report in a real browser: no errors, no requests, tabs, menus, two widths."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Dialog, Error, Locator, Playwright, sync_playwright
from playwright.sync_api import Page as Tab

from fedsim.results.report.page import TABS

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
WIDTHS = (1280, 390)


def program(playwright: Playwright) -> str:
    """Return a browser of this machine; skip where there is none."""
    own = Path(playwright.chromium.executable_path)
    named = os.environ.get("FEDSIM_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if named is None and not own.exists():
        wanted = "install Debian's chromium-headless-shell, or run `playwright install chromium`"
        pytest.skip(f"there is no {', '.join(NAMES)} here, nor FEDSIM_BROWSER: {wanted}")
    return named or str(own)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = program(playwright)
        try:
            own = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except Error as error:
            pytest.fail(f"{path} does not start: {error}")
        yield own
        own.close()


class Seen:
    """What a page has asked for, and what it has complained of."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.requests: list[str] = []
        self.complaints: list[str] = []
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("console", lambda message: self.complaints.append(message.text))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Dialog) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()


@pytest.fixture(scope="module", params=WIDTHS)
def seen(request: pytest.FixtureRequest, browser: Browser, path: Path) -> Iterator[Seen]:
    """Open the report in a window of some width."""
    own = Seen(browser.new_page(viewport={"width": request.param, "height": 900}))
    own.tab.goto(path.as_uri())
    yield own
    own.tab.close()


@pytest.fixture
def tab(seen: Seen, path: Path) -> Iterator[Tab]:
    """Return the report, and see at the end that it has asked for nothing and said nothing."""
    yield seen.tab
    assert seen.complaints == []
    asked = [url for url in seen.requests if not url.startswith(("data:", "blob:"))]
    assert asked == [path.as_uri()]


def opened(tab: Tab, name: str) -> Locator:
    """Open a tab, and return its panel."""
    tab.get_by_role("tab", name=name, exact=True).click()
    return tab.get_by_role("tabpanel", name=name, exact=True)


@pytest.mark.slow
def test_every_tab_opens_its_panel_alone(tab: Tab) -> None:
    for name in TABS:
        panel = opened(tab, name)
        assert panel.is_visible()
        assert tab.locator("[role=tabpanel]:visible").count() == 1
        assert panel.get_by_role("heading", name=name, exact=True).is_visible()


@pytest.mark.slow
def test_every_figure_is_drawn(tab: Tab) -> None:
    for name in TABS:
        panel = opened(tab, name)
        for plot in panel.locator(".plot").all():
            own = plot.locator("svg.drawn[role=img]:visible")
            assert own.count() == 1
            box = own.bounding_box()
            assert box is not None
            assert box["width"] > 200
            assert box["height"] > 30


def test_a_figure_is_on_the_first_screen(tab: Tab) -> None:
    opened(tab, "Overview")
    box = tab.locator('[data-figure="overview-round"] svg.drawn').bounding_box()
    assert box is not None
    assert 0 < box["y"] < box["y"] + box["height"] < 900


def test_nothing_is_wider_than_the_window(tab: Tab) -> None:
    for name in TABS:
        opened(tab, name)
        inner, wide = tab.evaluate("[innerWidth, document.documentElement.scrollWidth]")
        assert wide <= inner, name


def test_words_are_large_enough_to_read(tab: Tab) -> None:
    smallest = (
        "[...document.querySelectorAll('section:not([hidden]) *')]"
        ".filter(each => !each.closest('svg') && !each.children.length && each.textContent.trim())"
        ".map(each => parseFloat(getComputedStyle(each).fontSize)).reduce((a, b) => Math.min(a, b))"
    )
    for name in TABS:
        opened(tab, name)
        assert tab.evaluate(smallest) >= 12, name


def test_words_of_figures_are_large_enough_to_read(tab: Tab) -> None:
    """A figure is made smaller to fit the window, and its words with it."""
    words = (
        "[...document.querySelectorAll('section:not([hidden]) svg.drawn[role=img]')]"
        ".filter(each => each.getBoundingClientRect().width)"
        ".flatMap(each => [...each.querySelectorAll('text')].map(text =>"
        " parseFloat(getComputedStyle(text).fontSize) * each.getScreenCTM().a))"
    )
    for name in TABS[2:-1]:
        opened(tab, name)
        sizes = tab.evaluate(words)
        assert min(sizes) >= 9, name  # what is written on links is the smallest
        assert sorted(sizes)[len(sizes) // 2] >= 11, name


def test_words_of_a_figure_stand_within_it_and_not_on_each_other(tab: Tab) -> None:
    """Names at an axis, the figures below it and its titles; of networks see their own test."""
    overlaps = (
        "figure => { const boxes = [...figure.querySelectorAll('text')]"
        ".map(each => each.getBoundingClientRect()); const own = figure.getBoundingClientRect();"
        " const out = boxes.filter(each => each.left < own.left - 1 || each.right > own.right + 1"
        " || each.top < own.top - 1 || each.bottom > own.bottom + 1);"
        " const on = boxes.flatMap((one, at) => boxes.slice(at + 1).filter(other =>"
        " Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&"
        " Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 3));"
        " return out.length + on.length; }"
    )
    for name in ("Overview", "Convergence", "Energy", "Participation", "Timeline"):
        panel = opened(tab, name)
        for figure in panel.locator("svg.drawn[role=img]:visible").all():
            assert figure.evaluate(overlaps) == 0, name


def test_the_figures_behind_a_drawing_are_in_a_table_that_a_reader_opens(tab: Tab) -> None:
    for name in ("Fleet", "Energy", "Participation", "Timeline"):
        table = opened(tab, name).locator(".drawing details").first
        assert not table.locator("table").is_visible()
        table.locator("summary").click()
        assert table.locator("table").is_visible()
        table.locator("summary").click()


def test_tabs_obey_the_keyboard(tab: Tab) -> None:
    tab.get_by_role("tab", name=TABS[0]).focus()
    for key, name in (
        *(("ArrowRight", name) for name in TABS[1:]),
        ("ArrowRight", TABS[0]),
        ("ArrowLeft", TABS[-1]),
        ("Home", TABS[0]),
        ("End", TABS[-1]),
    ):
        tab.keyboard.press(key)
        chosen = tab.locator("[role=tab][aria-selected=true]")
        assert chosen.text_content() == name
        assert chosen.evaluate("each => each === document.activeElement")
        assert tab.locator("[role=tab][tabindex='0']").count() == 1


def test_a_menu_changes_the_figure_and_says_what_it_shows(tab: Tab) -> None:
    panel = opened(tab, "Timeline")
    note = panel.locator(".note")
    panel.get_by_label("Round", exact=True).select_option("first")
    assert (note.text_content() or "").startswith("Round 1:")
    panel.get_by_label("Round", exact=True).select_option("last")
    assert (note.text_content() or "").startswith("Round 25:")
    panel.get_by_label("Run", exact=True).select_option("3")
    assert (note.text_content() or "").startswith("Round 25:")
    panel.get_by_label("Round", exact=True).select_option("first")
    assert (note.text_content() or "").startswith("Round 1:")


@pytest.mark.parametrize(
    ("name", "figure"), [("Overview", "overview-bits"), ("Convergence", "convergence-bits")]
)
def test_a_name_in_the_legend_hides_its_curve_and_shows_it_again(
    tab: Tab, name: str, figure: str
) -> None:
    panel = opened(tab, name)
    shapes = panel.locator(f'[data-figure="{figure}"] g[data-group]:visible')
    before = shapes.count()
    assert before == 6
    for left in (before - 2, before):  # a mean, and its band
        panel.get_by_role("button", name="gd", exact=True).click()
        assert shapes.count() == left


def test_a_curve_that_is_hidden_stays_so_under_another_measure(tab: Tab) -> None:
    panel = opened(tab, "Convergence")
    lines = panel.locator('[data-figure="convergence-t"] g[data-group] > path:visible')
    panel.get_by_role("button", name="gd", exact=True).click()
    for measure in ("objective", "gap"):
        panel.get_by_label("Measure", exact=True).select_option(measure)
        assert lines.count() == 2
    panel.get_by_role("button", name="gd", exact=True).click()
    assert lines.count() == 3


def test_figures_are_read_from_the_right_and_wide_tables_scroll_by_themselves(tab: Tab) -> None:
    for name in TABS:
        panel = opened(tab, name)
        for table in panel.locator(".scroll:has(table)").all():
            assert table.evaluate(
                "each => [...each.querySelectorAll('td[data-value]')].every("
                "cell => !cell.matches('.figure') || getComputedStyle(cell).textAlign === 'right')"
            )
            own, room = table.evaluate("each => [each.scrollWidth, each.clientWidth]")
            if own > room:
                table.evaluate("each => each.scrollTo(1e6, 0)")
                assert table.evaluate("each => each.scrollLeft") > 0
    cost = opened(tab, "Overview").locator("td.figure").first
    assert cost.evaluate("each => getComputedStyle(each).fontVariantNumeric") == "tabular-nums"


def test_no_line_is_wider_than_its_room_but_in_boxes_that_say_so(tab: Tab) -> None:
    """Words that are cut off are in a named box that keys reach and that says it scrolls."""
    cut = (
        "[...document.querySelectorAll('section:not([hidden]) :is(p, li, td, th, h2, h3, summary,"
        " pre, code, figcaption)')].filter(each => each.checkVisibility()).filter(each => {"
        " const box = each.closest('.scroll'); const own = each.getBoundingClientRect();"
        " if (each.scrollWidth > each.clientWidth + 1 && !each.matches('.scroll[data-more]')"
        " && getComputedStyle(each).display !== 'inline') return true;"
        " return own.right > innerWidth + 1 && !(box?.dataset.more ?? '').length; })"
        ".map(each => each.textContent.slice(0, 60))"
    )
    announced = (
        "[...document.querySelectorAll('section:not([hidden]) .scroll')]"
        ".filter(each => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)"
        ".every(each =>"
        " each.tabIndex === 0 && each.ariaLabel.endsWith('scrolls sideways') &&"
        " getComputedStyle(each).maskImage !== 'none' &&"
        " getComputedStyle(each.previousElementSibling, '::after').content.includes('scrolls'))"
    )
    for name in TABS:
        opened(tab, name)
        tab.wait_for_timeout(50)  # the boxes are measured when they have been laid out
        assert tab.evaluate(cut) == [], name
        assert tab.evaluate(announced), name


def test_lines_have_a_measure_that_is_read(tab: Tab) -> None:
    longest = (
        "[...document.querySelectorAll('section:not([hidden]) :is(p, li, td.wide)')]"
        ".filter(each => each.checkVisibility() && each.innerText.trim().length > 90)"
        ".map(each => { const style = getComputedStyle(each);"
        " const lines = each.getBoundingClientRect().height / parseFloat(style.lineHeight);"
        " return each.innerText.trim().length / Math.max(1, Math.round(lines)); })"
    )
    for name in TABS:
        opened(tab, name)
        assert max(tab.evaluate(longest), default=0) <= 105, name


def test_names_stay_as_they_are_written(tab: Tab) -> None:
    text = opened(tab, "Overview").inner_text()
    for name in ("gd", "tree", "base", "chb"):
        assert name.capitalize() not in re.findall(r"[\w-]+", text)
    assert tab.locator("#overview .answer code").count() >= 1


def test_what_has_the_focus_is_outlined(tab: Tab) -> None:
    opened(tab, "Energy")
    tab.get_by_role("tab", name="Energy", exact=True).focus()
    for _ in range(6):
        tab.keyboard.press("Tab")
        style = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none", tab.evaluate("document.activeElement.outerHTML.slice(0, 80)")


def test_hashes_are_folded_away_until_somebody_asks(tab: Tab) -> None:
    panel = opened(tab, "Audit")
    assert panel.locator("code:visible").count() == 0
    panel.locator("td summary").first.click()
    assert len(panel.locator("code:visible").first.inner_text()) == 64


def test_an_address_with_a_tab_opens_it(tab: Tab) -> None:
    tab.evaluate("location.hash = '/audit'")
    tab.locator("#audit").wait_for()
    assert tab.locator("[role=tabpanel]:visible").count() == 1


def test_a_name_that_is_a_script_is_read_and_not_run(tab: Tab) -> None:
    assert "alert(1)" in tab.locator("h1").inner_text()
    assert tab.locator("script").count() == 1


@pytest.mark.parametrize("fragment", ["", "#/audit", "#audit"])
def test_the_page_opens_at_its_top(browser: Browser, path: Path, fragment: str) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 400})
    tab.goto(path.as_uri() + fragment)
    tab.get_by_role("tab", selected=True).wait_for()
    tab.wait_for_load_state()
    assert tab.evaluate("window.scrollY") == 0
    name = "Audit" if fragment else "Overview"
    assert tab.get_by_role("tab", selected=True).text_content() == name
    tab.close()


CONTRASTS = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (colour) => {
    const parts = channels(colour).map((each) => each / 255).map((each) =>
      each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const words = "h1, h3, p, li, td, th, svg text, button, summary, code, label";
  return [...document.querySelectorAll(words)].map((each) => {
      const style = getComputedStyle(each);
      const ink = light(each.closest("svg") ? style.fill : style.color);
      return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    });
}"""


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_every_word_is_read_in_the_light_and_in_the_dark(
    browser: Browser, path: Path, scheme: Literal["light", "dark"], *, dark: bool
) -> None:
    tab = browser.new_page(color_scheme=scheme)
    tab.goto(path.as_uri())
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 200) is dark
    assert min(tab.evaluate(CONTRASTS)) >= 4.5  # of the Web Content Accessibility Guidelines, AA
    tab.close()


def test_the_first_figures_need_no_script(browser: Browser, path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    names = ("overview-bits", "fleet-0", "convergence-t", "energy", "participation", "timeline")
    for name in names:
        assert tab.locator(f'[data-figure="{name}"] svg[role=img]').is_visible()
    context.close()


@pytest.mark.slow
def test_all_tabs_are_printed_with_whole_tables_and_the_choices_made(
    browser: Browser, path: Path
) -> None:
    tab = browser.new_page(viewport={"width": 720, "height": 1000})  # a page of A4, less margins
    tab.goto(path.as_uri())
    tab.emulate_media(media="print")
    assert not tab.locator("[role=tablist]").is_visible()
    for section in tab.locator("main > section").all():
        assert section.is_visible()
    assert tab.locator("#whose-energy").is_visible()
    widest = "Math.max(...[...document.querySelectorAll('table')].map((each) => each.scrollWidth))"
    assert tab.evaluate(widest) <= tab.evaluate("document.body.clientWidth")
    tab.close()
