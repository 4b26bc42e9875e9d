"""The table of all models and their references: its command, in a reduced form, and its page."""

import importlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.results.accuracy import FRAMES, REFERENCES, TRANSFERS
from tests.conftest import ROOT

PAGE = ROOT / "docs/explanation/truth.md"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "analysis/reality"))
    return importlib.import_module("run")


@pytest.mark.slow
def test_the_command_computes_the_table_of_the_page_anew(
    run: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
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
    for rounds in (run.calibrating, run.live_links):
        monkeypatch.setattr(rounds, "find_all", lambda: None)
    monkeypatch.setattr(run.lora, "NODES", (30, 100))
    monkeypatch.setattr(run.lora, "PERIODS", 2)
    monkeypatch.setattr(run.lora, "TRIALS", 1000)
    monkeypatch.setattr(run.lora, "PUBLISHED", {(30, None): 0.9})
    monkeypatch.setattr(run.lora, "FOUND", tmp_path / "lora.csv")
    monkeypatch.setattr(run, "ERRORS", tmp_path / "errors.csv")
    run.main(["--again"])
    head, _, *rows = capsys.readouterr().out.splitlines()
    page = PAGE.read_text(encoding="utf-8")
    table = page.split("<!-- table -->\n")[1].split("<!-- end of table -->")[0].splitlines()
    assert table[0] == head
    assert [_named(row) for row in table[2:]] == [_named(row) for row in rows]
    with pytest.raises(SystemExit, match="expected nothing, or: --page, --again"):
        run.main(["page"])


def _named(row: str) -> tuple[str, ...]:
    """Return the cells that are no figures."""
    cells = row.strip("|").split("|")
    return (*cells[:2], *cells[6:])


def test_the_errors_of_one_script_are_computed_anew_and_all_others_stay(
    run: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    before = run.read_errors(run.ERRORS)
    monkeypatch.setattr(run, "ERRORS", Path(shutil.copy(run.ERRORS, tmp_path)))
    monkeypatch.setattr(run.wifi, "errors", lambda: iter([("held-out", None, 0.5)]))
    for script in (run.calibrating, run.live_links, run.lora):
        monkeypatch.setattr(script, "find_all", None)
    run.main(["--again", "wifi.py"])
    assert run.read_errors(run.ERRORS) == {**before, run.CELLS: [0.5]}
    assert "| 50 % | 50 % | +50 % |" in capsys.readouterr().out
    for words in (["wifi.py"], ["--again", "simgrid/compare.py"]):
        with pytest.raises(SystemExit, match="and with it some of calibrating"):
            run.main(words)


def test_the_pages_have_what_was_found_once(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command writes all of their tables: nothing in them is typed."""
    written = list[tuple[str, str]]()

    def check(page: Path, name: str, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        assert f"{begin}{text}{end}" in page.read_text(encoding="utf-8")
        written.append((page.name, name))

    monkeypatch.setattr(run, "fill", check)
    run.main(["--page"])
    assert len(written) == 10
    assert {page for page, _ in written} == {"truth.md", "calibrating.md", "lora.md"}


def test_a_check_states_the_figures_that_are_stored_regime_by_regime(run: Any) -> None:
    """Errors, their number, and the ranges of the cases: all of `results.accuracy`, and no more."""
    assert importlib.import_module("regimes").HEAD in PAGE.read_text(encoding="utf-8")
    seen = set[tuple[str, str]]()
    for model, regime, held in run.regimes_of_all():
        stated, sizes = TRANSFERS[model][regime], 100 * np.abs(held.errors)
        errors = np.median(sizes), np.quantile(sizes, 0.9), sizes.max()
        assert (stated.median, stated.nine, stated.worst) == pytest.approx(errors, rel=0.006)
        assert (stated.cases, stated.flows) == (len(sizes), held.flows)
        for name in ("bytes", "rates", "trips"):
            exact = getattr(held, name)
            assert getattr(stated, name) == (exact and pytest.approx(exact, rel=0.06))
        seen.add((model, regime))
    assert seen == {(model, regime) for model, each in TRANSFERS.items() for regime in each}
    assert TRANSFERS.keys() == REFERENCES.keys()
    for reference, published in zip(FRAMES, (False, True), strict=True):
        sizes = 100 * np.abs(run.of_lora(published=published)())
        found = np.median(sizes), sizes.max(), len(sizes)
        assert FRAMES[reference] == pytest.approx(found, rel=0.006)


def test_what_is_stored_is_read_as_it_was_written(run: Any, tmp_path: Path) -> None:
    stored = importlib.import_module("stored")
    found = [(3, [("tcp", "presets", stored.Finding([0.25, -0.5], 0.6667))]), (1, [])]
    stored.write_findings(iter(found), tmp_path / "found.csv")
    assert list(stored.read_findings(tmp_path / "found.csv")) == found[:1]
    stored.write_errors({"a, b": [1e-4], "c": []}, tmp_path / "errors.csv")
    assert stored.read_errors(tmp_path / "errors.csv") == {"a, b": [1e-4], "c": []}
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x -->\nold\n<!-- end of x -->\nbehind\n", encoding="utf-8")
    stored.fill(page, "x", ["one", "two"])
    assert page.read_text(encoding="utf-8").splitlines()[2:4] == ["one", "two"]


def test_a_computation_that_is_cut_off_leaves_what_was_stored(run: Any, tmp_path: Path) -> None:
    """Nor does it leave anything else: half of a table would be taken for a whole one."""
    stored = importlib.import_module("stored")
    path = tmp_path / "found.csv"
    stored.write_findings([(3, [("tcp", "presets", stored.Finding([0.25], 1.0))])], path)
    before, mode = path.read_bytes(), path.stat().st_mode

    def cut_off() -> Any:
        yield 4, [("tcp", "presets", stored.Finding([0.5], 1.0))]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stored.write_findings(cut_off(), path)
    assert path.read_bytes() == before
    stored.write_findings([], path)
    assert path.read_text(encoding="utf-8") == "setting,model,fleet,tau,errors\n"
    assert [*tmp_path.iterdir()] == [path]
    assert path.stat().st_mode == mode


def test_the_errors_against_simgrid_are_those_of_its_table(run: Any) -> None:
    for model in ("fluid", "lv08"):
        errors = run.of_simgrid(model)()
        assert len(errors) == 674
        assert max(map(abs, errors)) < 1e-14
