"""The sharing of one link: the fair share of its flows, their remaining bits, and their ends.

The functions are laws (see `fedsim.core.laws`). `fedsim.sim.network.processor_sharing` calls them
on objects, and the kernel of TCP on records of its queues and flows. Links have methods for what
differs:

- `first(order)` returns the first flow of a side in an order. There has to be one.
- `admit()` lets new flows enter a side, and `hold(flow)` files a flow that has entered one.
- `drop(flow, left)` forgets a flow that has left its side, and `end(flow)` one that is complete.
- `touch()` schedules `settle` at the end of this instant, and `await_end(time)` `complete`.
- `add_demand` and `check_whole` handle several equal flows as one, which only objects do.

With caps c_i and capacity C, the rates are min(c_i, s). The fair share s makes them add up to C,
and is infinite if all caps fit. Flows at their cap, the capped side, have a fixed end. The sharing
side runs at s, and its flows end in the order of a virtual time that passes at the rate s.
"""

# The virtual time makes a change cheap. It counts the bits that each sharing flow has been served.
# So a flow that joins at V with b bits left ends at V + b, whatever the share is until then: a
# change of the share moves the real times of all these ends, but not their virtual times.

from math import inf
from typing import Any

from fedsim.core.laws import law

Link = Any
"""A `FairLink`, or the record of a queue. Its attributes:

capacity: bit/s.
capped, demand: the number of flows on the capped side, and the sum of their caps, bit/s.
sharing, share: the number of flows on the sharing side, and their rate, bit/s.
virtual, virtual_at: the bits that each sharing flow has been served, up to this time, s.
target: the virtual time of the next end, if it is on the sharing side; otherwise infinite.
settling: whether `settle` is scheduled for this instant.
"""

Flow = Any
"""A `SharedTransfer`, or the record of a flow."""

SHARING_ENDS, SHARING_CAPS, CAPPED_ENDS, CAPPED_CAPS = range(4)
"""Orders of the flows of a side. Two are by their ends. Two are by cap, as flows change sides: the
sharing side begins with the smallest cap, and the capped side with the largest. Of equal flows the
one that arrived first comes first."""


@law
def settle(link: Link) -> None:
    """Admit new flows, recompute the share, and wait for the next end.

    It is called once per instant, for all changes of this instant.
    """
    link.settling = False
    advance(link)
    link.admit()
    balance(link)
    wait(link)


@law
def advance(link: Link) -> None:
    """Bring the virtual time up to now."""
    now = link.calendar.now
    if link.sharing:
        link.virtual += link.share * (now - link.virtual_at)
    else:
        # No mark refers to it, so it restarts at full precision: at 1e15 bits, a day's work of a
        # link of 10 Gbit/s, a float does not resolve a tenth of a bit any more.
        link.virtual = 0.0
    link.virtual_at = now


@law
def all_fit(link: Link, wanted: float) -> bool:
    """Return whether new flows, with this sum of caps, all run at their cap.

    New flows may enter either side: `balance` moves those that are on the wrong one. If all of them
    fit, none has to be moved from the capped side, which is faster.
    """
    fits: bool = link.demand + wanted <= link.capacity and not link.sharing
    return fits


@law
def balance(link: Link) -> None:
    """Move flows between the sides until all rates are min(cap, share)."""
    # With n flows that share, s = (C - D) / n. If one of cap c > s joins them, s becomes
    # (n s + c) / (n + 1) > s. If one of cap c < s leaves them, s becomes (n s - c) / (n - 1), which
    # is above s as well. So the share only rises here. A flow that the second loop caps stays
    # capped, and the first loop need not run again: by then every capped flow is below the share. A
    # flow may cross twice, if many small ones arrive at a low share that rises as they are capped;
    # never more often.
    share = fair_share(link)
    while link.capped:
        flow = link.first(CAPPED_CAPS)
        if not flow.cap > share:
            break
        share = move(link, flow, flow.cap * (flow.mark - link.calendar.now))
    while link.sharing:
        flow = link.first(SHARING_CAPS)
        if not flow.cap < share:
            break
        share = move(link, flow, flow.mark - link.virtual)
    link.share = share


@law
def fair_share(link: Link) -> float:
    """Return the rate of sharing flows, bit/s; infinite if there are none."""
    if not link.sharing:
        return inf
    share: float = (link.capacity - link.demand) / link.sharing
    return share


@law
def move(link: Link, flow: Flow, left: float) -> float:
    """Move a flow with some bits left to the other side; return the fair share then, bit/s."""
    link.check_whole(flow)
    leave(link, flow)
    enter(link, flow, left, not flow.capped)
    return fair_share(link)


@law
def enter(link: Link, flow: Flow, left: float, capped: bool) -> None:
    """Let a flow with some bits left enter a side."""
    flow.moves += 1
    flow.capped = capped
    if capped:
        link.capped += flow.count
        link.add_demand(flow.cap, flow.count)
        flow.mark = link.calendar.now + left / flow.cap
    else:
        link.sharing += flow.count
        flow.mark = link.virtual + left
    link.hold(flow)


@law
def leave(link: Link, flow: Flow) -> None:
    """Let a flow leave its side."""
    if not flow.capped:
        link.sharing -= flow.count
        return
    link.capped -= flow.count
    if link.capped:
        link.add_demand(-flow.cap, flow.count)
    else:
        link.demand = 0.0  # exactly, so that rounding errors do not accumulate


@law
def remaining_bits(link: Link, flow: Flow, now: float) -> float:
    """Return the bits of a flow that have not passed by the time `now`."""
    left: float = flow.bits  # at the instant at which it was added, when it is on neither side
    if flow.moves and flow.capped:
        left = flow.cap * (flow.mark - now)
    elif flow.moves:
        left = flow.mark - link.virtual - link.share * (now - link.virtual_at)
    return left


@law
def remove(link: Link, flow: Flow) -> None:
    """Cancel an unfinished flow."""
    advance(link)
    # After `advance`, which the virtual time of `remaining_bits` refers to.
    left = remaining_bits(link, flow, link.calendar.now)
    if flow.moves:
        leave(link, flow)
    link.drop(flow, left)
    link.touch()


@law
def wait(link: Link) -> None:
    """Wait for the next end on either side."""
    end = link.target = inf
    if link.capped:
        end = link.first(CAPPED_ENDS).mark
    if link.sharing:
        mark = link.first(SHARING_ENDS).mark
        shared_end = link.calendar.now + (mark - link.virtual) / link.share
        # A tie goes to this side, so that `complete` sets the virtual time to the mark. Capped ends
        # of the same instant are found by their times in any case.
        if shared_end <= end:
            end, link.target = shared_end, mark
    link.await_end(end)


@law
def complete(link: Link) -> None:
    """Complete all flows that end now."""
    advance(link)
    # The time of this end was computed from the mark, and the present virtual time from that time.
    # Rounding may leave it one unit short: nothing would end, and the timer would be set to this
    # same instant again and again. So it is set to the mark itself.
    if link.target < inf:
        link.virtual = link.target
    while link.capped:
        flow = link.first(CAPPED_ENDS)
        if not flow.mark <= link.calendar.now:
            break
        leave(link, flow)
        link.end(flow)
    while link.sharing:
        flow = link.first(SHARING_ENDS)
        if not flow.mark <= link.virtual:
            break
        link.sharing -= flow.count  # without a call of `leave`, for speed
        link.end(flow)
    if link.sharing:  # these are faster now: settled with other changes of this instant
        link.touch()
    else:
        wait(link)
