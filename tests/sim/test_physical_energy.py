"""Energy in any physical world: the power of the log's states, integrated once more.

The log says when a client computes, sends, receives, is promoted or has its tail, when it is
off, and what each span has cost. Here the spans make a power at every moment, the power and
the charger make a level at every moment, and both are held against what the log says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.addons.conformance.client_traces import Body
from fedsim.addons.conformance.energy import promises
from fedsim.core.ports import Array
from fedsim.sim.config import WorldConfig
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.layers.broadcast import BroadcastLayer
from tests.sim.radios import RadioModel, connected, on_air
from tests.tiers import examples

from .physical_worlds import deaths, powers, some, stateful, states, worlds
from .worlds import Row, Run, play

Span = tuple[float, float]

laws = examples(70)


@dataclass
class Profile:
    """A client's power between the moments at which it may change.

    Attributes:
        edges: rising, from 0 to the end, s, shape (n + 1,).
        extra: beyond idle power, W, shape (n,).
        idle: W, shape (n,).
    """

    edges: Array
    extra: Array
    idle: Array

    @property
    def lengths(self) -> Array:
        return np.diff(self.edges)


def on(edges: Array, spans: Sequence[Span]) -> Array:
    """Return how many of the spans cover each piece between two edges."""
    steps = np.zeros(len(edges))
    for begin, end in spans:
        steps[np.searchsorted(edges, begin)] += 1
        steps[np.searchsorted(edges, min(end, edges[-1]))] -= 1
    return np.cumsum(steps)[:-1]


def profile(run: Run, made: WorldConfig, client: int) -> Profile:
    """Return the power of a client whose radio draws by its state alone, and is never held up."""
    member, rows = made.fleet[client], mine(run, client)
    device, radio = member.device, member.radio
    assert isinstance(radio, RadioModel)
    connection = radio.connection
    spans = {event: lived(rows, event) for event in ("compute", "promotion", "tail", "receive")}
    spans["send"] = uplinks(rows)
    off = deaths(run, made, client)
    times = {0.0, run.t, *[row["t"] for row in rows], *changes(member, run.t)}
    times |= {edge for many in [*spans.values(), off] for span in many for edge in span}
    edges = np.array(sorted(t for t in times if t <= run.t))
    watts = {
        "compute": device.working() - device.idle,
        "promotion": connection.promotion_power,
        "tail": connection.tail_power,
        "send": on_air(radio, radio.send),
        "receive": on_air(radio, radio.receive),
    }
    extra = np.array([watts[event] * on(edges, spans[event]) for event in watts]).sum(axis=0)
    extra += connected(radio) * (on(edges, spans["send"] + spans["receive"]) > 0)
    return Profile(edges, extra, (device.idle + radio.idle) * (on(edges, off) == 0))


def mine(run: Run, client: int) -> list[Row]:
    return [row for row in run.rows if row["node"] == f"client-{client}"]


def lived(rows: Sequence[Row], event: str) -> list[Span]:
    return [(row["t"] - row["duration"], row["t"]) for row in rows if row["event"] == event]


def uplinks(rows: Sequence[Row]) -> list[Span]:
    """Return when bits flowed up: what was sent again is a part of its message's time."""
    again = {row["t"]: row["duration"] for row in rows if row["event"] == "retransmit"}
    sent = [row for row in rows if row["event"] == "send" and row["duration"]]
    return [(row["t"] - row["duration"] - again.get(row["t"], 0.0), row["t"]) for row in sent]


def changes(member: ClientConfig, until: float) -> list[float]:
    """Return when what charges a client changes."""
    found, t = list[float](), 0.0
    while member.battery is not None and (t := member.source.next_change(t)) < until:
        found.append(t)
    return found


def levels(member: ClientConfig, power: Profile) -> Array:
    """Return what the battery holds at every edge, J: full is full, and empty is empty."""
    model = member.battery
    assert model is not None
    level, seen = model.charge * member.capacity, list[float]()
    leak = model.leak(member.capacity)
    loads = (power.extra + power.idle) / model.discharge_efficiency + leak
    for begin, seconds, load in zip(power.edges, power.lengths, loads, strict=False):
        seen.append(level)
        net = model.charge_efficiency * member.source.at(begin) - load
        level = min(max(level + net * seconds, 0.0), member.capacity)
    return np.array([*seen, level])


def body(made: WorldConfig, client: int) -> Body:
    """Return what the audit knows of a client."""
    member, alone = made.fleet[client], made.topology is None and made.network.factor == 1.0
    empty = member.battery is not None and member.battery.charge <= member.battery.cutoff
    factor = made.network.factor
    parts = f"client-{client}", member.device, member.radio
    return Body(
        *parts, empty, alone, alone, factor, slowed=isinstance(made.network, BroadcastLayer)
    )


@laws
@given(worlds())
def test_joules_are_those_of_the_spans_and_no_instant_is_left_out(made: WorldConfig) -> None:
    run = play(made)
    bodies = [body(made, client) for client in range(len(made.fleet))]
    idle = run.world.meters().idle_joules.tolist()
    for promise, broken in promises(bodies, run.rows, idle):
        assert [*broken] == [], promise
    at_rest = sum(row["joules"] for row in run.of("round") + run.of("stop"))
    assert at_rest == pytest.approx(run.world.meters().idle_joules.sum(), rel=1e-9, abs=1e-9)
    total = sum(row["joules"] for row in run.rows)
    assert run.world.traffic.joules == pytest.approx(total, rel=1e-9, abs=1e-9)


@laws
@given(worlds(radios=stateful, topology=None, sharing="fluid"))
def test_the_charge_in_every_row_is_what_the_powers_before_it_have_left(made: WorldConfig) -> None:
    run = play(made)
    for client, member in enumerate(made.fleet):
        if member.battery is None:
            continue
        power, model = profile(run, made, client), member.battery
        level = levels(member, power)
        for row in mine(run, client):
            if row["state_of_charge"] >= 0:
                by_hand = level[np.searchsorted(power.edges, row["t"])] / member.capacity
                assert row["state_of_charge"] == pytest.approx(by_hand, rel=1e-9, abs=1e-8)
        for row in run.of("depleted", node=f"client-{client}"):
            begins = model.starts_empty and row["t"] == 0.0
            mark = model.charge if begins else model.cutoff
            assert row["state_of_charge"] == pytest.approx(mark, rel=1e-12)
        for row in run.of("charged", node=f"client-{client}"):
            assert row["state_of_charge"] == pytest.approx(model.restarts_at, rel=1e-12)
        stores = run.world.meters().stores
        at = stores.clients.tolist().index(client)
        assert float(stores.final[at]) == pytest.approx(
            level[-1], rel=1e-9, abs=1e-8 * member.capacity
        )
        spent = float((power.extra + power.idle) @ power.lengths)
        assert float(stores.delivered[at]) == pytest.approx(spent, rel=1e-9, abs=1e-9)
        assert stores.depletions[at] == len(run.of("depleted", node=f"client-{client}"))


@laws
@given(worlds())
def test_what_a_battery_held_took_and_gave_is_what_it_holds(made: WorldConfig) -> None:
    run = play(made)
    stores = run.world.meters().stores
    assert np.isfinite([stores.final, stores.charged, stores.drained]).all()
    balance = stores.initial + stores.charged - stores.drained
    assert balance == pytest.approx(stores.final, rel=1e-9, abs=1e-9 * 400.0)
    for at, client in enumerate(stores.clients):
        member = made.fleet[client]
        model, capacity = member.battery, member.capacity
        assert model is not None
        assert 0.0 <= stores.final[at] <= capacity
        spent = sum(row["joules"] for row in mine(run, int(client)))
        spent += run.world.meters().idle_joules[client]
        assert stores.delivered[at] == pytest.approx(spent, rel=1e-9, abs=1e-9)
        leaked = stores.drained[at] - stores.delivered[at] / model.discharge_efficiency
        assert -1e-6 <= leaked <= model.leak(capacity) * run.t + 1e-6
        offered = model.charge_efficiency * member.source.integral(0.0, run.t)
        assert stores.charged[at] <= offered * (1 + 1e-9) + 1e-9


by_the_bit = states | {"base": st.just(0.0), "tail_power": st.just(0.0)}
by_the_bit |= {"energy_up": powers, "energy_down": powers}
plain = st.builds(RadioModel, up=some([8.0, 50.0]), down=some([50.0, 333.0]), **by_the_bit)


def size(row: Row) -> int:
    return int(row["payload_bits"] + row["header_bits"] + row["transport_bits"])


NOTHING: Row = dict.fromkeys(("duration", "joules", "transport_bits"), 0.0)


@laws
@given(worlds(radios=plain, cells=False, sharing="fluid"))
def test_every_message_costs_its_bits_and_their_time_on_the_air(made: WorldConfig) -> None:
    """However long a link behind the radio takes for them."""
    run = play(made)
    again = {(row["t"], row["node"], row["peer"]): row for row in run.of("retransmit")}
    for client, member in enumerate(made.fleet):
        radio, name = member.radio, f"client-{client}"
        assert isinstance(radio, RadioModel)
        for row in run.of("send", node=name):
            more = again.get((row["t"], name, "server"), NOTHING)
            bits = size(row) + more["transport_bits"]
            cost = radio.send * bits / radio.up + radio.energy_up * bits
            paid = row["joules"] + more["joules"]
            if row["detail"] in {None, "lost"}:
                assert paid == pytest.approx(cost, rel=1e-9, abs=1e-9)
            else:  # broken off
                assert -1e-9 <= paid <= cost + 1e-9
        for row in run.of("receive", node=name, detail=None):
            bits = size(row) + again.get((row["t"], "server", name), NOTHING)["transport_bits"]
            cost = radio.receive * bits / radio.down + radio.energy_down * bits
            assert row["joules"] == pytest.approx(cost, rel=1e-9, abs=1e-9)
