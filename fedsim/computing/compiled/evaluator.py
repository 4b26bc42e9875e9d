"""The compiled evaluator: work of many clients, on threads beside the event loop.

Submitted work is written on pages. Threads take pieces of work from a page without Python's global
lock, so they continue while the event loop submits more. A caller that requests a missing result
evaluates that piece itself or, if another thread has taken it, other pieces in the meantime. Every
piece is evaluated by itself, in the same way on any page and any thread, so results depend neither
on the number of threads nor on their timing.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cached_property
from threading import Condition, Lock
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled import (
    COMPILER,
    DONE,
    PIECES,
    CompiledProgram,
    Page,
    Sheet,
    add_rows,
    draw_minibatches,
)
from fedsim.computing.serial import SerialEvaluator
from fedsim.ports import Array, Work
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.samples import Draw
from fedsim.progress import activity
from fedsim.wire.payloads.rows import AddRows

BACKLOG = 32
"""The number of pending pieces at which a thread is woken, so that its cost is spread over them."""


AT_ONCE = 8
"""The number of pending pieces that a caller evaluates together while it waits for another one."""


class PageTicket(NamedTuple):
    """A piece of work on a page."""

    work: Work
    page: Page
    place: int


class CompiledEvaluator:
    """Evaluates work that has a compiled kernel on threads, all other work serially on request.

    Args:
        losses: of the clients in fleet order, `compilable`.
        threads: the number of threads, including the one that requests results.
        pieces: the capacity of a page.
    """

    choice: Mapping[str, Any] = {"evaluator": "compiled", "compiler": COMPILER}
    together = True
    draws = True
    draw: Draw = staticmethod(draw_minibatches)
    add_rows: AddRows | None = staticmethod(add_rows)

    def __init__(self, losses: Sequence[LocalLoss], threads: int, pieces: int = PIECES) -> None:
        self._reference = SerialEvaluator(losses)
        self._program = CompiledProgram(losses)
        self._threads = threads
        self._pages = deque([Page(pieces)])
        self._pieces = pieces
        self._lock = Lock()
        self._ended = Condition(self._lock)  # notified when a thread has finished its pieces
        self._busy = 0
        self._room = self._program.room()
        self._loading = True  # until the first work or value

    @property
    def losses(self) -> Sequence[LocalLoss]:
        """See `Evaluator.losses`."""
        return self._reference.losses

    @cached_property
    def _helpers(self) -> Executor:
        """The background threads; they end with the evaluator."""
        return ThreadPoolExecutor(self._threads - 1, "fedsim-compute")

    def submit(self, work: Work) -> PageTicket | Work:
        """See `Evaluator.submit`: compiled work is pending until a thread is free."""
        if not self._program.takes(work):
            return self._reference.submit(work)
        if self._loading:
            self._load()
        page = self._pages[-1]
        if page.full:
            page.publish()
            page = Page(self._pieces)
            with self._lock:
                self._pages.append(page)
        place = self._program.add(work, page)
        if page.count - page.published >= BACKLOG:
            page.publish()
            if self._call():
                # Releases Python's global lock, which the woken thread needs to start.
                self._join_in(1)
        return PageTicket(work, page, place)

    def result(self, ticket: PageTicket | Work) -> Array:
        """See `Evaluator.result`: evaluates the work, or other pending work until it is done."""
        if isinstance(ticket, Work):
            return self._reference.result(ticket)
        work, page, place = ticket
        if not page.is_done(place):
            self._finish(page, place)
        return self._program.result(work, page, place)

    def finite(self, ticket: PageTicket | Work, result: Array) -> bool:
        """See `Evaluator.finite`: the kernels have looked."""
        if isinstance(ticket, Work):
            return self._reference.finite(ticket, result)
        return ticket.page.is_done(ticket.place)

    def _finish(self, page: Page, place: int) -> None:
        """Evaluate a piece of work, or other pending pieces until it is evaluated."""
        last = self._pages[-1]
        last.publish()
        page.publish()
        while page.mark(place) < DONE:
            if last.waiting > 1:
                self._call()
            # Evaluate the piece if it is pending, else others; block only if there are none.
            # The condition has no timeout: `_help` notifies after each page, before it can return.
            if not (self._program.evaluate(page, self._room, place) or self._join_in(AT_ONCE)):
                with self._ended:
                    self._ended.wait_for(lambda: page.mark(place) >= DONE)

    def submit_rows(self, work: Work, clients: NDArray[np.int64]) -> Sheet | None:
        """See `SerialEvaluator.submit_rows`: one block, whose rows all threads share."""
        if not self._program.takes(work):
            return None
        if self._loading:
            self._load()
        kind = np.float32 if work.single else np.float64
        out: Any = np.empty((len(clients), self._program.size), kind)
        sheet = self._program.write(work, clients, out)
        if sheet is None:
            return None
        with self._lock:
            self._pages.append(sheet.page)
        for _ in range(self._threads - 1):
            self._call()
        return sheet

    def rows(self, ticket: Sheet) -> Array | None:
        """See `SerialEvaluator.rows`: evaluates what is left, or what is pending until it is."""
        page, out = ticket.page, cast("Array", ticket.out)
        self._program.evaluate(page, self._room)
        while not page.over and self._join_in(1):
            pass
        with self._ended:
            self._ended.wait_for(lambda: page.over)
        return out if page.right else None

    def alike(self, clients: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """See `SerialEvaluator.alike`."""
        return self._program.alike(clients)

    def withdraw(self, ticket: PageTicket | Work) -> None:
        """See `Evaluator.withdraw`: a pending piece is not evaluated."""
        if isinstance(ticket, PageTicket):
            ticket.page.withdraw(ticket.place)

    def values(self, w: Array) -> Array:
        """See `Evaluator.values`: each client's value by itself, a range of clients a thread."""
        if self._loading:
            self._load()
        ranges = self._program.shares(self._threads)
        others = [self._helpers.submit(self._program.values, w, *each) for each in ranges[1:]]
        parts = [self._program.values(w, *ranges[0]), *(other.result() for other in others)]
        found: Array = np.concatenate(parts) + self._program.penalty(w)
        return found

    def _load(self) -> None:
        """Load the kernels, and compile those that are not in the user's cache."""
        self._loading = False
        with activity("loading kernels, which takes some ten seconds the first time"):
            self._program.load(self._pages[-1], self._room)

    def _waiting(self) -> Page | None:
        """Return the oldest page with pending work, if any; the caller holds the lock."""
        while len(self._pages) > 1 and not self._pages[0].waiting:
            self._pages.popleft()
        page = self._pages[0]
        return page if page.waiting else None

    def _join_in(self, most: int) -> bool:
        """Evaluate some pending pieces; return whether there was one."""
        with self._lock:
            page = self._waiting()
        return page is not None and self._program.evaluate(page, self._room, most=most) > 0

    def _call(self) -> bool:
        """Wake a background thread; return whether one was idle."""
        with self._lock:
            free = self._busy < self._threads - 1
            self._busy += free
        if free:
            self._helpers.submit(self._help)
        return free

    def _help(self) -> None:
        """Evaluate pending work until there is none."""
        room = self._program.room()
        while True:
            with self._lock:
                self._ended.notify_all()
                page = self._waiting()
                if page is None:
                    self._busy -= 1
                    return
            self._program.evaluate(page, room)
