"""Transfers against packets: the table of ns-3's results, and ns-3 itself where it is there."""

import importlib
import math
from pathlib import Path
from typing import Any

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
    assert len({(name, id_of(case)) for name, case, _ in runs}) >= 60
    for _, case, times in runs:
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
    single = [case for _, case, _ in packets.read() if case.flows == 1]
    assert len(single) > 20
    for case in single:
        narrowest = min(case.rate, case.own_rate)
        if case.gateways:
            narrowest = min(narrowest, case.gateway_rate)
        expected = case.delay + case.own_delays[0] + 8 * case.bytes / narrowest
        assert packets.by_fedsim(case, "fluid") == [pytest.approx(expected)]


@pytest.mark.slow
def test_the_script_prints_the_errors_of_every_model(
    packets: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = importlib.import_module("run")
    asked = list(packets.read())
    monkeypatch.setattr(packets, "read", lambda: iter(asked))
    run.main([])
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines[1:]]
    assert [row[:2] for row in rows[::3]] == [
        [model, name] for model in ("fluid", "lv08") for name in packets.SETS
    ]
    assert sum(int(row[4]) for row in rows) == 2 * len(asked)
    with pytest.raises(SystemExit, match="expected nothing, or: simulate"):
        run.main(["simulated"])


@pytest.mark.slow
def test_ns3_says_again_what_the_table_has(packets: Any, tmp_path: Path) -> None:
    try:
        program = packets.compile_ns3(tmp_path)
    except RuntimeError as reason:
        pytest.skip(str(reason))
    few = [(case, times) for _, case, times in packets.read() if not case.loss]
    few.sort(key=lambda run: run[0].flows * run[0].bytes)
    for case, times in few[:6]:
        again = packets.by_ns3(case, 0, program)
        assert again == pytest.approx(list(times), rel=1e-5)
        assert all(math.isfinite(time) for time in again)
