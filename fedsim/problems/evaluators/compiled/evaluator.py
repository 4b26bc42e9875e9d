"""The compiled evaluator: work of many clients, on threads beside the event loop.

Submitted work is appended to queues. Threads take pieces of work without Python's global lock, so
they continue while the event loop submits more. A caller that requests a missing result evaluates
that piece itself. If another thread has taken it, the caller evaluates other pieces in the
meantime. Every piece is evaluated by itself, in the same way in any queue and on any thread. So
results depend neither on the number of threads nor on their timing.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cached_property
from threading import Condition, Lock
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, Work
from fedsim.core.progress import activity
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.evaluators.compiled import (
    COMPILER,
    DONE,
    PIECES,
    CompiledProgram,
    WorkBatch,
    WorkQueue,
    add_rows,
    draw_minibatches,
)
from fedsim.problems.evaluators.serial import SerialEvaluator
from fedsim.problems.samples import Draw
from fedsim.wire.payloads.rows import AddRows

BACKLOG = 32
"""Number of pending pieces at which a thread is woken, which spreads its cost over them."""


AT_ONCE = 8
"""Number of pending pieces that a waiting caller evaluates together."""


class QueueTicket(NamedTuple):
    """A piece of work in a queue."""

    work: Work
    queue: WorkQueue
    place: int


class CompiledEvaluator:
    """Evaluates work that has a compiled kernel on threads, all other work serially on request.

    Args:
        losses: the losses of clients in fleet order, which are `compilable`.
        threads: the number of threads, including the one that requests results.
        pieces: the capacity of a queue.
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
        # The last queue receives new pieces until it is full. Earlier ones are dropped once none of
        # their published pieces waits; a caller can still evaluate the others by their places.
        self._queues = deque([WorkQueue(pieces)])
        self._pieces = pieces
        # Guards the deque of queues and `_busy`; the threads of a queue synchronise by its marks.
        self._lock = Lock()
        self._ended = Condition(self._lock)  # notified when a thread has finished its pieces
        self._busy = 0  # background threads that evaluate; the caller is not among them
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

    def submit(self, work: Work) -> QueueTicket | Work:
        """See `Evaluator.submit`: compiled work is pending until a thread is free."""
        if not self._program.takes(work):
            return self._reference.submit(work)
        if self._loading:
            self._load()
        queue = self._queues[-1]
        # The old queue stays in the deque until its pieces are taken.
        if queue.full:
            queue.publish()
            queue = WorkQueue(self._pieces)
            with self._lock:
                self._queues.append(queue)
        place = self._program.add(work, queue)
        # Published in batches, as waking a thread costs more than a short piece.
        if queue.count - queue.published >= BACKLOG:
            queue.publish()
            if self._wake_thread():
                # Releases Python's global lock, which the woken thread needs to start.
                self._join_in(1)
        return QueueTicket(work, queue, place)

    def result(self, ticket: QueueTicket | Work) -> Array:
        """See `Evaluator.result`: evaluates the work, or other pending work until it is done."""
        if isinstance(ticket, Work):
            return self._reference.result(ticket)
        work, queue, place = ticket
        if not queue.is_done(place):
            self._finish(queue, place)
        return self._program.result(work, queue, place)

    def finite(self, ticket: QueueTicket | Work, result: Array) -> bool:
        """See `Evaluator.finite`: the kernels have checked it."""
        if isinstance(ticket, Work):
            return self._reference.finite(ticket, result)
        return ticket.queue.is_done(ticket.place)

    def _finish(self, queue: WorkQueue, place: int) -> None:
        """Evaluate a piece of work, or other pending pieces until it is evaluated."""
        last = self._queues[-1]
        last.publish()
        queue.publish()
        # The marks of waiting and taken pieces are less than DONE; final marks are not.
        while queue.mark(place) < DONE:
            if last.waiting > 1:
                self._wake_thread()
            # Evaluate the piece if it is pending, else others; block only if there are none.
            # The condition has no timeout: `_run_thread` notifies after each queue, before it can
            # return.
            if not (self._program.evaluate(queue, self._room, place) or self._join_in(AT_ONCE)):
                with self._ended:
                    self._ended.wait_for(lambda: queue.mark(place) >= DONE)

    def submit_rows(self, work: Work, clients: NDArray[np.int64]) -> WorkBatch | None:
        """See `SerialEvaluator.submit_rows`: one block, whose rows all threads share."""
        if not self._program.takes(work):
            return None
        if self._loading:
            self._load()
        kind = np.float32 if work.single else np.float64
        out: Any = np.empty((len(clients), self._program.size), kind)
        batch = self._program.write(work, clients, out)
        if batch is None:
            return None
        with self._lock:
            self._queues.append(batch.queue)
        # One long batch is worth all threads at once, unlike single pieces.
        for _ in range(self._threads - 1):
            self._wake_thread()
        return batch

    def rows(self, ticket: WorkBatch) -> Array | None:
        """See `SerialEvaluator.rows`: evaluates the remaining pieces, then other pending ones."""
        queue, out = ticket.queue, cast("Array", ticket.out)
        # Here the caller works, too: this waits only for pieces that other threads have taken.
        self._program.evaluate(queue, self._room)
        while not queue.over and self._join_in(1):
            pass
        with self._ended:
            self._ended.wait_for(lambda: queue.over)
        return out if queue.right else None

    def alike(self, clients: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """See `SerialEvaluator.alike`."""
        return self._program.alike(clients)

    def withdraw(self, ticket: QueueTicket | Work) -> None:
        """See `Evaluator.withdraw`: a pending piece is not evaluated."""
        if isinstance(ticket, QueueTicket):
            ticket.queue.withdraw(ticket.place)

    def values(self, w: Array) -> Array:
        """See `Evaluator.values`: one range of clients per thread, each value by itself."""
        if self._loading:
            self._load()
        # With one thread there is one range, and `_helpers`, which would need a thread, is never
        # created.
        ranges = self._program.shares(self._threads)
        others = [self._helpers.submit(self._program.values, w, *part) for part in ranges[1:]]
        parts = [self._program.values(w, *ranges[0]), *(other.result() for other in others)]
        values: Array = np.concatenate(parts) + self._program.penalty(w)
        return values

    def _load(self) -> None:
        """Load the kernels; compile those that are not in the user's cache."""
        self._loading = False
        with activity("loading kernels, which takes some ten seconds the first time"):
            self._program.load(self._queues[-1], self._room)

    def _waiting(self) -> WorkQueue | None:
        """Return the oldest queue with pending work, if any; the caller holds the lock."""
        # The last queue is kept: new pieces go there.
        while len(self._queues) > 1 and not self._queues[0].waiting:
            self._queues.popleft()
        queue = self._queues[0]
        return queue if queue.waiting else None

    def _join_in(self, most: int) -> bool:
        """Evaluate some pending pieces; return whether there was one."""
        with self._lock:
            queue = self._waiting()
        return queue is not None and self._program.evaluate(queue, self._room, most=most) > 0

    def _wake_thread(self) -> bool:
        """Wake a background thread; return whether one was idle."""
        with self._lock:
            free = self._busy < self._threads - 1
            self._busy += free
        if free:
            self._helpers.submit(self._run_thread)
        return free

    def _run_thread(self) -> None:
        """Evaluate pending work until there is none; then the thread is free again."""
        room = self._program.room()  # not shared: the caller evaluates at the same time
        while True:
            with self._lock:
                # Wakes callers that wait for a piece this thread has just finished.
                self._ended.notify_all()
                queue = self._waiting()
                if queue is None:
                    self._busy -= 1
                    return
            self._program.evaluate(queue, room)
