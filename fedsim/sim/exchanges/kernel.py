"""Kernel of exchanges: the events of all nodes, in the order of the calendar.

Every function corresponds to a method of the event-by-event path, which its docstring names. It
computes with the same operations in the same order, and assigns serial numbers in the same order.
So the log is the same to the last bit.
"""

from pathlib import Path
from typing import Any

from fedsim.physics.radios import stages
from fedsim.results.record import schema
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.exchanges.events import schedule, take_next, write
from fedsim.sim.exchanges.lanes import begin, enqueue, flow, framing_of
from fedsim.sim.exchanges.layout import (
    ARRIVE,
    ASKS,
    CLOSED,
    COMMIT,
    COMPUTE,
    COMPUTED,
    EXPIRE,
    FLOW,
    FULL,
    STILL,
    KernelTables,
)
from fedsim.sim.kernels import part, stored_by
from fedsim.sim.power import transitions

_SENT, _RECEIVED, _COMPUTED = int(Event.SEND), int(Event.RECEIVE), int(Event.COMPUTE)

_FILES = str(schema.__file__), transitions.__file__, stages.__file__
_SOURCES = *sorted(Path(__file__).parent.glob("*.py")), *map(Path, _FILES)

kernel = stored_by(_SOURCES)


@part
def arrive(tables: KernelTables, number: int) -> None:
    """See `ServerLanes._arrive`, and `PeerNetwork` for what follows an arrival."""
    lane: Any = tables.lanes[number]
    total: Any = tables.total[0]
    message = lane.current
    sent: Any = tables.messages[message]
    which, up = number >> 1, number & 1
    bits = sent.payload + sent.header
    joules = transitions.end(tables.nodes[which], total.now, bits + lane.framing, up)
    total.joules += joules
    if up:
        event, peer = _SENT, sent.receiver
    else:
        event, peer = _RECEIVED, sent.sender
        total.delivered += bits + sent.framing
    write(tables, event, which, peer, sent.round, total.now - lane.began, joules)
    row: Any = tables.rows[total.rows - 1]
    row.message = total.word
    row.payload_bits = sent.payload
    row.header_bits = sent.header
    row.transport_bits = sent.framing
    lane.current = -1
    if tables.nodes[which].stateful:
        transitions.mark_idle(tables.nodes[which], up, tables)
    if lane.head >= 0:
        # The next message of the queue starts before the receiver reacts, as in
        # `ServerLanes._arrive`.
        head = lane.head
        lane.head = tables.messages[head].follows
        begin(tables, number, head)
    # An uplink leg is followed by the downlink leg of the receiver.
    if up:
        enqueue(tables, 2 * sent.receiver, message)
    else:
        receive(tables, which, sent.odd)


@part
def receive(tables: KernelTables, which: int, odd: int) -> None:
    """See `PeerProtocol.receive`: count a message; wake a node whose exchange is complete."""
    node: Any = tables.nodes[which]
    total: Any = tables.total[0]
    node.received[odd] += 1
    # A message of the next exchange may come first; it is counted under its own parity. The node is
    # woken only if it waits for this exchange.
    if node.open and (node.exchange & 1) == odd and node.received[odd] == node.degree:
        ready: Any = tables.ready
        ready[(total.next + total.ready) % len(ready)] = which
        total.ready += 1


@part
def ask(tables: KernelTables, which: int) -> None:
    """Ask for the next steps of a node: all messages of its exchange have been sent to it."""
    total: Any = tables.total[0]
    if not total.known:
        tables.asked[total.asked] = which
        total.asked += 1


@part
def exchange(tables: KernelTables, which: int) -> None:
    """See `PeerProtocol.open` and `PeerNetwork.send`."""
    node: Any = tables.nodes[which]
    nodes: Any = tables.nodes
    messages: Any = tables.messages
    total: Any = tables.total[0]
    node.exchange += 1
    odd = node.exchange & 1
    node.open = 1
    # The steps of a node depend on the contents of messages alone. So they are asked for as the
    # last message is sent, before it arrives, and the coroutine runs ahead of the clock.
    if node.sent[odd] == node.degree:
        ask(tables, which)
    bits = node.payload + node.header
    framing = framing_of(tables.lanes[2 * which + 1], bits)
    # Charged as it is sent, per receiver, with the framing of the sender's radio.
    total.bits_up += (bits + framing) * node.degree
    if node.payload:
        total.transmissions += node.degree
    else:
        total.beacons += node.degree
    for edge in range(node.first, node.first + node.degree):
        other = tables.receivers[edge]
        # Even and odd exchanges of an edge alternate between two records; see `MESSAGE`.
        message = 2 * edge + odd
        messages[message].sender = which
        messages[message].receiver = other
        messages[message].round = node.round
        messages[message].odd = odd
        messages[message].payload = node.payload
        messages[message].header = node.header
        messages[message].framing = framing
        nodes[other].sent[odd] += 1
        if (
            nodes[other].open
            and (nodes[other].exchange & 1) == odd
            and nodes[other].sent[odd] == nodes[other].degree
        ):
            ask(tables, other)
        enqueue(tables, 2 * which + 1, message)


@part
def charge(tables: KernelTables, which: int) -> None:
    """See `Worker._charge`: complete the work of a step."""
    node: Any = tables.nodes[which]
    total: Any = tables.total[0]
    span = total.now - node.work_begun
    joules = node.power * span
    node.work_joules += joules
    total.joules += joules
    write(tables, _COMPUTED, which, NO_PEER, node.round, span, joules)
    row: Any = tables.rows[total.rows - 1]
    row.operations = tables.figures[which, node.step, 1]
    row.samples = tables.figures[which, node.step, 2]
    node.work_begun = -1.0
    node.step += 1


@part
def commit(tables: KernelTables, which: int) -> bool:
    """See `PeerRounds.commit`: return whether the open round is over."""
    nodes: Any = tables.nodes
    total: Any = tables.total[0]
    # Raised before the comparison: the node's round is now the one after the round that it has
    # committed.
    nodes[which].round += 1
    # A node that is ahead commits a later round, which is not open yet.
    if nodes[which].round != total.round + 1:
        return False
    total.left -= 1
    if total.left:
        return False
    total.round += 1
    for number in range(len(nodes)):
        # Nodes may be ahead by a round: they have committed the next one already.
        if nodes[number].round <= total.round:
            total.left += 1
    return True


@part
def close(node: Any) -> None:
    """See `PeerProtocol.replies`: close an exchange if one is open."""
    if node.open:
        odd = node.exchange & 1
        node.open = 0
        node.sent[odd] = 0
        node.received[odd] = 0


@part
def resume(tables: KernelTables, which: int) -> int:
    """Run the steps of a node until it waits; return 0, or the code to return from the kernel."""
    node: Any = tables.nodes[which]
    total: Any = tables.total[0]
    while True:
        if node.step == node.steps or node.round > total.last:
            return 0 if node.round > total.last else ASKS
        # The exchange is closed as its replies are taken, just before the first step after it.
        close(node)
        kind = tables.kinds[which, node.step]
        if kind == COMPUTE:
            node.work_begun = total.now
            seconds = tables.figures[which, node.step, 0]
            # A comparison of the times, not of `seconds` with 0: short work late in a run may not
            # move the clock.
            if total.now + seconds > total.now:
                schedule(tables, total.now + seconds, COMPUTED, which, 0, 0)
                return 0
            if seconds:  # below the resolution of the clock: other events may come first
                return STILL
            charge(tables, which)
        elif kind == COMMIT:
            node.step += 1
            if commit(tables, which):
                return CLOSED
        else:  # EXCHANGE
            exchange(tables, which)
            node.step = 0
            # Steps are known for all nodes up to `known`: the node repeats them. Later ones are
            # asked for.
            if node.exchange >= total.known:
                node.steps = 0
            # All messages may have arrived before the node has opened the exchange. Then it goes on
            # within this event, without waiting.
            if node.received[node.exchange & 1] < node.degree:
                return 0


@part
def execute(tables: KernelTables) -> None:
    """Execute the next event."""
    total: Any = tables.total[0]
    kind, which, turn = take_next(tables)
    if kind == ARRIVE:
        arrive(tables, which)
    elif kind == FLOW:
        flow(tables, which)
    elif kind == EXPIRE:
        transitions.expire(tables.nodes[which], turn, tables)
    elif kind == COMPUTED:
        charge(tables, which)
        total.running = which  # the node goes on within this event, as a coroutine does
    else:
        transitions.promote(tables.nodes[which], turn, tables)


@kernel
def play(tables: KernelTables) -> int:
    """Execute events; return why it stops, as `layout` lists."""
    total: Any = tables.total[0]
    most = len(tables.rows) - 2 * len(tables.nodes) - tables.kinds.shape[1] - 2
    while True:
        # Checked before each pass: a pass writes fewer rows than are left beyond `most`.
        if total.rows > most:
            return FULL
        # Woken nodes run before the next event, as coroutines do on the event loop.
        # A node that has stopped for a round to be committed is still running, and goes on first.
        if total.running < 0 and total.ready:
            total.running = tables.ready[total.next]
            total.next = (total.next + 1) % len(tables.ready)
            total.ready -= 1
        if total.running >= 0:
            why = resume(tables, total.running)
            if why:
                return why
            total.running = -1
            continue
        if not total.events:
            return STILL
        execute(tables)
