"""What the kernel of exchanges keeps of nodes, lanes, messages and events.

It is what `fedsim.sim.power.radio`, `fedsim.sim.network.lanes` and `fedsim.protocol.peer` keep in
objects, for radios on mains at constant rates with one tail at most.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import ClientId
from fedsim.record.schema import ROW_DTYPE

Records = NDArray[np.void]

NODE = np.dtype(
    [
        # Of its radio: what it is, and its states; see `CellularRadio`.
        ("stateful", "i8"),
        ("held", "f8"),
        ("per_bit", "f8", (2,)),  # down, then up
        ("tail_time", "f8"),
        ("tail_power", "f8"),
        ("wake_time", "f8"),
        ("wake_power", "f8"),
        ("idle", "i8"),
        ("waking", "i8"),
        ("armed", "i8"),
        ("turn", "i8"),
        ("flowing", "i8"),
        ("since", "f8"),
        ("ready", "f8"),
        ("began", "f8", (2,)),
        ("paid_until", "f8"),
        ("radio_joules", "f8"),
        ("radio_round", "i8"),
        # Of its processor.
        ("power", "f8"),
        ("work_joules", "f8"),
        ("work_begun", "f8"),  # negative while it does none
        # Of its exchanges; figures of even and odd ones are apart. See `PeerProtocol`.
        ("degree", "i8"),
        ("first", "i8"),  # of its edges
        ("round", "i8"),
        ("exchange", "i8"),
        ("open", "i8"),
        ("sent", "i8", (2,)),  # to it, so far
        ("received", "i8", (2,)),
        # What it does up to its next exchange, and the message of that.
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
        ("current", "i8"),  # the message, -1 for none
        ("framing", "i8"),
        ("head", "i8"),  # of those that wait
        ("tail", "i8"),
        ("follows", "i8"),  # a lane whose bits begin to flow at the same time
    ]
)
"""The downlink of a node, then its uplink, node by node."""

MESSAGE = np.dtype(
    [
        ("sender", "i8"),
        ("receiver", "i8"),
        ("round", "i8"),
        ("odd", "i8"),  # whether its exchange is
        ("payload", "i8"),
        ("header", "i8"),
        ("framing", "i8"),
        ("follows", "i8"),  # in the queue of a lane
    ]
)
"""Two of each edge: of even and of odd exchanges. A node opens the exchange after the next only
when its neighbour has received, so there are no more."""

EVENT = np.dtype([("t", "f8"), ("key", "i8"), ("kind", "i8"), ("which", "i8"), ("turn", "i8")])

START = np.dtype([("t", "f8"), ("first", "i8"), ("last", "i8")])
"""The lanes whose bits begin to flow at a time; a table with open addressing."""

TOTAL = np.dtype(
    [
        ("now", "f8"),
        ("serial", "i8"),
        ("events", "i8"),
        ("next", "i8"),  # of those that are ready
        ("ready", "i8"),
        ("asked", "i8"),
        ("rows", "i8"),
        ("running", "i8"),  # a node, -1 for none
        ("round", "i8"),  # the open one
        ("left", "i8"),  # nodes that have not committed it
        ("joules", "f8"),
        ("bits_up", "i8"),
        ("transmissions", "i8"),
        ("beacons", "i8"),
        ("delivered", "i8"),
        ("word", "i8"),
        ("last", "i8"),  # the last round
        ("known", "i8"),  # exchanges of which it is known what nodes do before, 0 for node by node
    ]
)

COMPUTED, FLOW, ARRIVE, PROMOTE, EXPIRE = range(5)
"""Kinds of events."""

COMPUTE, COMMIT, EXCHANGE = range(3)
"""Kinds of steps; after the last round a node does nothing more."""

ASKS, CLOSED, FULL, STILL = range(1, 5)
"""Why the kernel returns: a node is to say what it does next, a round is over, rows are to be
taken, or nothing is known to happen."""


Step = tuple[int, float, float, float]
"""What a node does: one of the kinds of steps, and of work its seconds, operations and samples."""


class KernelTables(NamedTuple):
    """What the kernel works on.

    Attributes:
        nodes, lanes, messages, events, starts, total: see above.
        receivers: of the edges, by sender, shape (edges,).
        ready: nodes that go on in this instant, a ring, shape (M,).
        asked: nodes whose next messages have all been sent, so that what they do next is known.
        kinds: of each node's steps, shape (M, most).
        figures: of these the seconds, operations and samples, shape (M, most, 3).
        rows: of the log.
        seconds, word: one number, as a double and as an integer.
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
        """Return the tables of nodes that have not begun, given the neighbours of each."""
        degrees = np.array([len(each) for each in neighbours], np.int64)
        receivers = np.array([one for each in neighbours for one in each], np.int64)
        count, edges = len(degrees), len(receivers)
        seconds = np.zeros(1)
        made = cls(
            np.zeros(count, NODE),
            np.zeros(2 * count, LANE),
            np.zeros(2 * edges, MESSAGE),
            np.zeros(8 * count, EVENT),
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
        made.nodes["degree"] = degrees
        made.nodes["first"] = np.cumsum(degrees) - degrees
        made.nodes["began"] = np.inf
        made.nodes["work_begun"] = -1.0
        made.nodes["round"] = 1
        for name in ("current", "head", "tail"):
            made.lanes[name] = -1
        made.starts["first"] = -1
        total: Any = made.total[0]
        total["running"], total["round"], total["left"] = -1, 1, count
        return made

    def with_steps(self, most: int) -> "KernelTables":
        """Return the same tables, without rows, with room for so many steps of each node."""
        count, have = self.kinds.shape
        if most <= have:
            return self
        kinds, figures = np.zeros((count, 2 * most), np.int64), np.zeros((count, 2 * most, 3))
        kinds[:, :have], figures[:, :have] = self.kinds, self.figures
        rows = np.zeros(4 * count + _ROWS + 2 * most, ROW_DTYPE)
        return self._replace(kinds=kinds, figures=figures, rows=rows)

    def enter(self, numbers: NDArray[np.int64], steps: Sequence[Step]) -> None:
        """Enter the steps of some nodes, which are the same."""
        figures = np.array(steps)
        self.kinds[numbers, : len(steps)] = figures[:, 0]
        self.figures[numbers, : len(steps)] = figures[:, 1:]


_ROWS = 2**14
