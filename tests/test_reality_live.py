"""Live runs over shaped links: the table of measurements, what follows from it, and the runs."""

import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedsim.results.accuracy import ROUNDS
from tests.conftest import ROOT

ANALYSIS = ROOT / "analysis/reality"


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ANALYSIS))
    return importlib.import_module("live_links")


def check_rows(rows: Any, setting: Any) -> None:
    """Check that times are in order, and that no answer is faster than its links and its work.

    Both ends of that time are the server's. A token bucket lets three packets pass early.
    """
    names = ["down_begin", "down_end", "up_begin", "up_end"]
    assert (np.diff(rows[names].to_numpy(), axis=1) >= 0).all()
    client, early = rows["client"], 3 * 1500
    least = 2 * (setting.delay + np.array(setting.own_delay)[client])
    for size, rates in (("down_bytes", setting.down), ("up_bytes", setting.up)):
        least += 8 * np.maximum(rows[size] - early, 0) / np.array(rates)[client]
    whole = rows["up_end"] - rows["down_begin"]
    assert (whole > least + rows["work"]).all()
    spread = rows["work"] * np.array(setting.speed)[client] / rows["operations"]
    assert np.median(spread) == pytest.approx(1.0, abs=0.1)


def test_every_measurement_is_complete_and_slower_than_its_links(live: Any) -> None:
    table = live.read()
    assert sorted(set(table["setting"])) == list(range(live.SETTINGS))
    for number, rows in table.groupby("setting"):
        assert len(rows) == 4 * live.ROUNDS * live.CLIENTS
        check_rows(rows, live.draw(number))
    for path in (live.MACHINE, live.MACHINE_AGAIN):
        assert pd.read_csv(path)["setting"].tolist() == list(range(live.SETTINGS))


def test_a_second_measurement_is_complete_and_of_the_same_bytes(live: Any) -> None:
    """Bytes and operations follow from the scenario; times are the machine's."""
    first, second = live.read(), pd.read_csv(live.REPEATS)
    exact = ["setting", "method", "round", "client", "down_bytes", "operations", "up_bytes"]
    pd.testing.assert_frame_equal(first[exact], second[exact])
    assert not np.array_equal(first["up_end"], second["up_end"])
    for number, rows in second.groupby("setting"):
        check_rows(rows, live.draw(number))


def test_one_measurement_as_the_prediction_of_another(live: Any) -> None:
    """Computed anew from both; by hand for one round."""
    stored = importlib.import_module("stored")
    for number, found in stored.read_findings(live.REPEATED):
        ((*names, kept),) = found
        ((*_, made),) = live.repeated(number)
        assert names == [live.LIVE, live.BEFORE]
        assert made.errors == pytest.approx(kept.errors, rel=1e-3)
    first, second = (
        table.query("setting == 0 and method == 'dense' and round == 7")
        for table in (live.read(), pd.read_csv(live.REPEATS))
    )
    took = [rows["up_end"].max() - rows["down_begin"].min() for rows in (first, second)]
    ((*_, made),) = live.repeated(0)
    place = sorted(live.METHODS).index("dense") * live.ROUNDS // 2
    assert made.errors[place] == pytest.approx(took[0] / took[1] - 1.0)


def test_settings_are_in_their_ranges_and_clients_differ(live: Any) -> None:
    for number in range(live.SETTINGS):
        drawn = live.draw(number)
        rates = [*drawn.up, *drawn.down]
        trips = [2 * (drawn.delay + own) for own in drawn.own_delay]
        assert 1e6 <= min(rates) < 0.7 * max(rates) < 50e6
        assert 0.01 <= min(trips) < max(trips) <= 0.3
        assert drawn.rate <= live.MOST


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")
def test_half_of_a_live_run_predicts_the_other_half(
    live: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of the page's table: one setting under the fluid model."""
    monkeypatch.setattr(live.calibrating, "MODELS", ("fluid",))
    found: Mapping[str, Any] = {fleet: each for _, fleet, each in live.findings(SHOWN)}
    row = live.calibrating._row("fluid", "calibrated", str(SHOWN), [found["calibrated"]])
    assert row in (ANALYSIS / "calibrating.md").read_text(encoding="utf-8")
    cells = [float(re.sub(r"[ %+]", "", cell)) for cell in row.split("|")[4:7]]
    assert cells[0] < 5
    assert abs(cells[2]) < 15
    assert np.median(np.abs(found["presets"].errors)) > 0.2
    with pytest.raises(SystemExit, match="numbers of settings up to 9"):
        live.main(["measure", "10"])


SHOWN = 1


def test_a_check_states_the_errors_of_all_settings(live: Any) -> None:
    """As stored; `test_half_of_a_live_run_predicts_the_other_half` computes one of them anew."""
    stored = importlib.import_module("stored")
    errors, taus = dict[str, list[float]](), list[float]()
    settings = [number for number, _ in stored.read_findings(live.FOUND)]
    for _, found in stored.read_findings(live.FOUND):
        for model, fleet, each in found:
            if fleet == "calibrated":
                errors.setdefault(model, []).extend(each.errors)
                taus.append(each.tau)
    assert settings == list(range(live.SETTINGS))
    assert errors.keys() == ROUNDS.keys()
    drawn = [live.draw(number) for number in settings]
    rates = [rate for each in drawn for rate in (*each.up, *each.down)]
    trips = [2 * (each.delay + own) for each in drawn for own in each.own_delay]
    most = live.read()[["down_bytes", "up_bytes"]].to_numpy().max()
    for model, stated in ROUNDS.items():
        sizes = 100 * np.abs(errors[model])
        assert len(sizes) == stated.cases
        assert np.median(sizes) == pytest.approx(stated.median, rel=0.01)
        assert np.quantile(sizes, 0.9) == pytest.approx(stated.nine, rel=0.01)
        assert max(sizes) == pytest.approx(stated.worst, rel=0.01)
        assert stated.flows == (live.CLIENTS, live.CLIENTS)
        assert stated.bytes[1] == pytest.approx(most, rel=0.05)
        assert stated.rates == pytest.approx((min(rates), max(rates)), rel=0.05)
        assert stated.trips == pytest.approx((min(trips), max(trips)), rel=0.05)
    assert np.mean(taus) > 0.9


def test_the_page_has_the_errors_that_a_check_states() -> None:
    page = (ANALYSIS / "calibrating.md").read_text(encoding="utf-8")
    own = page.split("## Live runs over shaped links")[1]
    for model, stated in ROUNDS.items():
        row = f"{stated.median:.1f} % | {stated.nine:.1f} %"
        assert f"| `{model}` | calibrated | all | {row} |" in own


def test_a_relay_does_not_make_what_it_carries_for_as_prompt_as_itself(live: Any) -> None:
    """In real time, its equals would hold it up as long as they compute."""
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    asked = list[int]()
    relay = importlib.import_module("linux.relay")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_setscheduler", lambda _, given, __: asked.append(given))
        relay.be_prompt()
    assert asked == [policy]


@pytest.mark.slow
def test_live_runs_between_namespaces_can_be_measured_again(live: Any) -> None:
    """Few rounds of one setting, anew; where namespaces are not allowed, it says why."""
    namespaces = importlib.import_module("linux.namespaces")
    setting = replace(live.draw(SHOWN), features=2_000)
    try:
        rows = live.measure(SHOWN, setting, rounds=2)
    except (namespaces.Unavailable, PermissionError, FileNotFoundError) as reason:
        pytest.skip(f"network namespaces are not to be had here: {reason}")
    assert len(rows) == 4 * 2 * live.CLIENTS
    check_rows(rows, setting)
    assert not list(Path("/run/netns").glob(f"fedsim{os.getpid()}*"))
