"""Transfers against packets: the table of ns-3's results, and ns-3 itself where it is there."""

import importlib
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.results.accuracy import CLEAN, TRANSFERS
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


FOUND = {  # of `tcp`, unseen: median, nine of ten, and worst of the errors' sizes
    "one flow": (0.0001, 0.003, 0.04),
    "many flows": (0.0001, 0.006, 0.32),
    "no losses": (0.0001, 0.0032, 0.32),
    "no losses, a microsecond decides": (0.0001, 0.25, 0.32),
    "no losses, all others": (0.0001, 0.005, 0.1),
    "random losses: median": (0.002, 0.01, 0.05),
    "random losses: 9 of 10": (0.002, 0.01, 0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["fluid", "lv08", "tcp"])
def test_a_model_keeps_its_errors_and_a_check_states_them(packets: Any, model: str) -> None:
    """The quantiles that the page states, on cases that no model was made with."""
    run = importlib.import_module("transfers")
    found: dict[str, list[float]] = {kind: [] for kind in FOUND}
    for _, kind, _, error in run.errors(model, [packets.UNSEEN]):
        found.setdefault(kind, []).append(abs(error))
    for kind, (median, nine, worst) in FOUND.items() if model == "tcp" else ():
        assert np.median(found[kind]) < median
        assert np.quantile(found[kind], 0.9) < nine
        assert max(found[kind]) < worst
    stated = TRANSFERS["ns-3" if model == "tcp" else model][CLEAN]
    errors = found["no losses"]
    assert len(errors) == stated.cases
    assert 100 * np.median(errors) == pytest.approx(stated.median, rel=0.05)
    assert 100 * np.quantile(errors, 0.9) == pytest.approx(stated.nine, rel=0.05)
    assert 100 * max(errors) == pytest.approx(stated.worst, rel=0.05)


def test_single_flows_and_short_ones_are_right_to_a_few_percent(packets: Any) -> None:
    """A part of the table that takes a second."""
    single = [(case, max(times)) for _, case, _, times in packets.read() if case.flows == 1]
    off = [max(packets.by_fedsim(case, "tcp")) / time - 1 for case, time in single if not case.loss]
    assert len(off) > 40
    assert np.mean(np.abs(off)) < 0.015
    assert np.median(np.abs(off)) < 0.002


def test_hashes_and_random_numbers_are_those_of_their_authors(packets: Any) -> None:
    """Values of other implementations, and of ns-3's own `Hash32`, whose seed is 0x8BADF00D."""
    assert packets.murmur3(b"", 1) == 0x514E28B7
    assert packets.murmur3(b"hello", 0) == 0x248BFA47
    assert packets.murmur3(b"hello", 0x8BADF00D) == 0x220CDD0F
    assert packets.murmur3(b"0123456789abcdef0", 0x8BADF00D) == 0x5C1C87FC
    mrg = importlib.import_module("mrg")
    drawn = mrg.numbers(0, 0, seed=12345)  # L'Ecuyer's program prints these
    assert [next(drawn) for _ in range(2)] == pytest.approx([0.127011122, 0.318527566], abs=1e-8)
    drawn = mrg.numbers(mrg.PER_NODE * 3, 4)  # ns-3 lost the fifth and the 79th packet in this run
    assert [number for number in range(80) if next(drawn) < 0.0124] == [5, 79]


def test_single_flows_take_the_time_of_ns3_where_they_lose_the_same_packets(packets: Any) -> None:
    """Each run by itself, with its losses of SYN, of repairs, and of the tail."""
    off = list[float]()
    for _, case, ends in packets.read_losses():
        if case.flows == 1 and case.bytes < 1e5:
            theirs = ends[:20]
            ours = [packets.by_fedsim(case, "tcp", seed)[0] for seed in range(len(theirs))]
            off += [
                abs(us / them - 1)
                for us, them in zip(ours, theirs, strict=True)
                if math.isfinite(them)
            ]
    assert len(off) >= 60
    assert np.median(off) < 1e-4
    assert np.mean(np.array(off) < 0.01) > 0.95


@pytest.mark.slow
def test_the_script_prints_the_errors_of_every_model(
    packets: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = importlib.import_module("transfers")
    few = [each for each in packets.read() if each[1].flows * each[1].bytes < 1e6]
    losses = [each for each in packets.read_losses() if each[1].flows * each[1].bytes < 3e5]
    monkeypatch.setattr(packets, "read", lambda: iter(few))
    monkeypatch.setattr(packets, "read_losses", lambda: iter(losses))
    run.main([])
    page = (ANALYSIS / "README.md").read_text(encoding="utf-8")
    situations, table = capsys.readouterr().out.split("\n\n")
    head, _, *rows = situations.splitlines()
    assert head in page
    assert {row.split("|")[1].strip() for row in rows} <= set(
        re.findall(r"\| (\w+ flows?, .*?) \|", page)
    )
    head, _, *rows = table.splitlines()
    assert head in page
    cells = [[cell.strip() for cell in row.split("|")[1:4]] for row in rows]
    lossy = {name for name, *_ in packets.read_losses()}
    decided = packets.decided()
    seen = {(name, run.KINDS[3 if (name, case) in decided else 4]) for name, case, *_ in few}
    seen |= {(name, kind) for name, *_ in few for kind in run.KINDS[:3]}
    lost = {(name, kind) for name in lossy for kind in run.KINDS[5:]}
    expected = [
        [model, name, kind]
        for model in (*(f"`{model}`" for model in packets.MODELS), "ns-3 itself")
        for name in packets.SETS
        for kind in run.KINDS
        if (name, kind) in lost | (seen if model != "ns-3 itself" else set())
    ]
    assert cells == expected
    assert all(f"| {' | '.join(row)} |" in page for row in expected)
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


@pytest.mark.slow
def test_the_worst_errors_are_shown_beside_what_a_microsecond_changes(
    packets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short case of each table, which the page has; times are ns-3's in some of the runs."""
    worst = importlib.import_module("worst")
    few = [
        each
        for each in packets.read()
        if each[0] == packets.UNSEEN and each[1].flows == 39 and each[1].queue == 59
    ]
    losing = {4: worst.kernel.read("held-out")[4]}
    monkeypatch.setattr(packets, "read", lambda: iter(few))
    monkeypatch.setattr(worst.kernel, "read", lambda name: losing if name == "held-out" else {})
    page = (ANALYSIS / "README.md").read_text(encoding="utf-8")
    found = list(worst.lines())
    assert len([line for line in found if line.startswith("| held-out")]) == 2
    assert all(line in page for line in found)


@pytest.fixture
def calibrating(packets: Any) -> Any:
    """Return the script that calibrates by the first half of ns-3's rounds."""
    return importlib.import_module("calibrating")


@pytest.mark.slow
def test_a_calibrated_fleet_predicts_rounds_that_it_has_not_seen(
    calibrating: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A part of the page's table: one setting under the fluid model."""
    monkeypatch.setattr(calibrating, "MODELS", ("fluid",))
    monkeypatch.setattr(calibrating, "SETTINGS", 1)
    monkeypatch.setattr(calibrating, "FOUND", tmp_path / "calibrated.csv")
    calibrating.main(["again"])
    page = (ANALYSIS / "calibrating.md").read_text(encoding="utf-8")
    head, _, before, after, *_ = capsys.readouterr().out.splitlines()
    assert head in page
    assert before in page
    assert after in page
    cells = [float(re.sub(r"[ %+]", "", cell)) for cell in after.split("|")[4:8]]
    assert cells[0] < 5
    assert abs(cells[2]) < 15
    assert cells[3] == 1
    with pytest.raises(SystemExit, match="expected nothing, or: again, or: simulate"):
        calibrating.main(["simulated"])


def test_ns3s_rounds_are_complete_and_in_order(calibrating: Any) -> None:
    """Every method has its rounds, which follow each other without a gap."""
    table = calibrating.read()
    assert len(table) == calibrating.SETTINGS * 4 * calibrating.ROUNDS * calibrating.CLIENTS
    times = table[["down_begin", "down_end", "up_begin", "up_end"]].to_numpy()
    assert (np.diff(times, axis=1) > 0).all()
    for number, rows in table.groupby("setting"):
        true = calibrating.draw(number)
        for _, method in rows.groupby("method"):
            rounds = method.groupby("round")
            begins, ends = rounds["down_begin"].min(), rounds["up_end"].max()
            assert begins[1:].to_numpy() == pytest.approx(ends[:-1].to_numpy())
        transfer = rows["up_end"] - rows["up_begin"]
        least = 8 * rows["up_bytes"] / np.array(true.up)[rows["client"]]
        assert (transfer > least + true.delay).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")
def test_ns3_says_again_what_rounds_it_played(
    calibrating: Any, packets: Any, tmp_path: Path
) -> None:
    try:
        program = packets.compile_ns3(tmp_path, calibrating.SOURCE)
    except RuntimeError as reason:
        pytest.skip(str(reason))
    setting = calibrating.draw(0)
    rows = calibrating.tasks(setting, tmp_path)
    again = calibrating.by_ns3(setting, rows, 0, program)[list(calibrating.COLUMNS)]
    table = calibrating.read()
    known = table[table["setting"] == 0]
    for name in ("down_bytes", "operations", "up_bytes", "down_end", "up_end"):
        assert again[name].to_numpy() == pytest.approx(known[name].to_numpy(), rel=1e-5)
