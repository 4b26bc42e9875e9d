"""The page of a study in progress in a real browser, at two widths."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import fedsim
from fedsim.browser.pages import StudyPages
from fedsim.browser.serving import server
from tests.report.test_browser import WIDTHS, Seen, browser
from tests.runs import small

__all__ = ["browser"]
pytestmark = pytest.mark.slow
PATIENCE = 300_000  # ms; a report is drawn meanwhile


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, own_cache: Path) -> Iterator[str]:
    """Serve the pages of a small study."""
    out = tmp_path_factory.mktemp("study") / "out"
    variants = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
    fedsim.run(small(stop={"rounds": 20}, seeds=4, variants=variants), out=out)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = server(listener, "abc", StudyPages(out))
        thread = threading.Thread(target=own.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/abc/"
        own.shutdown()
        thread.join()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_shows_curves_and_the_report_and_fits(
    browser: Browser, address: str, width: int
) -> None:
    seen = Seen(browser.new_page(viewport={"width": width, "height": 900}))
    tab = seen.tab
    tab.goto(address)
    expect(tab.locator("h1")).to_have_text("small")
    expect(tab.locator("#state .drawing")).to_have_count(3)
    expect(tab.locator(".seed.done")).to_have_count(8)
    assert tab.title() == "8/8 small"
    expect(tab.locator("#state svg.drawn[role=img]").first).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.get_by_role("tab", name="Report of ended runs").click()
    report = tab.frame_locator("#ended")
    expect(report.get_by_role("tab", name="Energy")).to_be_visible(timeout=PATIENCE)
    report.get_by_role("tab", name="Energy").click()
    expect(report.locator("h2:visible")).to_have_text("Energy")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seen.complaints == []
    assert all(url.startswith((address, "data:")) for url in seen.requests)
    tab.close()


def test_a_page_whose_server_has_ended_says_so(browser: Browser, address: str) -> None:
    tab = browser.new_page()
    tab.goto(address)
    expect(tab.locator(".seed.done")).to_have_count(8)
    expect(tab.locator("#closed")).to_be_hidden()
    tab.context.set_offline(True)
    expect(tab.locator("#closed")).to_contain_text("report.html", timeout=PATIENCE)
    expect(tab.locator(".seed.done")).to_have_count(8)
    tab.close()
