"""Patience: how long a round may take before a server that waits for a quorum gives it up.

Ten minutes are long for phones and short for sensors, whose radios are silent for most of an
hour. So what nobody has written follows from the fleet: it is `MANY` times what the slowest client
takes for a round at its best, and never less than `GIVE_UP`. A round that is given up although it
would have closed costs all its work, one that is waited for in vain costs time alone.
"""

from collections import Counter
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from fedsim.algorithms import Algorithm
from fedsim.building.fleet import BuiltGroup
from fedsim.building.job import Job
from fedsim.physics.radios.rates import over
from fedsim.physics.topology import Route, Topology
from fedsim.problems import LocalLoss
from fedsim.wire import HEADER_BITS, Dense

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
    def patience(self) -> float:
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
        else _shared(topology, bits, job.participation.asked)
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


def _shared(topology: Topology, bits: int, asked: int | None) -> list[float]:
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
