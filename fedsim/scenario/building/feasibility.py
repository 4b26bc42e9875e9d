"""Feasibility: configurations that can never work, detected before any run."""

from collections.abc import Iterator, Sequence
from math import ceil, inf
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from fedsim.algorithms import Algorithm
from fedsim.core.errors import ClientOrderError
from fedsim.physics.batteries import Battery, NoCharging, percent
from fedsim.physics.radios import RadioStage, powers_of
from fedsim.physics.radios.rates import over
from fedsim.physics.run_length import RunLengthSequence
from fedsim.problems import LocalLoss
from fedsim.problems.parts import LocalParts
from fedsim.protocol.participation import PARTICIPATION, Informed, Participation
from fedsim.protocol.selection import sampling_order
from fedsim.scenario import Scenario
from fedsim.scenario.building.fleet import BuiltGroup
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.scenario import too_many
from fedsim.wire import HEADER_BITS

FLICKER = 0.01
"""Shortest accepted cycle of shutting down and restarting, s."""


# Participation policies of a scenario, with counts for its fleet.


def policy_of(
    scenario: Scenario,
    rows: NDArray[np.int64],
    findings: Findings,
    local: LocalParts | None = None,
) -> Participation:
    """Return the participation policy: which clients are sampled, and when a round closes.

    Args:
        scenario: the scenario.
        rows: the number of samples of each client.
        findings: collects counts above the number of clients, invalid client orders, and reports
            that clients cannot give.
        local: the parts of the model that stay with clients; None for none.
    """
    policy, clients = scenario.participation, len(rows)
    if not scenario.tiers:  # otherwise each gateway has a share of its clients
        policy = policy.among(clients)
    for key, seen in scenario.participation.counts.items():
        if seen > clients:
            findings.add(f"participation.{key}", too_many(seen, clients))
    if type(policy) not in PARTICIPATION:
        _try_order(policy, rows, findings)
    if local is not None and isinstance(policy, Informed) and policy.of_losses:
        text = "a client's loss depends on parts of the model that stay with it"
        findings.add("participation.kind", f"got {policy.kind}, but {text}")
    return policy


def _try_order(policy: Participation, rows: NDArray[np.int64], findings: Findings) -> None:
    """Check before any run that a user-defined policy returns a valid client order."""
    rng = np.random.default_rng(0)  # not a stream of the run
    try:
        for _ in sampling_order(policy, rows.astype(float), 0, rng):
            pass
    except ClientOrderError as error:
        findings.add("participation.kind", str(error))


# Deadlines, restarts and batteries.


def check_deadline(
    scenario: Scenario,
    groups: Sequence[BuiltGroup],
    members: RunLengthSequence[int],
    losses: Sequence[LocalLoss],
    findings: Findings,
) -> None:
    """Register a deadline or a timeout that is shorter than the fastest gradient.

    Args:
        scenario: the scenario.
        groups: the groups of its fleet.
        members: the group of each client.
        losses: the loss of each client.
        findings: collects faults.
    """
    limits = [deadline(scenario), ("participation.give_up", scenario.participation.round_timeout)]
    key, span = min(limits, key=itemgetter(1))
    if span == inf:
        return
    least, number = min(
        (groups[number].least_compute(loss.gradient_operations, loss.rows), number)
        for number, loss in zip(members, losses, strict=True)
    )
    if span < least:
        text = (
            f"got {span:g} s, but even the fastest clients, {groups[number].name}, take"
            f" {least:.4g} s for one gradient, so that no reply would be in time; use a longer one"
        )
        findings.add(key, text)


def deadline(scenario: Scenario) -> tuple[str, float]:
    """Return the key and the deadline of a round, s; infinite if there is none."""
    silence, participation = scenario.silence.closes_after, scenario.participation.closes_after
    if silence < inf:
        return "silence.after", silence
    return ("participation.deadline" if participation < inf else ""), participation


def check_supplies(
    groups: Sequence[BuiltGroup], participation: Participation, findings: Findings
) -> None:
    """Register batteries that would have to deliver energy in no time, or can never start."""
    for group in groups:
        _check_start(group, participation.least_charge, findings)
        rates, draw = group.rates, group.radio.draw
        costs = {"up": (rates.up, draw.energy_up), "down": (rates.down, draw.energy_down)}
        for way, (law, energy) in costs.items():
            if group.spec.battery is not None and law.constant == inf and energy > 0:
                text = (
                    f'got "unlimited" with {energy * 1e9:g} nJ/bit, which {group.name} would draw'
                    ' from its battery in no time; expected a rate, such as "5 Mbit/s"'
                )
                findings.add(f"{group.place}.radio.{way}", text)


def _check_start(group: BuiltGroup, least_charge: float, findings: Findings) -> None:
    """Register a battery that starts too low for its client to take part, and never rises."""
    battery = group.spec.battery
    if battery is None or battery.charge > max(battery.threshold, least_charge):
        return
    owners = f"{'gateways' if group.place.startswith('tiers') else 'clients'} of {group.name}"
    leak, best = battery.leak(group.spec.capacity), battery.charge_efficiency * group.source.peak
    if isinstance(battery.charging, NoCharging):
        findings.add(f"{group.place}.battery.charge", _too_low(owners, battery, least_charge))
    elif best <= leak:
        start = "empty" if battery.starts_empty else "too low to take part"
        text = (
            f"{owners} start {start}, and would stay so: their charger delivers at most"
            f" {best:.3g} W after losses, and the battery leaks {leak:.3g} W; use more power"
        )
        findings.add(f"{group.place}.battery.charging", text)


def _too_low(owners: str, battery: Battery, least_charge: float) -> str:
    """Return that nodes take part in no round, or in the first only, and what would help."""
    if least_charge > battery.threshold:
        level, key, lower = least_charge, "participation.least_charge", "a lower least_charge, "
    else:
        default = "" if "threshold" in battery.model_fields_set else "default "
        level, key = battery.threshold, f"{default}threshold"
        lower = f"threshold: {percent(battery.cutoff)}, "
    start = percent(battery.charge)
    if battery.starts_empty:
        text = f"got {start}, at which the battery is shut down (cutoff: {percent(battery.cutoff)})"
        ends, lower = "would never start", ""  # no lower level would help
    elif battery.charge < level:
        text = f"got {start}, which is below the {key} ({percent(level)})"
        ends = "would never take part"
    else:
        text, ends = f"got {start}, which is at the {key}", "would take part in one round at most"
    return (
        f"{text}, and nothing charges the battery: {owners} {ends};"
        f" give a charge above {percent(level)}, {lower}or charging"
    )


def check_flicker(groups: Sequence[BuiltGroup], findings: Findings) -> None:
    """Register batteries that oscillate: charged to restart, then emptied by idle power alone.

    An idle client goes from its restart level down to its cut-off, and is charged again. If such a
    cycle is shorter than `FLICKER`, a run would consist of little else.
    """
    for group in groups:
        battery, capacity = group.spec.battery, group.spec.capacity
        if battery is None:
            continue
        span, leak = (battery.restarts_at - battery.cutoff) * capacity, battery.leak(capacity)
        # Batteries deliver less than they lose: drawn power counts with the discharge efficiency.
        drawn = (group.device.idle + group.radio.resting) / battery.discharge_efficiency + leak
        offered = group.source.average, group.source.peak
        inflows = [battery.charge_efficiency * power for power in offered]
        shortest = min(_cycle(span, inflow, leak, drawn) for inflow in inflows)
        if shortest < FLICKER:
            text = (
                f"{group.name} would charge from its cut-off to its restart level, and fall back"
                f" when idle, every {shortest:.3g} s; use more capacity, or a restart level further"
                " above the cut-off"
            )
            findings.add(f"{group.place}.battery", text)


def _cycle(span: float, inflow: float, leak: float, drawn: float) -> float:
    """Return the time in which a store gains `span` joules and loses them; inf if never, s."""
    if not leak < inflow < drawn:
        return inf
    return span / (inflow - leak) + span / (drawn - inflow)


def check_cells(scenario: Scenario, groups: Sequence[BuiltGroup], findings: Findings) -> None:
    """Register broadcasts without a common rate, since their receivers follow traces."""
    if scenario.network.broadcast != "cell":
        return
    for group in groups:
        if group.rates.down.signal is not None:
            text = (
                f"clients of {group.name} follow individual traces, so a broadcast to all of them"
                " has no common rate; use network.broadcast: unicast, or a constant rate"
            )
            key = ".down_trace" if "down_trace" in group.radio.traces else ""
            findings.add(f"{group.place}.radio{key}", text)


def check_air(scenario: Scenario, groups: Sequence[BuiltGroup], findings: Findings) -> None:
    """Register radios without a place in a Wi-Fi cell: their rates are not those of modulations."""
    law = scenario.network.wifi
    if law is None:
        return
    members = [group for group in groups if not group.radio.cellular]
    if not members:
        findings.add("network.wifi", "no radio of the fleet is in it: all are LTE or 5G")
    for group in members:
        for way, rate in zip(("up", "down"), group.rates, strict=True):
            seen = rate.constant
            if seen is not None and 0.0 < seen <= law.fastest * (1.0 + 1e-9):
                continue
            if seen is None:
                why = f"{group.name} has no constant rate {way}"
            else:
                why = f"{group.name} has {seen / 1e6:g} Mbit/s {way}"
            text = (
                f"{why}, but network.wifi takes the rate of a modulation, at most"
                f" {law.fastest / 1e6:.4g} Mbit/s with 802.11{law.standard},"
                f" {law.width / 1e6:g} MHz and streams: {law.streams}"
            )
            findings.add(f"{group.place}.radio", text)
            break


def check_cell_sharing(
    scenario: Scenario, groups: Sequence[BuiltGroup], findings: Findings
) -> None:
    """Register radios of cells without a rate to share, and cells without radios."""
    if scenario.network.cell_sharing is None:
        return
    members = [group for group in groups if group.radio.cellular]
    if not members:
        findings.add("network.cell", "no radio of the fleet is one of LTE or 5G, such as lte-2020")
    for group in members:
        for way, law in zip(("up", "down"), group.rates, strict=True):
            if law.signal is not None:
                text = (
                    f"{group.name} follows a trace, which includes the other users of the cell;"
                    " leave out the trace, or network.cell"
                )
                findings.add(f"{group.place}.radio.{way}_trace", text)
            elif law.peak == inf:
                text = (
                    'got "unlimited", which takes none of the time of network.cell; give a rate,'
                    ' such as "20 Mbit/s"'
                )
                findings.add(f"{group.place}.radio.{way}", text)


# Batteries that restart with less energy than one round takes.
#
# A client that shut down starts again at its battery's restart level. Between that level and the
# cut-off lies the hysteresis. If it holds less than one round takes, the client starts, receives
# the model, runs empty in the middle of its work, charges for an instant and starts again, round
# after round: the run would consist of restarts, and no work would ever be finished.


def _smallest(
    members: RunLengthSequence[int], rows: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Yield each group that has clients, with the first of its clients with the fewest samples."""
    first: dict[int, int] = {}
    for (count, number), end in zip(members.runs, members.ends, strict=True):
        client = end - count + int(rows[end - count : end].argmin())
        if number not in first or rows[client] < rows[first[number]]:
            first[number] = client
    yield from sorted(first.items())


def check_restarts(
    scenario: Scenario,
    groups: Sequence[BuiltGroup],
    members: RunLengthSequence[int],
    losses: Sequence[LocalLoss],
    rows: NDArray[np.int64],
    algorithm: Algorithm,
    policy: Participation,
    findings: Findings,
    travels: int,
) -> None:
    """Register charged batteries that restart with less energy than one round takes.

    Args:
        scenario: the scenario.
        groups: the groups of its fleet.
        members: the group of each client.
        losses: the loss of each client.
        rows: the number of samples of each client, shape (M,).
        algorithm: the method, configured.
        policy: the policy, which may require a charge above the restart level.
        findings: collects faults.
        travels: the number of values of the model that are sent.
    """
    for number, client in _smallest(members, rows):
        group, battery = groups[number], groups[number].spec.battery
        # Without a charger, an empty battery stays empty: nothing restarts.
        if battery is None or group.source.peak <= 0:
            continue
        loss = losses[client]
        capacity, level = group.spec.capacity, max(battery.restarts_at, policy.least_charge)
        taken = _round_drain(group, battery, loss, algorithm, scenario, travels)
        if taken <= (level - battery.cutoff) * capacity:
            continue
        needed = battery.cutoff + taken / capacity
        if needed <= 1:
            remedy = f"expected {percent(ceil(1000 * needed) / 1000)} or more"
        else:
            remedy = "the battery needs more capacity"
        text = (
            f"got {percent(battery.restarts_at)}: {group.name} would start again with"
            f" {(level - battery.cutoff) * capacity:.3g} J above its cut-off"
            f" ({percent(battery.cutoff)}), and a round takes {taken:.3g} J more than is charged"
            f" meanwhile, so that it would run empty in every round; {remedy}"
        )
        findings.add(f"fleet.{number}.battery.restart", text)


def _round_drain(
    group: BuiltGroup,
    battery: Battery,
    loss: LocalLoss,
    algorithm: Algorithm,
    scenario: Scenario,
    travels: int,
) -> float:
    """Return a lower bound of the net energy that one round takes from a battery, J.

    The client receives a message, computes on the fewest samples of its group at top speed, and
    replies. Its radio was off: it is promoted, and while the client computes, it goes through its
    tail. Compressed messages count with their headers alone; framing and waiting for other clients
    are ignored, and so are promotion and tail among peers, which compute before they communicate.
    """
    samples = algorithm.samples_per_round(loss.rows)
    busy = group.least_compute(loss.gradient_operations * samples / loss.rows, samples)
    rates, wire, powers = group.rates, scenario.wire, powers_of(group.radio)
    model = travels * 8 * wire.values.size
    down = HEADER_BITS + (model if wire.down.compressor.kind == "identity" else 0)
    up = HEADER_BITS + (model if wire.up.compressor.kind == "identity" else 0)
    received, sent = over(rates.down.peak, down), over(rates.up.peak, up)
    joules = (group.device.working() - group.device.idle) * busy
    joules += (powers.held + powers.on_air[0]) * received + powers.per_bit[0] * down
    joules += (powers.held + powers.on_air[1]) * sent + powers.per_bit[1] * up
    span = busy + received + sent
    if scenario.network.peers is None:
        *passing, rest = group.radio.states.stages
        joules += rest.wake_power * rest.wake_time
        span += rest.wake_time
        joules += _tail_joules(passing, busy)
    joules += (group.device.idle + group.radio.resting) * span
    return (
        joules / battery.discharge_efficiency
        - (battery.charge_efficiency * group.source.peak - battery.leak(group.spec.capacity)) * span
    )


def _tail_joules(stages: Sequence[RadioStage], seconds: float) -> float:
    """Return the energy of a radio in its stages for a time after its last bit, J."""
    joules = 0.0
    for stage in stages:
        spent = min(stage.time, seconds)
        joules += stage.power * spent
        seconds -= spent
    return joules
