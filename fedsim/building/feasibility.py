"""Feasibility: configurations that can never work, detected before any run."""

from collections.abc import Sequence
from math import inf
from operator import itemgetter

from fedsim.building.fleet import BuiltGroup
from fedsim.building.inputs import Findings
from fedsim.problems import LocalLoss
from fedsim.scenario import Scenario

FLICKER = 0.01
"""How often a client may die and start again of itself, s: a hundred times a second."""


def check_deadline(
    scenario: Scenario,
    groups: Sequence[BuiltGroup],
    members: Sequence[int],
    losses: Sequence[LocalLoss],
    findings: Findings,
) -> None:
    """Find a deadline, or a time to give up, before anybody has computed a gradient.

    Args:
        scenario: what was written.
        groups: of the fleet's groups.
        members: the group of each client.
        losses: of each client.
        findings: takes what is wrong.
    """
    limits = [deadline(scenario), ("participation.give_up", scenario.participation.patience)]
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
            f" {least:.4g} s for one gradient, so that no reply would ever be in time; give more"
        )
        findings.add(key, text)


def deadline(scenario: Scenario) -> tuple[str, float]:
    """Return the key and the seconds of a round's deadline; infinite where there is none."""
    silence, participation = scenario.silence.closes_after, scenario.participation.closes_after
    if silence < inf:
        return "silence.after", silence
    return ("participation.deadline" if participation < inf else ""), participation


def check_supplies(groups: Sequence[BuiltGroup], findings: Findings) -> None:
    """Find batteries that would have to give a finite energy in no time, or can never start."""
    for group in groups:
        _check_start(group, findings)
        rates, draw = group.rates, group.radio.draw
        costs = {"up": (rates.up, draw.energy_up), "down": (rates.down, draw.energy_down)}
        for way, (law, energy) in costs.items():
            if group.spec.battery is not None and law.constant == inf and energy > 0:
                text = (
                    f'got "unlimited" with {energy * 1e9:g} nJ/bit, which {group.name} would draw'
                    ' from its battery in no time; give a rate, such as "5 Mbit/s"'
                )
                findings.add(f"fleet.{group.number}.radio.{way}", text)


def _check_start(group: BuiltGroup, findings: Findings) -> None:
    """Find a battery that starts empty, and that its charger never fills."""
    battery = group.spec.battery
    if battery is None or not battery.starts_empty:
        return
    leak, best = battery.leak(group.spec.capacity), battery.charge_efficiency * group.source.peak
    if best <= leak:
        text = (
            f"{group.name} starts empty, and would stay so: its charging offers {best:.3g} W at"
            f" most after the losses, and the battery leaks {leak:.3g} W; give more power"
        )
        findings.add(f"fleet.{group.number}.battery.charging", text)


def check_flicker(groups: Sequence[BuiltGroup], findings: Findings) -> None:
    """Find batteries that a charger fills and the idle power empties without end, at any moment.

    A client that only rests lives from its restart level down to its cut-off, and is charged up
    to it again; where that takes less than `FLICKER`, a run would see little else.
    """
    for group in groups:
        battery, capacity = group.spec.battery, group.spec.capacity
        if battery is None:
            continue
        span, leak = (battery.restarts_at - battery.cutoff) * capacity, battery.leak(capacity)
        drawn = (group.device.idle + group.radio.resting) / battery.discharge_efficiency + leak
        offered = group.source.average, group.source.peak
        inflows = [battery.charge_efficiency * power for power in offered]
        shortest = min(_cycle(span, inflow, leak, drawn) for inflow in inflows)
        if shortest < FLICKER:
            text = (
                f"{group.name} would charge from its cut-off to its restart level, and fall back to"
                f" it at rest, every {shortest:.3g} s; give more capacity, or a restart level"
                " further above the cut-off"
            )
            findings.add(f"fleet.{group.number}.battery", text)


def _cycle(span: float, inflow: float, leak: float, drawn: float) -> float:
    """Return how long a store takes to rise by so many joules and to fall again; inf if never."""
    if not leak < inflow < drawn:
        return inf
    return span / (inflow - leak) + span / (drawn - inflow)


def check_cells(scenario: Scenario, groups: Sequence[BuiltGroup], findings: Findings) -> None:
    """Find cells whose broadcast has no one rate, because its listeners follow traces."""
    if scenario.network.broadcast != "cell":
        return
    for group in groups:
        if group.rates.down.signal is not None:
            text = (
                f"clients of {group.name} follow a trace each, so a broadcast that all of them hear"
                " has no one rate; use network.broadcast: unicast, or a constant rate"
            )
            key = ".down_trace" if "down_trace" in group.radio.traces else ""
            findings.add(f"fleet.{group.number}.radio{key}", text)
