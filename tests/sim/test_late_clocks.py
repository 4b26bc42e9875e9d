"""Late clocks: what takes no longer than the clock can tell is priced by the bit all the same."""

import asyncio
from math import fsum, inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.core.errors import AuditError
from fedsim.core.ports import Message
from fedsim.physics.devices import Device
from fedsim.physics.signals import Steps
from fedsim.sim.client import SimClient
from fedsim.sim.members import ClientConfig
from fedsim.sim.power.radio import RadioMeter
from fedsim.sim.power.supply import Part
from fedsim.sim.server import SimServer
from tests.physics.batteries import battery_of
from tests.policies import silence_of
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel, client_of
from tests.tiers import examples

from .worlds import NO_LOSS, answered, asked, play, setup, work

some = st.sampled_from
radios = st.builds(
    RadioModel,
    up=some([1e3, 1e9, 1e15]),
    down=some([1e6, 1e12]),
    latency=some([0.0, 1e-9, 10.0]),
    energy_up=some([0.0, 1e-6, 1e-3]),
    energy_down=some([1e-7]),
    base=some([0.0, 0.0, 1.5]),
    send=some([0.0, 2.0]),
    idle=some([0.0, 0.0, 1e-6]),
    promotion_power=some([0.0, 1.0]),
    promotion_time=some([0.0, 0.26]),
    tail_power=some([0.0, 1.0]),
    tail_time=some([0.0, 1e-7, 11.5]),
)
devices = st.builds(
    lambda speed, idle, extra: device_of(speed, idle + extra, idle),
    some([1.0, 1e12]),
    some([0.0, 0.0, 1e-3]),
    some([0.0, 3.0]),
)


def late_world(member: ClientConfig, late: float, bits: int, operations: float) -> Any:
    """Three exchanges with two clients, the first of them once it is late."""

    async def serve(server: SimServer) -> None:
        await asyncio.sleep(late)
        for _ in range(3):
            await server.exchange(asked(bits))
            server.commit(server.initial)

    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(operations))
        return answered(bits)

    return setup(serve, handle, [member, member], silence=silence_of())


@examples(60)
@given(radios, devices, some([0.0, 20.0, 1e5, 1e7]), some([1, 640, 10**6]), some([0.0, 1e-3, 12.0]))
def test_batteries_lose_what_the_log_says_however_late_it_is(
    radio: RadioModel, device: Device, late: float, bits: int, operations: float
) -> None:
    battery = battery_of(1e6, charge=0.5, discharge_efficiency=0.8)
    idle, active = device.idle + radio.idle, device.working() + radio.idle
    member = client_of(device_of(device.speed or 0.0, active, idle), radio, NO_LOSS, battery)
    run = play(late_world(member, late, bits, operations))
    assert run.error is None
    meters = run.world.meters()
    for client in (0, 1):
        logged = fsum(row["joules"] for row in run.rows if row["node"] == f"client-{client}")
        spent = logged + meters.idle_joules[client]
        assert meters.stores.delivered[client] == pytest.approx(spent, rel=1e-12)
        assert meters.stores.drained[client] == pytest.approx(spent / 0.8, rel=1e-12)
        least = 3 * bits * (radio.energy_up + radio.energy_down)
        assert logged >= least * (1 - 1e-12)


@pytest.mark.slow
def test_what_a_client_that_is_off_for_long_draws_is_what_it_drew_while_on() -> None:
    """A battery that is charged for a moment in every hour, for months."""
    source = Steps([0.0, 1.0], [1e-6, 0.0], period=3600.0)
    battery = battery_of(1.0, charge=0.5, cutoff=0.0, threshold=0.0, restart=1e-7, source=source)
    device = device_of(1.0, 1.0, 1.0)

    async def serve(server: SimServer) -> None:
        await asyncio.sleep(1e7)

    run = play(setup(serve, members=[client_of(device, RadioModel(), NO_LOSS, battery)]))
    assert run.error is None
    stores = run.world.meters().stores
    assert stores.depletions[0] > 1000
    assert stores.delivered[0] == pytest.approx(run.world.meters().idle_joules[0], rel=1e-12)


def test_a_battery_fed_with_other_powers_than_are_metered_fails_the_audit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    radio = RadioModel(1e6, 1e6, energy_up=1e-6, base=1.0)
    member = client_of(device_of(inf, 0.0, 0.0), radio, NO_LOSS, battery_of(1e3))
    right = RadioMeter.update_load

    def wrong(self: RadioMeter) -> None:
        right(self)
        if self.supply is not None:
            self.supply.set(Part.RADIO, 1.01 * self.power)

    monkeypatch.setattr(RadioMeter, "update_load", wrong)
    with pytest.raises(AuditError, match="joules of meters against powers and the clock"):
        play(late_world(member, 10.0, 640, 0.0))


@pytest.mark.parametrize("latency", ["0 s", "10 s", "10000000 s"])
def test_a_fast_radio_of_long_latency_on_a_small_battery(latency: str, tmp_path: Path) -> None:
    radio = {"kind": "custom", "up": "1 Gbit/s", "down": "1 Gbit/s", "latency": latency}
    radio |= {"energy_up": "1 uJ/bit", "energy_down": "100 nJ/bit", "base": "0 W"}
    scenario = {
        "name": "late",
        "problem": {
            "loss": {"kind": "squared"},
            "data": {"kind": "sparse-linear", "clients": 2, "rows": 8, "features": 6, "ones": 3},
            "split": {"kind": "groups"},
        },
        "algorithm": {"kind": "gd", "step_size": "0.1/L"},
        "fleet": [{"count": 2, "radio": radio, "battery": {"capacity": "1 Wh"}}],
        "stop": {"rounds": 3},
    }
    result = fedsim.run(scenario, out=tmp_path)
    assert list(result.summary["status"]) == ["done"]
    clients = result.clients
    expected = 1e-6 * clients["bits_up"] + 1e-7 * 3 * result.rounds["bits_down"].iloc[1] / 2
    assert clients["joules"].to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-12)
