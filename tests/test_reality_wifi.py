"""Cells of Wi-Fi against frames: the table of ns-3's results, and ns-3 itself where it is there."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.physics.wifi import modulation_rate
from fedsim.results.accuracy import ONE, TCP, TRANSFERS, UDP
from tests.conftest import ROOT

ANALYSIS = ROOT / "analysis/reality"

GOAL = (0.08, 0.20)
"""Of the errors' sizes: the median, and the worst."""


@pytest.fixture
def wifi(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the cases and their reference."""
    monkeypatch.syspath_prepend(str(ANALYSIS))
    return importlib.import_module("wifi")


def test_every_run_of_the_table_is_complete_and_slower_than_its_modulations(wifi: Any) -> None:
    """A lower bound that holds for any protocol: all payload at the stations' rates in turn."""
    found = list(wifi.read())
    assert len(found) == sum(each.cases for each in wifi.SETS.values())
    for _, case, runs in found:
        width = 1e6 * case.width
        rates = [modulation_rate(case.standard, mcs, width, case.streams) for mcs in case.mcs]
        floor = sum(8 * case.bytes / rate for rate in rates)
        assert len(runs) == wifi.RUNS
        assert all(len(times) == case.stations for times in runs)
        assert min(wifi.last(case, times) for times in runs) > floor


@pytest.mark.slow
def test_the_end_of_all_is_that_of_frames_on_held_out_cases(wifi: Any) -> None:
    found = [(name, abs(error)) for name, _, error in wifi.errors()]
    errors = [error for name, error in found if name == "held-out"]
    assert np.median(errors) < GOAL[0]
    assert max([error for _, error in found]) < GOAL[1]  # of all sets: both ways at once, too
    for regime, stated in TRANSFERS["wifi"].items():
        sizes = [
            100 * abs(error)
            for name, case, error in wifi.errors()
            if name == "held-out"
            and regime == (ONE if case.stations == 1 else TCP if case.transport == "tcp" else UDP)
        ]
        assert len(sizes) == stated.cases
        assert np.median(sizes) == pytest.approx(stated.median, rel=0.05)
        assert max(sizes) == pytest.approx(stated.worst, rel=0.05)


@pytest.mark.slow
def test_a_slow_station_slows_all_in_frames_as_here(wifi: Any) -> None:
    """The cases with a modulation for each station, in which the anomaly is."""
    mixed = [(case, error) for _, case, error in wifi.errors() if len(set(case.mcs)) > 1]
    assert len(mixed) > 40
    assert np.median([abs(error) for _, error in mixed]) < GOAL[0]


@pytest.mark.slow
def test_air_that_is_not_shared_is_far_from_frames(wifi: Any) -> None:
    """What the model is for: without it, many stations take a small part of their time."""
    alone = [error for _, case, error in wifi.errors(cells=False) if case.stations > 1]
    assert np.median(alone) < -0.5


@pytest.mark.slow
def test_the_program_agrees_with_the_table(wifi: Any, tmp_path: Path) -> None:
    """Whatever ns-3 is there gives what is in the table: on short cases of each kind."""
    try:
        program = wifi.packets.compile_ns3(tmp_path, wifi.SOURCE, wifi.LIBRARIES)
    except RuntimeError as reason:
        pytest.skip(str(reason))
    runs = list(wifi.read())[:4]
    for _, case, times in runs:
        assert wifi.by_ns3(case, 0, program) == pytest.approx(times[0], rel=1e-4)
