"""The log of a run by client: its rows, and its messages with their spans.

A message has a row of its sender; its retransmission is in the next row. For a broadcast in a cell,
and for a message that a peer receives, the receiver's row has the time of the bits.
`fedsim.addons.conformance.energy` computes the energy of these messages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from fedsim.physics.devices import DeviceLaw
from fedsim.physics.radios import RadioLaw
from fedsim.physics.radios.lorawan import LoRaGateway

Row = Mapping[str, Any]
Span = tuple[float, float]

_BROKEN = ("aborted", "in flight")
BITS = ("payload_bits", "header_bits", "transport_bits")


@dataclass(frozen=True)
class Body:
    """The components of a client.

    Attributes:
        name: as in the log.
        device, radio: their laws.
        empty: whether its battery, if any, is empty as the run begins.
        open_up, open_down: whether only the radio limits what it sends, or receives.
        factor: the share of the radio's rates that the network model leaves.
        slowed: whether others of its cell, with other radios, may set the rate of a broadcast.
        shared: whether it shares the air of a Wi-Fi cell, in which frames have more than their
            bits, collide, and are answered.
        hops: whether its messages go from node to node, each at the rate of the slower of two.
        gateway: the gateway of its LoRa radio, whose frames may collide; None without one.
    """

    name: str
    device: DeviceLaw
    radio: RadioLaw
    empty: bool = False
    open_up: bool = False
    open_down: bool = False
    factor: float = 1.0
    slowed: bool = False
    shared: bool = False
    gateway: LoRaGateway | None = None
    hops: bool = False


@dataclass(frozen=True)
class Leg:
    """A message on one client's radio, in one direction.

    Attributes:
        up: its direction.
        end, seconds: the end and the duration of its bits, s.
        bits: including framing and retransmissions; infinite if not in the log.
        framed: the same without retransmissions.
        plain: without framing and retransmissions.
        whole: whether all bits have passed.
    """

    up: bool
    end: float
    seconds: float
    bits: float
    framed: int = 0
    plain: int = 0
    whole: bool = True

    @property
    def begin(self) -> float:
        """The time at which its bits began to flow, s."""
        return self.end - self.seconds


@dataclass
class ClientTrace:
    """The rows of the log about one client.

    Attributes:
        body: the client.
        rows: its own, in order.
        legs: its messages.
        on_air: spans of broadcasts that it may have received.
    """

    body: Body
    rows: list[Row] = field(default_factory=list)
    legs: list[Leg] = field(default_factory=list)
    on_air: list[Span] = field(default_factory=list)

    def of(self, *events: str) -> list[Row]:
        """Return its rows of the given events."""
        return [row for row in self.rows if row["event"] in events]

    def off(self, end: float) -> list[Span]:
        """Return the spans in which its battery was empty."""
        spans, since = list[Span](), 0.0 if self.body.empty else inf
        for row in self.of("depleted", "charged"):
            if row["event"] == "depleted":
                since = row["t"]
            else:
                spans.append((since, row["t"]))
                since = inf
        return spans if since == inf else [*spans, (since, end)]


def read_traces(bodies: Sequence[Body], rows: Sequence[Row]) -> dict[str, ClientTrace]:
    """Return the rows of a log by client name."""
    traces = {body.name: ClientTrace(body) for body in bodies}
    for row in rows:
        if row["node"] in traces:
            traces[row["node"]].rows.append(row)
    for at, row in enumerate(rows):
        if row["event"] == "send":
            _read_sent(traces, rows, at)
        elif row["event"] == "receive" and row["node"] in traces:
            _read_received(traces[row["node"]], rows, at)
    return traces


def _read_sent(traces: Mapping[str, ClientTrace], rows: Sequence[Row], at: int) -> None:
    """Read a message of a client, or one of its server to it or to a cell."""
    row = rows[at]
    more = _again(rows, at)
    span = row["duration"] + (more["duration"] if more else 0.0)
    if row["node"] in traces:
        traces[row["node"]].legs.append(_leg(row, more, span, up=True))
    elif row["peer"] in traces:
        traces[row["peer"]].legs.append(_leg(row, more, span, up=False))
    elif not row["peer"]:
        for trace in traces.values():
            trace.on_air.append((row["t"] - span, row["t"]))


def _serves(name: str) -> bool:
    """Return whether a node is a server of clients: the one at the top, or a gateway."""
    return not name.startswith("client-")


def _again(rows: Sequence[Row], at: int) -> Row | None:
    """Return the row of the retransmission of a `send` row's message, if any."""
    row, after = rows[at], rows[at + 1] if at + 1 < len(rows) else None
    if row["event"] != "send" or after is None or after["event"] != "retransmit":
        return None
    same = all(row[key] == after[key] for key in ("t", "node", "peer", "round"))
    return after if same else None


def _leg(row: Row, more: Row | None, span: float, *, up: bool) -> Leg:
    framed = sum(int(row[key]) for key in BITS)
    plain = framed - int(row["transport_bits"])
    bits = framed + (int(more["transport_bits"]) if more else 0)
    return Leg(up, row["t"], span, bits, framed, plain, row["detail"] not in _BROKEN)


def _read_received(trace: ClientTrace, rows: Sequence[Row], at: int) -> None:
    """Read a message whose time is only in its receiver's row: a broadcast, or one of a peer."""
    row = rows[at]
    before = rows[at - 1]
    if _serves(before["node"]) and before["peer"] == row["node"]:
        return  # the server's row reports them
    broadcast = _serves(row["peer"])
    if broadcast and any(leg.end == row["t"] and not leg.up for leg in trace.legs[-2:]):
        return  # the same, with rows in between
    if row["detail"] in _BROKEN:
        trace.legs.append(
            Leg(up=False, end=row["t"], seconds=row["duration"], bits=inf, whole=False)
        )
        return
    source = row if row["detail"] is None else _find_loss(rows, at, broadcast=broadcast)
    plain = int(source["payload_bits"]) + int(source["header_bits"])
    framed = plain + trace.body.radio.packaging.bits(plain)
    again = 0
    if before["event"] == "retransmit" and before["peer"] == row["node"]:
        # Right after the row of its sender, it is what that one has sent again (`_again`).
        is_own = before["t"] == row["t"] and _again(rows, at - 2) is not before
        again = int(before["transport_bits"]) if is_own else 0
    trace.legs.append(
        Leg(
            up=False,
            end=row["t"],
            seconds=row["duration"],
            bits=framed + again,
            framed=framed,
            plain=plain,
        )
    )


def _find_loss(rows: Sequence[Row], at: int, *, broadcast: bool) -> Row:
    """Return the row with the bits of a message that its receiver has lost."""
    row = rows[at]
    event = "send" if broadcast else "lost"
    later = range(at + 1, len(rows))
    lost_row = (
        rows[n]
        for n in later
        if rows[n]["event"] == event
        and rows[n]["t"] == row["t"]
        and rows[n]["node"] == row["peer"]
        and rows[n]["peer"] in {None, row["node"]}
    )
    return next(lost_row, row)
