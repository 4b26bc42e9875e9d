"""One exchange of a round in many worlds: a message to each client of a cohort, work, and a reply.

The laws are those of `fedsim.sim`: stages of radios (`fedsim.physics.radios.stages`), powers and
energies of bits, speeds, framing, and the fair share of a link. The simulator derives their order
within a round from its events; here it is written out. Shapes: n clients, W worlds; arrays are
(n, W) unless stated otherwise.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.addons.robustness.fleets import Clients, Lanes
from fedsim.addons.robustness.loads import Load
from fedsim.addons.robustness.sharing import ends
from fedsim.core.ports import Array
from fedsim.physics.radios import stages
from fedsim.sim.kernels import register_laws, stored_by


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
    spent = np.zeros_like(clients.idle)

    def move(
        lanes: Lanes, number: NDArray[np.integer], since: Array, ready: Array, bits: Array
    ) -> Array:
        # Without states, bits begin to flow after the latency.
        began = ready + lanes.latency
        if clients.stateful:
            # Only a downlink message waits until the radio can be reached.
            paged = clients.paged and lanes is clients.down
            wake(clients.stages, number, since, ready, lanes.latency, paged, began, spent)
        # Without contention the link never limits a transfer, and the closed form is exact.
        if lanes.contended:
            over = ends(began, bits, lanes.rate, lanes.capacity)
        else:
            over = began + bits / lanes.rate
        # Bits are charged by their number, connected power by the duration of the message.
        np.add(spent, lanes.per_bit * bits + lanes.power * (over - began), out=spent)
        return over

    # The exchange begins at 0: all times are relative to it, and so repeat from round to round.
    received = move(clients.down, stage, last, np.zeros_like(spent), load.down)
    # One of the two models of a device has zero cost: operations or samples.
    works = clients.per_operation * load.operations[:, None]
    works = works + clients.per_sample * load.samples[:, None]
    # Power at work beyond idle power, which `recursion` charges for the whole run.
    spent += clients.working * works
    arrivals = move(clients.up, np.zeros_like(stage), received, received + works, load.up)
    return arrivals, spent


def _wake(
    figures: NDArray[np.void],
    number: NDArray[np.integer],
    since: Array,
    ready: Array,
    latency: Array,
    paged: bool,  # noqa: FBT001 - kernels have no keywords
    began: Array,
    spent: Array,
) -> None:
    """Wake radios for messages, and charge them until bits begin to flow.

    Args:
        figures: the stages of radios, records of shape (n, W, stages).
        number: the stage of each radio, shape (n, 1).
        since: the start of this stage, s.
        ready: the time at which each message is ready, s.
        latency: the time from then, or from the promotion, until bits flow, s.
        paged: whether messages wait for the paging occasions of radios.
        began: receives the times at which bits begin to flow, s.
        spent: the energy of each client, J, to which that of the radio is added.
    """
    for n in range(len(ready)):
        for w in range(ready.shape[1]):
            own: Any = figures[n, w]
            now, connected, joules = stages.connect(
                own, number[n, 0], since[n, w], ready[n, w], paged
            )
            # Until bits flow, the radio is in its first stage: since its last bit, or its waking.
            began[n, w] = now + latency[n, w]
            spent[n, w] += joules + own[0].power * (began[n, w] - connected)


register_laws()
wake = stored_by([Path(__file__), Path(stages.__file__)])(_wake)
