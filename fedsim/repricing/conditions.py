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
from fedsim.scenario.tiers import hierarchy_of, hop, place_key

PRICED = ("name", "fleet", "network", "stop")
"""The blocks that may change: they have no effect on training."""

TRAINED = ("count", "rounds", "outer", "wire", "participation")
"""The keys of a tier that may not; its others are what its gateways are made of."""

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
        *_of_method(scenario),
        *_of_waiting(scenario, clients),
        *_clock_and_battery((then, scenario), looks),
    ]
    if scenario.fleet and scenario.clients != clients:
        seen.append(("fleet", f"got {scenario.clients} clients, but the log has {clients}"))
    for key, text in seen:
        yield now.fault(key, text)


def _changes(then: Scenario, now: Scenario) -> Iterator[Seen]:
    """Yield the changes outside of the blocks that may change."""
    tiers = min(len(then.tiers), len(now.tiers))
    before, after = (_values_of_training(each, tiers) for each in (then, now))
    for key, seen, logged in _differences(after, before):
        yield key, f"got {show(seen)}, but the run had {show(logged)}; that {_AGAIN}"


def _values_of_training(scenario: Scenario, tiers: int) -> dict[str, Any]:
    """Return what training sees of a scenario with its first tiers, by key."""
    seen = scenario.model_dump(mode="json", exclude={*PRICED, "tiers"})
    own = {
        f"tiers.{number}": tier.model_dump(mode="json", include={*TRAINED})
        for number, tier in enumerate(scenario.tiers[:tiers])
    }
    return {**seen, "tiers": len(scenario.tiers), **own}


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


def _of_waiting(scenario: Scenario, clients: int) -> Iterator[Seen]:
    """Yield the settings of every server by which a round may close without some nodes."""
    sizes = hierarchy_of(scenario, clients).sizes
    yield from _of_time(scenario, sizes[0])
    yield from _absences(scenario)
    for number, size in enumerate(sizes[1:]):
        own = hop(scenario, number)
        for key, text in (*_of_time(own, size), *_absences(own)):
            yield place_key(number, key), text


def _of_method(scenario: Scenario) -> Iterator[Seen]:
    if scenario.algorithm.goes_on:
        text = f"got {scenario.algorithm.kind}, whose clients compute after their replies"
        yield "algorithm.kind", f"{text}: they cannot be replayed; that {_AGAIN}"


def _of_time(scenario: Scenario, sizes: Sequence[int]) -> Iterator[Seen]:
    """Yield the settings that let a round close before all clients have replied.

    Args:
        scenario: with its servers' policies.
        sizes: the numbers of clients that a server may have.
    """
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
    on = any(_goes_on(policy.among(clients), clients) for clients in sizes)
    if not (early or policy.asynchronous) and on:
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
    groups = [group for each in scenarios for group in (*each.fleet, *each.tiers)]
    powered = any(group.battery for group in groups)
    if "battery" in looks and powered:
        yield (
            "algorithm.kind",
            f"got {kind}, which has read a battery's charge; that {_AGAIN}",
        )
