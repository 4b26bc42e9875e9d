"""The outside audit of energy: joules of a run, recomputed from the spans of its log.

from fedsim.addons.conformance import check_energy
print(check_energy("runs/quickstart/chb/seed-1"))

The ledger compares the log with the meters of the simulated world, so it cannot find errors that
both share, such as a wrong power. Here no meter is read. The activity of each client at each
instant follows from the spans of the log's rows, and its cost from the powers that device and radio
declare:

- A processor works or idles. Pieces of work do not overlap.
- A radio has at most one message in progress in each direction. While it has any, it is connected;
  its promotion, the stages after its last bit, and rest cover all other time, each instant once.
- It is at rest when the run begins, after its last stage has ended, and from the moment on at which
  its client lost its network or its power; not at any other time.
- Idle power flows for as long as the client is on.

If a message behind a shared link was aborted, the log does not contain how many bits had passed:
its energy is then an interval, from that of no bits to that of all. In a Wi-Fi cell the log does
not contain for how long a message was on the air, with its preambles, collisions and answers: that
is an interval, from the time of its bits to all of its span.

The laws are implemented here a second time, on purpose, in the simplest form and without any code
of `fedsim.sim`: a mistake there is detected unless it is made twice. So `_Powers` repeats formulas
of `fedsim.physics.radios.base` instead of calling them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import fsum, inf
from pathlib import Path

import pandas as pd

from fedsim.addons.conformance.client_traces import (
    BITS,
    Body,
    ClientTrace,
    Leg,
    Row,
    Span,
    read_traces,
)
from fedsim.addons.conformance.findings import Promises, table
from fedsim.addons.conformance.lora import check_windows, seconds_on_air
from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import node_name
from fedsim.physics.network_models import FluidFlows, Lv08
from fedsim.physics.networks import ServerLink, StarNetwork
from fedsim.physics.radios import LoRa, LoRaRadio, RadioLaw, RateLaw
from fedsim.physics.signals import Constant
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.parts import read_table
from fedsim.results.record.read import read_run
from fedsim.scenario import Group, Scenario, load

Check = Callable[[ClientTrace, float], Iterator[str]]

_ANY = Constant(1.0)  # stands for a trace, whose values do not matter here
_CLOSE = 1e-9
_CLOCK = 4e-15  # a clock's rounding, as a share of the time


def check_energy(folder: str | Path, blocks: Sequence[type[Spec]] = ()) -> pd.DataFrame:
    """Recompute every client's energy from the spans of a run's log.

    Args:
        folder: of one run.
        blocks: user-defined classes that its scenario names.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Raises:
        DataError: the folder holds no run, or its files are damaged.

    Example:
        >>> check_energy(result.runs[0])["outcome"].unique().tolist()
        ['kept']
    """
    folder = Path(folder)
    events = read_run(folder, "events").astype(object)
    rows: list[Row] = events.where(events.notna(), None).to_dict("records")  # type: ignore[assignment]
    scenario = load(folder / SCENARIO, blocks=tuple(blocks)).variants[0].scenario
    clients = read_table(folder, "clients").to_pylist()
    clients = clients[: len(clients) - sum(tier.count for tier in scenario.tiers)]
    idle = [row["idle_joules"] for row in clients]
    return table(Scenario, promises(bodies_of(scenario, len(clients)), rows, idle))


def bodies_of(scenario: Scenario, clients: int) -> list[Body]:
    """Return the device, radio and links of each client of a scenario, without gateways.

    Args:
        scenario: of the run.
        clients: the number of clients.
    """
    network = scenario.network
    free = (
        type(network) is StarNetwork
        and network.peers is None
        and isinstance(network.model, FluidFlows)
        and network.wifi is None
        and network.cell is None
        and _is_free(scenario.tiers[0].link if scenario.tiers else network.server)
    )
    # Only a medium limits a peer's downlink beyond its radio.
    down = free or (network.peers is not None and network.medium is None)
    factor = 0.97 if isinstance(network.model, Lv08) else 1.0
    bodies = list[Body]()
    for group in scenario.fleet or (Group(count=clients),):
        battery = group.battery
        empty = battery is not None and battery.charge <= battery.cutoff
        for _ in range(group.count):
            name = node_name(len(bodies))
            lora = network.gateway_of_lora if isinstance(group.radio, LoRaRadio) else None
            shared = network.wifi is not None and not group.radio.cellular
            of_network = (free, down, factor, False, shared, lora, network.medium is not None)
            bodies.append(Body(name, group.device, group.radio, empty, *of_network))
    return bodies


def _is_free(link: ServerLink) -> bool:
    """Return whether a link never delays a message; a queue may, even at an unlimited rate."""
    return link.discipline == "fair" and min(link.uplink, link.downlink) == inf


def promises(bodies: Sequence[Body], rows: Iterable[Row], idle: Sequence[float]) -> Promises:
    """Yield the laws of a run's energy, each with its violations.

    Args:
        bodies: the clients in order.
        rows: of the log, in order, with the columns of `fedsim.results.record.schema`.
        idle: the recorded idle energy of each client, J.
    """
    row_list = list(rows)
    end = float(row_list[-1]["t"]) if row_list else 0.0
    traces = read_traces(bodies, row_list)
    every = list(traces.values())
    yield "work costs energy for its time, one piece at a time", _each(_work, every, end)
    yield (
        "a radio is in exactly one state at every instant",
        _each(_check_coverage, every, end),
    )
    yield "stages and promotions cost energy for their time", _each(_stages, every, end)
    yield "messages cost energy for their bits and time", _each(_messages, every, end)
    yield (
        "a forwarded message costs energy for reception and sending",
        _each(_check_forwarding, every, end),
    )
    yield "idle power is drawn while a client is on", _idle(every, idle, end)


def _each(check: Check, every: Sequence[ClientTrace], end: float) -> Iterator[str]:
    for trace in every:
        for fault in check(trace, end):
            yield f"{trace.body.name}: {fault}"


# -- the checks --------------------------------------------------------------------------


def _near(one: float, other: float, scale: float = 0.0) -> bool:
    return abs(one - other) <= _CLOSE * max(abs(one), abs(other)) + scale


def _work(trace: ClientTrace, end: float) -> Iterator[str]:
    """Work does not overlap, and costs the processor's power beyond its idle power."""
    device = trace.body.device
    extra = device.working() - device.idle
    spans = list[Span]()
    for row in trace.of("compute"):
        expected = extra * row["duration"]
        if not _near(row["joules"], expected):
            due = f"{expected:g} J by power"
            yield f"work until {row['t']:g} s costs {row['joules']:g} J, and {due}"
        spans.append((row["t"] - row["duration"], row["t"]))
    yield from _overlaps(spans, "pieces of work", end)


def _overlaps(spans: Iterable[Span], what: str, end: float) -> Iterator[str]:
    before = -inf
    for begin, until in sorted(spans):
        if begin < before - _CLOSE * end and until > begin:
            yield f"two {what} at once from {begin:g} s to {before:g} s"
        before = max(before, until)


def _check_coverage(trace: ClientTrace, end: float) -> Iterator[str]:
    """A radio's messages, promotions, stages and rest cover all time, each instant once."""
    both = ((True, "up"), (False, "down"))
    for up, way in both[:1] if trace.body.hops else both:  # slots of several senders alternate
        legs = [(leg.begin, leg.end) for leg in trace.legs if leg.up == up and leg.seconds > 0]
        yield from _overlaps(legs, f"messages {way}", end)
    busy = _union((leg.begin, leg.end) for leg in trace.legs)
    states = [(row["t"] - row["duration"], row["t"]) for row in trace.of("promotion", "tail")]
    yield from _overlaps([*busy, *states], "states of the radio", end)
    if trace.body.radio.states.stateful and not trace.body.hops:
        yield from _gaps(trace, _union([*busy, *states]), end)


def _gaps(trace: ClientTrace, covered: Sequence[Span], end: float) -> Iterator[str]:
    """Yield gaps between states in which the radio cannot have been at rest."""
    slack = _CLOSE * end
    edges = [0.0, *(edge for span in covered for edge in span), end]
    released = {row["t"] for row in trace.of("offline", "depleted")}
    for begin, until in zip(edges[::2], edges[1::2], strict=True):
        if until - begin <= slack or begin == 0.0:
            continue
        receives = any(
            one - slack <= begin and until <= other + slack for one, other in trace.on_air
        )
        if receives or _may_rest(trace, begin, released):
            continue
        yield f"the log has no state of the radio from {begin:g} s to {until:g} s"


def _may_rest(trace: ClientTrace, begin: float, released: set[float]) -> bool:
    """Return whether a radio may be at rest from a moment on.

    A radio without stages always may. Otherwise the moment has to be that of a loss of network or
    power, or the end of a complete last stage; a tail that was cut short has to be followed by
    something else than rest.
    """
    stages = trace.body.radio.states.stages[:-1]
    if not any(stage.time > 0 for stage in stages):
        return True
    if any(_near(begin, t, _CLOCK * begin) for t in released):
        return True
    last = [stage for stage in stages if stage.time > 0][-1]
    return any(
        _near(row["t"], begin, _CLOCK * begin)
        and row["duration"] >= last.time * (1 - _CLOSE) - _CLOCK * begin
        and (row["detail"] or "") == last.name
        for row in trace.of("tail")
    )


def _stages(trace: ClientTrace, end: float) -> Iterator[str]:
    """Tails and promotions cost the power of their stage."""
    stages = trace.body.radio.states.stages
    slack = _CLOCK * end
    if trace.body.gateway is not None:
        yield from check_windows(trace, trace.body.gateway)
        return
    for row in trace.of("tail"):
        powers = [stage.power for stage in stages[:-1] if stage.name == (row["detail"] or "")]
        if not any(_near(row["joules"], power * row["duration"]) for power in powers):
            expected = " or ".join(f"{power:g} W" for power in powers)
            when = f"{row['duration']:g} s until {row['t']:g} s"
            yield f"{row['joules']:g} J in {when}, at {expected}"
    for row in trace.of("promotion"):
        span, joules = row["duration"], row["joules"]
        if not any(
            span <= stage.wake_time + slack and _near(joules, stage.wake_power * span)
            for stage in stages
        ):
            yield f"a promotion of {span:g} s until {row['t']:g} s costs {joules:g} J"


def _messages(trace: ClientTrace, end: float) -> Iterator[str]:
    """Messages cost bits, time on the air, and connected power while any is in progress."""
    if trace.body.hops:
        yield from _check_hops(trace)
        return
    least, most = _price(trace)
    logged = fsum(row["joules"] for row in trace.of("send", "receive", "retransmit"))
    slack = _CLOSE * most + _CLOCK * end * _Powers(trace.body.radio).highest
    if not least - slack <= logged <= most + slack:
        by = f"{least:g} J" if least == most else f"{least:g} J to {most:g} J"
        yield f"its messages cost {logged:g} J in the log, and {by} by their bits and spans"


def _awake(body: Body) -> float:
    """Return what a radio that never rests draws beyond its power at rest, W."""
    return body.radio.states.stages[0].power if body.hops and body.radio.states.stateful else 0.0


def _check_hops(trace: ClientTrace) -> Iterator[str]:
    """What is sent on a hop costs its bits, and its span, which may have gaps between slots."""
    powers, radio = _Powers(trace.body.radio), trace.body.radio
    watts = max(powers.connected + powers.air[1] - _awake(trace.body), 0.0)
    peak = radio.rates(dict.fromkeys(radio.traces, _ANY)).up.peak
    for row in trace.of("send", "forward"):
        bits = sum(int(row[key]) for key in BITS)
        if not bits or row["detail"] or not row["joules"]:
            continue
        fixed = powers.bit[1] * bits
        least, most = fixed + watts * bits / peak, fixed + watts * row["duration"]
        drained = row["state_of_charge"] is not None  # an empty battery gives less
        slack = _CLOSE * most + _CLOCK * row["t"] * watts  # a span is a difference of two times
        if row["joules"] > most + slack or (row["joules"] < least - slack and not drained):
            text = f"a message sent at {row['t']:g} s costs {row['joules']:g} J"
            yield f"{text}, and {least:g} J to {most:g} J by power"


def _check_forwarding(trace: ClientTrace, _end: float) -> Iterator[str]:
    """A relay receives and sends each message that it forwards, each at its own rate.

    If a rate varies, or a message was aborted, the log does not contain how long that took.
    """
    radio = trace.body.radio
    rates = radio.rates(dict.fromkeys(radio.traces, _ANY))
    up, down = rates.up.constant, rates.down.constant
    if radio.traces or up is None or down is None or trace.body.hops:
        return
    draw = radio.draw
    bit = draw.energy_up + draw.energy_down
    bit += (draw.base + draw.send) / up + (draw.base + draw.receive) / down
    for row in trace.of("forward"):
        expected = bit * sum(int(row[key]) for key in BITS)
        cut_short = (
            expected == 0 or row["state_of_charge"] is not None
        )  # an empty battery gives less
        if not (cut_short or _near(row["joules"], expected)):
            forwarded = f"a message forwarded at {row['t']:g} s"
            yield f"{forwarded} costs {row['joules']:g} J, and {expected:g} J by power"


class _Powers:
    """The powers of a radio beyond rest, derived independently of the simulator.

    Attributes:
        connected: during a message while no bits of it are on the air, W.
        air: additional power while they are, by direction (down, up), W.
        bit: the energy of a bit, likewise, J/bit.
        highest: upper bound of the power, with bits at their peak rates, W.
    """

    def __init__(self, radio: RadioLaw) -> None:
        draw, rest = radio.draw, radio.waiting
        self.bit = draw.energy_down, draw.energy_up
        on = [max(draw.base + own - rest, 0.0) for own in (draw.receive, draw.send)]
        self.connected = max(draw.base - rest, 0.0)
        if draw.send > 0 or draw.receive > 0:
            if radio.states.stateful:
                self.connected = max(self.connected, radio.states.stages[0].power)
            self.air = max(on[0] - self.connected, 0.0), max(on[1] - self.connected, 0.0)
        else:
            self.air = 0.0, 0.0
        rates = radio.rates(dict.fromkeys(radio.traces, _ANY))
        peaks = (0.0 if law.peak == inf else law.peak for law in (rates.down, rates.up))
        by_bits = sum(bit * peak for bit, peak in zip(self.bit, peaks, strict=True))
        self.highest = sum(on) + self.connected + by_bits


def _price(trace: ClientTrace) -> Span:
    """Return lower and upper bound of the energy of a client's messages, J."""
    body, powers = trace.body, _Powers(trace.body.radio)
    held = powers.connected * fsum(
        end - begin for begin, end in _union((leg.begin, leg.end) for leg in trace.legs)
    )
    rates = body.radio.rates(dict.fromkeys(body.radio.traces, _ANY))
    least = most = held
    for leg in trace.legs:
        law = rates.up if leg.up else rates.down
        followed = f"{'up' if leg.up else 'down'}_trace" in body.radio.traces
        joules = [
            (powers.bit[leg.up] * bits if powers.bit[leg.up] else 0.0)
            + (powers.air[leg.up] * seconds if powers.air[leg.up] else 0.0)
            for bits, seconds in (
                _shared_corners(leg, law.peak)
                if body.shared
                else seconds_on_air(body.radio, leg)
                if body.gateway is not None
                else _corners(body, leg, None if followed else law)
            )
        ]
        least, most = least + min(joules), most + max(joules)
        if body.shared:  # what it answers, or is answered
            most += powers.air[not leg.up] * leg.seconds
    return least, most


def _corners(body: Body, leg: Leg, law: RateLaw | None) -> list[tuple[float, float]]:
    """Return the possible extents of a message: pairs of bits and seconds on air.

    One pair if the log determines both, else the corners of the possible range: energy is linear in
    both, so its extremes are at corners.

    Args:
        body: the client.
        leg: the message.
        law: of the rate; None if that follows a trace.
    """
    alone = body.open_up if leg.up else body.open_down
    span = leg.seconds
    if not leg.whole and not span:
        return [(0.0, 0.0)]
    slowed = body.slowed and not leg.up
    if law is not None and law.constant is not None and not slowed:
        rate = law.constant * body.factor
        if leg.whole or rate == inf:
            return [(leg.bits, leg.bits / rate)]
        if alone:
            return [(rate * span, span)]
        return [(0.0, 0.0), (min(leg.bits, rate * span), min(leg.bits / rate, span))]
    most = leg.bits if law is None else min(leg.bits, law.peak * span)
    if isinstance(law, LoRa) and not slowed and leg.framed and (leg.whole or alone):
        frames = law.span(leg.plain)
        passed = leg.bits if leg.whole else leg.framed * span / frames.elapsed
        return [(passed, frames.on_air * passed / (leg.framed * body.factor))]
    steady = law is None or (law.continuous and not slowed)
    times = [span] if alone and steady else [0.0, span]
    counts = [leg.bits] if leg.whole else [0.0, most]
    return [(bits, seconds) for bits in counts for seconds in times]


def _shared_corners(leg: Leg, rate: float) -> list[tuple[float, float]]:
    """Return the same as `_corners` for a message in a Wi-Fi cell, at a rate in bit/s."""
    least, most = leg.bits if leg.whole else 0.0, min(leg.bits, rate * leg.seconds)
    return [(least, least / rate), (most, leg.seconds)]


def _union(spans: Iterable[Span]) -> list[Span]:
    """Return disjoint spans that cover the same time."""
    joined = list[Span]()
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif end > begin:
            joined.append((begin, end))
    return joined


def _idle(every: Sequence[ClientTrace], idle: Sequence[float], end: float) -> Iterator[str]:
    """Idle power of device and radio flows except while the battery is empty."""
    for trace, joules in zip(every, idle, strict=True):
        body = trace.body
        watts = body.device.idle + body.radio.resting + _awake(body)
        on = end - fsum(until - since for since, until in trace.off(end))
        if not _near(joules, watts * on, _CLOSE * watts * end):
            yield f"{body.name}: {joules:g} J at rest, and {watts * on:g} J by its idle power"
