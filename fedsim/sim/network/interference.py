"""Interference: which transmissions reach a node, and which receptions they disturb."""

from collections.abc import Sequence

from fedsim.core.ports import ClientId
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.hops import OnAir


class Interference:
    """The transmissions that reach each node; those that overlap at a receiver collide there.

    Args:
        calendar: the calendar.
        near: the present nodes in range of each node.
    """

    def __init__(self, calendar: Calendar, near: Sequence[Sequence[ClientId]]) -> None:
        self._calendar = calendar
        self._near = near
        # By node: the transmissions that reach it, including its own. A dictionary keeps their
        # order, which a set would not.
        self._audible: dict[ClientId, dict[OnAir, None]] = {}

    def begin(self, sent: OnAir) -> None:
        """Start a transmission at all nodes in range of its sender."""
        for node in (sent.sender, *self._near[sent.sender]):
            self.reach(sent, node)

    def reach(self, sent: OnAir, node: ClientId) -> None:
        """Start a transmission at a node; mark receptions that it disturbs, or vice versa."""
        now, here = self._calendar.now, self._audible.setdefault(node, {})
        # A transmission that takes no time overlaps with none. One that ends at this instant does
        # not overlap with one that begins now: times are compared up to rounding.
        for other in here if sent.seconds else ():
            if other.ends(now):
                continue
            # Both ways: whichever of the two is meant for this node is lost here.
            for disturbed, disturbing in ((other, sent), (sent, other)):
                if node in disturbed.reserved:
                    disturbed.collided.add(node)
                    # Half duplex: a node that transmits hears nothing, and pays for no reception.
                    if node == disturbing.sender:
                        disturbed.deaf.setdefault(node, now)
        here[sent] = None

    def leave(self, sent: OnAir, node: ClientId) -> None:
        """End a transmission at a node that has left its range."""
        self._audible[node].pop(sent, None)

    def end(self, sent: OnAir) -> None:
        """End a transmission."""
        # With the present neighbours. Those that came or went during the transmission were handled
        # by `reach` and `leave`.
        for node in (sent.sender, *self._near[sent.sender]):
            self.leave(sent, node)
