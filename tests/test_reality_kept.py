"""Rounds over kept connections of Linux and ns-3: what both did, and the models beside it."""

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from tests.conftest import ROOT

ANALYSIS = ROOT / "analysis/reality"
FIRST_BYTES = 4 * 1448
"""Packets may come before their time: one for each link, and what makes up for a late kernel."""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the cases and their reference."""
    monkeypatch.syspath_prepend(str(ANALYSIS))
    return importlib.import_module("kept")


def bound(case: Any) -> float:
    """Return the least time of a round by any protocol.

    Both messages of a client pass its own link; those of others may pass the server's meanwhile.
    """
    star, both = case.star, 8 * (case.down + case.up - 2 * FIRST_BYTES)
    shared: float = 8 * star.flows * (max(case.down, case.up) - FIRST_BYTES) / star.rate
    ways: float = 2 * (star.delay + min(star.own_delays))
    least: float = case.work + ways + max(shared, both / star.own_rate, 0.0)
    return least


def test_every_measurement_is_complete_and_slower_than_any_protocol_could_be(kept: Any) -> None:
    assert [len(kept.read(name)) for name in ("develop", kept.UNSEEN, "quickstart")] == [20, 60, 2]
    for name, number, case in kept.plan():
        runs = kept.read(name)[number]
        assert [len(rounds) for rounds in runs] == kept.RUNS * [case.rounds]
        assert min(map(min, runs)) > bound(case)
        (simulated,) = kept.read(name, kept.NS3_TABLE)[number]
        assert len(simulated) == case.rounds
        assert min(simulated) > bound(case)


def test_cases_are_those_of_new_connections_without_losses(kept: Any) -> None:
    of = kept.SETS[kept.UNSEEN]
    for number in range(of.cases):
        case = kept.drawn(of, number)
        assert replace(case.star, loss=0.0) == case.star
        assert case.star.bytes == max(case.down, case.up)
        assert min(case.down, case.up) >= 500
        assert 3 <= case.rounds <= 8


def one_client(kept: Any, **changes: Any) -> Any:
    """Return rounds of one client: 20 Mbit/s of its own, 10 Mbit/s of the server's, 60 ms."""
    star = kept.drawn(kept.SETS["develop"], 0).star
    one = {"rate": 10e6, "own_rate": 20e6, "delay": 0.01, "own_delays": (0.02,), "queue": 1000}
    case = kept.Rounds(replace(star, **one), down=250_000, up=25_000, work=0.1, rounds=4)
    return case._replace(**changes)


def test_a_fluid_s_round_is_its_closed_form(kept: Any) -> None:
    case = one_client(kept)
    each = 2 * (0.01 + 0.02) + 0.1 + 8 * (case.down + case.up) / 10e6
    assert kept.by_fedsim(case, "fluid") == pytest.approx(4 * [each])
    assert kept.on_the_way(case, 4 * [each]) == pytest.approx(4 * (each - 0.1))


def test_a_window_outlasts_a_message_unless_it_is_idle(kept: Any) -> None:
    """The first round doubles windows; after a wait above all timeouts they begin anew."""
    first, *later = kept.by_fedsim(one_client(kept), "tcp")
    assert max(later) < first - 0.06  # a round trip at least
    first, *later = kept.by_fedsim(one_client(kept, work=30.0), "tcp")
    assert later == pytest.approx(3 * [first], rel=0.01)


@pytest.mark.filterwarnings("ignore::fedsim.RunWarning")  # a round is too few to learn in
def test_rounds_like_the_quickstart_s_have_its_messages(kept: Any) -> None:
    log = fedsim.run("quickstart", overrides=["stop.rounds=1"]).events
    sent = log[log["event"] == "send"]
    sizes = (sent["payload_bits"] + sent["header_bits"]) / 8
    for variant, case in (("fedavg", "FedAvg"), ("fedavg-top-k", "top-k")):
        own, down = sent["variant"] == variant, sent["node"] == "server"
        rounds = kept.QUICKSTART[case]
        assert sizes[own & down].tolist() == rounds.star.flows * [rounds.down]
        assert sizes[own & ~down].mean() == pytest.approx(rounds.up, rel=0.01)


def check_stored(kept: Any, numbers: Any) -> None:
    """Compare the stored errors of held-out cases with those of today's models."""
    run, stored = importlib.import_module("run"), importlib.import_module("stored")
    errors = stored.read_errors(run.ERRORS)
    for model, name in (("fluid", "fluid"), ("lv08", "lv08"), ("tcp", "linux"), ("tcp", "ns-3")):
        table, stack = (kept.NS3_TABLE, kept.NS3) if name == "ns-3" else (kept.TABLE, kept.LINUX)
        measured = kept.read(kept.UNSEEN, table)
        (row,) = run.BY_REGIME[f"{name}, kept"]
        assert len(errors[row]) == len(measured)
        for number in numbers:
            case = kept.drawn(kept.SETS[kept.UNSEEN], number)
            real = np.median([kept.on_the_way(case, each) for each in measured[number]])
            ours = kept.on_the_way(case, kept.by_fedsim(case, model, stack))
            assert ours / real - 1 == pytest.approx(errors[row][number], rel=1e-3, abs=1e-6)


def test_the_stored_errors_are_those_of_today_s_models(kept: Any) -> None:
    rng = np.random.default_rng(62)
    check_stored(kept, rng.choice(kept.SETS[kept.UNSEEN].cases, 6, replace=False).tolist())


@pytest.mark.slow
def test_all_stored_errors_are_those_of_today_s_models(kept: Any) -> None:
    check_stored(kept, range(kept.SETS[kept.UNSEEN].cases))


@pytest.mark.slow
def test_the_script_prints_the_table_of_the_page(
    kept: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.main([])
    page = (ANALYSIS / "README.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out in page
    with pytest.raises(SystemExit, match="expected nothing, or: measure or simulate"):
        kept.main(["measured"])


@pytest.mark.slow
def test_ns3_says_again_what_rounds_it_played(kept: Any, tmp_path: Path) -> None:
    try:
        program = kept.packets.compile_ns3(tmp_path, kept.NS3_SOURCE)
    except RuntimeError as reason:
        pytest.skip(str(reason))
    for name, number, case in kept.plan():
        if number % 7 == 0:
            (stored,) = kept.read(name, kept.NS3_TABLE)[number]
            assert kept.by_ns3(case, program) == pytest.approx(stored, rel=1e-4)


def test_a_window_of_ns3_outlasts_a_long_silence(kept: Any) -> None:
    """ns-3 3.37 itself took 30.4490 s for the first round, and 30.2893 s for each other one."""
    first, *later = kept.by_fedsim(one_client(kept, work=30.0), "tcp", kept.NS3)
    assert first == pytest.approx(30.4490, rel=2e-4)
    assert later == pytest.approx(3 * [30.2893], rel=1e-5)


@pytest.mark.slow
def test_linux_itself_plays_rounds(kept: Any) -> None:
    """Over real sockets; where namespaces are not allowed, it says why."""
    namespaces = importlib.import_module("linux.namespaces")
    case = one_client(kept, down=60_000, up=3_000, work=0.05, rounds=3)
    case = case._replace(star=replace(case.star, own_delays=(0.005, 0.02), loss=0.0))
    try:
        lasted = kept.measured(case)
    except (namespaces.Unavailable, PermissionError, FileNotFoundError) as reason:
        pytest.skip(f"network namespaces are not to be had here: {reason}")
    assert len(lasted) == case.rounds
    assert min(lasted) > bound(case)
