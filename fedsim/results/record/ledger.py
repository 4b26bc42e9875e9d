"""The ledger: double-entry bookkeeping of bits, joules and time.

One side is the rows of the event log, added up here chunk by chunk. The other side is the meters of
the physical world: the energy spent by radios and processors, and the bits that the network took,
delivered and still holds. `audit` compares the two.

A meter returns the joules of a span, which an actor writes into a row of the log, and adds them to
a total of its own; the network counts bits as they enter and leave it. So a span without a row, a
row that is written twice, or a message that is dropped silently makes the two sides differ. What
this audit cannot find is a meter that is wrong from the start, since both sides would have its
figure: batteries integrate powers independently of meters (`Stores.settled`), and
`fedsim.addons.conformance.energy` recomputes the joules of a run from its log alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import AuditError
from fedsim.core.ports import Array, node_name
from fedsim.results.record.emissions import Emissions
from fedsim.results.record.nodes import number_nodes
from fedsim.results.record.schema import Chunk, Event

RELATIVE_TOLERANCE = 1e-9
"""Relative rounding error of joules that are added up in another order."""

BLOCK = 2**17
"""Number of clients per block: temporary arrays over all clients would take gigabytes."""

_ALL = slice(None)

_TINY = float(np.finfo(np.float64).tiny)  # below it, rounding is not relative any more


@dataclass(frozen=True, slots=True)
class Stores:
    """Battery totals at the end of a run, one entry a battery.

    Attributes:
        clients: their owners, shape (B,).
        initial, final: stored energy, J.
        charged: energy stored by charging, J.
        drained: energy that left it, J: the load with its conversion loss, and self-discharge.
        delivered: energy that the client drew from it, J.
        depletions: how often it reached its cut-off.
        settled: difference between the load's meters and the integral of its powers, J.
        resolution: the part of that due to the clock's resolution, J.
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
    """Meter readings of the physical world at the end of a run.

    Attributes:
        bits_sent: accepted by the network, payload, header and transport, both directions.
        bits_delivered: by the network, a broadcast counted once.
        bits_heard: delivered by the network, a broadcast counted once per receiver.
        bits_lost: undelivered, or spent on retransmission.
        bits_in_flight: still in the network, counted by message.
        joules: spent by each client's radio and processor beyond idle power, shape (M,).
        idle_joules: drawn by each client while idle over the whole run, shape (M,).
        stores: the batteries.
        idle_grams: emitted by each client while idle, shape (M,); None if not tracked.
        metered: whether energy is known; if not, joules are 0 here, and NaN in tables.
        left: the time at which each client left for good, s, shape (M,); NaN for a client that
            stayed; None if all stayed.
    """

    bits_sent: int
    bits_delivered: int
    bits_heard: int
    bits_lost: int
    bits_in_flight: int
    joules: Array
    idle_joules: Array
    stores: Stores = NO_STORES
    idle_grams: Array | None = None
    metered: bool = True
    left: Array | None = None


def blocks_of(clients: int) -> Iterator[range]:
    """Yield consecutive clients in blocks; one without any if there are none."""
    every = range(clients)
    for begin in range(0, max(clients, 1), BLOCK):
        yield every[begin : begin + BLOCK]


def _nodes(clients: range) -> slice:
    """Return the indices of consecutive clients among the nodes; the server is node 0."""
    return slice(clients.start + 1, clients.stop + 1)


def _split_first(
    own: NDArray[np.intp], rows: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the rows of node 0, and those of all others, with their nodes; neither is empty."""
    later = own > 0
    count = np.count_nonzero(later)
    if count in (0, len(own)):
        yield own, rows
        return
    yield own[~later], rows[~later]
    yield own[later], rows[later]


class Ledger:
    """Sums of the log by event and node, allocated for the nodes that have rows.

    Args:
        clients: M, the number of clients, with or without rows.

    Attributes:
        clients: the same.
        t: the time of the last row.
        late_rounds: how many late replies there were to each round that had any.
    """

    # Sums are kept in columns, one for each node that has had a row, in order of first appearance:
    # of a million clients, only those that were ever sampled have sums. `_place` maps nodes to
    # columns. A sum that is zero for all nodes (a fleet without retransmissions) is not stored, nor
    # is one that nothing asks for: of many clients each takes 8 bytes per client.

    _SUMS: ClassVar[Mapping[str, frozenset[Event]]] = {
        "joules": frozenset(Event),
        "seconds": frozenset(
            (Event.COMPUTE, Event.SEND, Event.RECEIVE, Event.TAIL, Event.ONLINE, Event.CHARGED)
        ),
        "count": frozenset(
            (Event.SEND, Event.LOST, Event.SILENT, Event.SKIPPED, Event.LATE, Event.FORWARD)
        ),
        "payload_count": frozenset((Event.SEND,)),
        "bits": frozenset((Event.SEND, Event.RECEIVE, Event.LOST, Event.RETRANSMIT, Event.FORWARD)),
    }
    """The events of which each quantity is summed up."""

    _FIRST = 16  # columns allocated at first

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self.t = 0.0
        self.late_rounds: Counter[int] = Counter()
        self._order: list[str] = []
        self._seen = 0
        self._place = np.full(clients + 1, -1, np.int32)  # column of each node; -1 for none yet
        self._room = self._FIRST
        self._sums: dict[tuple[str, int], Array] = {}  # by quantity and event; zeros are not stored

    def absorb(self, rows: Chunk) -> None:
        """Add a chunk of the log."""
        self._check_order(rows["t"])
        nodes, number = number_nodes(rows, "node", self.clients)
        places = self._places(nodes + 1)  # the server is first
        column = rows["event"]
        bits = rows["payload_bits"] + rows["header_bits"] + rows["transport_bits"]
        figures = {
            "joules": rows["joules"],
            "seconds": rows["duration"],
            "count": np.broadcast_to(1.0, len(rows)),
            # Messages that carry a payload, of any length.
            "payload_count": np.sign(rows["payload_bits"]),
            "bits": bits,
        }
        for event in np.flatnonzero(np.bincount(column, minlength=len(Event))).tolist():
            mine = np.flatnonzero(column == event)
            if event == Event.LATE:
                self.late_rounds.update(rows["round"][mine].tolist())
            # The first node may be the server, which has a row for each of a client's.
            for own, some in _split_first(number[mine], mine):
                self._add(event, figures, some, own, places)

    def _add(
        self,
        event: int,
        figures: Mapping[str, NDArray[Any]],
        some: NDArray[np.intp],
        own: NDArray[np.intp],
        places: NDArray[np.int32],
    ) -> None:
        """Add rows of one event to its sums.

        Args:
            event: of these rows.
            figures: by quantity, of all rows of a chunk.
            some: which rows of the chunk these are, shape (n,).
            own: the node of each of them, a number in `places`, shape (n,).
            places: the column of each node of the chunk.
        """
        # Clients that are alike follow each other, one row each, which is its sum.
        once = bool((own[1:] > own[:-1]).all())
        columns = places[own] if once else places[: int(own.max()) + 1]
        for name in (name for name, events in self._SUMS.items() if event in events):
            added = figures[name][some]
            if not once:
                added = np.bincount(own, added)  # in the order of rows
            if (name, event) in self._sums or added.any():
                kept = self._sums.setdefault((name, event), self._of_event(name, event))
                kept[columns] += added

    def _check_order(self, times: Array) -> None:
        """Note where times run back, in a chunk or from the one before it."""
        back = np.flatnonzero(times[1:] < times[:-1])
        if len(times) and times[0] < self.t:
            self._note_order(self.t, times[0])
        elif len(back):
            self._note_order(*times[back[0] : back[0] + 2])
        self.t = float(times[-1]) if len(times) else self.t

    def _note_order(self, before: float, after: float) -> None:
        self._order.append(f"time runs back from {float(before)} to {float(after)}")

    def _of_event(self, name: str, event: int) -> Array:
        """Return the sums of an event by column; unstored zeros if it has none."""
        sums = self._sums.get((name, event))
        return np.zeros(self._room) if sums is None else sums

    def _places(self, nodes: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the columns of nodes without duplicates; new nodes get a column."""
        new = nodes[self._place[nodes] < 0]
        self._place[new] = np.arange(self._seen, self._seen + len(new))
        self._seen += len(new)
        if self._seen > self._room:
            room = max(self._seen, min(2 * self._room, self.clients + 1))
            for sums in self._sums:  # one by one: only one copy at a time takes extra memory
                self._sums[sums] = np.pad(self._sums[sums], (0, room - self._room))
            self._room = room
        return self._place[nodes]

    def _of_nodes(self, sums: Array, nodes: slice = _ALL) -> Array:
        """Return sums by column as sums by node; nodes are shifted by one, the server is first."""
        place = self._place[nodes]
        spread = np.zeros(len(place))
        seen = place >= 0
        spread[seen] = sums[place[seen]]
        return spread

    @property
    def joules(self) -> Array:
        """Joules, shape (events, M + 1): of all nodes, the server first."""
        return np.stack([self._of_nodes(self._of_event("joules", event)) for event in Event])

    def _joules_by_node(self, nodes: slice) -> Array:
        """Return the joules of some nodes over all events, shape (n,); see `_of_nodes`."""
        place = self._place[nodes]
        seen = np.flatnonzero(place >= 0)
        columns, total = place[seen], np.zeros(len(seen))
        for event in Event:
            if (sums := self._sums.get(("joules", event))) is not None:
                total += sums[columns]
        spread = np.zeros(len(place))
        spread[seen] = total
        return spread

    def joules_of(self, clients: range) -> Array:
        """Return the joules of consecutive clients over all events, shape (n,)."""
        return self._joules_by_node(_nodes(clients))

    def occurs(self, what: str, event: Event) -> bool:
        """Return whether a quantity is not zero for some node, among an event's rows."""
        return (what, event) in self._sums

    def of(self, what: str, event: Event, clients: range | None = None) -> Array:
        """Return the sum of a quantity over an event's rows by client, shape (n,).

        Args:
            what: "joules", "seconds", "bits" with header and transport, "count" of rows, or
                "payload_count" of those whose message carries something.
            event: of the rows.
            clients: consecutive ones; None for all.

        Raises:
            KeyError: that quantity is not summed up for the event.
        """
        if event not in self._SUMS[what]:
            raise KeyError(f"{what} of {event.name} rows")
        selected = range(self.clients) if clients is None else clients
        # `zeros` takes no memory until entries are written.
        sums = self._sums.get((what, event))
        return np.zeros(len(selected)) if sums is None else self._of_nodes(sums, _nodes(selected))

    def of_number(self, what: str, event: Event, clients: range | None = None) -> NDArray[np.int64]:
        """Return the same as `of`, as whole numbers."""
        sums = self.of(what, event, clients)
        return sums.astype(np.int64) if sums.any() else np.zeros(len(sums), np.int64)

    def _total(self, event: Event) -> int:
        return int(self._of_event("bits", event).sum())

    def audit(self, meters: Meters, emissions: Emissions | None = None) -> None:
        """Compare the log with the meters.

        Args:
            meters: the world's meter readings.
            emissions: the pricing of the log, if any.

        Raises:
            AuditError: bits, joules or times do not agree; every difference is named.
        """
        # Each identity closes a way for bits to vanish or to be counted twice:
        #   sent = delivered + lost + in flight    inside the network, by its own counters
        #   send rows + retransmit rows = sent     all bits that enter have a row of a sender
        #   receive rows = received                a broadcast is sent once, counted per receiver
        #   lost rows + retransmit rows = lost     a retransmission repeats bits that were lost
        # Bits are integers and must agree exactly; joules are floating-point sums in different
        # orders, and may differ by rounding.
        sent, again, received, lost = (
            self._total(event)
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
        if emissions is not None and meters.idle_grams is not None:
            faults += emissions.faults(meters.joules, meters.idle_joules, meters.idle_grams)
        if faults:
            raise AuditError("the ledger does not add up: " + "; ".join(faults))

    def _energy_faults(self, meters: Meters) -> list[str]:
        # The server's account, at 0, holds the idle energy of the fleet, which `round` and `stop`
        # rows report: one row per round, not one a client.
        faults = list[str]()
        for clients in blocks_of(self.clients):
            metered = meters.joules[clients.start : clients.stop]
            logged = self.joules_of(clients)
            differ = ~np.isclose(logged, metered, rtol=RELATIVE_TOLERANCE, atol=_TINY)
            faults += [
                f"joules of {node_name(clients[place])}: {float(logged[place])} logged,"
                f" {float(metered[place])} metered"
                for place in np.flatnonzero(differ).tolist()
            ]
        logged, idle = self._joules_by_node(slice(0, 1)), float(meters.idle_joules.sum())
        if not np.isclose(logged[0], idle, rtol=RELATIVE_TOLERANCE, atol=_TINY):
            faults.append(f"idle joules: {float(logged[0])} logged, {idle} metered")
        return faults

    def _battery_faults(self, meters: Meters) -> list[str]:
        """Compare the energy that batteries lost with what their clients spent."""
        stores = meters.stores
        if not len(stores.clients):
            return []
        spent = self.joules_of(range(self.clients)) + meters.idle_joules
        # Rounding is relative to all that went in and out, which may be far more than the level: a
        # small battery that is charged and drained all day holds a difference of large sums.
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
            # The battery integrates power over time, a meter adds up spans. What is left of their
            # difference, less the part that the clock's resolution explains, has to be 0.
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
