"""Transfers against packets: the table of ns-3's results, and ns-3 itself where it is there."""

import dataclasses
import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT

ANALYSIS = ROOT / "analysis/reality"


@pytest.fixture
def packets(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the cases and their reference."""
    monkeypatch.syspath_prepend(str(ANALYSIS))
    return importlib.import_module("packets")


def test_every_run_of_the_table_is_complete_and_slower_than_the_narrowest_link(
    packets: Any,
) -> None:
    """A lower bound that holds for any protocol: all payload over the server's link, one way."""
    runs = list(packets.read())
    assert len({(name, id_of(case)) for name, case, _, _ in runs}) >= 60
    for _, case, _, times in runs:
        assert len(times) == case.flows
        payload = 8 * case.bytes
        floor = max(case.flows * payload / case.rate, payload / case.own_rate)
        trip = 2 * (case.delay + min(case.own_delays))  # a handshake comes first
        assert max(times) > floor + 1.5 * trip * (1 - 1e-6)


def id_of(case: Any) -> tuple[float, float, int]:
    """Return what tells drawn cases apart."""
    return case.rate, case.delay, case.bytes


def test_a_flow_of_the_fluid_model_is_held_up_by_one_way_and_the_narrowest_link(
    packets: Any,
) -> None:
    """The closed form, which the comparison with packets rests on."""
    single = [case for _, case, _, _ in packets.read() if case.flows == 1]
    assert len(single) > 20
    for case in single:
        narrowest = min(case.rate, case.own_rate)
        if case.gateways:
            narrowest = min(narrowest, case.gateway_rate)
        expected = case.delay + case.own_delays[0] + 8 * case.bytes / narrowest
        assert packets.by_fedsim(case, "fluid") == [pytest.approx(expected)]


@pytest.fixture
def trains(packets: Any) -> Any:
    """Return the model of windows and queues."""
    assert packets
    return importlib.import_module("trains")


def alone(packets: Any, **changes: Any) -> Any:
    """Return one flow on a wide link, changed as is said."""
    case = packets.Case(
        variant="newreno",
        discipline="drop-tail",
        queue=100,
        loss=0.0,
        direction="up",
        rate=1e9,
        delay=0.05,
        gateways=0,
        gateway_rate=1e9,
        bytes=10 * packets.SEGMENT,
        own_rate=1e9,
        own_delays=(0.05,),
    )
    return dataclasses.replace(case, **changes)


@pytest.mark.parametrize(("segments", "rounds"), [(1, 0), (10, 0), (11, 1), (25, 1), (26, 2)])
def test_slow_start_takes_a_handshake_and_a_round_trip_for_each_window(
    packets: Any, trains: Any, segments: int, rounds: int
) -> None:
    """Windows of 10 and 15 segments: an acknowledgement of two segments adds one (RFC 5681)."""
    case = alone(packets, bytes=segments * packets.SEGMENT)
    (time,) = trains.by_trains(case)
    assert time == pytest.approx(0.2 * (1.5 + rounds), rel=2e-3)


def test_a_window_that_is_lost_behind_a_full_queue_waits_for_its_timeout(
    packets: Any, trains: Any
) -> None:
    """A lone segment that is dropped has none behind it to tell: a second, and it is there."""
    case = alone(packets, queue=1, rate=1e6, bytes=packets.SEGMENT, own_delays=(0.05,) * 4)
    times = sorted(trains.by_trains(case))
    slot = 8 * (packets.SEGMENT + trains.HEADERS) / 1e6
    assert times[0] == pytest.approx(0.3 + slot, rel=1e-2)
    assert times[1] == pytest.approx(0.3 + 2 * slot, rel=1e-2)
    assert all(time > 1.2 for time in times[2:])


def test_the_model_of_windows_keeps_its_errors(packets: Any, trains: Any) -> None:
    """Against ns-3 without random losses: the quantiles that the page states."""
    runs = [
        (case, abs(max(trains.by_trains(case)) / max(times) - 1))
        for name, case, _, times in packets.read()
        if name == "held-out" and not case.loss
    ]
    off = [error for _, error in runs]
    assert np.median(off) < 0.01
    assert np.quantile(off, 0.9) < 0.32
    assert max(error for case, error in runs if case.flows == 1) < 0.03


def test_the_acknowledgement_of_an_odd_segment_is_delayed(packets: Any, trains: Any) -> None:
    """Of a window of 15, 14 are acknowledged: 21 segments follow, and the 47th waits for more."""
    sizes = [packets.SEGMENT * segments for segments in (46, 47)]
    times = [trains.by_trains(alone(packets, bytes=size))[0] for size in sizes]
    assert times == [pytest.approx(0.2 * 3.5, rel=2e-3), pytest.approx(0.2 * 4.5, rel=2e-3)]


@pytest.mark.slow
def test_the_script_prints_the_errors_of_every_model(
    packets: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = importlib.import_module("run")
    few = [each for each in packets.read() if each[1].flows * each[1].bytes < 1e6]
    monkeypatch.setattr(packets, "read", lambda: iter(few))
    run.main([])
    page = (ANALYSIS / "README.md").read_text(encoding="utf-8")
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head in page
    cells = [[cell.strip() for cell in row.split("|")[1:4]] for row in rows]
    assert cells == [
        [f"`{model}`", name, kind]
        for model in run.MODELS
        for name in packets.SETS
        for kind in run.KINDS
    ]
    with pytest.raises(SystemExit, match="expected nothing, or: simulate"):
        run.main(["simulated"])


@pytest.mark.slow
def test_ns3_says_again_what_the_table_has(packets: Any, tmp_path: Path) -> None:
    try:
        program = packets.compile_ns3(tmp_path)
    except RuntimeError as reason:
        pytest.skip(str(reason))
    few = [(case, times) for _, case, _, times in packets.read() if not case.loss]
    few.sort(key=lambda run: run[0].flows * run[0].bytes)
    for case, times in few[:6]:
        again = packets.by_ns3(case, 0, program)
        assert again == pytest.approx(list(times), rel=1e-5)
        assert all(math.isfinite(time) for time in again)
