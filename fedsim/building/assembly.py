"""Assembly: a world's `Setup` from what a scenario says of it and what happens in it."""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from itertools import groupby

from fedsim.building.deployment import Deployment
from fedsim.ports import ClientId, Oracle
from fedsim.problems.programs import reports
from fedsim.protocol.participation import Participation
from fedsim.scenario import Scenario
from fedsim.sim.on_demand import Runs
from fedsim.sim.roster import Roster
from fedsim.sim.setup import Member, Numerics, Setup
from fedsim.streams import stream
from fedsim.wire import HEADER_BITS


def assemble(
    scenario: Scenario,
    seed: int,
    deployment: Deployment,
    policy: Participation,
    oracles: Sequence[Oracle],
    numerics: Numerics,
) -> Setup:
    """Return everything that a world is made of.

    Args:
        scenario: what was written.
        seed: of all random streams.
        deployment: the fleet and the network that were built of it.
        policy: who is asked, and when a round closes.
        oracles: the clients' losses, in order.
        numerics: what is computed.
    """
    return Setup(
        # Not `asdict`, which would copy every array and block in it.
        **{each.name: getattr(numerics, each.name) for each in fields(numerics)},
        fleet=_roster(deployment, oracles, seed),
        header_bits=HEADER_BITS,
        rng=partial(stream, seed),
        topology=deployment.topology,
        overlay=deployment.overlay,
        sharing=scenario.network.model,
        cells=scenario.network.broadcast == "cell",
        silence=scenario.silence,
        participation=policy,
        stop=scenario.stop,
        observe=scenario.observe,
        higher=_higher(scenario),
    )


def _higher(scenario: Scenario) -> frozenset[str]:
    """Return the columns of which more is better."""
    own = frozenset(name for name, more in reports(scenario.problem.loss).items() if more)
    return own.union(*(each.higher for each in scenario.measures))


def _roster(deployment: Deployment, oracles: Sequence[Oracle], seed: int) -> Roster:
    """Return the clients: one of each group, and the others when they are asked for."""

    def member(client: ClientId) -> Member:
        return deployment.groups[deployment.members[client]].member(client, oracles[client], seed)

    runs: list[tuple[int, Member]] = []
    client = 0
    for number, own in groupby(deployment.members):
        size = sum(1 for _ in own)
        each = size if deployment.groups[number].alike else 1
        runs += [(each, member(first)) for first in range(client, client + size, each)]
        client += size
    return Roster(Runs(runs), member)
