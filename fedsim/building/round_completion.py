"""Round completion: checks that every round ends, whatever messages are lost for good."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from fedsim.algorithms import Algorithm
from fedsim.building.feasibility import deadline
from fedsim.building.fleet import BuiltGroup
from fedsim.building.inputs import Findings
from fedsim.building.job import Deployment, Job
from fedsim.physics.radios.rates import over
from fedsim.physics.topology import Route, Topology
from fedsim.ports import ClientId, node_name
from fedsim.problems import LocalLoss
from fedsim.protocol.participation import Participation
from fedsim.scenario import Scenario
from fedsim.wire import HEADER_BITS, Dense


def closing(
    scenario: Scenario,
    groups: Sequence[BuiltGroup],
    policy: Participation,
    findings: Findings,
    patience: Callable[[], float],
    deployment: Deployment,
) -> Participation:
    """Return a policy under which every round is over some time.

    A quorum, or more clients than are needed, makes do without some messages, not without any
    number of them: such rounds are given up after a while. Where a round waits for all, one
    message that is lost for good is enough, and the scenario has to say what it wants.

    Args:
        scenario: what was written.
        groups: of the fleet's groups.
        policy: what was written of participation.
        findings: takes what would wait for ever for a message that is lost for good.
        patience: says after how long a round is given up where nothing is said, s; asked only
            where one might never close.
        deployment: the links, which may lead through clients that go.
    """
    losing = [group for group in groups if _lose(group, scenario)]
    _check_notice(groups, scenario, policy, findings)
    relay = relayed_by(deployment)
    if scenario.network.peers is not None:
        _check_peers(losing, scenario, findings)
        if relay and deadline(scenario)[1] == inf:
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
    """Find clients that may go and that a server waits for without ever noticing that."""
    if (
        policy.noticed != "deadline"
        or policy.round_timeout < inf
        or _surely_closes(scenario, policy)
    ):
        return
    for group in groups:
        if group.spec.battery is not None or not group.spec.availability.always:
            text = (
                f"got deadline, but no deadline closes every round: {group.name} may go, and the"
                " server would wait for it for ever; give participation.deadline without a quorum,"
                " or participation.give_up"
            )
            findings.add("participation.noticed", text)
            return


def _by_relay(relay: str, remedy: str) -> str:
    """Say that a round would wait for ever for what a relay has lost, and what helps."""
    return (
        f"missing: {relay} forwards the messages of other clients and may go, so that they would be"
        f" lost, and nothing would close a round that waits for one; give {remedy}, or edges that"
        " lead round it"
    )


def _check_peers(losing: Sequence[BuiltGroup], scenario: Scenario, findings: Findings) -> None:
    """Find messages that a neighbour would wait for without end."""
    for group in losing if deadline(scenario)[1] == inf else ():
        text = (
            f"a message of {group.name} that is lost for good would be waited for without end; give"
            " participation.deadline, or send packets again without limit"
        )
        findings.add(f"fleet.{group.number}.radio.tries", text)


def _lose(group: BuiltGroup, scenario: Scenario) -> bool:
    """Say whether a message of a group can be lost for good."""
    cell = scenario.network.broadcast == "cell"
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
    """Say that a round would wait for ever, and what helps."""
    lost = f"a message of {group.name} can be lost for good"
    if policy.asynchronous:
        way_out = (
            "an asynchronous server would wait for it for ever; say when to ask anew, such as"
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
        findings.add(f"fleet.{group.number}.radio.tries", text)
    else:
        text = f"{lost}, for what a cell hears is not sent again, and {way_out}, or use unicast"
        findings.add("network.broadcast", text)


# Patience: how long a round may take before a server that waits for a quorum gives it up.
#
# Ten minutes are long for phones and short for sensors, whose radios are silent for most of an
# hour. So the default follows from the fleet: it is `MANY` times what the slowest client takes for
# a round at its best, and never less than `GIVE_UP`. A round that is given up although it would
# have closed costs all its work, one that is waited for in vain costs time alone.

GIVE_UP = 600.0
"""When a round is given up where nothing is said, at the least, s."""

MANY = 10
"""How many times over the slowest client's best round is waited for."""


@dataclass(frozen=True)
class Slowest:
    """The client of a fleet that takes longest for a round at its best.

    Attributes:
        name: of its group.
        seconds: what it takes, as `slowest` adds it up.
    """

    name: str
    seconds: float

    @property
    def round_timeout(self) -> float:
        """After how long a round is given up: whole minutes, s."""
        if self.seconds == inf:  # a link that carries nothing, which is refused elsewhere
            return GIVE_UP
        return max(GIVE_UP, 60.0 * ceil(MANY * self.seconds / 60))


def slowest(job: Job) -> Slowest:
    """Return the slowest client: it hears the model, works on it, and sends one like it.

    The model goes uncompressed. A link that others use carries theirs as well; a packet is sent as
    often as it is on average; traces and duty cycles are taken in the long run.
    """
    members, groups, topology, _ = job.deployment
    initial = np.zeros(job.problem.dimension)
    bits = Dense.of(initial, job.scenario.wire.values).bits + HEADER_BITS
    alone = [_on_air(group, bits) for group in groups]
    busy = (
        [0.0] * len(members)
        if topology is None
        else _link_times(topology, bits, job.participation.asked)
    )
    spans = [
        _work(job.algorithm, loss, groups[number])
        + alone[number]
        + shared * groups[number].radio.transmissions
        for number, loss, shared in zip(members, job.problem.losses, busy, strict=True)
    ]
    last = int(np.argmax(spans))
    return Slowest(groups[members[last]].name, spans[last])


def _work(algorithm: Algorithm, loss: LocalLoss, group: BuiltGroup) -> float:
    """Return the seconds of that work: of gradients of so many samples."""
    samples = algorithm.samples_per_round(loss.rows)
    return group.device.seconds(loss.gradient_operations * samples / loss.rows, samples)


def _on_air(group: BuiltGroup, bits: int) -> float:
    """Return the seconds in which a client's own radio takes a message in, and sends one."""
    radio = group.radio
    framed = bits + radio.packaging.bits(bits)
    ways = sum(law.seconds(bits, framed) for law in (group.rates.down, group.rates.up))
    states = radio.states
    waits = 2 * (radio.latency + states.stages[-1].wake_time) + states.longest_wait
    return ways * radio.transmissions + waits


def _link_times(topology: Topology, bits: int, asked: int | None) -> list[float]:
    """Return what the links of each client take for the messages of all that use them, s."""
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
    if topology is None or topology.paths is None:
        return
    for route in (*topology.up, *topology.down):
        yield from route.relays
    if overlay is not None:
        for node, neighbours in enumerate(overlay.neighbours):
            for other in neighbours:
                yield from topology.between(node, other).relays


def relayed_by(deployment: Deployment) -> str:
    """Return the first relay that may go, by its name; empty where none may."""
    mortal = {
        group.number
        for group in deployment.groups
        if group.spec.battery is not None or not group.spec.availability.always
    }
    if not mortal:  # routes are found one by one: not where nothing hangs on them
        return ""
    for client in sorted(relays_of(deployment)):
        if (number := deployment.members[client]) in mortal:
            return f"{node_name(client)} ({deployment.groups[number].name})"
    return ""


def check_broadcast(scenario: Scenario, deployment: Deployment, findings: Findings) -> None:
    """Find cells of a graph whose broadcast would have to be forwarded to one of its listeners."""
    if scenario.network.broadcast != "cell" or deployment.topology is None:
        return
    relays = {client for route in deployment.topology.down for client in route.relays}
    if relays:
        text = (
            f"{node_name(min(relays))} forwards what the server sends to others, so that they do"
            " not hear one transmission; use network.broadcast: unicast"
        )
        findings.add("network.broadcast", text)
