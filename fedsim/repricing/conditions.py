"""Conditions: changes that need no new training, and logs that hold enough for them.

A run decides the same under another fleet or network where nothing that it decides depends on
when things happen: each round waits for every client that it asks, all clients are always
available, and the method looks neither at the clock nor at a battery. Everything else is refused,
by its key.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from fedsim.blocks.wording import show
from fedsim.errors import Fault
from fedsim.protocol.participation import FIRST, Participation
from fedsim.scenario import Scenario, Variant

PRICED = ("name", "fleet", "network", "stop")
"""The blocks that may change: what they say, training does not see."""

_AGAIN = "needs training again: fedsim run"

Seen = tuple[str, str]
"""A key, and why the log cannot be priced again for what stands there."""


def refusals(then: Scenario, now: Variant, clients: int, looks: Sequence[str]) -> Iterator[Fault]:
    """Yield why a run cannot be priced again.

    Args:
        then: the scenario of the run.
        now: the changed one.
        clients: how many there were.
        looks: what the method has looked at: "battery", "now".
    """
    scenario = now.scenario
    seen = [
        *_changes(then, scenario),
        *_of_peers(scenario),
        *_of_time(scenario, clients),
        *_absences(scenario),
        *_clock_and_battery((then, scenario), looks),
    ]
    if scenario.fleet and scenario.clients != clients:
        seen.append(("fleet", f"got {scenario.clients} clients, and the log is of {clients}"))
    for key, text in seen:
        yield now.fault(key, text)


def _changes(then: Scenario, now: Scenario) -> Iterator[Seen]:
    """Yield what has changed and is no matter of price."""
    before, after = (each.model_dump(mode="json", exclude={*PRICED}) for each in (then, now))
    for key, seen, logged in _differences(after, before):
        yield key, f"got {show(seen)}, the log is of {show(logged)}; that {_AGAIN}"


def _differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:  # noqa: ANN401 - any JSON
    """Yield the deepest keys at which two blocks differ, and what stands there."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        # What a block of another kind says beside its kind means other things.
        of_a_kind = one.get("kind") == other.get("kind")
        for key in {**one, **other} if of_a_kind else ("kind",):
            inner = f"{path}.{key}" if path else key
            yield from _differences(one.get(key), other.get(key), inner)
    elif one != other:
        yield path, one, other


def _of_peers(scenario: Scenario) -> Iterator[Seen]:
    if scenario.network.peers is not None:
        text = f"got {scenario.network.peers.kind}: peers have no server that could be played again"
        yield "network.peers", f"{text}; another fleet or network {_AGAIN}"


def _of_time(scenario: Scenario, clients: int) -> Iterator[Seen]:
    """Yield what lets a round close before all have answered."""
    policy, silence = scenario.participation, scenario.silence
    if silence.closes_after < inf:
        text = f"got {silence.kind}: which clients answer in time decides what a round adds up"
        yield "silence.kind", text
    if policy.asynchronous:
        text = f"got {policy.kind}: the order of arrival decides what happens"
        yield "participation.kind", text
    early = [*policy.early()]
    for key, seen, decides in early:
        yield f"participation.{key}", f"got {seen}: {decides} what a round adds up"
    if not (early or policy.asynchronous) and _goes_on(policy.among(clients), clients):
        yield "participation.kind", f"got {policy.kind}: {FIRST} what a round adds up"
    if policy.least_charge:
        text = f"got {100 * policy.least_charge:g} %: batteries decide which clients take part"
        yield "participation.least_charge", text


def _goes_on(policy: Participation, clients: int) -> bool:
    """Say whether a round may close without some of those asked, by a rule that has no key."""
    cohort = clients if policy.asked is None else min(policy.asked, clients)
    return policy.goal(cohort) < cohort


def _absences(scenario: Scenario) -> Iterator[Seen]:
    for number, group in enumerate(scenario.fleet):
        if not group.availability.always:
            text = (
                f"got {group.availability.kind}: which clients are available when a round begins"
                " depends on when that is"
            )
            yield f"fleet.{number}.availability.kind", text


def _clock_and_battery(scenarios: Sequence[Scenario], looks: Sequence[str]) -> Iterator[Seen]:
    """Yield what the method looks at and may now see otherwise."""
    kind = scenarios[-1].algorithm.kind
    if "now" in looks:
        yield "algorithm.kind", f"got {kind}, which has looked at the clock; that {_AGAIN}"
    powered = any(group.battery for scenario in scenarios for group in scenario.fleet)
    if "battery" in looks and powered:
        yield (
            "algorithm.kind",
            f"got {kind}, which has looked at a battery's charge; that {_AGAIN}",
        )
