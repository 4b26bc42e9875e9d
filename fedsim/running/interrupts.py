"""Interrupts: the effect of Ctrl-C, `kill` and a closed terminal on a command.

All of them mean the same: end now, in one line, and leave nothing behind but what was written
whole. While a command is being loaded there is nothing to tidy up, so it ends at once; later the
signal becomes an exception, and the first one alone: those that follow it would cut off the
tidying up. A signal that the caller of the command has set to be ignored, as a shell does with
Ctrl-C for what runs in the background, and `nohup` with a closed terminal, stays ignored.

This runs before anything else of fedsim does, and imports next to nothing: as long as it is
loaded, an interrupt still shows Python's own traceback.
"""

import atexit
import gc
import os
import signal
import sys
import time
from contextlib import suppress

from fedsim.signals import active_signals

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


class Interrupted(SystemExit):
    """A signal has asked the command to end; the code is 128 and the signal's number.

    No handler of the simulated world can catch it by mistake, and asyncio lets it through. A module
    that is being imported may, and from a destructor no exception gets out: an interrupt that has
    gone without being told comes again.

    Attributes:
        number: the signal's.
        pending: whether it has yet to be told.
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

    Before Python 3.12 what is raised while a class names its attributes, as modules that are being
    loaded have it, becomes the cause of a RuntimeError.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Interrupted):
        cause = cause.__cause__
    if cause is not None:
        cause.pending = False
    return cause


def describe_signal(number: int) -> str:
    """Return what is said of a signal."""
    name = signal.Signals(number).name
    return (
        f"interrupted ({name}); what has ended can be compared, marked as unfinished, what was"
        " written of others can be read, and the same command goes on"
    )


def end_at_once() -> None:
    """Let a signal end the process: nothing has begun that is to be tidied up."""
    _answer(_leave)


def raise_once() -> None:
    """Let the first signal raise `Interrupted` in the main thread, and ignore the others."""
    _answer(_raise)
    sys.unraisablehook = _ignore_interrupt


class LastWord:
    """The code with which the process ends as soon as all that asked to run at its end has run.

    What follows after that takes apart modules that an interrupt may have cut off while they were
    being loaded: there an extension can end the process with an error of the interpreter's, in
    place of the code. What asks first is run last, so this is made before anything else is loaded.

    Attributes:
        code: of an interrupted command; None lets the process end in its own way.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        atexit.register(self._end)

    def _end(self) -> None:
        if self.code is None:
            return
        gc.collect()  # what is left in circles tidies up after itself: drafts of files, for one
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # it has no reader, or it is closed
                stream.flush()
        os._exit(self.code)


def ignore() -> None:
    """Let no signal interrupt the end of a command that is done."""
    for number in active_signals():
        signal.signal(number, signal.SIG_IGN)


def _answer(handler: "Handler") -> None:
    for number in active_signals():
        signal.signal(number, handler)


def _leave(number: int, _: "FrameType | None") -> None:
    os.write(2, f"{describe_signal(number)}\n".encode())
    os._exit(128 + number)


def _raise(number: int, frame: "FrameType | None", until: float | None = None) -> None:
    """Raise the interrupt; during an import only once that is over.

    An extension whose initialization is cut off leaves the interpreter in a state in which it
    crashes at its end, or reports another error. A module that runs for long when it is imported,
    such as a user's script, is interrupted after some seconds all the same.
    """
    ignore()
    until = time.monotonic() + _PATIENCE if until is None else until
    if time.monotonic() < until and hasattr(signal, "setitimer") and _imports(frame):
        _raise_soon(number, until)
        return
    raise Interrupted(number, pending=True)


def _raise_soon(number: int, until: float) -> None:
    signal.signal(signal.SIGALRM, lambda _, frame: _raise(number, frame, until))
    signal.setitimer(signal.ITIMER_REAL, _SOON)


def _imports(frame: "FrameType | None") -> bool:
    """Say whether an import is in progress in a frame or one of its callers."""
    while frame is not None and frame.f_code.co_filename != _IMPORTS:
        frame = frame.f_back
    return frame is not None


def _ignore_interrupt(lost: "sys.UnraisableHookArgs") -> None:
    """Say nothing of an interrupt that a destructor could not raise: it comes again."""
    if not isinstance(lost.exc_value, Interrupted):
        sys.__unraisablehook__(lost)
