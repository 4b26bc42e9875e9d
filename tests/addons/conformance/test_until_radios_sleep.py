"""Energy after a commit until radios sleep: closed forms, and runs whose clock goes on after it."""

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import fedsim
from fedsim.core.ports import Array
from fedsim.protocol.stop_rules import RoundEnd
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.sim.world import World
from fedsim.sim.worlds.open_spans import Spans
from tests.tiers import every, some

from .test_energy_audit import SLOW, WORLDS, world
from .test_energy_by_round import ALL

DEVICE = SLOW | {"idle": "0 W"}
LTE = {"kind": "lte"}
CARBON = {"kind": "constant", "intensity": "300 g/kWh"}
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
        with patch("fedsim.sim.world.why_slower", return_value=["event by event"]):
            self.world = World(setup, book, self._end_round)
        self.until_asleep = self.tails = np.zeros(0)

    def _end_round(self, end: RoundEnd) -> None:
        if end.round != self._last:
            return
        known, actors = self.world.unsettled, self.world.actors
        self.until_asleep = self.world.meters().joules.copy()
        spent, self.tails = (
            np.bincount(spans.clients, spans.joules, self._clients) for spans in known
        )
        self.until_asleep += spent + self.tails
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
