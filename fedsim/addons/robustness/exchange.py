"""One exchange of a round in many worlds: a message to each client of a cohort, work, and a reply.

The laws are those of `fedsim.sim`, in their array forms: stages of radios
(`fedsim.physics.radios.States`), powers and energies of bits, speeds, framing, and the fair share
of a link. The simulator derives their order within a round from its events; here it is written out.
Shapes: n clients, W worlds; arrays are (n, W) unless stated otherwise.
"""

import numpy as np
from numpy.typing import NDArray

from fedsim.addons.robustness.fleets import Clients, Lanes
from fedsim.addons.robustness.loads import Load
from fedsim.addons.robustness.sharing import ends
from fedsim.core.ports import Array


def play_exchange(
    clients: Clients, load: Load, last: Array, stage: NDArray[np.integer]
) -> tuple[Array, Array]:
    """Return the arrival of each reply, s, and the energy of each client beyond idle power, J.

    Args:
        clients: the cohort.
        load: the messages and work of the cohort.
        last: the time of the last bit of each radio, s, relative to the beginning.
        stage: the stage of each radio at that time, shape (n, 1).
    """
    legs = _Legs(clients, last, stage)

    def move(lanes: Lanes, ready: Array, bits: Array, *, up: bool) -> Array:
        began = legs.wake(lanes, ready, paged=clients.paged and not up)
        # Without contention the link never limits a transfer, and the closed form is exact.
        if lanes.contended:
            over = ends(began, bits, lanes.rate, lanes.capacity)
        else:
            over = began + bits / lanes.rate
        return legs.pass_bits(lanes, bits, over)

    # The exchange begins at 0: all times are relative to it, and so repeat from round to round.
    received = move(clients.down, np.zeros_like(clients.idle), load.down, up=False)
    # One of the two models of a device has zero cost: operations or samples.
    works = clients.per_operation * load.operations[:, None]
    works = works + clients.per_sample * load.samples[:, None]
    # Power at work beyond idle power, which `recursion` charges for the whole run.
    legs.spent = legs.spent + clients.working * works
    arrivals = move(clients.up, received + works, load.up, up=True)
    return arrivals, legs.spent


class _Legs:
    """The messages of an exchange, one per client and direction.

    Args:
        clients: the cohort.
        last: the time of the last bit of each radio, s.
        stage: the stage of each radio at that time.

    Attributes:
        spent: the energy of each client so far beyond idle power, J.
    """

    def __init__(self, clients: Clients, last: Array, stage: NDArray[np.integer]) -> None:
        self._clients = clients
        self._since = last
        self._stage = stage
        self._began = last
        self.spent = np.zeros_like(clients.idle)

    def wake(self, lanes: Lanes, now: Array, *, paged: bool) -> Array:
        """Wake radios for messages; return when bits begin to flow.

        A radio in its first stage sends at once; in any other stage it wakes up first. It is then
        connected, without bits, for the latency.

        Args:
            lanes: the direction.
            now: the time at which each message is ready, s.
            paged: whether messages wait for the paging occasions of radios.
        """
        if self._clients.stateful:
            # First up to the message, then up to the paging occasion: while the message waits, the
            # radio may fall into its next stage, from which it is woken.
            self._pass_until(now)
            if paged:
                # A sleeping radio listens periodically: the message waits for the next occasion.
                now = self._clients.states.reception_times(self._stage, self._since, now)
                self._pass_until(now)
            now = self._connect(now)
            began = now + lanes.latency
            # The wait in the first stage: since the last bit if the radio was still connected,
            # otherwise since it woke up.
            power = self._clients.states.stages[0].power
            self.spent = self.spent + power * (began - self._since)
        else:
            began = now + lanes.latency
        self._began = began
        return began

    def _pass_until(self, now: Array) -> None:
        """End the stages that expire before a time."""
        self._stage, self._since, joules = self._clients.states.advance(
            self._stage, self._since, now
        )
        self.spent = self.spent + joules

    def _connect(self, now: Array) -> Array:
        """Return all radios to the first stage; return when each is connected."""
        states, stage = self._clients.states, self._stage
        resting = len(states.stages) - 1
        asleep = stage > 0
        # `advance` has charged finished stages. The unfinished one is charged here; resting itself
        # costs nothing beyond idle power.
        if resting > 1:  # in a stage between the first one and the last
            waited = np.where(asleep & (stage < resting), now - self._since, 0.0)
            self.spent = self.spent + states.figure("power", stage) * waited
        wakes = np.where(asleep, states.figure("wake_time", stage), 0.0)
        self.spent = self.spent + np.where(asleep, states.figure("wake_power", stage), 0.0) * wakes
        ready: Array = now + wakes
        # A radio that was connected keeps its wait; one that woke up starts a new one.
        self._stage, self._since = 0 * stage, np.where(asleep, ready, self._since)
        return ready

    def pass_bits(self, lanes: Lanes, bits: Array, over: Array) -> Array:
        """Charge messages whose last bits have passed; return `over`, s.

        Args:
            lanes: the direction.
            bits: the bits of each message.
            over: the time at which its last bit has passed, s.
        """
        # Bits are charged by their number, connected power by the duration of the message.
        joules = lanes.per_bit * bits + lanes.power * (over - self._began)
        self.spent = self.spent + joules
        self._since = over
        return over
