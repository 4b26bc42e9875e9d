"""Checks of tiers: gateways between clients and server that average models."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from fedsim.algorithms import ALGORITHMS
from fedsim.algorithms.local_training import LocalUpdates
from fedsim.algorithms.tiers import keys_of_clients, why_not_inner, why_not_outer
from fedsim.physics.hierarchy import Hierarchy, hierarchy
from fedsim.physics.network_models import FluidFlows, Lv08
from fedsim.protocol.aggregation import Mean
from fedsim.protocol.silence import BeaconSilence
from fedsim.scenario.compatibility import Conflict
from fedsim.scenario.specs import FROM_DATA, ScenarioKeys

Keys = TypeVar("Keys", bound=ScenarioKeys)


def hierarchy_of(scenario: ScenarioKeys, clients: int) -> Hierarchy:
    """Return the levels of the hierarchy that a scenario's tiers form above a number of clients."""
    return hierarchy(clients, [tier.count for tier in scenario.tiers])


def hop(scenario: Keys, number: int) -> Keys:
    """Return the scenario that describes one hop: gateways of a tier, and the server above them.

    The gateways are its fleet. The method, wire and participation of the server above are its own.
    So every check of a scenario can also be applied to a hop.

    Args:
        scenario: a scenario with tiers.
        number: the number of the tier, from 0, the one next to the clients.
    """
    tier = scenario.tiers[number]
    settings = {
        "algorithm": tier.outer,
        "wire": tier.wire,
        "participation": tier.participation,
        "aggregation": Mean(),
        "silence": BeaconSilence(),
        "fleet": (tier,),
        "tiers": (),
    }
    return scenario.model_copy(update=settings)


_PLACES = {"algorithm.": "outer.", "fleet.0.": ""}
"""Prefixes of keys in a hop's scenario that the tier has under another name."""


def place_key(number: int, key: str) -> str:
    """Return the key in the scenario that corresponds to a key in a hop's scenario.

    >>> place_key(1, "fleet.0.radio.tries"), place_key(0, "wire.up.compressor.kind")
    ('tiers.1.radio.tries', 'tiers.0.wire.up.compressor.kind')
    """
    for old, new in _PLACES.items():
        if key.startswith(old):
            key = new + key.removeprefix(old)
    return f"tiers.{number}.{key}"


def tiering(
    scenario: ScenarioKeys, checks: Sequence[Callable[[ScenarioKeys], Iterator[Conflict]]]
) -> Iterator[Conflict]:
    """Yield conflicts of tiers, and between the gateways of a tier and the server above.

    Args:
        scenario: a scenario with or without tiers.
        checks: functions that yield the conflicts of a server and its clients; applied to each hop.
    """
    faults = list(_unfit(scenario)) if scenario.tiers else []
    yield from faults
    for number in range(len(scenario.tiers)):
        hop_scenario = hop(scenario, number)
        for check in checks:
            for key, text, seen in check(hop_scenario):
                message = text.replace("fleet.0.", f"tiers.{number}.")
                yield place_key(number, key), message, seen
    if scenario.tiers and scenario.clients and not faults:
        yield from asking_too_many(scenario, scenario.clients)


def asking_too_many(scenario: ScenarioKeys, clients: int) -> Iterator[Conflict]:
    """Yield numbers of nodes per round that exceed the nodes below some server."""
    sizes = hierarchy_of(scenario, clients).sizes
    policies = [("", scenario.participation)]
    policies += [(f"tiers.{n}.", tier.participation) for n, tier in enumerate(scenario.tiers)]
    for (place, policy), (nodes, _) in zip(policies, sizes, strict=True):
        for key, seen in policy.counts.items():
            if seen > nodes:
                text = f"got {seen}, but some server has {nodes} below it (tiers)"
                yield f"{place}participation.{key}", f"{text}; give {nodes} or less", seen


def _unfit(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield settings that tiers do not support; see `fedsim.algorithms.tiers`."""
    method = scenario.algorithm
    if reason := why_not_inner(method):
        able = ", ".join(ALGORITHMS.where(_averages))
        text = f"got {method.kind}, which gateways (tiers) cannot run: {reason}; take one of {able}"
        yield "algorithm.kind", text, method.kind
    if scenario.participation.asynchronous:
        kind = scenario.participation.kind
        yield "participation.kind", f"got {kind}, but gateways (tiers) have rounds; use full", kind
    data = scenario.problem.data
    if data is not None and data.exchanges_fit:
        text = "got exchange, but between clients and server are gateways (tiers); take all"
        yield "problem.data.fit", text, "exchange"
    yield from _network(scenario)
    yield from _numbers(scenario)
    yield from _parting(scenario)
    for number, tier in enumerate(scenario.tiers):
        if reason := why_not_outer(tier.outer):
            kind = tier.outer.kind
            text = f"got {kind}, which a server cannot run with gateways: {reason}; take fedavg"
            yield f"tiers.{number}.outer.kind", text, kind
        for key in keys_of_clients(tier.outer):
            text = "a gateway's rounds take the place of local steps; leave it out"
            yield f"tiers.{number}.outer.{key}", text, getattr(tier.outer, key)
        if tier.participation.asynchronous:
            kind = tier.participation.kind
            text = f"got {kind}, but tiers have rounds; use full"
            yield f"tiers.{number}.participation.kind", text, kind


def _averages(method: type[object]) -> bool:
    """Return whether gateways can run a class of methods, as far as its attributes show."""
    if not issubclass(method, LocalUpdates) or method.asynchronous:
        return False
    # Gateways cannot hold a client's own model or memory across rounds.
    own = method.own_model is not LocalUpdates.own_model
    return not own and method.memory is LocalUpdates.memory


def _network(scenario: ScenarioKeys) -> Iterator[Conflict]:
    network = scenario.network
    if network.topology != "star":
        text = f"got {network.topology}, but tiers have links of their own (tiers.0.link); use star"
        yield "network.topology", text, network.topology
    if network.broadcast != "unicast":
        text = f"got {network.broadcast}, but a gateway (tiers) sends to each below it; use unicast"
        yield "network.broadcast", text, network.broadcast
    if not isinstance(network.model, FluidFlows | Lv08):
        kind = network.model.kind
        text = f"got {kind}, whose messages lead to one server, and there are gateways (tiers)"
        yield "network.model", f"{text}; use fluid", kind
    for key, shared in (
        ("wifi", network.wifi),
        ("lora", network.gateway_of_lora),
        ("cell", network.cell_sharing),
    ):
        if shared is not None:
            text = "got a cell around one server, and there are gateways (tiers); leave it out"
            yield f"network.{key}", text, shared


def _parting(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield EF21 below gateways that may leave, since both ends have to receive every message.

    A message to a gateway that is off is lost, and its sender is not notified.
    """
    hops = [("", scenario.wire), *((f"tiers.{n}.", t.wire) for n, t in enumerate(scenario.tiers))]
    # The hop of the same number is the one below the tier's gateways.
    for number, (tier, (place, wire)) in enumerate(zip(scenario.tiers, hops, strict=False)):
        if tier.battery is None and tier.availability.always:
            continue
        key = "availability" if tier.battery is None else "battery"
        for way, link in (("up", wire.up), ("down", wire.down)):
            if link.error_feedback == "ef21":
                text = f"got ef21, whose states would differ once a gateway leaves (tiers.{number}"
                yield f"{place}wire.{way}.error_feedback", f"{text}.{key}); use ef or none", "ef21"


def _numbers(scenario: ScenarioKeys) -> Iterator[Conflict]:
    below, what = scenario.clients, "clients"
    for number, tier in enumerate(scenario.tiers):
        if tier.count == FROM_DATA:
            text = "got data, but gateways do not come from the data; give their number"
            yield f"tiers.{number}.count", text, "data"
            return
        if below and tier.count > below:
            text = f"got {tier.count}, but there are {below} {what} below; give that or less"
            yield f"tiers.{number}.count", text, tier.count
            return
        below, what = tier.count, "gateways"
