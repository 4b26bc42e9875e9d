"""One exchange of a round in many worlds: a message to each client of a cohort, work, and a reply.

The laws are those by which `fedsim.sim` plays a round, in their array forms: stages of radios
(`fedsim.physics.radios.States`), powers and energies of bits, speeds, framing, and the fair share
of a link. Their order within a round, which the simulator takes from its events, is written here.
Shapes: n clients, W worlds; arrays are (n, W) unless stated otherwise.
"""

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.robustness.fleets import Clients, Lanes
from fedsim.robustness.loads import Load
from fedsim.robustness.sharing import ends


def play_exchange(
    clients: Clients, load: Load, last: Array, stage: NDArray[np.integer]
) -> tuple[Array, Array]:
    """Return when each reply arrives, s, and what each client spends beyond idle power, J.

    Args:
        clients: the cohort.
        load: its messages and work.
        last: the time of the last bit of each radio before, s; times are relative to the begin.
        stage: in which each radio was then, shape (n, 1).
    """
    legs = _Legs(clients, last, stage)

    def move(lanes: Lanes, ready: Array, bits: Array, *, up: bool) -> Array:
        began = legs.wake(lanes, ready, paged=clients.paged and not up)
        if lanes.contended:
            over = ends(began, bits, lanes.rate, lanes.capacity)
        else:
            over = began + bits / lanes.rate
        return legs.pass_bits(lanes, bits, over)

    received = move(clients.down, np.zeros_like(clients.idle), load.down, up=False)
    works = clients.per_operation * load.operations[:, None]
    works = works + clients.per_sample * load.samples[:, None]
    legs.spent = legs.spent + clients.working * works
    came = move(clients.up, received + works, load.up, up=True)
    return came, legs.spent


class _Legs:
    """The messages of an exchange, one of each client in each direction.

    Args:
        clients: the cohort.
        last: the last bit of each radio, s.
        stage: in which each radio was then.

    Attributes:
        spent: by each client so far, beyond idle power, J.
    """

    def __init__(self, clients: Clients, last: Array, stage: NDArray[np.integer]) -> None:
        self._clients = clients
        self._since = last
        self._stage = stage
        self._began = last
        self.spent = np.zeros_like(clients.idle)

    def wake(self, lanes: Lanes, now: Array, *, paged: bool) -> Array:
        """Let radios have messages that are ready now; return when their bits begin to flow.

        A radio in its first stage sends at once, and one in another stage wakes. It is then
        connected, without bits, for the latency.

        Args:
            lanes: the direction.
            now: when each message is ready, s.
            paged: whether they wait until the radios can be reached.
        """
        if self._clients.stateful:
            self._pass_until(now)
            if paged:
                now = self._clients.states.reception_times(self._stage, self._since, now)
                self._pass_until(now)
            now = self._connect(now)
            began = now + lanes.latency
            power = self._clients.states.stages[0].power
            self.spent = self.spent + power * (began - self._since)
        else:
            began = now + lanes.latency
        self._began = began
        return began

    def _pass_until(self, now: Array) -> None:
        """Let stages end that do so before a time."""
        self._stage, self._since, joules = self._clients.states.advance(
            self._stage, self._since, now
        )
        self.spent = self.spent + joules

    def _connect(self, now: Array) -> Array:
        """Leave all stages but the first one; return when each radio is connected."""
        states, stage = self._clients.states, self._stage
        resting = len(states.stages) - 1
        out = stage > 0
        if resting > 1:  # in a stage between the first one and the last
            lasted = np.where(out & (stage < resting), now - self._since, 0.0)
            self.spent = self.spent + states.figure("power", stage) * lasted
        wakes = np.where(out, states.figure("wake_time", stage), 0.0)
        self.spent = self.spent + np.where(out, states.figure("wake_power", stage), 0.0) * wakes
        ready: Array = now + wakes
        self._stage, self._since = 0 * stage, np.where(out, ready, self._since)
        return ready

    def pass_bits(self, lanes: Lanes, bits: Array, over: Array) -> Array:
        """Charge messages whose last bits have passed; return when, s.

        Args:
            lanes: the direction.
            bits: of each message.
            over: when its last bit has passed, s.
        """
        joules = lanes.per_bit * bits + lanes.power * (over - self._began)
        self.spent = self.spent + joules
        self._since = over
        return over
