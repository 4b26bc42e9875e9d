"""A watchdog for code of users that blocks the event loop, or does not end.

A simulation stands still if a handler computes without end and awaits nothing. It never closes if a
handler catches its cancellation and goes on. A second thread checks from time to time where the
loop is, and reports such code in one line. It only reads, so no result depends on it, and events
cost no more.
"""

import linecache
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import is_
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

PATIENCE = 60.0
"""Real time after which code is reported, s."""

_LOOKS = 3  # number of consecutive checks in which the same code has to be seen

_ENGINE = str(Path(__file__).parent)
_LIBRARIES = tuple(
    {
        str(Path(__file__).parents[2]),  # fedsim
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)


class Cancellable(Protocol):
    """The part of a task that the watchdog reads."""

    def done(self) -> bool:
        """Return whether it has ended."""
        ...

    def cancelling(self) -> int:
        """Return the number of requests to end."""
        ...

    def get_name(self) -> str:
        """Return its name."""
        ...

    def get_coro(self) -> Any:
        """Return the running object."""
        ...


class Spot(NamedTuple):
    """A place of a thread in user code; it is the same as long as that code awaits nothing.

    Attributes:
        turn: the callback of the loop that leads there, and its frames in the engine. They are
            needed, since a coroutine has the same frame in all turns.
        outer: the outermost frame of user code.
    """

    turn: tuple[object, ...]
    outer: FrameType

    def same(self, other: "Spot") -> bool:
        """Return whether the loop has made no other call since."""
        mine, others = ((*spot.turn, spot.outer) for spot in (self, other))
        return len(mine) == len(others) and all(map(is_, mine, others))


class Watchdog:
    """Checks the thread and the tasks of a loop.

    Args:
        loop: the code of the function that runs callbacks; its local `handle` is the callback.
        tasks: the tasks of the loop that may be cancelled.
        patience: the real time after which code is reported, s.
    """

    def __init__(
        self, loop: CodeType, tasks: Sequence[Cancellable], patience: float = PATIENCE
    ) -> None:
        self._loop, self._tasks, self._patience = loop, tasks, patience
        self._thread = threading.get_ident()
        self._over = threading.Event()
        self._seen: Spot | None = None
        self._times = 0
        self._cancelled: dict[int, tuple[object, int]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the calling thread within the block."""
        thread = threading.Thread(target=self._watch, name="fedsim-watchdog", daemon=True)
        with suppress(RuntimeError):  # without threads, as in a browser
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            if thread.is_alive():
                thread.join()

    def _watch(self) -> None:
        while not self._over.wait(self._patience / _LOOKS):
            for line in self.look():
                sys.stderr.write(f"fedsim: {line}\n")
                sys.stderr.flush()

    def look(self) -> list[str]:
        """Return a line per finding that several checks have confirmed."""
        return [*self._standing(), *self._going_on()]

    def _standing(self) -> Iterator[str]:
        """Yield a line on code that has awaited nothing in several checks, once."""
        stack = self._stack()
        spot = self._spot(stack)
        same = spot is not None and self._seen is not None and spot.same(self._seen)
        self._times = self._times + 1 if same else 0
        self._seen = spot
        if spot is not None and self._times == _LOOKS:
            inner = next(frame for frame in reversed(stack) if _is_of_users(frame))
            yield (
                f"no event for {self._patience:g} s of real time: {_name(spot.outer)} is at"
                f" {_place(inner)}, and awaits nothing meanwhile"
            )

    def _stack(self) -> list[FrameType]:
        """Return the frames of the thread that the loop has called, outermost first."""
        frame = sys._current_frames().get(self._thread)
        stack: list[FrameType] = []
        while frame is not None:
            stack.append(frame)
            if frame.f_code is self._loop:
                return stack[::-1]
            frame = frame.f_back
        return []

    def _spot(self, stack: Sequence[FrameType]) -> Spot | None:
        place = next((place for place, frame in enumerate(stack) if _is_of_users(frame)), None)
        if place is None:
            return None
        # Frames are kept until the next check, along with their locals: the engine's are small.
        inner = (frame for frame in stack[1:place] if frame.f_code.co_filename.startswith(_ENGINE))
        return Spot((stack[0].f_locals.get("handle"), *inner), stack[place])

    def _going_on(self) -> Iterator[str]:
        """Yield a line on each task that was cancelled but runs in several checks, once."""
        before, self._cancelled = self._cancelled, {}
        for number, task in enumerate(self._tasks):
            if task.cancelling() and not task.done():
                coroutine = task.get_coro()
                seen, times = before.get(number, (None, 0))
                times = times + 1 if seen is coroutine else 0
                self._cancelled[number] = coroutine, times
                if times == _LOOKS:
                    waits = _innermost_of_users(coroutine)
                    place = f" at {waits}" if waits else ""
                    yield (
                        f"{task.get_name()} was cancelled {self._patience:g} s of real time ago,"
                        f" and goes on{place}: does it catch CancelledError"
                        " without raising it again?"
                    )


def _is_of_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith(("<frozen", *_LIBRARIES))


def _name(frame: FrameType) -> str:
    return frame.f_code.co_qualname


def _place(frame: FrameType) -> str:
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).strip()
    return f"{file}, line {line}" + (f" ({text})" if text else "")


def _innermost_of_users(waiting: Any) -> str:
    """Return the place of the last user coroutine in a chain of coroutines; empty for none."""
    place = ""
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        if _is_of_users(frame):
            place = _place(frame)
        waiting = waiting.cr_await
    return place
