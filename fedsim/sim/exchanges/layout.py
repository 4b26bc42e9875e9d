"""Records of the exchange kernel: nodes, lanes, messages and events.

They hold the state of `fedsim.sim.power.radio`, `fedsim.sim.network.lanes` and
`fedsim.protocol.peer`, for radios on mains with constant rates and at most one tail.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import ClientId
from fedsim.physics.radios.stages import STAGE
from fedsim.results.record.schema import ROW_DTYPE

Records = NDArray[np.void]

NODE = np.dtype(
    [
        # Radio; see `CellularRadio`.
        ("number", "i8"),
        ("stateful", "i8"),
        ("held", "f8"),
        ("per_bit", "f8", (2,)),  # down, then up
        ("stages", STAGE, (2,)),
        ("last", "i8"),
        ("stage", "i8"),
        ("waking", "i8"),
        ("armed", "i8"),
        ("turn", "i8"),
        ("flowing", "i8"),
        ("since", "f8"),
        ("ready", "f8"),
        ("began", "f8", (2,)),
        ("paid_until", "f8"),
        ("extras", "i8"),  # always 0
        ("joules", "f8"),
        ("round_number", "i8"),
        # Processor.
        ("power", "f8"),
        ("work_joules", "f8"),
        ("work_begun", "f8"),  # negative while it is idle
        # Exchanges; counts of even and odd ones are separate. See `PeerProtocol`.
        ("degree", "i8"),
        ("first", "i8"),  # its first edge
        ("round", "i8"),
        ("exchange", "i8"),
        ("open", "i8"),
        ("sent", "i8", (2,)),  # messages sent to it so far
        ("received", "i8", (2,)),
        # Steps up to its next exchange, and the message of that exchange.
        ("step", "i8"),
        ("steps", "i8"),
        ("payload", "i8"),
        ("header", "i8"),
    ]
)

LANE = np.dtype(
    [
        ("latency", "f8"),
        ("cap", "f8"),
        ("overhead", "i8"),  # bits of the headers of a packet
        ("room", "i8"),  # bits of a message in a packet
        ("began", "f8"),
        ("current", "i8"),  # message in transmission, -1 for none
        ("framing", "i8"),
        ("head", "i8"),  # queue of waiting messages
        ("tail", "i8"),
        ("follows", "i8"),  # next lane whose bits begin to flow at the same time
    ]
)
"""The downlink of a node, then its uplink, node by node."""

MESSAGE = np.dtype(
    [
        ("sender", "i8"),
        ("receiver", "i8"),
        ("round", "i8"),
        ("odd", "i8"),  # parity of its exchange
        ("payload", "i8"),
        ("header", "i8"),
        ("framing", "i8"),
        ("follows", "i8"),  # next message in the queue of a lane
    ]
)
"""Two messages per edge: of even and of odd exchanges. A node opens the exchange after the next one
only after its neighbour has received, so that no more than two exist."""

# A heap. `key` is (priority, serial) as in the calendar; `turn` tells whether a timer of a radio is
# still valid.
EVENT = np.dtype([("t", "f8"), ("key", "i8"), ("kind", "i8"), ("which", "i8"), ("turn", "i8")])

START = np.dtype([("t", "f8"), ("first", "i8"), ("last", "i8")])
"""Lists of the lanes whose bits begin to flow at a time, in a hash table with open addressing."""

TOTAL = np.dtype(
    [
        ("now", "f8"),
        ("serial", "i8"),
        ("events", "i8"),
        ("next", "i8"),  # first entry of the ring `ready`
        ("ready", "i8"),
        ("asked", "i8"),
        ("rows", "i8"),
        ("running", "i8"),  # the running node, -1 for none
        ("round", "i8"),  # the open round
        ("left", "i8"),  # nodes that have not committed the open round
        ("joules", "f8"),
        ("bits_up", "i8"),
        ("transmissions", "i8"),
        ("beacons", "i8"),
        ("delivered", "i8"),
        ("word", "i8"),
        ("last", "i8"),  # the last round
        # Number of exchanges whose steps are known for all nodes; 0 if nodes are asked one by one.
        ("known", "i8"),
    ]
)

COMPUTED, FLOW, ARRIVE, PROMOTE, EXPIRE = range(5)
"""Kinds of events."""

COMPUTE, COMMIT, EXCHANGE = range(3)
"""Kinds of steps of a node."""

ASKS, CLOSED, FULL, STILL = range(1, 5)
"""Return codes of the kernel: input needed from a node, round committed, row buffer full, no event
scheduled."""


Step = tuple[int, float, float, float]
"""A step of a node: its kind, and the seconds, operations and samples of work."""


class KernelTables(NamedTuple):
    """The tables that the kernel works on.

    Attributes:
        nodes, lanes, messages, events, starts, total: see above.
        receivers: the receiver of each edge, sorted by sender, shape (edges,).
        ready: ring of nodes that resume at this instant, shape (M,).
        asked: nodes that can compute their next steps, since all messages to them have been sent.
        kinds: the kinds of steps of each node, shape (M, most).
        figures: the seconds, operations and samples of these steps, shape (M, most, 3).
        rows: buffered rows of the log.
        seconds, word: one number, seen as a double and as an integer.
    """

    nodes: Records
    lanes: Records
    messages: Records
    events: Records
    starts: Records
    total: Records
    receivers: NDArray[np.int64]
    ready: NDArray[np.int64]
    asked: NDArray[np.int64]
    kinds: NDArray[np.int64]
    figures: NDArray[np.float64]
    rows: Records
    seconds: NDArray[np.float64]
    word: NDArray[np.int64]

    @classmethod
    def of(cls, neighbours: Sequence[Sequence[ClientId]]) -> "KernelTables":
        """Return the tables before the run, given the neighbours of each node."""
        degrees = np.array([len(neighbour) for neighbour in neighbours], np.int64)
        receivers = np.array([number for neighbour in neighbours for number in neighbour], np.int64)
        count, edges = len(degrees), len(receivers)
        seconds = np.zeros(1)
        tables = cls(
            np.zeros(count, NODE),
            np.zeros(2 * count, LANE),
            np.zeros(2 * edges, MESSAGE),
            np.zeros(8 * count, EVENT),
            # A power of two, for masks in place of remainders; at least half of it stays free.
            np.zeros(1 << (8 * count).bit_length(), START),
            np.zeros(1, TOTAL),
            receivers,
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.zeros((count, 4), np.int64),
            np.zeros((count, 4, 3)),
            np.zeros(4 * count + _ROWS, ROW_DTYPE),
            seconds,
            seconds.view(np.int64),
        )
        tables.nodes["number"] = np.arange(count)
        tables.nodes["degree"] = degrees
        tables.nodes["first"] = np.cumsum(degrees) - degrees
        tables.nodes["began"] = np.inf
        tables.nodes["work_begun"] = -1.0
        tables.nodes["round"] = 1
        for name in ("current", "head", "tail"):
            tables.lanes[name] = -1
        tables.starts["first"] = -1
        total: Any = tables.total[0]
        total["running"], total["round"], total["left"] = -1, 1, count
        return tables

    def with_steps(self, most: int) -> "KernelTables":
        """Return the tables, without rows, with room for `most` steps per node."""
        count, capacity = self.kinds.shape
        if most <= capacity:
            return self
        kinds, figures = np.zeros((count, 2 * most), np.int64), np.zeros((count, 2 * most, 3))
        kinds[:, :capacity], figures[:, :capacity] = self.kinds, self.figures
        rows = np.zeros(4 * count + _ROWS + 2 * most, ROW_DTYPE)
        return self._replace(kinds=kinds, figures=figures, rows=rows)

    def enter(self, numbers: NDArray[np.int64], steps: Sequence[Step]) -> None:
        """Write the same steps for some nodes."""
        # The kinds become floats here, which hold small integers exactly.
        figures = np.array(steps)
        self.kinds[numbers, : len(steps)] = figures[:, 0]
        self.figures[numbers, : len(steps)] = figures[:, 1:]


_ROWS = 2**14
