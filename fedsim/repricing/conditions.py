"""Conditions: changes that need no new training, and logs that hold enough for them.

A run takes the same decisions under another fleet or network if no decision depends on the time of
an event: each round waits for every sampled client, all clients are always available, and the
method reads neither the clock nor a battery. Everything else is refused, with its key.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from fedsim.blocks.wording import show
from fedsim.errors import Fault
from fedsim.protocol.participation import FIRST, Informed, Participation
from fedsim.scenario import Scenario, Variant

PRICED = ("name", "fleet", "network", "stop")
"""The blocks that may change: they have no effect on training."""

NO_OVERRIDE = (
    "nothing is changed: expected --set with keys of fleet, network or stop, such as --set"
    " fleet.0.radio=nb-iot, --set fleet.0.device=pi-4 or --set network.server.uplink='10 Mbit/s'"
)
"""The message of `fedsim reprice` without an override."""

_AGAIN = "needs training again: fedsim run"

Seen = tuple[str, str]
"""A key, and why a log cannot be re-priced with its value."""


def refusals(then: Scenario, now: Variant, clients: int, looks: Sequence[str]) -> Iterator[Fault]:
    """Yield the reasons why a run cannot be re-priced.

    Args:
        then: the scenario of the run.
        now: the changed one.
        clients: the number of clients of the run.
        looks: the ports that the method has read: "battery", "now".
    """
    scenario = now.scenario
    seen = [
        *_changes(then, scenario),
        *_of_peers(scenario),
        *_of_tiers(scenario),
        *_of_method(scenario),
        *_of_time(scenario, clients),
        *_absences(scenario),
        *_clock_and_battery((then, scenario), looks),
    ]
    if scenario.fleet and scenario.clients != clients:
        seen.append(("fleet", f"got {scenario.clients} clients, but the log has {clients}"))
    for key, text in seen:
        yield now.fault(key, text)


def _changes(then: Scenario, now: Scenario) -> Iterator[Seen]:
    """Yield the changes outside of the blocks that may change."""
    before, after = (each.model_dump(mode="json", exclude={*PRICED}) for each in (then, now))
    for key, seen, logged in _differences(after, before):
        yield key, f"got {show(seen)}, but the run had {show(logged)}; that {_AGAIN}"


def _differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:  # noqa: ANN401 - any JSON
    """Yield the deepest keys at which two blocks differ, with both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        # The other keys of a block of another kind have another meaning.
        of_a_kind = one.get("kind") == other.get("kind")
        for key in {**one, **other} if of_a_kind else ("kind",):
            inner = f"{path}.{key}" if path else key
            yield from _differences(one.get(key), other.get(key), inner)
    elif one != other:
        yield path, one, other


def _of_peers(scenario: Scenario) -> Iterator[Seen]:
    if scenario.network.peers is not None:
        text = f"got {scenario.network.peers.kind}: exchanges of peers cannot be replayed"
        yield "network.peers", f"{text}; another fleet or network {_AGAIN}"


def _of_tiers(scenario: Scenario) -> Iterator[Seen]:
    if scenario.tiers:
        text = f"got {len(scenario.tiers)}: rounds of gateways cannot be replayed"
        yield "tiers", f"{text}; another fleet or network {_AGAIN}"


def _of_method(scenario: Scenario) -> Iterator[Seen]:
    if scenario.algorithm.goes_on:
        text = f"got {scenario.algorithm.kind}, whose clients compute after their replies"
        yield "algorithm.kind", f"{text}: they cannot be replayed; that {_AGAIN}"


def _of_time(scenario: Scenario, clients: int) -> Iterator[Seen]:
    """Yield the settings that let a round close before all clients have replied."""
    policy, silence = scenario.participation, scenario.silence
    if silence.closes_after < inf:
        text = f"got {silence.kind}: the replies in time decide the aggregate of a round"
        yield "silence.kind", text
    if policy.asynchronous:
        text = f"got {policy.kind}: the order of arrival decides what happens"
        yield "participation.kind", text
    if isinstance(policy, Informed) and not policy.by_schedule:
        text = f"got {policy.kind}: replies, their times or reports decide which clients are asked"
        yield "participation.kind", f"{text}; that {_AGAIN}"
    early = [*policy.early()]
    for key, seen, decides in early:
        yield f"participation.{key}", f"got {seen}: {decides} the aggregate of a round"
    if not (early or policy.asynchronous) and _goes_on(policy.among(clients), clients):
        yield "participation.kind", f"got {policy.kind}: {FIRST} the aggregate of a round"
    if policy.least_charge:
        text = f"got {100 * policy.least_charge:g} %: batteries decide which clients take part"
        yield "participation.least_charge", text


def _goes_on(policy: Participation, clients: int) -> bool:
    """Return whether a round may close without some sampled clients, by a rule without a key."""
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
    """Yield the readings of the method that may differ now."""
    kind = scenarios[-1].algorithm.kind
    if "now" in looks:
        yield "algorithm.kind", f"got {kind}, which has read the clock; that {_AGAIN}"
    powered = any(group.battery for scenario in scenarios for group in scenario.fleet)
    if "battery" in looks and powered:
        yield (
            "algorithm.kind",
            f"got {kind}, which has read a battery's charge; that {_AGAIN}",
        )
