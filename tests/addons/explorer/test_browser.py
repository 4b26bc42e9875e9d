"""The explorer in a real browser: its figures are those of the simulator, by every control."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

import fedsim
from tests.addons.explorer.studies import data, replayed, run
from tests.results.report.test_browser import CONTRASTS, Seen, browser

__all__ = ["browser"]
pytestmark = pytest.mark.slow
EXACT = 1e-9
STEPS = 400
MAP = ("#map-x", "#map-y")
MOVE = """([share, id]) => {
  const own = document.getElementById(id);
  own.value = Math.round(400 * share);
  own.dispatchEvent(new Event("input", { bubbles: true }));
}"""


@pytest.fixture(scope="module", params=["shared"])
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, own_cache: Path
) -> Path:
    return run(request.param, tmp_path_factory.mktemp("explored") / "run")


@pytest.fixture(scope="module", params=[1280])
def seen(request: pytest.FixtureRequest, browser: Browser, folder: Path) -> Iterator[Seen]:
    page = fedsim.explore(folder)
    own = Seen(browser.new_page(viewport={"width": request.param, "height": 900}))
    own.tab.goto(page.as_uri())
    own.tab.locator("body[data-ready]").wait_for()
    yield own
    assert own.complaints == []
    assert own.requests == [page.as_uri()] or set(own.requests[1:]) == {"data:,"}
    own.tab.close()


def overrides(tab: Tab) -> list[tuple[Path, list[str]]]:
    """Return what the page says to type: the folder and the overrides of each command."""
    lines = (tab.locator("#command").text_content() or "").splitlines()
    words = [shlex.split(line) for line in lines]
    assert all(each[:2] == ["fedsim", "reprice"] for each in words)
    return [(Path(each[2]), each[4::2]) for each in words]


def settled(tab: Tab) -> None:
    """Wait for the frame in which the page shows its sliders."""
    tab.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")


def test_the_page_agrees_with_the_logs_as_written(seen: Seen) -> None:
    worst = seen.tab.locator("#check").get_attribute("data-worst")
    assert worst is not None
    assert 0 <= float(worst) < EXACT


def check_costs(seen: Seen, folder: Path, place: Path) -> None:
    """Check that the costs on the page are those of the commands that it shows."""
    costs = [
        {"label": label, **row}
        for number, (origin, sets) in enumerate(overrides(seen.tab))
        for (label, _), row in replayed(origin, sets, place / str(number)).items()
    ]
    known = data(folder / "explorer.html")
    for own in known["variants"]:
        runs = [row for row in costs if len(known["variants"]) == 1 or row["label"] == own["name"]]
        cells = seen.tab.locator(f'tr[data-variant="{own["label"]}"] td[data-value]')
        shown = [float(each.get_attribute("data-value") or "nan") for each in cells.all()]
        for (name, _, _), value in zip(known["costs"], shown, strict=True):
            mean = np.exp(np.mean([np.log(row[name]) for row in runs]))
            assert value == pytest.approx(mean, rel=EXACT)


@pytest.mark.parametrize("draw", range(2))
def test_what_one_sees_is_what_the_command_gives(
    seen: Seen, folder: Path, draw: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(draw)
    for number in range(len(data(folder / "explorer.html")["sliders"])):
        if rng.random() < 0.7:
            seen.tab.evaluate(MOVE, [float(rng.random()), f"s{number}"])
    settled(seen.tab)
    check_costs(seen, folder, tmp_path)


def test_a_click_on_the_map_moves_both_of_its_constants(
    seen: Seen, folder: Path, tmp_path: Path
) -> None:
    tab = seen.tab
    tab.get_by_role("button", name="Reset").click()
    settled(tab)
    tab.locator("#map[data-done]").wait_for()  # it is drawn anew
    sliders = [tab.locator(f"#s{tab.locator(which).input_value()}") for which in MAP]
    plane = tab.locator("#map .frame")
    plane.scroll_into_view_if_needed()
    box = plane.bounding_box()
    assert box is not None
    tab.mouse.click(box["x"] + 0.25 * box["width"], box["y"] + 0.25 * box["height"])
    settled(tab)
    shares = [float(each.input_value()) / STEPS for each in sliders]
    assert shares == pytest.approx([0.25, 0.75], abs=0.01)  # up is up
    assert "2 constants moved" in (tab.get_by_role("status").first.text_content() or "")
    check_costs(seen, folder, tmp_path)
    tab.get_by_role("button", name="Reset").click()


def test_the_map_names_its_axes_and_says_when_nothing_on_it_turns_the_answer(seen: Seen) -> None:
    tab = seen.tab
    tab.get_by_role("button", name="Reset").click()
    tab.locator("#map[data-done]").wait_for()
    for name in ("Horizontal axis", "Vertical axis"):
        chosen = tab.get_by_label(name, exact=True).evaluate("each => each.selectedOptions[0].text")
        assert any(chosen in text for text in tab.locator("#map text").all_text_contents())
    winners = tab.locator("#map-note .mark").count()
    said = tab.locator("#map-alone").text_content() or ""
    assert bool(said) == (winners == 1)
    assert "Nearest: " in said or not said.endswith("%.")


def test_keys_move_a_slider_and_a_button_moves_all_back(seen: Seen) -> None:
    tab = seen.tab
    tab.get_by_role("button", name="Reset").click()
    assert "no constant has been moved" in (tab.locator("#command").text_content() or "")
    before = tab.locator("#costs").inner_text()
    first = tab.get_by_role("slider").first
    first.focus()
    said = first.get_attribute("aria-valuetext")
    for _ in range(5):
        tab.keyboard.press("ArrowLeft")
    settled(tab)
    assert first.get_attribute("aria-valuetext") != said
    assert "--set" in (tab.locator("#command").text_content() or "")
    assert "1 constant moved" in (tab.get_by_role("status").first.text_content() or "")
    tab.get_by_role("button", name="Reset").click()
    assert tab.locator("#costs").inner_text() == before


def test_the_page_is_no_wider_than_the_window_and_every_control_has_a_name(seen: Seen) -> None:
    inner, wide = seen.tab.evaluate("[innerWidth, document.documentElement.scrollWidth]")
    assert wide <= inner
    assert seen.tab.evaluate(
        "[...document.querySelectorAll('input, select')].every((each) => each.labels.length)"
    )
    assert min(seen.tab.evaluate(CONTRASTS)) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_printed_whole_and_read_in_the_dark(
    browser: Browser, folder: Path, scheme: Literal["light", "dark"]
) -> None:
    tab = browser.new_page(color_scheme=scheme, viewport={"width": 390, "height": 800})
    tab.goto(fedsim.explore(folder).as_uri())
    tab.locator("body[data-ready]").wait_for()
    assert min(tab.evaluate(CONTRASTS)) >= 4.5
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.emulate_media(media="print", color_scheme=scheme)
    tab.set_viewport_size({"width": 720, "height": 1000})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 720
    assert tab.locator("#map svg").is_visible()
    assert tab.locator("#command").is_visible()
    tab.close()
