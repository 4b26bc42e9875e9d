"""What an informed policy knows of a fleet from the start, and what an oracle sees of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from fedsim.physics.carbon import Intensity
from fedsim.physics.signals import Constant
from fedsim.ports import Array, Oracle, Work
from fedsim.protocol.participation import Informed, KnownFleet, Sent
from fedsim.protocol.reporting import first_vector
from fedsim.sim.config import WorldConfig
from fedsim.sim.fleet import Roster
from fedsim.sim.presence import Presence
from fedsim.worlds.client_work import submit_work


class FleetGrid:
    """Implements `fedsim.protocol.participation.Intensities`: the intensities of a fleet.

    Args:
        runs: how many clients in a row have which intensity.
    """

    def __init__(self, runs: Sequence[tuple[int, Intensity]]) -> None:
        self._counts = [count for count, _ in runs]
        self._signals = [each.signal for _, each in runs]

    def at(self, now: float) -> Array:
        """Return the intensity of each client at a time, g/kWh, shape (M,)."""
        return np.repeat([each.at(now) for each in self._signals], self._counts)

    def next_change(self, now: float) -> float:
        """Return the first time after `now` at which an intensity changes, s."""
        varying = (each for each in self._signals if not isinstance(each, Constant))
        return min((each.next_change(now) for each in varying), default=np.inf)


class TrueState:
    """Implements `fedsim.protocol.participation.Truth`: the state of a simulated world.

    Args:
        setup: of the world.
        presence: has the batteries.
    """

    def __init__(self, setup: WorldConfig, presence: Presence) -> None:
        self._setup, self._presence = setup, presence
        self._roster = Roster.of(setup.fleet)
        self._seconds: Array | None = None

    def losses(self, sent: Sent) -> Array:
        """Return every client's loss at the model in a message, shape (M,).

        Raises:
            TypeError: the message has no model.
        """
        return np.array([float(each) for each in self._evaluate(sent, lambda f, w: f.value(w))])

    def norms(self, sent: Sent) -> Array:
        """Return the norm of every client's gradient at the model in a message, shape (M,).

        Raises:
            TypeError: the message has no model.
        """
        found = self._evaluate(sent, lambda f, w: f.gradient(w))
        return np.array([float(np.linalg.norm(each)) for each in found])

    def _evaluate(self, sent: Sent, work: Callable[[Oracle, Array], Work]) -> Iterator[Array]:
        """Yield what an evaluation of each client's loss gives, at no cost."""
        evaluator = self._setup.evaluator
        for client in range(len(self._roster)):
            message = sent[client] if isinstance(sent, Mapping) else sent
            w = first_vector(message)
            if w is None:
                raise TypeError(f"participation: a {message.label} has no model for an oracle")
            yield evaluator.result(submit_work(evaluator, work(self._roster.oracle(client), w)))

    def charges(self) -> Array:
        """Return every client's state of charge, 1 on mains, shape (M,)."""
        charges = np.array([self._presence.charge(each) for each in range(len(self._roster))])
        return np.where(np.isnan(charges), 1.0, charges)

    def harvests(self) -> Array:
        """Return the share of each client's power at work that it harvests, shape (M,)."""
        watts = self._roster.kinds.array(lambda kind: kind.device.working()).tolist()
        return np.array([self._presence.harvest(each, own) for each, own in enumerate(watts)])

    def seconds(self) -> Array:
        """Return the mean time of a round of each client alone, s, shape (M,)."""
        if self._seconds is None:
            self._seconds = np.asarray(self._setup.round_seconds())
        return self._seconds


def known_fleet(setup: WorldConfig, presence: Presence | None = None) -> KnownFleet | None:
    """Return what the policy of a world knows of its fleet; None for one that asks for nothing.

    Args:
        setup: of the world.
        presence: of a simulated world, for an oracle.
    """
    policy = setup.participation
    if not isinstance(policy, Informed):
        return None
    count = len(setup.fleet)
    samples = np.ones(count) if setup.samples is None else setup.samples
    truth = TrueState(setup, presence) if policy.sees_all and presence is not None else None
    return KnownFleet(samples, setup.shares, _grid(setup), truth)


def _grid(setup: WorldConfig) -> FleetGrid | None:
    runs: list[tuple[int, Intensity]] = []
    for count, kind in Roster.of(setup.fleet).kinds.runs:
        if kind.carbon is None:
            return None
        runs.append((count, kind.carbon))
    return FleetGrid(runs)
