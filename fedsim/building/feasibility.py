"""Feasibility: what can never work out, found before anything runs."""

from collections.abc import Sequence
from math import inf

from fedsim.building.findings import Findings
from fedsim.building.fleet import Make
from fedsim.problems import LocalLoss
from fedsim.scenario import DeadlineSilence, Radio, Scenario
from fedsim.scenario.participation import Rounds
from fedsim.sim.participation import Participation


def check_deadline(
    scenario: Scenario,
    makes: Sequence[Make],
    members: Sequence[int],
    losses: Sequence[LocalLoss],
    findings: Findings,
) -> None:
    """Find a deadline that is over before anybody has computed a gradient.

    Args:
        scenario: what was written.
        makes: of the fleet's groups.
        members: the group of each client.
        losses: of each client.
        findings: takes what is wrong.
    """
    key, deadline = _deadline(scenario)
    if deadline == inf:
        return
    least, number = min(
        (makes[number].least_compute(loss.gradient_operations, loss.rows), number)
        for number, loss in zip(members, losses, strict=True)
    )
    if deadline < least:
        text = (
            f"seen {deadline:g} s, but even the fastest clients, {makes[number].name}, take"
            f" {least:.4g} s for one gradient, so that no reply would ever be in time; give more"
        )
        findings.add(key, text)


def _deadline(scenario: Scenario) -> tuple[str, float]:
    """Return the key and the seconds of a round's deadline; infinite where there is none."""
    if isinstance(scenario.silence, DeadlineSilence):
        return "silence.after", scenario.silence.after
    if isinstance(scenario.participation, Rounds) and scenario.participation.deadline is not None:
        return "participation.deadline", scenario.participation.deadline
    return "", inf


def check_closing(
    scenario: Scenario, makes: Sequence[Make], policy: Participation, findings: Findings
) -> None:
    """Find rounds that would wait for ever for a message that is lost for good."""
    clients = sum(make.spec.count for make in makes)
    if _closes(scenario, policy, min(policy.asked or clients, clients)):
        return
    if policy.buffer:
        way_out = "an asynchronous server would wait for it for ever; use tries: unlimited"
    else:
        way_out = (
            "nothing would close a round that waits for it; add participation.deadline, or a"
            " quorum that can do without one client, or use tries: unlimited"
        )
    for make in makes:
        if make.radio.loss is None:
            continue
        lost = f"a message of {make.name} can be lost for good"
        if make.radio.tries is not None:
            text = f"{lost}, after {make.radio.tries} tries, and {way_out}"
            findings.add(f"fleet.{make.group}.radio.tries", text)
        elif scenario.network.broadcast == "cell":
            text = f"{lost}, for what a cell hears is not sent again, and {way_out}"
            findings.add("network.broadcast", text.replace("use tries: unlimited", "use unicast"))


def check_supplies(makes: Sequence[Make], findings: Findings) -> None:
    """Find batteries that would have to give a finite energy in no time."""
    for make in makes:
        radio = make.radio
        costs = {"up": (radio.up, radio.energy_up), "down": (radio.down, radio.energy_down)}
        for way, (rate, energy) in costs.items():
            if make.battery is not None and rate == inf and energy > 0:
                text = (
                    f'seen "unlimited" with {energy * 1e9:g} nJ/bit, which {make.name} would draw'
                    ' from its battery in no time; give a rate, such as "5 Mbit/s"'
                )
                findings.add(f"fleet.{make.group}.radio.{way}", text)


def check_cells(scenario: Scenario, makes: Sequence[Make], findings: Findings) -> None:
    """Find cells whose broadcast has no one rate, because its listeners follow traces."""
    if scenario.network.broadcast != "cell":
        return
    for make in makes:
        if isinstance(make.spec.radio, Radio) and make.spec.radio.down_trace is not None:
            text = (
                f"clients of {make.name} follow a trace each, so a broadcast that all of them hear"
                " has no one rate; use network.broadcast: unicast, or a constant rate"
            )
            findings.add(f"fleet.{make.group}.radio.down_trace", text)


def _closes(scenario: Scenario, policy: Participation, asked: int) -> bool:
    """Say whether a round can close although somebody never reports."""
    if policy.buffer:
        return False
    if _deadline(scenario)[1] < inf:
        return policy.least(asked) < asked
    return policy.goal(asked) < asked
