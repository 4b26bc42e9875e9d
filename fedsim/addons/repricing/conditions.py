"""Conditions: changes that need no new training, and logs that hold enough for them.

A run takes the same decisions under another fleet or network if no decision depends on the time of
an event: each round waits for every sampled client, all clients are always available, and the
method reads neither the clock nor a battery. Everything else is refused, with its key.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from fedsim.core.blocks.declared import reasons
from fedsim.core.blocks.nature import OF_DECISIONS
from fedsim.core.blocks.wording import show
from fedsim.core.errors import Fault
from fedsim.protocol.participation import FIRST, Participation
from fedsim.scenario import Scenario, Variant
from fedsim.scenario.tiers import hierarchy_of, place_key

PRICED = ("name", "fleet", "network", "infrastructure", "stop")
"""The blocks that may change: they have no effect on training."""

TRAINED = ("count", "rounds", "outer", "wire", "participation")
"""The keys of a tier that may not change; its other keys describe its gateways."""

NO_OVERRIDE = (
    "nothing is changed: expected --set with keys of fleet, network, infrastructure or stop, such"
    " as --set fleet.0.radio=nb-iot, --set fleet.0.device=pi-4 or --set infrastructure=mobile"
)
"""The message of `fedsim reprice` without an override."""

_AGAIN = "needs training again: fedsim run"

Seen = tuple[str, str]
"""A key, and the reason why a log cannot be re-priced with its value."""


def refusals(then: Scenario, now: Variant, clients: int, looks: Sequence[str]) -> Iterator[Fault]:
    """Yield the reasons why a run cannot be re-priced.

    Args:
        then: the scenario of the run.
        now: the changed one.
        clients: the number of clients of the run.
        looks: the ports that the method has read: "battery", "now".
    """
    scenario = now.scenario
    departures = [
        *_changes(then, scenario),
        *_of_peers(scenario),
        *_of_decisions(scenario, clients),
        *_clock_and_battery((then, scenario), looks),
    ]
    if scenario.fleet and scenario.clients != clients:
        departures.append(("fleet", f"got {scenario.clients} clients, but the log has {clients}"))
    for key, text in departures:
        yield now.fault(key, text)


def _changes(then: Scenario, now: Scenario) -> Iterator[Seen]:
    """Yield changes outside of the blocks that may change."""
    # Only tiers that both have are compared in detail; a different number is a difference by
    # itself.
    tiers = min(len(then.tiers), len(now.tiers))
    before, after = (_values_of_training(scenario, tiers) for scenario in (then, now))
    for key, value, logged in _differences(after, before):
        yield key, f"got {show(value)}, but the run had {show(logged)}; that {_AGAIN}"


def _values_of_training(scenario: Scenario, tiers: int) -> dict[str, Any]:
    """Return the values of a scenario that affect training, by key, with its first tiers."""
    values = scenario.model_dump(mode="json", exclude={*PRICED, "tiers"})
    own = {
        f"tiers.{number}": tier.model_dump(mode="json", include={*TRAINED})
        for number, tier in enumerate(scenario.tiers[:tiers])
    }
    return {**values, "tiers": len(scenario.tiers), **own, "fleet.attack": _attacks(scenario)}


def _attacks(scenario: Scenario) -> list[tuple[int, Any]]:
    """Return the numbers of neighbouring clients with one attack, and that; empty without any."""
    written = [group.attack and group.attack.model_dump(mode="json") for group in scenario.fleet]
    if not any(written):
        return []
    runs = groupby(zip(written, scenario.fleet, strict=True), itemgetter(0))
    return [(sum(group.count for _, group in run), attack) for attack, run in runs]


def _differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
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


def _of_decisions(scenario: Scenario, clients: int) -> Iterator[Seen]:
    """Yield settings by which times affect training, for every server."""
    for key, why in reasons(scenario, OF_DECISIONS):
        yield key, f"{why}; that {_AGAIN}"
    for number, size in enumerate(hierarchy_of(scenario, clients).sizes):
        policy = scenario.participation if not number else scenario.tiers[number - 1].participation
        if not (policy.asynchronous or any(policy.early())) and any(
            _goes_on(policy.among(nodes), nodes) for nodes in size
        ):
            key = "participation.kind"
            text = f"got {policy.kind}: {FIRST} the aggregate of a round; that {_AGAIN}"
            yield (place_key(number - 1, key) if number else key), text


def _goes_on(policy: Participation, clients: int) -> bool:
    """Return whether the method itself may close a round without some sampled clients."""
    cohort = clients if policy.asked is None else min(policy.asked, clients)
    return policy.goal(cohort) < cohort


def _clock_and_battery(scenarios: Sequence[Scenario], looks: Sequence[str]) -> Iterator[Seen]:
    """Yield ports that the method has read and whose values may differ now."""
    kind = scenarios[-1].algorithm.kind
    if "now" in looks:
        yield "algorithm.kind", f"got {kind}, which has read the clock; that {_AGAIN}"
    groups = [group for scenario in scenarios for group in (*scenario.fleet, *scenario.tiers)]
    powered = any(group.battery for group in groups)
    # A method that reads the charge gets None on mains, whatever the fleet: without batteries the
    # answer cannot differ.
    if "battery" in looks and powered:
        yield (
            "algorithm.kind",
            f"got {kind}, which has read a battery's charge; that {_AGAIN}",
        )
