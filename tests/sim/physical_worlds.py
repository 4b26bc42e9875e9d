"""Random worlds with everything at once, for laws that hold in all of them."""

import asyncio
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fedsim.core.ports import SILENCE, Message, Silence
from fedsim.physics.availability import ALWAYS
from fedsim.physics.radios import LoRa, RadioStage, Shannon
from fedsim.physics.radios.channel import NONE, Framing
from fedsim.physics.signals import Constant, Steps
from fedsim.physics.topology import Discipline, star, tree
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from fedsim.sim.config import WorldConfig
from fedsim.sim.members import ClientConfig
from fedsim.sim.server import SimServer
from tests.physics.batteries import battery_of
from tests.physics.laws import Bernoulli, Markov
from tests.physics.losses import GilbertElliott, Independent
from tests.policies import participation_of, silence_of, weighted
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel, client_of

from .physical import online
from .worlds import NO_LOSS, Run, answered, asked, setup, work

HORIZON = 40.0
"""When every one of these worlds ends at the latest, s."""

some = st.sampled_from
powers = some([0.0, 0.5, 2.0])

devices = st.builds(
    lambda speed, idle, extra: device_of(speed, idle + extra, idle),
    some([0.5, 1.0, 3.0, inf]),
    some([0.0, 0.25, 1.0]),
    some([0.0, 1.5, 4.0]),
)

TRACE = Steps([0.0, 1.5, 4.0], [60.0, 0.0, 12.0], period=6.0)
rates = some([8.0, 50.0, 333.0])

states: dict[str, SearchStrategy[Any]] = {
    "latency": some([0.0, 0.1, 1.5]),
    "base": powers,
    "send": powers,
    "receive": powers,
    "idle": some([0.0, 0.25]),
    "promotion_power": powers,
    "promotion_time": some([0.0, 0.7]),
    "tail_power": powers,
    "tail_time": some([0.0, 0.4, 3.0]),
    "framing": some([NONE, Framing(2, 10)]),
    "loss": some([None, None, Independent(0.3), GilbertElliott(0.2, 0.5)]),
    "tries": some([1, 3, None]),
}
per_bit = {"energy_up": some([0.0, 0.05]), "energy_down": some([0.0, 0.02])}

constant = st.builds(RadioModel, up=rates, down=rates, **states, **per_bit)
traced = st.builds(RadioModel, up=some([TRACE, 50.0]), down=st.just(TRACE), **states, **per_bit)
one_tail = st.builds(RadioModel, up=rates, down=rates, **states)


def paged(radio: RadioModel) -> RadioModel:
    """Return a radio of more stages, all of one power: only some of them hear at any time."""
    tail, _ = radio.states.stages
    doze = RadioStage(tail.power, 2.0, cycle=0.7, name="c-drx")
    idle = RadioStage(tail.power, 3.0, 1.3, 0.4, radio.promotion_power, "paging")
    asleep = RadioStage(cycle=5.0, wake_time=0.9, wake_power=radio.promotion_power)
    return radio.model_copy(update={"stages": (tail, doze, idle, asleep)})


stateful = st.one_of(one_tail, one_tail.map(paged))
unlimited = st.builds(RadioModel, **states)
MODEM, WEAK = LoRa(duty=0.25), Shannon(bandwidth=20.0, power=1e-9, distance=100.0)
spread = st.builds(RadioModel, up=st.just(MODEM), down=st.just(MODEM), **states)
faded = st.builds(RadioModel, up=st.just(WEAK), down=st.just(WEAK), **states)

sources = some([Constant(0.0), Constant(3.0), Steps([0.0, 3.0], [6.0, 0.0], period=8.0)])
batteries = st.builds(
    battery_of,
    capacity=some([4.0, 15.0, 43.0, 400.0]),
    charge=some([0.0, 0.3, 0.8, 1.0]),
    charge_efficiency=some([1.0, 0.9]),
    discharge_efficiency=some([1.0, 0.8]),
    leak=some([0.0, 0.05]),
    cutoff=some([0.0, 0.1]),
    threshold=some([0.0, 0.2, 0.5]),
    restart=some([0.2, 0.6]),
    source=sources,
)
times = st.lists(st.floats(0.0, HORIZON), unique=True, max_size=6).map(sorted)
availabilities = st.one_of(
    st.just(ALWAYS),
    st.just(ALWAYS),
    times.map(lambda edges: online(*edges[len(edges) % 2 :])),
    times.map(lambda edges: online(*edges[1 - len(edges) % 2 :], inf) if edges else ALWAYS),
    st.builds(Markov, on=some([1.0, 8.0]), off=some([0.5, 4.0])),
    st.builds(Bernoulli, some([0.3, 0.8])),
)

policies = st.one_of(
    st.just(participation_of()),
    st.builds(
        participation_of,
        count=st.integers(1, 3),
        over=some([1.0, 1.5]),
        deadline=some([inf, 1.3, 6.0]),
        keep_late=st.booleans(),
        least_charge=some([0.0, 0.4]),
    ),
    st.builds(
        participation_of,
        deadline=some([inf, 2.0]),
        quorum=some([0.5, 1.0]),
        least_charge=some([0.0, 0.3]),
    ),
    st.builds(participation_of, buffer=some([1, 2]), concurrency=some([None, 2])),
)
silences = some([silence_of(), silence_of(), silence_of(beacon=False, after=3.0)])
disciplines: SearchStrategy[Discipline] = some(["fair", "fair", "fifo", "slotted"])


@st.composite
def topologies(draw: st.DrawFn, /, clients: int) -> Any:
    capacity = some([30.0, 120.0, inf])
    server: dict[str, Any] = {
        "downlink": draw(capacity),
        "uplink": draw(capacity),
        "latency": draw(some([0.0, 0.25])),
    }
    discipline = draw(disciplines)
    if draw(st.booleans()):
        return star(clients, discipline=discipline, **server)
    rate = draw(some([20.0, 90.0]))
    return tree(clients, 2, rate=rate, gateway_discipline=draw(disciplines), **server)


async def restless(server: SimServer) -> None:
    """Ask the cohort, or some by name; commit; wait now and then."""
    while True:
        named = [client for client in server.clients if server.rng.random() < 0.5]
        to = named if server.rng.random() < 0.2 else None
        await server.exchange(asked(int(server.rng.integers(0, 200))), to=to)
        server.commit(server.initial)
        if server.rng.random() < 0.4:
            await asyncio.sleep(float(server.rng.exponential(1.0)))


async def moody(client: SimClient, message: Message) -> Message | Silence:
    """Work now and then, in two pieces at once now and then; keep quiet now and then."""
    if client.rng.random() < 0.8:
        pieces = [float(client.rng.exponential(1.0)) for _ in range(client.rng.integers(1, 3))]
        await asyncio.gather(*(client.compute(work(seconds)) for seconds in pieces))
    return SILENCE if client.rng.random() < 0.3 else answered(int(client.rng.integers(0, 200)))


@st.composite
def worlds(
    draw: st.DrawFn, /, radios: SearchStrategy[RadioModel] | None = None, **fixed: Any
) -> WorldConfig:
    """Return a world; `fixed` are parts that are not left to chance."""
    cells = fixed.pop("cells", None)
    cells = draw(st.booleans()) if cells is None else cells
    if radios is None:
        radios = st.one_of(constant, stateful, unlimited, spread, faded)
        radios = radios if cells else st.one_of(radios, traced)
    member = st.builds(
        client_of,
        device=devices,
        radio=radios,
        oracle=st.just(NO_LOSS),
        battery=st.one_of(st.none(), batteries),
        availability=availabilities,
        group=some([0, 0, 1]) if cells else st.just(0),
    )
    members = draw(st.lists(member, min_size=1, max_size=5))
    if cells:  # one framing a cell
        framing = draw(some([NONE, Framing(2, 10)]))
        members = [reframed(each, framing) for each in members]
    policy = draw(policies)
    if draw(st.booleans()) and policy.wanted is not None:
        policy = weighted(policy, np.arange(1.0, len(members) + 1).tolist())
    parts: dict[str, Any] = {
        "seed": draw(st.integers(0, 999)),
        "header_bits": draw(some([0, 16])),
        "topology": draw(st.one_of(st.none(), topologies(len(members)))),
        "sharing": draw(some(["fluid", "fluid", "fluid", "lv08"])),
        "silence": silence_of() if policy.asynchronous else draw(silences),
        "participation": policy,
        "stop": Stop.in_si(rounds=25, time=HORIZON, batteries=draw(some([None, None, 2]))),
        "cells": cells,
    }
    return setup(restless, moody, members, **(parts | fixed))


def reframed(member: ClientConfig, framing: Framing) -> ClientConfig:
    return replace(member, radio=member.radio.model_copy(update={"framing": framing}))


def absences(run: Run, made: WorldConfig, client: int) -> list[tuple[float, float]]:
    """Return when a client was offline, and when its battery was empty."""
    member = made.fleet[client]
    online, _ = member.availability.timeline(made.rng("availability", client))
    away = _away(run, client, "offline", "online", inf)
    assert online == (not away or away[0][0] > 0.0)
    return away + deaths(run, made, client)


def deaths(run: Run, made: WorldConfig, client: int) -> list[tuple[float, float]]:
    """Return when the battery of a client was empty; infinite ends where it stayed so."""
    store = made.fleet[client].battery
    empty = store is not None and store.charge <= store.cutoff
    found = _away(run, client, "depleted", "charged", inf)
    assert not empty or found[0][0] == 0.0  # it is so from the start, and a row says it
    return found


def _away(run: Run, client: int, gone: str, back: str, since: float) -> list[tuple[float, float]]:
    """Return the spans between two events that come by turns; `since`: infinite if not away."""
    found = list[tuple[float, float]]()
    for row in run.rows:
        if row["node"] != f"client-{client}" or row["event"] not in {gone, back}:
            continue
        assert (row["event"] == gone) == (since == inf)
        if row["event"] == gone:
            since = row["t"]
        else:
            assert row["duration"] == row["t"] - since
            found.append((since, row["t"]))
            since = inf
    return found if since == inf else [*found, (since, inf)]
