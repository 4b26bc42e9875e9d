"""What a queue of a link has beyond its fields: waiting packets: see `LinkQueue`."""

import operator
from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import part
from fedsim.addons.tcp.compiled.events import free_node, take_node
from fedsim.addons.tcp.compiled.kinds import Record
from fedsim.addons.tcp.compiled.records import method, operation

Wait = tuple[float, float, int]
"""When the first segment of a train leaves the queue, the time between segments, their number."""


@method("queue", "cross", inlined=False)
def _cross(q: Record, bits: float) -> None:
    if q.streams:
        q.add_flow(bits, inf, at.NOTHING)


@method("queue", "lasts")
def _lasts(q: Record, bits: float) -> float:
    seconds: float = bits / q.rate
    return seconds


@method("queue", "when")
def _when(q: Record, start: float, bits: float) -> float:
    end: float = start + bits / q.rate
    return end


# Waiting trains: a node holds several, and the queue refers to the first and the last used item.


@operation(operator.getitem, "waits")
def _first(q: Record, _: int) -> Wait:
    F, item = q.reals, q.wait_first + at.ITEM * q.wait_begin
    return F[item + at.START], F[item + at.SLOT], q.words[item + at.WAITERS]


@operation(operator.setitem, "waits")
def _replace_first(q: Record, _: int, wait: Wait) -> None:
    _write(q, q.wait_first + at.ITEM * q.wait_begin, wait)


@part
def _write(q: Record, item: int, wait: Wait) -> None:
    W, F = q.words, q.reals
    F[item + at.START], F[item + at.SLOT], W[item + at.WAITERS] = wait


@method("waits", "append")
def _append(q: Record, wait: Wait) -> None:
    if not q.wait_first or q.wait_end == at.ITEMS:
        _add_node(q)
    _write(q, q.wait_last + at.ITEM * q.wait_end, wait)
    q.wait_end += 1


@part
def _add_node(q: Record) -> None:
    W = q.words
    node = take_node(W)
    W[node + at.LINK], q.wait_end = 0, 0
    if q.wait_first:
        W[q.wait_last + at.LINK] = node
    else:
        q.wait_first, q.wait_begin = node, 0
    q.wait_last = node


@method("waits", "popleft")
def _popleft(q: Record) -> None:
    node, W = q.wait_first, q.words
    q.wait_begin += 1
    # The last node may be partly filled.
    if q.wait_begin == (q.wait_end if node == q.wait_last else at.ITEMS):
        q.wait_first, q.wait_begin = W[node + at.LINK], 0
        free_node(W, node)


@method("waits", "clear", inlined=False)
def _clear(q: Record) -> None:
    node, W = q.wait_first, q.words
    while node:
        behind = W[node + at.LINK]
        free_node(W, node)
        node = behind
    q.wait_first = q.wait_last = 0
