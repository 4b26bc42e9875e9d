"""Round completion: checks that every round ends, whatever messages are lost for good."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from fedsim.algorithms import Algorithm
from fedsim.core.ports import ClientId, node_name
from fedsim.physics.radios.lora import LoRaRadio
from fedsim.physics.radios.rates import over
from fedsim.physics.topology import Route, Topology
from fedsim.problems import LocalLoss
from fedsim.protocol.participation import Participation
from fedsim.scenario import Scenario
from fedsim.scenario.building.deployment import Deployment
from fedsim.scenario.building.feasibility import deadline
from fedsim.scenario.building.fleet import BuiltGroup
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.building.job import Job
from fedsim.scenario.building.lora import loses_frames, window_wait
from fedsim.wire import HEADER_BITS, Dense


def ensure_completion(
    scenario: Scenario,
    groups: Sequence[BuiltGroup],
    policy: Participation,
    findings: Findings,
    patience: Callable[[], float],
    deployment: Deployment,
) -> Participation:
    """Return a policy under which every round ends.

    A policy with a quorum, or with spare clients, tolerates some lost messages, but not any number
    of them: its rounds get a timeout. If a round waits for all clients, a single lost message
    blocks it for ever, and the scenario has to state what should happen then.

    Args:
        scenario: the scenario.
        groups: the groups of its fleet.
        policy: its participation policy.
        findings: collects settings under which a round could wait for ever.
        patience: returns the default timeout of a round, s; called only if one might never close.
        deployment: the links, whose routes may pass clients that leave.
    """
    losing = [group for group in groups if _loses_messages(group, scenario)]
    _check_notice(groups, scenario, policy, findings)
    relay = leaving_relay(deployment)
    if scenario.network.peers is not None:
        if deadline(scenario)[1] == inf:
            _check_peers(losing, scenario, findings)
            _check_moving(deployment, findings)
            _check_links(groups, deployment, findings)
            if relay:
                findings.add("participation.deadline", _by_relay(relay, "participation.deadline"))
        return policy
    clients = sum(group.spec.count for group in groups)
    if not (losing or relay) or policy.round_timeout < inf or _surely_closes(scenario, policy):
        return policy
    if _may_close(scenario, policy, min(policy.asked or clients, clients)):
        return policy.model_copy(update={"give_up": patience()})
    for group in losing:
        _refuse(group, policy, findings, patience)
    if relay:
        remedy = "participation.give_up, or a participation.deadline"
        findings.add("participation.give_up", _by_relay(relay, remedy))
    return policy


def _check_notice(
    groups: Sequence[BuiltGroup],
    scenario: Scenario,
    policy: Participation,
    findings: Findings,
) -> None:
    """Register clients that may leave without the server ever noticing."""
    if (
        policy.noticed != "deadline"
        or policy.round_timeout < inf
        or _surely_closes(scenario, policy)
    ):
        return
    for group in groups:
        if group.spec.battery is not None or not group.spec.availability.always:
            text = (
                f"got deadline, but no deadline closes every round: {group.name} may leave, and the"
                " server would wait for it for ever; add participation.deadline without a quorum,"
                " or participation.give_up"
            )
            findings.add("participation.noticed", text)
            return


def _by_relay(relay: str, remedy: str) -> str:
    """Return the message for rounds that would wait for ever for a relay's lost messages."""
    return (
        f"missing: {relay} forwards the messages of other clients and may leave, so that they would"
        f" be lost, and nothing would close a round that waits for one; add {remedy}, or edges that"
        " bypass it"
    )


def _check_peers(losing: Sequence[BuiltGroup], scenario: Scenario, findings: Findings) -> None:
    """Register messages for which a neighbour would wait for ever."""
    medium = scenario.network.medium
    if medium is not None and medium.random and losing:
        text = f"got {medium.tries}, after which a message is lost, and a neighbour would wait for"
        remedy = "it for ever; add participation.deadline, or use tries: unlimited"
        findings.add("network.medium.tries", f"{text} {remedy}")
        return
    for group in losing:
        text = (
            f"a neighbour would wait for ever for a message of {group.name} that is lost for good;"
            " add participation.deadline, or unlimited tries"
        )
        findings.add(f"{group.place}.radio.tries", text)


def _check_moving(deployment: Deployment, findings: Findings) -> None:
    """Register a medium among moving nodes: messages are lost as a node leaves the range."""
    if deployment.medium is not None and deployment.medium.moves is not None:
        text = "missing: nodes go out of range, which loses messages under network.medium, and a"
        remedy = "neighbour would wait for one for ever; give a time after which it does not"
        findings.add("participation.deadline", f"{text} {remedy}")


def _check_links(groups: Sequence[BuiltGroup], deployment: Deployment, findings: Findings) -> None:
    """Register messages among peers that links lose for good, since tries are limited."""
    limited = [group for group in groups if group.radio.most_tries is not None]
    over = _over_lossy_links(deployment) if limited else set[int]()
    for group in limited:
        if group.number not in over or group.radio.loss.mean:
            continue  # losses of the radio are registered by `_check_peers`
        text = (
            f"a message of {group.name} may be lost for good on a link (loss), and a neighbour"
            " would wait for it for ever; add participation.deadline, or unlimited tries"
        )
        findings.add(f"{group.place}.radio.tries", text)


def _over_lossy_links(deployment: Deployment) -> set[int]:
    """Return the groups that send to a neighbour over links that lose packets."""
    topology, overlay = deployment.topology, deployment.overlay
    if topology is None or overlay is None or not topology.lossy:
        return set()
    pairs = overlay.pairs()
    return {deployment.members[one] for one, other in pairs if topology.between(one, other).loss}


def _loses_messages(group: BuiltGroup, scenario: Scenario) -> bool:
    """Return whether a message of a group can be lost for good."""
    medium = scenario.network.medium
    if medium is not None and medium.random:
        return medium.most_tries is not None
    cell = scenario.network.broadcast == "cell" or medium is not None
    if loses_frames(group.radio, scenario.network.gateway_of_lora):
        return True
    return group.radio.loss.mean > 0 and (group.radio.most_tries is not None or cell)


def _surely_closes(scenario: Scenario, policy: Participation) -> bool:
    """Return whether a deadline closes every round, regardless of missing reports."""
    return not policy.asynchronous and deadline(scenario)[1] < inf and policy.least(1) == 0


def _may_close(scenario: Scenario, policy: Participation, asked: int) -> bool:
    """Return whether a round can close although a client never reports."""
    if policy.asynchronous:
        return False
    if deadline(scenario)[1] < inf:
        return policy.least(asked) < asked
    return policy.goal(asked) < asked


def _refuse(
    group: BuiltGroup, policy: Participation, findings: Findings, patience: Callable[[], float]
) -> None:
    """Register that a round would wait for ever, with remedies."""
    lost = f"a message of {group.name} can be lost for good"
    if policy.asynchronous:
        way_out = (
            "an asynchronous server would wait for it for ever; add a timeout, such as"
            f" participation.give_up: {patience() / 60:g} min"
        )
    else:
        way_out = (
            "nothing would close a round that waits for it; add participation.deadline,"
            " participation.give_up, or a quorum that can do without one client"
        )
    if group.radio.most_tries is not None:
        tries = f"{group.radio.tries} {'try' if group.radio.tries == 1 else 'tries'}"
        text = f"{lost}, after {tries}, and {way_out}, or use tries: unlimited"
        findings.add(f"{group.place}.radio.tries", text)
    elif isinstance(group.radio, LoRaRadio) and group.radio.end_device.shadowing:
        text = f"{lost}, if its shadow is too deep, and {way_out}, or no shadowing"
        findings.add(f"{group.place}.radio.lorawan.shadowing", text)
    else:
        text = f"{lost}, since a broadcast is not retransmitted, and {way_out}, or use unicast"
        findings.add("network.broadcast", text)


# The default timeout of a round, after which a server that waits for a quorum abandons it.
#
# Ten minutes are long for phones and short for sensors, whose radios are silent for most of an
# hour. So the default follows from the fleet: it is `MANY` times the shortest possible round of the
# slowest client, and at least `GIVE_UP`. It errs on the long side: a round that is abandoned
# although it would have closed loses all of its work, one that cannot close loses only time.

GIVE_UP = 600.0
"""Least default timeout of a round, s."""

MANY = 10
"""The default timeout in shortest rounds of the slowest client."""


@dataclass(frozen=True)
class Slowest:
    """The client of a fleet with the longest shortest-possible round.

    Attributes:
        name: the name of its group.
        seconds: the time of that round, s.
    """

    name: str
    seconds: float

    @property
    def round_timeout(self) -> float:
        """The default timeout, a whole number of minutes, s."""
        if self.seconds == inf:  # a link of rate 0, which is refused elsewhere
            return GIVE_UP
        return max(GIVE_UP, 60.0 * ceil(MANY * self.seconds / 60))


def slowest(job: Job) -> Slowest:
    """Return the slowest client, for a round of download, computation and upload."""
    spans = round_seconds(job)
    last = int(np.argmax(spans))
    return Slowest(job.deployment.groups[job.deployment.members[last]].name, spans[last])


def round_seconds(job: Job) -> list[float]:
    """Return the time of a round of download, computation and upload of each client, s.

    The model is uncompressed both ways. A shared link carries the messages of all its users;
    packets are retransmitted as often as on average; traces and duty cycles count with their means.
    """
    members, groups, topology, *_ = job.deployment
    initial = np.zeros(job.sent_values)
    bits = Dense.of(initial, job.scenario.wire.values).bits + HEADER_BITS
    gateway = job.scenario.network.gateway_of_lora
    alone = [_on_air(group, bits) + window_wait(group.radio, gateway, bits) for group in groups]
    busy = (
        [0.0] * len(members)
        if topology is None
        else _link_times(topology, bits, job.participation.asked)
    )
    sharing = _clients_of_cell(job.scenario, len(members), job.participation.asked)
    air = _clients_of_air(job.scenario, len(members), job.participation.asked)
    alone = [
        seconds * (sharing if group.radio.cellular else air)
        for group, seconds in zip(groups, alone, strict=True)
    ]
    return [
        _work(job.algorithm, loss, groups[number])
        + alone[number]
        + shared * groups[number].radio.transmissions
        for number, loss, shared in zip(
            members, job.problem.losses, busy, strict=False
        )  # gateways have links, too
    ]


def _clients_of_cell(scenario: Scenario, clients: int, asked: int | None) -> float:
    """Return the factor on the time of a message in a full cell, relative to an empty one."""
    cell = scenario.network.cell_sharing
    if cell is None:
        return 1.0
    most = clients if asked is None else min(asked, clients)
    return min(cell.clients or most, most) / (1.0 - cell.load)


def _clients_of_air(scenario: Scenario, clients: int, asked: int | None) -> float:
    """Return the number of clients that share the air of a Wi-Fi cell."""
    law = scenario.network.wifi
    if law is None:
        return 1.0
    most = clients if asked is None else min(asked, clients)
    return min(ceil(clients / (law.cells or scenario.network.access_points or 1)), most)


def _work(algorithm: Algorithm, loss: LocalLoss, group: BuiltGroup) -> float:
    """Return the time of a client's work in a round, s."""
    samples = algorithm.samples_per_round(loss.rows)
    return group.device.seconds(loss.gradient_operations * samples / loss.rows, samples)


def _on_air(group: BuiltGroup, bits: int) -> float:
    """Return the time in which a client's radio receives a message and sends one, s."""
    radio = group.radio
    framed = bits + radio.packaging.bits(bits)
    ways = sum(law.seconds(bits, framed) for law in (group.rates.down, group.rates.up))
    states = radio.states
    waits = 2 * (radio.latency + states.stages[-1].wake_time) + states.longest_wait
    return ways * radio.transmissions + waits


def _link_times(topology: Topology, bits: int, asked: int | None) -> list[float]:
    """Return the time that each client's links need for the messages of all their users, s."""
    most = len(topology.up) if asked is None else asked
    users = Counter(link for route in (*topology.up, *topology.down) for link in route.links)
    spans = {
        link: over(topology.links[link].capacity.average, min(count, most) * bits)
        for link, count in users.items()
    }

    def taken(route: Route) -> float:
        return route.latency + sum(spans[link] for link in route.links)

    return [taken(up) + taken(down) for up, down in zip(topology.up, topology.down, strict=True)]


def relays_of(deployment: Deployment) -> set[ClientId]:
    """Return the clients that forward messages of others."""
    return set(_relays(deployment))


def _relays(deployment: Deployment) -> Iterator[ClientId]:
    topology, overlay = deployment.topology, deployment.overlay
    if deployment.medium is not None and overlay is not None:
        yield from deployment.medium.relays(overlay.pairs())
        return
    if topology is None or topology.paths is None:
        return
    for route in (*topology.up, *topology.down):
        yield from route.relays
    if overlay is not None:
        for node, other in overlay.pairs():
            yield from topology.between(node, other).relays


def leaving_relay(deployment: Deployment) -> str:
    """Return the name of the first relay that may leave; empty if none may."""
    mortal = {
        group.number
        for group in deployment.groups
        if group.spec.battery is not None or not group.spec.availability.always
    }
    if not mortal:  # computing routes takes long, and is unnecessary here
        return ""
    for client in sorted(relays_of(deployment)):
        if (number := deployment.members[client]) in mortal:
            return f"{node_name(client)} ({deployment.groups[number].name})"
    return ""


def check_broadcast(scenario: Scenario, deployment: Deployment, findings: Findings) -> None:
    """Register broadcasts in a graph that a relay would have to forward to other clients."""
    if scenario.network.broadcast != "cell" or deployment.topology is None:
        return
    relays = {client for route in deployment.topology.down for client in route.relays}
    if relays:
        text = (
            f"{node_name(min(relays))} forwards the server's messages to others, so that no single"
            " transmission reaches all; use network.broadcast: unicast"
        )
        findings.add("network.broadcast", text)
