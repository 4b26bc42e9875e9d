"""Interrupts: the effect of Ctrl-C, `kill` and a closed terminal on a command.

All of them mean the same: end now, print one line, and leave only complete files. While a command
is loading there is nothing to clean up, so it ends at once. Later the first signal becomes an
exception; the following ones are ignored, since they would interrupt the cleanup. A signal that the
command's caller has set to be ignored (a shell sets Ctrl-C so for background jobs, `nohup` the
closing of the terminal) stays ignored.

This module is loaded before all others of fedsim, and imports next to nothing: until it is loaded,
an interrupt shows Python's own traceback.
"""

import atexit
import gc
import os
import signal
import sys
import time
from _thread import interrupt_main
from contextlib import suppress
from threading import Timer

from fedsim.core.signals import active_signals

TYPE_CHECKING = False  # as in typing, which takes time to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Handler = Callable[[int, FrameType | None], None]

_SOON = 1e-3  # seconds of real time

_PATIENCE = 5.0
"""Seconds of real time that an interrupt waits at most for the end of an import."""

_IMPORTS = "<frozen importlib._bootstrap>"
"""The file of the frames of an import that is in progress."""

_outlook: "Callable[[], str]" = str
"""Returns what a command has saved; nothing by default, such as while it is loading."""


class Interrupted(SystemExit):
    """A signal has asked the command to end; the code is 128 and the signal's number.

    As a `SystemExit` it passes `except Exception` in the simulated world, and asyncio lets it
    through. A module that is being imported may still catch it, and exceptions do not leave a
    destructor: an interrupt that is collected unreported is raised again.

    Attributes:
        number: the signal's.
        pending: whether it has not been reported yet.
    """

    def __init__(self, number: int, *, pending: bool = False) -> None:
        self.number = number
        self.pending = pending
        super().__init__(128 + number)

    def __del__(self) -> None:
        if self.pending and not sys.is_finalizing():
            _raise_soon(self.number, time.monotonic() + _PATIENCE)

    def __str__(self) -> str:
        return describe_signal(self.number)


def behind(error: BaseException) -> Interrupted | None:
    """Return the interrupt that caused an error, if any, for reporting it.

    Before Python 3.12, an exception in `__set_name__`, which runs when a module defines a class,
    becomes the cause of a RuntimeError.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Interrupted):
        cause = cause.__cause__
    if cause is not None:
        cause.pending = False
    return cause


def describe_signal(number: int) -> str:
    """Return the line that is printed for a signal."""
    return f"interrupted ({signal.Signals(number).name}). {_outlook()}".rstrip()


def explain_state(words: "Callable[[], str]") -> None:
    """Set what the line of an interrupt says after the signal's name, from now on.

    Args:
        words: returns what is saved at that moment, and how to resume.
    """
    global _outlook  # noqa: PLW0603 - a handler of signals has nothing else to read from
    _outlook = words


def end_at_once() -> None:
    """Let a signal end the process at once: nothing needs cleanup yet."""
    _answer(_leave)


def raise_once() -> None:
    """Let the first signal raise `Interrupted` in the main thread, and ignore the others."""
    _answer(_raise)
    sys.unraisablehook = _ignore_interrupt


class LastWord:
    """Ends an interrupted process with its exit code, after all other `atexit` handlers.

    The interpreter would next tear down modules, some of which the interrupt may have cut off while
    they were loading. An extension in that state can crash the interpreter, which replaces the exit
    code. Handlers run last in, first out, so this object is created before anything is loaded.

    Attributes:
        code: the exit code of an interrupted command; None lets the process end as usual.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        atexit.register(self._end)

    def _end(self) -> None:
        if self.code is None:
            return
        gc.collect()  # objects in reference cycles clean up: drafts of files, for one
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # its reader is gone, or it is closed
                stream.flush()
        os._exit(self.code)


def ignore() -> None:
    """Ignore signals from now on: the command is ending."""
    for number in active_signals():
        signal.signal(number, signal.SIG_IGN)


def _answer(handler: "Handler") -> None:
    for number in active_signals():
        signal.signal(number, handler)


def _leave(number: int, _: "FrameType | None") -> None:
    os.write(2, f"{describe_signal(number)}\n".encode())
    os._exit(128 + number)


def _raise(number: int, frame: "FrameType | None", until: float | None = None) -> None:
    """Raise the interrupt; during an import, only after it.

    An extension whose initialization is interrupted leaves the interpreter in a state in which it
    may crash at exit or raise another error. A module that takes long to import, such as a user's
    script, is interrupted after `_PATIENCE` seconds nevertheless.
    """
    ignore()
    until = time.monotonic() + _PATIENCE if until is None else until
    if time.monotonic() < until and _imports(frame):
        _raise_soon(number, until)
        return
    raise Interrupted(number, pending=True)


def _raise_soon(number: int, until: float) -> None:
    def raise_again(_: int, frame: "FrameType | None") -> None:
        _raise(number, frame, until)

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, raise_again)
        signal.setitimer(signal.ITIMER_REAL, _SOON)
    else:  # Windows
        signal.signal(number, raise_again)
        timer = Timer(_SOON, interrupt_main, [number])
        timer.daemon = True
        timer.start()


def _imports(frame: "FrameType | None") -> bool:
    """Return whether an import is in progress in a frame or one of its callers."""
    while frame is not None and frame.f_code.co_filename != _IMPORTS:
        frame = frame.f_back
    return frame is not None


def _ignore_interrupt(lost: "sys.UnraisableHookArgs") -> None:
    """Print nothing for an interrupt that a destructor could not raise: it is raised again."""
    if not isinstance(lost.exc_value, Interrupted):
        sys.__unraisablehook__(lost)
