"""Feasibility: what can never work out, found before anything runs."""

from collections.abc import Sequence
from math import inf

from fedsim.building.findings import Findings
from fedsim.building.fleet import Make
from fedsim.problems import LocalLoss
from fedsim.scenario import DeadlineSilence, Scenario
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
        if make.radio.loss is not None and make.radio.tries is not None:
            text = (
                f"a message of {make.name} can be lost for good, after {make.radio.tries} tries,"
                f" and {way_out}"
            )
            findings.add(f"fleet.{make.group}.radio.tries", text)


def _closes(scenario: Scenario, policy: Participation, asked: int) -> bool:
    """Say whether a round can close although somebody never reports."""
    if policy.buffer:
        return False
    if _deadline(scenario)[1] < inf:
        return policy.least(asked) < asked
    return policy.goal(asked) < asked
