"""The knowledge of an informed policy about its fleet, and the view of an oracle."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from fedsim.core.ports import Array, Oracle, Work
from fedsim.physics.carbon import Intensity
from fedsim.physics.signals import Constant
from fedsim.protocol.participation import Informed, KnownFleet, Participation, Sent
from fedsim.protocol.reporting import first_vector
from fedsim.sim.config import WorldConfig
from fedsim.sim.fleet import Roster
from fedsim.sim.presence import Presence
from fedsim.sim.worlds.client_work import submit_work


class FleetGrid:
    """Implements `fedsim.protocol.participation.Intensities`: the intensities of a fleet.

    Args:
        runs: runs of clients with equal intensities: their number and the intensity.
    """

    def __init__(self, runs: Sequence[tuple[int, Intensity]]) -> None:
        self._counts = [count for count, _ in runs]
        self._signals = [intensity.signal for _, intensity in runs]

    def at(self, now: float) -> Array:
        """Return the intensity of each client at a time, g/kWh, shape (M,)."""
        return np.repeat([signal.at(now) for signal in self._signals], self._counts)

    def next_change(self, now: float) -> float:
        """Return the first time after `now` at which an intensity changes, s."""
        varying = (signal for signal in self._signals if not isinstance(signal, Constant))
        return min((signal.next_change(now) for signal in varying), default=np.inf)


class TrueState:
    """Implements `fedsim.protocol.participation.Truth`: the state of a simulated world.

    Args:
        setup: the configuration of the world.
        presence: gives access to batteries.
        nodes: the clients; all if omitted.
        seconds: returns the mean round time of each client by itself, s, shape (M,).
    """

    def __init__(
        self,
        setup: WorldConfig,
        presence: Presence,
        nodes: range | None = None,
        seconds: Callable[[], Array] | None = None,
    ) -> None:
        self._setup, self._presence = setup, presence
        self._roster = Roster.of(setup.fleet)
        self._nodes = range(len(self._roster)) if nodes is None else nodes
        self._seconds = seconds or cache(lambda: np.asarray(setup.round_seconds()))

    def of(self, nodes: range) -> "TrueState":
        """Return the state of some clients."""
        return TrueState(self._setup, self._presence, nodes, self._seconds)

    def losses(self, sent: Sent) -> Array:
        """Return every client's loss at the model in a message, shape (M,).

        Raises:
            TypeError: the message has no model.
        """
        return np.array([float(loss) for loss in self._evaluate(sent, lambda f, w: f.value(w))])

    def rms_losses(self, sent: Sent) -> Array:
        """Return the root mean square of every client's losses of samples, shape (M,).

        Raises:
            TypeError: the message has no model.
        """
        evaluations = self._evaluate(sent, lambda f, w: f.root_mean_square(w))
        return np.array([float(loss) for loss in evaluations])

    def norms(self, sent: Sent) -> Array:
        """Return the norm of every client's gradient at the model in a message, shape (M,).

        Raises:
            TypeError: the message has no model.
        """
        evaluations = self._evaluate(sent, lambda f, w: f.gradient(w))
        return np.array([float(np.linalg.norm(gradient)) for gradient in evaluations])

    def _evaluate(self, sent: Sent, work: Callable[[Oracle, Array], Work]) -> Iterator[Array]:
        """Yield an evaluation of each client's loss, at no simulated cost."""
        evaluator = self._setup.evaluator
        for client in self._nodes:
            message = sent[client] if isinstance(sent, Mapping) else sent
            w = first_vector(message)
            if w is None:
                raise TypeError(
                    f"participation: the oracle evaluates models, but a {message.label} has none"
                )
            # One client after another, without the calendar: an oracle costs neither simulated time
            # nor energy. `Roster.oracle` does not keep the client, so a large fleet needs no
            # memory.
            yield evaluator.result(submit_work(evaluator, work(self._roster.oracle(client), w)))

    def charges(self) -> Array:
        """Return every client's state of charge, 1 on mains, shape (M,)."""
        charges = np.array([self._presence.charge(node) for node in self._nodes])
        return np.where(np.isnan(charges), 1.0, charges)

    def harvests(self) -> Array:
        """Return the charging power of each client as a share of its power at work, shape (M,)."""
        kinds, harvest = self._roster.kinds, self._presence.harvest
        return np.array([harvest(node, kinds[node].device.working()) for node in self._nodes])

    def seconds(self) -> Array:
        """Return the mean time of a round of each client alone, s, shape (M,)."""
        # Computed for the whole fleet at once, and cached by `of` for all servers of a hierarchy.
        return self._seconds()[self._nodes.start : self._nodes.stop]


def known_fleet(setup: WorldConfig, presence: Presence | None = None) -> KnownFleet | None:
    """Return the knowledge of a world's policy about its fleet; None if it needs none.

    Args:
        setup: the configuration of the world.
        presence: that of a simulated world, for an oracle.
    """
    policy, count = setup.participation, len(setup.fleet)
    if not isinstance(policy, Informed):
        return None
    samples = np.ones(count) if setup.samples is None else setup.samples
    truth = TrueState(setup, presence) if policy.sees_all and presence is not None else None
    return known_nodes(setup, policy, range(count), samples, setup.shares, truth)


def known_nodes(
    setup: WorldConfig,
    policy: Participation,
    nodes: range,
    samples: Array,
    shares: Array,
    truth: TrueState | None = None,
) -> KnownFleet | None:
    """Return the knowledge of a server's policy about its nodes; None if it needs none.

    Args:
        setup: the configuration of the world.
        policy: the policy of the server.
        nodes: the numbers of the nodes.
        samples: the number of samples per node, shape (n,).
        shares: the weights of their updates, shape (n,).
        truth: the state of all clients, for an oracle.
    """
    if not isinstance(policy, Informed):
        return None
    seen = truth.of(nodes) if policy.sees_all and truth is not None else None
    return KnownFleet(samples, shares, _grid(setup, nodes), seen)


def _grid(setup: WorldConfig, nodes: range) -> FleetGrid | None:
    """Return the intensities of nodes; None if one of them has none."""
    kinds, runs = Roster.of(setup.fleet).kinds, list[tuple[int, Intensity]]()
    place = nodes.start
    while place < nodes.stop:
        # `ends` are cumulative: the first one beyond a node belongs to its run of equal clients.
        number = bisect_right(kinds.ends, place)
        end = min(kinds.ends[number], nodes.stop)
        carbon = kinds.runs[number][1].carbon
        if carbon is None:
            return None
        runs.append((end - place, carbon))
        place = end
    return FleetGrid(runs)
