"""Lateness: what becomes of a reply whose round has closed, or was given up."""

from collections.abc import Iterator, Sequence

from fedsim.ports import SERVER, Reply
from fedsim.record.log import EventLog
from fedsim.record.schema import Event
from fedsim.sim.client import BEACON
from fedsim.sim.engine.calendar import Calendar


class LateReplies:
    """Keeps them for the next round, or not at all.

    Args:
        calendar: the simulated time.
        log: takes a row of each.
        keep: whether they are kept.
    """

    def __init__(self, calendar: Calendar, log: EventLog, *, keep: bool) -> None:
        self._calendar = calendar
        self._log = log
        self._keep = keep
        self._kept: list[Reply] = []

    def __iter__(self) -> Iterator[Reply]:
        return iter(self._kept)

    def count(self, reply: Reply, word: int) -> None:
        """Take a late reply, and write down what becomes of it.

        Args:
            reply: the reply.
            word: the log's number for what it says.
        """
        kept = self._keep and reply.message is not BEACON
        if kept:
            self._kept.append(reply)
        self._log.append(
            self._calendar.now,
            0.0,
            Event.LATE,
            reply.client,
            SERVER,
            reply.round,
            word,
            detail=self._log.word("kept for the next round" if kept else "dropped"),
        )

    def carry(self, replies: Sequence[Reply]) -> None:
        """Keep replies that are not late, but count with those of the next exchange."""
        self._kept += replies

    def taken(self) -> list[Reply]:
        """Return what is kept, which is kept no longer."""
        kept, self._kept = self._kept, []
        return kept
