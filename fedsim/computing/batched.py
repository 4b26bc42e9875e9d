"""The evaluator that compiles: pending work of many clients at once, beside the event loop.

Work that is told of waits in one queue. Threads take a share of it at a time and evaluate it
without Python's global lock; who needs a result that is not there yet takes shares as they do. A
piece of work is evaluated by itself, the same way whatever lies beside it in its share and
whoever takes it, so results depend neither on that nor on the number of threads.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from threading import Event, Lock
from typing import Any

import numpy as np

from fedsim.computing.compiled import COMPILER, Program, drawn
from fedsim.computing.one_by_one import OneByOne
from fedsim.ports import Array, Work
from fedsim.problems.local import LocalLoss
from fedsim.problems.minibatches import Draw


class Share:
    """Work that is evaluated in one go.

    Attributes:
        results: of each, shape (works, d), once it is done; None where one of them fails.
        done: whether it has been evaluated, or has failed.
    """

    __slots__ = ("done", "results")

    def __init__(self) -> None:
        self.results: Array | None = None
        self.done = Event()


class Ticket:
    """Work that waits, then is part of a share, whose number there it knows.

    Attributes:
        work: what was asked for.
        share: what it is part of; None while it waits.
        number: which of the share's results is its own.
    """

    __slots__ = ("number", "share", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.share: Share | None = None
        self.number = 0


class Batched:
    """Evaluates what is compiled in shares, on threads; all else as the reference does, when due.

    Args:
        losses: of the clients in the order of the fleet, `compilable`.
        threads: how many may compute, the one that asks for results among them.
    """

    choice: Mapping[str, Any] = {"evaluator": "compiled", "compiler": COMPILER}
    draw: Draw = staticmethod(drawn)

    def __init__(self, losses: Sequence[LocalLoss], threads: int) -> None:
        self._reference = OneByOne(losses)
        self._program = Program(losses)
        self._threads = threads
        self._waiting: deque[Ticket] = deque()
        self._lock = Lock()
        self._busy = 0

    @property
    def losses(self) -> Sequence[LocalLoss]:
        """See `Evaluator.losses`."""
        return self._reference.losses

    @cached_property
    def _helpers(self) -> Executor:
        """Threads beside the one that asks; they end with the evaluator."""
        return ThreadPoolExecutor(self._threads - 1, "fedsim-compute")

    def submit(self, work: Work) -> Ticket | Work:
        """See `Evaluator.submit`: what is compiled waits until a thread is free for it."""
        if not self._program.takes(work):
            return self._reference.submit(work)
        ticket = Ticket(work)
        with self._lock:
            self._waiting.append(ticket)
            wanted = self._busy < self._threads - 1
            self._busy += wanted
        if wanted:
            self._helpers.submit(self._help)
        return ticket

    def result(self, ticket: Ticket | Work) -> Array:
        """See `Evaluator.result`."""
        if isinstance(ticket, Work):
            return self._reference.result(ticket)
        while ticket.share is None:
            self._join_in()
        share = ticket.share
        while not share.done.is_set():
            if not self._join_in():
                share.done.wait()
        if share.results is None:  # each fails, or not, by itself
            return np.asarray(self._program.run([ticket.work])[0])
        return np.asarray(share.results[ticket.number])

    def withdraw(self, ticket: Ticket | Work) -> None:
        """See `Evaluator.withdraw`: what waits is not evaluated."""
        if isinstance(ticket, Ticket):
            with self._lock:
                if ticket.share is None:
                    self._waiting.remove(ticket)

    def values(self, w: Array) -> list[float]:
        """See `Evaluator.values`: each client's by itself, a range of clients a thread."""
        ranges = self._program.shares(self._threads)
        others = [self._helpers.submit(self._program.values, w, *each) for each in ranges[1:]]
        parts = [self._program.values(w, *ranges[0]), *(other.result() for other in others)]
        penalty = self._program.penalty(w)
        return [float(value) + penalty for part in parts for value in part]

    def _take(self, *, helping: bool = False) -> list[Ticket]:
        """Take a share of what waits, the oldest first, that leaves as much to each thread."""
        with self._lock:
            count = -(-len(self._waiting) // (2 * self._threads))
            taken = [self._waiting.popleft() for _ in range(count)]
            share = Share()
            for number, ticket in enumerate(taken):
                ticket.number, ticket.share = number, share
            if helping and not taken:
                self._busy -= 1
        return taken

    def _join_in(self, *, helping: bool = False) -> bool:
        """Evaluate a share; say whether there was anything."""
        taken = self._take(helping=helping)
        if not taken or (share := taken[0].share) is None:
            return False
        with suppress(Exception):  # who asks for what is wrong is told
            share.results = self._program.run([ticket.work for ticket in taken])
        share.done.set()
        return True

    def _help(self) -> None:
        """Evaluate what waits, until nothing does."""
        while self._join_in(helping=True):
            pass
