"""Groups become models: batteries, availability and the traces that a client follows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.physics.availability import ALWAYS, Intervals
from fedsim.physics.batteries import Battery
from fedsim.physics.signals import Constant, Signal, Steps
from fedsim.sim.members import ClientConfig
from tests.physics.laws import Bernoulli, Markov
from tests.scenario.building.plans import group, job

HOUR = 3600.0


def members(folder: Path, **changes: Any) -> list[ClientConfig]:
    return list(job(folder, fleet=group(**changes)).setup.fleet)


def battery(folder: Path, **block: Any) -> tuple[Battery, float]:
    """Return a battery and what it holds."""
    made = members(folder, battery=block)[0]
    assert made.battery is not None
    return made.battery, made.capacity


def source(folder: Path, **charging: Any) -> Signal:
    return members(folder, battery={"charging": charging})[0].source


def test_a_battery_of_the_device_by_default(tmp_path: Path) -> None:
    model, capacity = battery(tmp_path)
    assert capacity == 15 * HOUR
    assert (model.charge, model.charge_efficiency, model.discharge_efficiency) == (1, 0.95, 0.95)
    assert (model.leak(capacity), model.cutoff, model.threshold) == (0, 0.05, 0.2)
    assert model.restarts_at == 0.2
    assert members(tmp_path, battery={})[0].source.average == 0


def test_self_discharge_takes_its_share_in_a_month(tmp_path: Path) -> None:
    model, capacity = battery(tmp_path, capacity="1 kJ", self_discharge="3 %/month", restart="40 %")
    assert model.leak(capacity) * 30 * 24 * HOUR == pytest.approx(0.03 * 1000)
    assert model.restarts_at == 0.4


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [(22, 6, {22, 23, *range(6)}), (0, 3, {0, 1, 2}), (9, 0, set(range(9, 24))), (23, 24, {23})],
)
def test_a_charger_that_is_there_for_some_hours(
    tmp_path: Path, start: int, end: int, hours: set[int]
) -> None:
    block = {"kind": "daily", "power": "5 W", "start": f"{start} h", "end": f"{end} h"}
    power = source(tmp_path, **block)
    for day in (0, 3):
        there = {h for h in range(24) if power.at((24 * day + h) * HOUR) == 5.0}
        assert there == hours
        begin = 24 * HOUR * day
        assert power.integral(begin, begin + 24 * HOUR) == pytest.approx(5 * HOUR * len(hours))


def test_a_charger_that_is_always_there(tmp_path: Path) -> None:
    assert source(tmp_path, kind="constant", power="5 W") == Constant(5.0)


def test_a_harvest_is_scaled(tmp_path: Path) -> None:
    (tmp_path / "sun.csv").write_text("0,0\n10,2\n20,4\n")
    block = {"kind": "harvest", "path": "sun.csv", "scale": 0.5, "repeat": False}
    power = source(tmp_path, **block)
    assert [power.at(t) for t in (5, 15, 25, 1e6)] == [0, 1, 2, 2]


def test_availability(tmp_path: Path) -> None:
    bernoulli, markov = (
        members(tmp_path, availability=block)[0].availability
        for block in (
            {"kind": "bernoulli", "share": "30 %"},
            {"kind": "markov", "on": "2 h", "off": "1 h", "amplitude": "50 %", "phase": "6 h"},
        )
    )
    assert bernoulli == Bernoulli(0.3)
    assert markov == Markov(2 * HOUR, HOUR, 0.5, 6 * HOUR, 24 * HOUR)


def test_intervals_are_by_client_and_who_has_none_is_never_there(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("client,start,end\n1,5,8\n3,0,2\n3,4,6\n")
    fleet = [{"count": 1}, *group(count=3, availability={"kind": "intervals", "path": "there.csv"})]
    clients = job(tmp_path, fleet=fleet).setup.fleet
    rng = np.random.default_rng(1)
    seen = []
    for client in clients[1:]:
        assert isinstance(client.availability, Intervals)
        online, toggles = client.availability.timeline(rng)
        seen.append((online, list(toggles)))
    assert clients[0].availability == ALWAYS
    assert seen == [(False, [5, 8]), (False, []), (True, [2, 4, 6])]


TRACE = "0,10\n2,0\n6,4\n8,0\n"


def shifts(folder: Path, clients: int, seed: int = 1, **trace: Any) -> list[tuple[float, float]]:
    """Return how far into their patterns the traces up and down of the clients start."""
    (folder / "a.csv").write_text(TRACE)
    (folder / "b.csv").write_text("0,1\n5,2\n10,3\n")
    block = {
        "kind": "wifi",
        "up_trace": {"kind": "csv", "path": "a.csv"} | trace,
        "down_trace": {"kind": "csv", "path": "b.csv"} | trace,
    }
    found = []
    for member in job(folder, seed=seed, fleet=group(count=clients, radio=block)).setup.fleet:
        up, down = (rate.signal for rate in member.rates)
        assert isinstance(up, Steps)
        assert isinstance(down, Steps)
        found.append((up.offset / up.period, down.offset / down.period))
    return found


def test_traces_take_the_place_of_the_rates(tmp_path: Path) -> None:
    assert shifts(tmp_path, 2) == [(0, 0), (0, 0)]
    block = {"kind": "wifi", "up_trace": {"kind": "csv", "path": "a.csv"}}
    member = members(tmp_path, radio=block)[0]
    assert isinstance(member.rates.up.signal, Steps)
    assert [member.rates.up.signal.at(t) for t in (1, 3, 7)] == [1e7, 0, 4e6]
    assert (member.rates.down.constant, member.radio.draw.energy_up) == (30e6, 283.17e-9)


def test_a_random_shift_is_the_clients_own_and_keeps_two_traces_together(tmp_path: Path) -> None:
    drawn = shifts(tmp_path, 5, shift="random")
    assert [up for up, _ in drawn] == pytest.approx([down for _, down in drawn])
    assert len({up for up, _ in drawn}) == 5
    assert shifts(tmp_path, 3, shift="random") == drawn[:3]  # whoever else is there
    assert shifts(tmp_path, 5, seed=2, shift="random") != drawn


def test_a_harvest_starts_anywhere(tmp_path: Path) -> None:
    (tmp_path / "sun.csv").write_text("0,0\n10,2\n20,4\n")
    block = {"kind": "harvest", "path": "sun.csv", "shift": "random"}
    sources = [member.source for member in members(tmp_path, battery={"charging": block})]
    offsets = {each.offset for each in sources if isinstance(each, Steps)}
    assert len(offsets) == 4
