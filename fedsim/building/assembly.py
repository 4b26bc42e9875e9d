"""Assembly: a world's `Setup` from what a scenario says of it and what happens in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from fedsim.building.surroundings import Surroundings
from fedsim.computing import Evaluator, OneByOne
from fedsim.ports import Array, ClientId, Oracle, Packer
from fedsim.protocol.carriage import VALUES, Carriage
from fedsim.protocol.participation import Participation
from fedsim.scenario import Scenario
from fedsim.sim.on_demand import Runs
from fedsim.sim.roster import Roster
from fedsim.sim.setup import Member, Method, Setup
from fedsim.streams import stream
from fedsim.wire import HEADER_BITS


@dataclass(frozen=True, slots=True)
class Numerics:
    """What is computed in a world, whatever the fleet and the network; as `Setup` has it.

    Attributes:
        algorithm: configured, or what takes its place.
        oracles: the clients' losses, in order.
        initial, smoothness, weights, samples: of the problem.
        evaluate, optimum, measures: what is said of a model.
        packer_up, packer_down: make the packers of the clients and of the server.
        evaluator: who does the work.
        carriage: how messages are carried.
    """

    algorithm: Method
    oracles: Sequence[Oracle]
    initial: Array
    smoothness: Callable[[], Array]
    weights: Array | None
    samples: Array
    evaluate: Callable[[Array], float]
    optimum: float
    measures: Sequence[Callable[[Array], Mapping[str, float]]]
    packer_up: Callable[[ClientId, str, int], Packer]
    packer_down: Callable[[str, int], Packer]
    evaluator: Evaluator = field(default_factory=OneByOne)
    carriage: Carriage = VALUES


def assemble(
    scenario: Scenario,
    seed: int,
    around: Surroundings,
    policy: Participation,
    numerics: Numerics,
) -> Setup:
    """Return everything that a world is made of.

    Args:
        scenario: what was written.
        seed: of all random streams.
        around: the fleet and the network that were built of it.
        policy: who is asked, and when a round closes.
        numerics: what is computed.
    """
    return Setup(
        algorithm=numerics.algorithm,
        fleet=_roster(around, numerics.oracles, seed),
        initial=numerics.initial,
        smoothness=numerics.smoothness,
        weights=numerics.weights,
        samples=numerics.samples,
        evaluate=numerics.evaluate,
        optimum=numerics.optimum,
        measures=numerics.measures,
        packer_up=numerics.packer_up,
        packer_down=numerics.packer_down,
        evaluator=numerics.evaluator,
        carriage=numerics.carriage,
        header_bits=HEADER_BITS,
        rng=partial(stream, seed),
        topology=around.topology,
        overlay=around.overlay,
        sharing=scenario.network.model,
        cells=scenario.network.broadcast == "cell",
        silence=scenario.silence,
        participation=policy,
        stop=scenario.stop,
    )


def _roster(around: Surroundings, oracles: Sequence[Oracle], seed: int) -> Roster:
    """Return the clients: one of each group, and the others when they are asked for."""

    def member(client: ClientId) -> Member:
        return around.makes[around.members[client]].member(client, oracles[client], seed)

    runs: list[tuple[int, Member]] = []
    client = 0
    for number, own in groupby(around.members):
        size = sum(1 for _ in own)
        each = size if around.makes[number].alike else 1
        runs += [(each, member(first)) for first in range(client, client + size, each)]
        client += size
    return Roster(Runs(runs), member)
