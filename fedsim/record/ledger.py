"""The ledger: double-entry bookkeeping of bits, joules and time.

One side are the rows of the event log, added up chunk by chunk here. The other side are
the meters of the physical world: what radios and processors say they spent, what the
network says it took, delivered and still holds. `audit` compares the two.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import AuditError
from fedsim.ports import Array, node_name
from fedsim.record.log import Rows
from fedsim.record.schema import Event

RELATIVE_TOLERANCE = 1e-9
"""What rounding may cost when joules are added up in another order."""

_TINY = float(np.finfo(np.float64).tiny)  # below it, rounding is not relative any more


@dataclass(frozen=True, slots=True)
class Stores:
    """What the batteries say of themselves at the end of a run, one entry a battery.

    Attributes:
        clients: whose they are, shape (B,).
        initial, final: what was in store, J.
        charged: what came into store, J.
        drained: what left it, J: for the load, with what its conversion loses, and by itself.
        delivered: what the client drew from it, J.
        depletions: how often it reached its cut-off.
        settled: what the meters of what it feeds differed by from the powers they drew, J.
        resolution: what the clock's resolution explains of that, J.
    """

    clients: NDArray[np.intp]
    initial: Array
    final: Array
    charged: Array
    drained: Array
    delivered: Array
    depletions: NDArray[np.intp]
    settled: Array
    resolution: Array


_NOTHING, _NOBODY = np.zeros(0), np.zeros(0, np.intp)
NO_STORES = Stores(
    _NOBODY, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOBODY, _NOTHING, _NOTHING
)
"""A fleet on mains."""


@dataclass(frozen=True, slots=True)
class Meters:
    """What the physical world says of itself at the end of a run.

    Attributes:
        bits_sent: what the network took, payload, header and transport, both directions.
        bits_delivered: what it handed over, a broadcast counted once.
        bits_heard: what it handed over, a broadcast counted for every listener.
        bits_lost: what it gave up, and what it sent again.
        bits_in_flight: what it still held, counted message by message.
        joules: what each client's radio and processor spent beyond idle power, shape (M,).
        idle_joules: what each client drew at rest over the whole run, shape (M,).
        stores: the batteries.
    """

    bits_sent: int
    bits_delivered: int
    bits_heard: int
    bits_lost: int
    bits_in_flight: int
    joules: Array
    idle_joules: Array
    stores: Stores = NO_STORES


@dataclass(slots=True)
class Ledger:
    """Sums of the log by event and node; nodes are shifted by one, the server is row 0.

    Attributes:
        clients: M.
        t: the time of the last row.
        joules, seconds, bits: sums, bits with header and transport, shape (events, M + 1).
        count: rows, shape (events, M + 1).
        payload_count: rows whose message carries something, shape (events, M + 1).
    """

    clients: int
    t: float = 0.0
    joules: Array = field(init=False)
    seconds: Array = field(init=False)
    count: Array = field(init=False)
    payload_count: Array = field(init=False)
    bits: Array = field(init=False)
    _order: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        shape = (len(Event), self.clients + 1)
        for name in ("joules", "seconds", "count", "payload_count", "bits"):
            setattr(self, name, np.zeros(shape))

    def absorb(self, rows: Rows) -> None:
        """Add a chunk of the log."""
        times = np.concatenate([[self.t], rows["t"]])
        if (np.diff(times) < 0).any():
            at = int(np.argmax(np.diff(times) < 0))
            self._order.append(f"time runs back from {float(times[at])} to {float(times[at + 1])}")
        self.t = float(times[-1])
        cell = rows["event"].astype(np.intp) * (self.clients + 1) + rows["node"] + 1
        bits = rows["payload_bits"] + rows["header_bits"] + rows["transport_bits"]
        self.joules += self._sum(cell, rows["joules"])
        self.seconds += self._sum(cell, rows["duration"])
        self.count += self._sum(cell, np.ones(len(rows)))
        self.payload_count += self._sum(cell, np.sign(rows["payload_bits"]))
        self.bits += self._sum(cell, bits)

    def _sum(self, cell: NDArray[np.intp], weights: NDArray[Any]) -> Array:
        sums = np.bincount(cell, weights, minlength=self.joules.size)
        return sums.astype(np.float64, copy=False).reshape(self.joules.shape)

    def audit(self, meters: Meters) -> None:
        """Compare the log with the world.

        Raises:
            AuditError: bits, joules or times do not agree; every difference is named.
        """
        sent, again, received, lost = (
            int(self.bits[event].sum())
            for event in (Event.SEND, Event.RETRANSMIT, Event.RECEIVE, Event.LOST)
        )
        faults = list(self._order)
        out = meters.bits_delivered + meters.bits_lost + meters.bits_in_flight
        for what, logged, metered in (
            ("bits sent against delivered + lost + in flight", meters.bits_sent, out),
            ("bits in send rows against the network", sent + again, meters.bits_sent),
            ("bits in receive rows against the network", received, meters.bits_heard),
            ("bits in lost rows against the network", lost + again, meters.bits_lost),
        ):
            if logged != metered:
                faults.append(f"{what}: {logged} and {metered}")
        faults += [*self._energy_faults(meters), *self._battery_faults(meters)]
        if faults:
            raise AuditError("the ledger does not add up: " + "; ".join(faults))

    def _energy_faults(self, meters: Meters) -> list[str]:
        per_node = self.joules.sum(axis=0)
        faults = [
            f"joules of {node_name(client)}: {float(logged)} logged, {float(metered)} metered"
            for client, (logged, metered) in enumerate(
                zip(per_node[1:], meters.joules, strict=True)
            )
            if not np.isclose(logged, metered, rtol=RELATIVE_TOLERANCE, atol=_TINY)
        ]
        idle = float(meters.idle_joules.sum())
        if not np.isclose(per_node[0], idle, rtol=RELATIVE_TOLERANCE, atol=_TINY):
            faults.append(f"idle joules: {float(per_node[0])} logged, {idle} metered")
        return faults

    def _battery_faults(self, meters: Meters) -> list[str]:
        """Compare what batteries lost with what their clients spent."""
        stores = meters.stores
        spent = self.joules.sum(axis=0)[1:] + meters.idle_joules
        # What goes in and out may be far more than what is in store, and sets the rounding.
        scale = stores.initial + stores.charged + stores.drained
        books = {
            "initial + charged - drained against what is in store": (
                stores.initial + stores.charged - stores.drained,
                stores.final,
                scale,
            ),
            "joules of the battery against the log": (
                stores.delivered,
                spent[stores.clients],
                stores.delivered,
            ),
            "joules of meters against powers and the clock": (
                np.maximum(stores.settled - stores.resolution, 0.0),
                np.zeros_like(stores.settled),
                stores.delivered,
            ),
        }
        return [
            f"{what}, {node_name(int(stores.clients[at]))}: {one[at]} and {other[at]}"
            for what, (one, other, size) in books.items()
            for at in np.flatnonzero(np.abs(one - other) > RELATIVE_TOLERANCE * size)
        ]
