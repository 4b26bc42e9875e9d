"""The evaluator that compiles: pending work of many clients at once, beside the event loop.

Submitted work waits on pages. Threads take one piece after the other, without Python's global lock
while any is left, so they continue while the event loop submits more; a caller that needs a missing
result evaluates it, or something else while another thread does. A piece of work is evaluated by
itself, the same way on any page and any thread, so results depend neither on that nor on the number
of threads.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cached_property
from threading import Condition, Lock
from typing import Any, NamedTuple

from fedsim.computing.compiled import (
    COMPILER,
    DONE,
    PIECES,
    CompiledProgram,
    Page,
    draw_minibatches,
)
from fedsim.computing.serial import SerialEvaluator
from fedsim.ports import Array, Work
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.samples import Draw

BACKLOG = 32
"""So much work waits before a thread is called: what it costs to wake one is for all of it."""


class PageTicket(NamedTuple):
    """Work that lies on a page."""

    work: Work
    page: Page
    place: int


class CompiledEvaluator:
    """Evaluates what is compiled in shares, on threads; all else as the reference does, when due.

    Args:
        losses: of the clients in the order of the fleet, `compilable`.
        threads: how many may compute, the one that asks for results among them.
        pieces: how many there is room for on a page.
    """

    choice: Mapping[str, Any] = {"evaluator": "compiled", "compiler": COMPILER}
    draw: Draw = staticmethod(draw_minibatches)

    def __init__(self, losses: Sequence[LocalLoss], threads: int, pieces: int = PIECES) -> None:
        self._reference = SerialEvaluator(losses)
        self._program = CompiledProgram(losses)
        self._threads = threads
        self._pages = deque([Page(pieces)])
        self._pieces = pieces
        self._lock = Lock()
        self._ended = Condition(self._lock)  # a thread has finished what it had taken
        self._busy = 0
        self._room = self._program.room()

    @property
    def losses(self) -> Sequence[LocalLoss]:
        """See `Evaluator.losses`."""
        return self._reference.losses

    @cached_property
    def _helpers(self) -> Executor:
        """Threads beside the one that asks; they end with the evaluator."""
        return ThreadPoolExecutor(self._threads - 1, "fedsim-compute")

    def submit(self, work: Work) -> PageTicket | Work:
        """See `Evaluator.submit`: what is compiled waits until a thread is free for it."""
        if not self._program.takes(work):
            return self._reference.submit(work)
        page = self._pages[-1]
        if page.full:
            page = Page(self._pieces)
            with self._lock:
                self._pages.append(page)
        place = self._program.add(work, page)
        if page.waiting >= BACKLOG and self._call():
            self._join_in()  # without the lock that the thread takes first
        return PageTicket(work, page, place)

    def result(self, ticket: PageTicket | Work) -> Array:
        """See `Evaluator.result`: its own work first, then what waits while others do that."""
        if isinstance(ticket, Work):
            return self._reference.result(ticket)
        work, page, place = ticket
        while page.mark(place) < DONE:
            if self._pages[-1].waiting > 1:
                self._call()
            if not (self._program.evaluate(page, self._room, place) or self._join_in()):
                with self._ended:
                    self._ended.wait_for(lambda: page.mark(place) >= DONE)
        return self._program.result(work, page, place)

    def withdraw(self, ticket: PageTicket | Work) -> None:
        """See `Evaluator.withdraw`: what waits is not evaluated."""
        if isinstance(ticket, PageTicket):
            ticket.page.withdraw(ticket.place)

    def values(self, w: Array) -> list[float]:
        """See `Evaluator.values`: each client's by itself, a range of clients a thread."""
        ranges = self._program.shares(self._threads)
        others = [self._helpers.submit(self._program.values, w, *each) for each in ranges[1:]]
        parts = [self._program.values(w, *ranges[0]), *(other.result() for other in others)]
        penalty = self._program.penalty(w)
        return [float(value) + penalty for part in parts for value in part]

    def _waiting(self) -> Page | None:
        """Return the oldest page on which work waits; the lock is held."""
        while len(self._pages) > 1 and not self._pages[0].waiting:
            self._pages.popleft()
        page = self._pages[0]
        return page if page.waiting else None

    def _join_in(self) -> bool:
        """Evaluate a piece of what waits; say whether there was any."""
        with self._lock:
            page = self._waiting()
        return page is not None and self._program.evaluate(page, self._room, most=1) > 0

    def _call(self) -> bool:
        """Let one more thread evaluate what waits; say whether there was one."""
        with self._lock:
            free = self._busy < self._threads - 1
            self._busy += free
        if free:
            self._helpers.submit(self._help)
        return free

    def _help(self) -> None:
        """Evaluate what waits, until nothing does."""
        room = self._program.room()
        while True:
            with self._lock:
                self._ended.notify_all()
                page = self._waiting()
                if page is None:
                    self._busy -= 1
                    return
            self._program.evaluate(page, room)
