"""Between the tables of the kernel and the objects: what nodes are made of, and how they end."""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from fedsim.physics.run_length import RunLengthSequence, joint
from fedsim.ports import Array, ClientId, Message
from fedsim.protocol.transport import Envelope
from fedsim.sim.exchanges.layout import KernelTables
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.peers import Parcel, PeerNetwork
from fedsim.sim.network.transport import FLOW_STARTED, STARTED, TIMER_STARTED
from fedsim.sim.power.radio import CellularRadio, RadioMeter
from fedsim.sim.power.radio_kind import RadioKind


def enter_kinds(
    tables: KernelTables,
    kinds: RunLengthSequence[ClientConfig],
    radios: RunLengthSequence[RadioKind],
) -> None:
    """Enter what devices and radios are."""
    nodes, begin = tables.nodes, 0
    for count, (kind, radio) in joint(kinds, radios).runs:
        own = slice(begin, begin + count)
        begin += count
        some = nodes[own]
        some["power"] = kind.device.working() - kind.device.idle
        some["held"], some["per_bit"] = radio.powers.held, radio.per_bit
        some["stateful"] = radio.stateful
        if radio.stateful:
            tail, idle = radio.law.states.stages
            some["idle"] = 1
            some["since"] = -idle.cycle
            some["tail_time"], some["tail_power"] = tail.time, tail.power
            some["wake_time"], some["wake_power"] = idle.wake_time, idle.wake_power
        packets, rates = radio.law.packaging, (kind.rates.down, kind.rates.up)
        for up, rate in enumerate(rates):
            lanes = tables.lanes[2 * own.start + up : 2 * own.stop : 2]
            lanes["latency"], lanes["cap"] = radio.law.latency, rate.constant
            lanes["overhead"] = 8 * packets.overhead
            lanes["room"] = 8 * (packets.packet - packets.overhead)


def hand_back(
    tables: KernelTables, network: PeerNetwork, sent: Callable[[ClientId, int], Message]
) -> Array:
    """Leave messages in transit, and radios that are not idle, to the network.

    Args:
        tables: at the end of the run.
        network: gets them.
        sent: returns a node's message of its last even, or odd, exchange.

    Returns:
        What each node has spent without those radios, J, shape (M,).
    """
    nodes = tables.nodes
    network.message_log.delivered = int(tables.total["delivered"][0])
    busy = tables.lanes["current"].reshape(-1, 2) >= 0
    left = (nodes["stateful"] & (1 - nodes["idle"] | nodes["waking"]) > 0) | busy.any(axis=1)
    for number in np.flatnonzero(left).tolist():
        _leave_radio(network.lane_of(number, up=True).radio, nodes[number])
        for up in (False, True):
            if busy[number, int(up)]:
                _leave_lane(tables, network, number, up, sent)
    joules: Array = nodes["work_joules"] + np.where(left, 0.0, nodes["radio_joules"])
    return joules


def _leave_radio(radio: RadioMeter, own: Any) -> None:  # noqa: ANN401 - a record
    """Let a radio be as a node's is."""
    down, up = own["began"].tolist()
    radio.begin_as(
        [down, up], float(own["radio_joules"]), float(own["paid_until"]), int(own["flowing"])
    )
    if isinstance(radio, CellularRadio):
        radio.begin_in(
            resting=bool(own["idle"]),
            since=float(own["since"]),
            ready=float(own["ready"]) if own["waking"] else inf,
            round_number=int(own["radio_round"]),
        )


def _leave_lane(
    tables: KernelTables,
    network: PeerNetwork,
    node: ClientId,
    up: bool,  # noqa: FBT001 - as `Fleet.lane`
    sent: Callable[[ClientId, int], Message],
) -> None:
    """Let a lane have the messages that a node's has."""
    own, lane = tables.lanes[2 * node + up], network.lane_of(node, up=up)
    lane.began, lane.framing_bits = float(own["began"]), int(own["framing"])
    if not tables.nodes[node]["stateful"]:
        lane.state = TIMER_STARTED
    else:
        flows = bool(int(tables.nodes[node]["flowing"]) >> up & 1)
        lane.state = FLOW_STARTED if flows else STARTED
    lane.current = _parcel(tables, int(own["current"]), sent)
    waits = int(own["head"])
    while waits >= 0:
        parcel = _parcel(tables, waits, sent)
        lane.enqueue(parcel, lane.count_framing(parcel.bits))
        waits = int(tables.messages[waits]["follows"])


def _parcel(tables: KernelTables, number: int, sent: Callable[[ClientId, int], Message]) -> Parcel:
    own: Any = tables.messages[number]
    sender, receiver, odd, framing = (
        int(own[name]) for name in ("sender", "receiver", "odd", "framing")
    )
    what = int(own["round"]), int(tables.nodes["exchange"][sender]), int(own["header"])
    envelope = Envelope(sent(sender, odd), *what, int(tables.total["word"][0]))
    return Parcel(envelope, sender, receiver, framing)
