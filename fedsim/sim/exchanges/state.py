"""Transfer of state between the tables of the kernel and the objects of the network."""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, ClientId, Message
from fedsim.physics.radios.stages import stage_records
from fedsim.physics.run_length import RunLengthSequence, joint
from fedsim.protocol.transport import Envelope
from fedsim.sim.exchanges.layout import KernelTables, Records
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.peers import Parcel, PeerNetwork
from fedsim.sim.network.transport import FLOW_STARTED, STARTED, TIMER_STARTED
from fedsim.sim.power.radio import CellularRadio, RadioMeter
from fedsim.sim.power.radio_kind import RadioKind
from fedsim.sim.worlds.open_spans import NO_SPANS, Spans, States, Unsettled, tails

_METER = "joules", "paid_until", "flowing"
_STATE = "stage", "since", "waking", "ready", "round_number"


def enter_kinds(
    tables: KernelTables,
    kinds: RunLengthSequence[ClientConfig],
    radios: RunLengthSequence[RadioKind],
) -> None:
    """Write the constants of devices and radios."""
    nodes, begin = tables.nodes, 0
    for count, (kind, radio) in joint(kinds, radios).runs:
        members = slice(begin, begin + count)
        begin += count
        records = nodes[members]
        records["power"] = kind.device.working() - kind.device.idle
        records["held"], records["per_bit"] = radio.powers.held, radio.per_bit
        records["stateful"] = radio.stateful
        if radio.stateful:
            records["stages"] = stage_records([radio.law.states.stages])
            records["last"] = records["stage"] = 1
        packets, rates = radio.law.packaging, (kind.rates.down, kind.rates.up)
        for up, rate in enumerate(rates):
            # Even rows are downlinks, odd ones uplinks.
            lanes = tables.lanes[2 * members.start + up : 2 * members.stop : 2]
            lanes["latency"], lanes["cap"] = radio.law.latency, rate.constant
            lanes["overhead"] = 8 * packets.overhead
            lanes["room"] = 8 * (packets.packet - packets.overhead)


def hand_back(
    tables: KernelTables, network: PeerNetwork, sent: Callable[[ClientId, int], Message]
) -> Array:
    """Hand messages in transit, and radios that are not idle, over to the network.

    Args:
        tables: the tables at the end of the run.
        network: receives messages and radios.
        sent: returns a node's message of its last even, or odd, exchange.

    Returns:
        The energy of each node without those radios, J, shape (M,).
    """
    nodes = tables.nodes
    network.message_log.delivered = int(tables.total["delivered"][0])
    busy = tables.lanes["current"].reshape(-1, 2) >= 0
    awake = (nodes["stage"] < nodes["last"]) | (nodes["waking"] > 0)
    active = awake | busy.any(axis=1)
    for number in np.flatnonzero(active).tolist():
        _leave_radio(network.lane_of(number, up=True).radio, nodes[number])
        for up in (False, True):
            if busy[number, int(up)]:
                _leave_lane(tables, network, number, up, sent)
    # The network charges the radios that it takes over, with all that they have spent so far.
    joules: Array = nodes["work_joules"] + np.where(active, 0.0, nodes["joules"])
    return joules


def unsettled(tables: KernelTables, now: float) -> Unsettled:
    """Return the energy of work, messages and radio states that no row has charged yet.

    See `fedsim.sim.power.unsettled`, and `ServerLanes.open_spans`.
    """
    nodes = tables.nodes
    works = np.flatnonzero((nodes["work_begun"] >= 0.0) & (nodes["work_begun"] < now))
    waking = np.flatnonzero(nodes["waking"])
    tail, idle = nodes["stages"][:, 0], nodes["stages"][:, 1]
    connected = (nodes["waking"] == 0) & (nodes["stage"] < nodes["last"])
    waiting = np.flatnonzero(connected & (nodes["flowing"] == 0))
    flowing = np.flatnonzero(connected & (nodes["flowing"] > 0))
    ready, since = nodes["ready"][waking], nodes["since"][waiting]
    promoted, wake_watts = ready - idle["wake_time"][waking], idle["wake_power"][waking]
    watts = tail["power"][waiting]
    spent = Spans.join(
        [
            Spans.at_power(works, nodes["work_begun"][works], now, nodes["power"][works]),
            Spans.at_power(waking, promoted, now, wake_watts),
            Spans.at_power(waiting, since, now, watts),
            _open_messages(tables, now),
        ]
    )
    # Each of the three kinds of states: its clients, end, power, and the stage after it.
    over, still = np.full(len(flowing), -inf), np.zeros(len(flowing))
    kinds = (
        (waking, ready, wake_watts, np.zeros(len(waking), int)),
        (waiting, since + tail["time"][waiting], watts, np.ones(len(waiting), int)),
        (flowing, over, still, np.zeros(len(flowing), int)),
    )
    states = States(*map(np.concatenate, zip(*kinds, strict=True)))

    def figure(name: str, clients: NDArray[np.intp], _: NDArray[np.integer]) -> Array:
        return np.asarray(tail[name][clients])

    last = np.ones(len(states.clients), int)
    return Unsettled(spent, Spans.join([NO_SPANS, *tails(states, now, last, figure)]))


def _open_messages(tables: KernelTables, now: float) -> Spans:
    """Return the messages in progress; see `RadioMeter.unsettled`."""
    lanes = tables.lanes.reshape(-1, 2)
    busy = np.flatnonzero((lanes["current"] >= 0).any(axis=1))
    nodes = tables.nodes[busy]
    down, up = (_bits_flown(tables, lanes[busy, way], now) for way in (0, 1))
    began = nodes["began"].min(axis=1)
    joules = nodes["per_bit"][:, 0] * down + nodes["per_bit"][:, 1] * up
    joules += nodes["held"] * np.maximum(now - np.maximum(began, nodes["paid_until"]), 0.0)
    return Spans(busy, np.minimum(began, now), np.full(len(busy), now), joules)


def _bits_flown(tables: KernelTables, lanes: Records, now: float) -> Array:
    """Return the bits of the current messages of lanes that have passed; see `Lane.bits_flown`."""
    current = tables.messages[lanes["current"]]
    bits = np.where(
        lanes["current"] < 0, 0, current["payload"] + current["header"] + lanes["framing"]
    )
    whole = now >= lanes["began"] + bits / lanes["cap"]
    with np.errstate(invalid="ignore"):  # at an infinite rate it is whole as it begins
        flown = np.where(whole, bits, lanes["cap"] * (now - lanes["began"]))
    return np.where(now > lanes["began"], flown, 0.0)


def _leave_radio(radio: RadioMeter, record: Any) -> None:
    """Set the state of a radio to that of a node."""
    stateful = isinstance(radio, CellularRadio)
    for name in ("began", *_METER, *(_STATE if stateful else ())):
        setattr(radio, name, record[name].tolist())


def _leave_lane(
    tables: KernelTables,
    network: PeerNetwork,
    node: ClientId,
    up: bool,
    sent: Callable[[ClientId, int], Message],
) -> None:
    """Set the messages of a lane to those of a node's lane."""
    record, lane = tables.lanes[2 * node + up], network.lane_of(node, up=up)
    lane.began, lane.framing_bits = float(record["began"]), int(record["framing"])
    # The same states as in `lane_states.TRANSITIONS`: a plain lane has one timer, a stateful one
    # two events.
    if not tables.nodes[node]["stateful"]:
        lane.state = TIMER_STARTED
    else:
        flows = bool(int(tables.nodes[node]["flowing"]) >> up & 1)
        lane.state = FLOW_STARTED if flows else STARTED
    lane.current = _parcel(tables, int(record["current"]), sent)
    # Queued messages follow, in the order in which they will be aborted and recorded.
    waiting = int(record["head"])
    while waiting >= 0:
        parcel = _parcel(tables, waiting, sent)
        lane.enqueue(parcel, lane.count_framing(parcel.bits))
        waiting = int(tables.messages[waiting]["follows"])


def _parcel(tables: KernelTables, number: int, sent: Callable[[ClientId, int], Message]) -> Parcel:
    record: Any = tables.messages[number]
    sender, receiver, odd, framing = (
        int(record[name]) for name in ("sender", "receiver", "odd", "framing")
    )
    numbers = int(record["round"]), int(tables.nodes["exchange"][sender]), int(record["header"])
    envelope = Envelope(sent(sender, odd), *numbers, int(tables.total["word"][0]))
    return Parcel(envelope, sender, receiver, framing)
