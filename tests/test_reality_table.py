"""The table of all models and their references: its command, in a reduced form, and its page."""

import importlib
from typing import Any

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs/explanation/truth.md"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "analysis/reality"))
    return importlib.import_module("run")


@pytest.mark.slow
def test_the_command_prints_the_table_of_the_page(
    run: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a few cases of each reference, so figures differ; the models and references do not.

    Fleets are calibrated by a test of their own script.
    """
    packets, kernel, wifi = run.transfers.packets, run.kernel, run.wifi
    few = [each for each in packets.read() if each[1].flows * each[1].bytes < 2e5]
    cells = [each for each in wifi.read() if each[1].stations < 4]
    losses = list(packets.read_losses())[-3:]
    measured = {number: times for number, times in kernel.read("held-out").items() if number < 12}
    monkeypatch.setattr(packets, "read", lambda: iter(few))
    monkeypatch.setattr(wifi, "read", lambda: iter(cells))
    monkeypatch.setattr(packets, "read_losses", lambda: iter(losses))
    monkeypatch.setattr(kernel, "read", lambda *_: measured)
    for name in ("rounds", "live_rounds"):
        monkeypatch.setattr(run, name, lambda: {"presets": [0.5], "calibrated": [0.01, -0.02]})
    run.main([])
    head, _, *rows = capsys.readouterr().out.splitlines()
    page = PAGE.read_text(encoding="utf-8")
    table = page.split(run.BEGIN)[1].split(run.END)[0].splitlines()
    assert table[0] == head
    assert [_named(row) for row in table[2:]] == [_named(row) for row in rows]
    with pytest.raises(SystemExit, match="expected nothing, or: --page"):
        run.main(["page"])


def _named(row: str) -> tuple[str, ...]:
    """Return the cells that are no figures."""
    cells = row.strip("|").split("|")
    return (*cells[:2], *cells[6:])


def test_the_errors_against_simgrid_are_those_of_its_table(run: Any) -> None:
    for model in ("fluid", "lv08"):
        errors = run.of_simgrid(model)()
        assert len(errors) == 674
        assert max(map(abs, errors)) < 1e-14
