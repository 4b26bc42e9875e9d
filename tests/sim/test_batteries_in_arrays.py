"""Batteries in arrays: each lives through what a supply of its own does, to the last bit."""

from collections.abc import Callable
from dataclasses import fields
from math import nan
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.algorithms.charge_aware import ChargeAwareHeavyBall
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.topology import star
from fedsim.sim.arrays.classes import ClassTable
from fedsim.sim.arrays.order import ReactionError
from fedsim.sim.arrays.supplies import NO_SLOT, SupplyArrays
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.members import ClientConfig
from fedsim.sim.power.supply import Part, Supply
from fedsim.sim.world import World
from tests.campaigns.worlds.playing import _different
from tests.physics.batteries import battery_of

from .devices import device_of
from .radios import RadioModel, client_of
from .test_arrays import both, scenario
from .worlds import NO_LOSS

PHONE: dict[str, Any] = {"count": 6, "device": "phone-mid", "radio": "lte", "battery": {}}
CUSTOM = {
    "kind": "custom",
    "up": "1 Mbit/s",
    "down": "2 Mbit/s",
    "latency": "20 ms",
    "base": "30 mW",
    "energy_up": "1 nJ/bit",
    "energy_down": "0 J/bit",
}
TAIL = {"tail_time": "2 s", "tail_power": "1 W", "promotion_time": "1 s", "promotion_power": "2 W"}
READS = {"kind": "chb-charge", "step_size": "1/L", "censor": 0.1}
STEPS = {"kind": "fedavg", "step_size": 0.1, "local_steps": 3}
LEAKY = {"self_discharge": "40 %/month", "discharge_efficiency": "83 %", "charge": "61 %"}


class Change(NamedTuple):
    """A change of a part of a client, see `SupplyArrays.change`; NaN where nothing changes."""

    client: int
    now: float
    part: Part
    watts: float
    joules: float
    edge: float
    last: bool

    @property
    def says(self) -> bool:
        """Whether a row says the state of charge."""
        return not np.isnan(self.joules)


@st.composite
def lives(draw: st.DrawFn) -> list[list[Change]]:
    """Draw the changes of each of some clients, in order."""
    watts = st.sampled_from([nan, 0.0, 0.3, 1.7])
    joules = st.sampled_from([nan, 0.0, 0.1, 2.5])
    parts = st.sampled_from([Part.PROCESSOR, Part.RADIO])
    gaps = st.sampled_from([0.0, 0.1, 1 / 3, 7.0])
    made = list[list[Change]]()
    for client in range(draw(st.integers(1, 4))):
        now, own = 0.0, list[Change]()
        for gap in draw(st.lists(gaps, max_size=8)):
            now += gap
            edge = draw(st.sampled_from([0.0, 1.5]))
            figures = draw(watts), draw(joules), edge, draw(st.booleans())
            own.append(Change(client, now, draw(parts), *figures))
        made.append(own)
    return made


def kinds_of(mains: set[int], count: int, capacity: float) -> list[ClientConfig]:
    """Return clients with two kinds of batteries, some of them on mains."""
    device = device_of(active=0.7, idle=0.7)
    batteries = [
        battery_of(capacity, leak=0.01, charge=0.9, discharge_efficiency=share, threshold=0.1)
        for share in (0.77, 0.95)
    ]
    held = [None if n in mains else batteries[n % 2] for n in range(count)]
    return [client_of(device, RadioModel(), NO_LOSS, each) for each in held]


def supplies_of(kinds: list[ClientConfig], calendar: Calendar) -> SupplyArrays:
    table = ClassTable(RunLengthSequence.of(kinds), star(len(kinds)))
    return SupplyArrays(table, len(kinds), calendar, lambda client: kinds[client].store(0.0))


def live_apart(supplies: dict[int, Supply], changes: list[Change]) -> dict[int, float]:
    """Let supplies live through changes, in order; return the states of charge that rows say."""
    said, shown = dict[int, float](), dict[tuple[int, Part], float]()
    for number, (client, now, part, watts, joules, edge, last) in enumerate(changes):
        if (supply := supplies.get(client)) is None:
            continue
        supply._calendar.now = now
        says = changes[number].says
        if says and not last:
            said[number] = supply.share
        if not np.isnan(watts):
            supply.set(part, watts)
        if says:
            shown[client, part] = shown.get((client, part), 0.0) + joules
            supply.book(part, shown[client, part], edge)
        if says and last:
            said[number] = supply.share
    return said


@given(drawn=lives(), seed=st.integers(0, 2**16))
def test_batteries_live_as_supplies_of_their_own_do(drawn: list[list[Change]], seed: int) -> None:
    rng, count = np.random.default_rng(seed), len(drawn)
    mains = set(np.flatnonzero(rng.random(count) < 0.2).tolist()) - {0}
    kinds, calendar, clock = kinds_of(mains, count, 900.0), Calendar(), Calendar()
    own = {
        n: Supply(calendar, kinds[n].store(0.0), 0.7, lambda _: None)
        for n in range(count)
        if n not in mains
    }
    changes = sorted((each for some in drawn for each in some), key=lambda each: each.now)
    arrays, slots = supplies_of(kinds, clock), dict[int, int]()
    for n in rng.permutation(len(changes)).tolist():  # whatever is computed first
        (client, now, part, *figures, last), says = changes[n], changes[n].says
        slots[n] = int(arrays.reserve(1)[0])
        terms = dict(zip(("watts", "joules", "edge"), figures, strict=True))
        ids, events, times = np.array([client]), np.array([n]), np.array([now])
        where = np.array([slots[n] if says else NO_SLOT])
        arrays.change(ids, events, part, times, **terms, slots=where, last=last)
    charges = arrays.settle(np.arange(max(len(changes), 1)))
    said = live_apart(own, changes)
    assert {n: charges[slots[n]] for n in said} == said
    assert all(arrays.share(n) != arrays.share(n) for n in mains)
    clock.now = calendar.now = 100.0
    held = arrays.stores()
    for place, (client, supply) in enumerate(own.items()):
        supply.advance()
        found = [getattr(held, each.name)[place] for each in fields(held)]
        store = supply.store
        account = store.initial, store.level, store.charged, store.drained, supply.delivered
        assert found == [client, *account, supply.depletions, supply.settled, supply.resolution]


def test_a_mark_that_may_be_reached_is_a_reaction() -> None:
    """90 J are 80 J above the threshold; they go at 0.7 W / 77 % + 0.01 W."""
    supplies = supplies_of(kinds_of(set(), 1, 100.0), Calendar())
    over = 80.0 / (0.7 / 0.77 + 0.01)
    supplies.check(over - 1e-3)
    for near in (over, over + 1e-3):
        with pytest.raises(ReactionError, match="mark"):
            supplies.check(near)


def test_a_server_that_waits_after_an_exchange_is_a_reaction() -> None:
    supplies = supplies_of(kinds_of(set(), 1, 100.0), calendar := Calendar())
    supplies.look(0)
    calendar.now = 1.0
    with pytest.raises(ReactionError, match="server"):
        supplies.look(0)


@pytest.fixture
def restarts() -> Any:
    seen: list[int] = []
    again: Callable[[World], None] = World._start_again

    def start_again(world: World) -> None:
        seen.append(world.last_round[0])
        again(world)

    with patch.object(World, "_start_again", start_again):
        yield seen


_LOSSY = {"loss": {"kind": "independent", "rate": "20 %"}, "packet": "40 B", "framing": "20 B"}

WORLDS: dict[str, dict[str, Any]] = {
    "phones": {"fleet": [PHONE]},
    "phones that leak": {"fleet": [{**PHONE, "battery": LEAKY}]},
    "some on mains": {"fleet": [PHONE, {"count": 3, "device": "cortex-m7", "radio": "wifi"}]},
    "drawn": {
        "fleet": [PHONE],
        "participation": {"kind": "uniform", "count": 3},
        "algorithm": STEPS,
    },
    "seldom there": {
        "fleet": [{**PHONE, "availability": {"kind": "bernoulli", "share": "60 %"}}],
        "algorithm": STEPS,
    },
    "what is sent again": {"fleet": [{**PHONE, "radio": {"kind": "lte", **_LOSSY}}]},
    "fading": {
        "fleet": [
            {
                **PHONE,
                "radio": {
                    "kind": "shannon",
                    "bandwidth": "200 Hz",
                    "power": "100 mW",
                    "server_power": "1 W",
                    "distance": "900 m",
                },
            }
        ]
    },
    "stages": {"fleet": [{**PHONE, "radio": "5g-low-drx"}]},
    "paging": {"fleet": [{**PHONE, "radio": "nb-iot"}]},
    "silence after a message": {"fleet": [{**PHONE, "radio": "lora-sf7"}]},
    "a tail": {"fleet": [{**PHONE, "radio": {**CUSTOM, **TAIL}}]},
    "steps": {"fleet": [PHONE], "algorithm": STEPS},
}


@pytest.mark.parametrize("name", WORLDS)
def test_batteries_in_arrays_write_what_they_write_as_events(
    name: str, tmp_path: Path, restarts: list[int]
) -> None:
    one, other = both(tmp_path, scenario(**WORLDS[name]))
    assert not _different(one, other)
    assert not restarts
    assert (fedsim.open(one).clients["drained_joules"] > 0).any()


def test_a_battery_that_reaches_its_threshold_has_the_run_made_again(
    tmp_path: Path, restarts: list[int]
) -> None:
    small = {**PHONE, "battery": {"capacity": "3 J"}}
    block = scenario(fleet=[small], stop={"rounds": 60})
    one, other = both(tmp_path, block)
    assert len(restarts) == 1
    assert restarts[0] > 1
    assert any("charge too low" in each for each in fedsim.open(one).events["detail"].dropna())
    assert not _different(one, other)


def test_a_method_that_reads_the_charge_and_does_not_say_so_is_made_again(
    tmp_path: Path, restarts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChargeAwareHeavyBall, "reads_charge", False)
    one, other = both(tmp_path, scenario(algorithm=READS, fleet=[PHONE]))
    assert restarts == [0]
    assert not _different(one, other)


def test_check_says_that_a_method_reads_the_charge(tmp_path: Path, restarts: list[int]) -> None:
    block = scenario(algorithm=READS, fleet=[PHONE])
    (note,) = fedsim.check(block).events
    assert "ChargeAwareHeavyBall.handle reads the state of charge" in note.text
    one, other = both(tmp_path, block)
    assert not restarts
    assert not _different(one, other)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({}, ""),
        ({"radio": {**CUSTOM, **TAIL, "latency": "0 s"}}, "has states and no latency"),
        ({"radio": CUSTOM}, ""),
        ({"battery": {"charging": {"kind": "constant", "power": "1 W"}}}, "a battery is charged"),
        (
            {"radio": {**CUSTOM, "up_trace": {"kind": "csv", "path": "rate.csv"}}},
            "follows the rate of the radio custom, which changes",
        ),
    ],
)
def test_check_says_which_batteries_are_played_as_events(
    parts: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rate.csv").write_text("seconds,rate\n0,3000\n1.25,64000\n")
    monkeypatch.chdir(tmp_path)
    found = [each.text for each in fedsim.check(scenario(fleet=[{**PHONE, **parts}])).events]
    assert len(found) == bool(why)
    assert all(why in each for each in found)


def test_a_link_that_batteries_share_is_played_as_events() -> None:
    block = scenario(fleet=[PHONE], network={"server": {"uplink": "1 Mbit/s"}})
    (note,) = fedsim.check(block).events
    assert "batteries follow the rates of messages that share the link server.up" in note.text
