"""Verdicts: what an end of the protocol says of a message that has arrived."""

from enum import Enum


class Verdict(Enum):
    """What becomes of what has arrived.

    COUNTED: it belongs to the open exchange.
    CLOSED: it does, and it is the one that closes it.
    BEYOND: an asynchronous server's buffer is full; it waits for the next exchange.
    EARLY: it is of an exchange that this end has yet to open, and waits for that.
    KEPT: it is late, and counts for the next exchange.
    DROPPED: it is late, and counts for nothing.
    """

    COUNTED = "counted"
    CLOSED = "closed"
    BEYOND = "beyond the buffer"
    EARLY = "early"
    KEPT = "kept for the next round"
    DROPPED = "dropped"
