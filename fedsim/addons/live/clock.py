"""The wall clock of a live run, and the event log in the order of time."""

import asyncio
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from fedsim.results.record.log import EventLog
from fedsim.results.record.schema import Event


class WallClock:
    """Seconds since the begin of a run, by the clock of the event loop.

    Attributes:
        start: the loop's time at the begin of the run; before that, `now` is 0.
    """

    def __init__(self) -> None:
        self.start: float | None = None
        self._stopped: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Start at 0."""
        self._loop = asyncio.get_running_loop()
        self.start = self._loop.time()

    def stop(self) -> None:
        """Stop: `now` stays at the present time."""
        self._stopped = self.now

    @property
    def now(self) -> float:
        """The current time, s."""
        if self._stopped is not None:
            return self._stopped
        if self.start is None or self._loop is None:
            return 0.0
        return self._loop.time() - self.start

    def at_deadline(
        self, when: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """See `fedsim.sim.worlds.clock.Clock.at_deadline`; what has arrived by then comes first."""
        # In one turn asyncio handles sockets that are ready before timers that are due.
        loop = asyncio.get_running_loop()
        return loop.call_at((self.start or 0.0) + when, callback, *args)


_ENDS = frozenset({int(Event.ROUND), int(Event.ABANDONED)})
"""The events with which a round ends."""


class OrderedLog:
    """Puts rows in order of time before they go into an event log.

    A client reports its work after rows with later times of others were received. So rows are
    buffered until the round ends; then all rows up to that time are appended in order. A row
    reported still later gets the time of the last appended row.
    """

    def __init__(self, log: EventLog) -> None:
        self.word = log.word
        self._log = log
        self._rows: list[tuple[float, Callable[..., None], tuple[Any, ...], dict[str, Any]]] = []
        self._last = 0.0

    def append(self, t: float, duration: float, event: int, *args: Any, **named: Any) -> None:
        """Add a row; see `EventLog.append`."""
        self._rows.append((t, self._log.append, (duration, event, *args), named))
        if event in _ENDS:
            self.release()

    def append_message(self, t: float, *args: Any) -> None:
        """Add the two rows of a message; see `EventLog.append_message`."""
        self._rows.append((t, self._log.append_message, args, {}))

    def release(self) -> None:
        """Append all rows, in order of time."""
        rows, self._rows = self._rows, []
        # Stable: rows of one time stay in the order in which they were written.
        rows.sort(key=itemgetter(0))
        for t, append, args, named in rows:
            self._last = max(t, self._last)
            append(self._last, *args, **named)
