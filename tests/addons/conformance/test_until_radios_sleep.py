"""Energy after a commit until radios sleep: closed forms, and runs whose clock goes on after it."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import fedsim
from fedsim.core.ports import Array
from fedsim.protocol.stop_rules import RoundEnd
from fedsim.results.analysis import cost_to_target
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.sim.arrays.fits import VARIABLE
from fedsim.sim.world import World
from tests.tiers import every, some

from .test_energy_audit import SLOW, world
from .test_energy_by_round import ALL

TAIL = 1.06 * 11.6
"""The energy of the tail of `lte`, J."""

FLASH: dict[str, Any] = {"kind": "custom", "speed": "1 Tflop/s", "active": "0 W", "idle": "0 W"}
DRX = ((1.2680853125, 0.1), (1.0710453125, 0.02), (1.0555453125, 11.48))
"""The stages of `lte-drx`: powers beyond rest, W, and durations, s."""

LONG = 1e4
"""Seconds after which every radio sleeps."""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rate.csv").write_text("t,value\n0,40000\n2,0\n3,9000\n5,40000\n")
    monkeypatch.chdir(tmp_path)


class GoesOn:
    """A world of which nothing but its clock goes on after one of its rounds, event by event."""

    def __init__(self, block: dict[str, Any], last: int, folder: Path) -> None:
        plan = load(block)
        setup = Builder(plan).build(plan.variants[0], plan.variants[0].seeds[0]).setup
        self._last, self._clients = last, len(setup.fleet)
        self.staged = np.array([member.radio.states.stateful for member in setup.fleet])
        book = RunRecorder(folder, self._clients)
        with patch.dict("os.environ", {VARIABLE: "events"}):
            self.world = World(setup, book, self._end_round)
        self.until_asleep: Array = np.zeros(0)
        self.tails: Array = np.zeros(0)

    def _end_round(self, end: RoundEnd) -> None:
        if end.round != self._last:
            return
        known, actors = self.world.unsettled, self.world.actors
        self.until_asleep = self.world.meters().joules.copy()
        spent, tails = known
        self.tails = np.bincount(tails.clients, tails.joules, self._clients).astype(float)
        self.until_asleep += np.bincount(spent.clients, spent.joules, self._clients) + self.tails
        # In an event of its own: the last reply is still being delivered.
        self.world.calendar.call(end.t, lambda _: [*getattr(actors, "_end_clients")()], None)  # noqa: B009
        for client in np.flatnonzero(self.staged).tolist():
            actors.network.break_off(client)
        for way in ("send_down", "send_up"):
            setattr(actors.network, way, lambda *_: None)

    def play(self) -> Array:
        """Play it to its end; return the energy of each client beyond idle power, J."""
        self.world.run()
        return self.world.meters().joules


_NO_STARS = "peers", "tiers"
_LEAVE = "come and go", "coming and going"
_AGAIN = "TCP", "windows"  # a message that is broken off pays for packets that were sent again
STARS = [name for name in ALL if not any(word in name for word in (*_NO_STARS, *_LEAVE, *_AGAIN))]


@pytest.mark.parametrize(
    "name", some(STARS, "sampled", "a quorum", "batteries", "asynchronous", "cells", "relays")
)
def test_it_is_the_energy_of_a_run_whose_clock_goes_on(name: str, tmp_path: Path) -> None:
    """Messages are broken off at the commit, work ends, and none follow."""
    rounds = fedsim.run(world(**{**ALL[name], "stop": {"rounds": 12}})).rounds
    for last in {1, len(rounds) // 2, len(rounds) - 1}:
        time = f"{rounds['t'].iloc[last] + LONG} s"
        block = world(**{**ALL[name], "stop": {"rounds": 10**9, "time": time}})
        (folder := tmp_path / str(last)).mkdir()
        went_on = GoesOn(block, last, folder)
        spent = went_on.play()
        staged = went_on.staged
        assert went_on.until_asleep[staged] == pytest.approx(spent[staged], rel=1e-9)
        assert not went_on.tails[~staged].any()


# Closed forms.


def left(stages: tuple[tuple[float, float], ...], elapsed: float) -> float:
    """Return the energy that stages still take some time after the first one began, J."""
    joules = 0.0
    for watts, seconds in stages:
        joules += watts * max(seconds - max(elapsed, 0.0), 0.0)
        elapsed -= seconds
    return joules


@pytest.mark.parametrize("how", ["arrays", "events"])
@every("radio, stages", [("lte", ((1.06, 11.6),)), ("lte-drx", DRX)])
def test_radios_are_in_the_middle_of_their_stages(
    radio: str, stages: tuple[tuple[float, float], ...], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of fifty phones five are asked in a round; each stage depends on the last bit alone."""
    monkeypatch.setenv(VARIABLE, how)
    phones = [{"count": 50, "device": FLASH, "radio": radio}]
    run = fedsim.run(world(**ALL["sampled"] | {"fleet": phones}))
    moved = run.events[run.events["event"].isin(["send", "receive"])]
    moved = moved[moved["node"] != "server"]
    for row in run.rounds.iloc[1:].to_dict("records"):
        last = moved[moved["t"] <= row["t"]].groupby("node", observed=True)["t"].max()
        expected = sum(left(stages, row["t"] - t) for t in last)
        assert row["joules_after"] == pytest.approx(expected, rel=1e-9)
    assert run.rounds["joules_after"].iloc[0] == 0.0


@pytest.mark.parametrize("how", ["arrays", "events"])
def test_a_radio_that_sleeps_takes_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two phones reply earlier by a promotion of the others, which sleep at once."""
    monkeypatch.setenv(VARIABLE, how)
    short = {"kind": "lte", "tail_time": "1 us"}
    fleet = [{"count": 2, "device": SLOW, "radio": radio} for radio in ("lte", short)]
    rounds = fedsim.run(world(fleet=fleet, stop={"rounds": 3})).rounds
    expected = 2 * (TAIL - 1.06 * 0.26)
    assert rounds["joules_after"].iloc[1:].to_numpy() == pytest.approx(expected, abs=1e-5)


def test_an_unfinished_promotion_is_completed_and_its_tail_follows(tmp_path: Path) -> None:
    """The first reply closes the round, while the radio of another phone wakes up for its own."""
    fleet = [
        {"count": 1, "device": FLASH, "radio": "ethernet"},
        {"count": 1, "device": FLASH, "radio": {"kind": "lte", "promotion_time": "10 s"}},
    ]
    block = world(fleet=fleet, stop={"rounds": 1}, participation={"kind": "full", "quorum": "50 %"})
    (row,) = fedsim.run(block).rounds.iloc[1:].to_dict("records")
    assert row["t"] < 1.0
    assert row["joules_after"] == pytest.approx(1.211 * (10.0 - row["t"]) + TAIL, rel=1e-9)


@pytest.mark.parametrize("how", ["arrays", "events"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99, 1.5])
def test_a_tail_takes_what_its_battery_has(
    share: float, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle phone draws 0.53 W beside the 1.06 W of its tail: a third of what is left."""
    monkeypatch.setenv(VARIABLE, how)
    phone = {"count": 1, "device": FLASH | {"idle": "0.53 W", "active": "0.53 W"}, "radio": "lte"}
    (on_mains,) = fedsim.run(world(fleet=[phone] * 2, stop={"rounds": 1})).rounds["joules"].iloc[1:]
    spent = on_mains / 2
    battery = {"capacity": f"{spent + 1.5 * share * TAIL} J", "threshold": "0 %", "cutoff": "0 %"}
    battery |= {"self_discharge": "0 %/month", "discharge_efficiency": "100 %"}
    block = world(fleet=[phone, phone | {"battery": battery}], stop={"rounds": 1})
    (row,) = fedsim.run(block).rounds.iloc[1:].to_dict("records")
    assert row["joules_after"] == pytest.approx(TAIL * (1.0 + min(share, 1.0)), rel=1e-9)


def test_sun_prolongs_a_tail(tmp_path: Path) -> None:
    """A battery that would be empty halfway is charged with half of what it loses."""
    phone = {"count": 1, "device": FLASH, "radio": "lte"}
    (on_mains,) = fedsim.run(world(fleet=[phone] * 2, stop={"rounds": 1})).rounds["joules"].iloc[1:]
    battery = {"capacity": f"{on_mains / 2 + TAIL / 4} J", "threshold": "0 %", "cutoff": "0 %"}
    battery |= {"self_discharge": "0 %/month", "discharge_efficiency": "100 %"}
    battery |= {"charge_efficiency": "100 %"}
    sunny = battery | {"charging": {"kind": "constant", "power": "0.53 W"}}
    after = [
        fedsim.run(world(fleet=[phone, phone | {"battery": each}], stop={"rounds": 1}))
        .rounds["joules_after"]
        .iloc[1]
        for each in (battery, sunny)
    ]
    assert after[0] == pytest.approx(1.25 * TAIL, rel=1e-9)
    assert 1.45 * TAIL < after[1] < 1.6 * TAIL  # and the sun has shone in the round as well


# Emissions, and what is made of both.


def test_grams_are_those_of_the_joules() -> None:
    carbon = {"kind": "constant", "intensity": "300 g/kWh"}
    phone = {"count": 1, "device": FLASH, "radio": "lte"}
    block = world(fleet=[phone, phone | {"carbon": carbon}], stop={"rounds": 1})
    (row,) = fedsim.run(block).rounds.iloc[1:].to_dict("records")
    assert row["joules_after"] == pytest.approx(2 * TAIL, rel=1e-9)
    assert row["grams_after"] == pytest.approx(TAIL * 300 / 3.6e6, rel=1e-9)


def test_costs_to_a_target_are_until_radios_sleep() -> None:
    """Five of fifty phones and all of them: in twelve short rounds the tails decide."""
    few = world(**ALL["sampled"])
    all_asked = few | {"participation": "full"}
    for block in (few, all_asked):
        run = fedsim.run(block)
        target = run.rounds["objective"].iloc[3]
        (cost,) = cost_to_target(run.rounds, target, "objective").to_dict("records")
        upto = run.rounds.iloc[: int(cost["round"]) + 1]
        assert cost["joules_after"] == upto["joules_after"].iloc[-1] > 0.0
        assert cost["joules"] == pytest.approx(upto["joules"].sum() + cost["joules_after"])


# Ends within a round.


@pytest.mark.parametrize("name", some([*ALL], "sampled", "batteries", "peers", "tiers"))
def test_a_run_that_ends_with_a_round_has_its_tails(name: str) -> None:
    run = fedsim.run(world(**{**ALL[name], "stop": {"rounds": 4}}))
    after = run.rounds["joules_after"].iloc[-1]
    assert run.summary["joules_after"].item() == pytest.approx(after, rel=1e-9, abs=1e-12)


@every("radio, stages", [("lte", ((1.06, 11.6),)), ("lte-drx", DRX)])
def test_a_run_that_is_cut_within_a_round_has_tails(
    radio: str, stages: tuple[tuple[float, float], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phones that have replied wait for a slow one, on Ethernet, until time is up."""
    slow = {"count": 1, "device": FLASH | {"speed": "1 flop/s"}, "radio": "ethernet"}
    fleet = [{"count": 3, "device": FLASH, "radio": radio}, slow]
    block = world(fleet=fleet, stop={"rounds": 9, "time": "3 s"})
    run = fedsim.run(block)
    assert run.summary["rounds"].item() == 0
    replies = run.events[(run.events["event"] == "send") & (run.events["node"] != "server")]
    assert len(replies) == 3
    expected = sum(left(stages, 3.0 - t) for t in replies["t"])
    assert run.summary["joules_after"].item() == pytest.approx(expected, rel=1e-9)
    monkeypatch.setenv(VARIABLE, "events")
    again = fedsim.run(block).summary["joules_after"].item()
    assert again == pytest.approx(expected, rel=1e-9)
