"""Termination signals, and their deferral during cleanup."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals that end a command."""


def active_signals() -> list[int]:
    """Return the signals that are not ignored."""
    return [number for number in ENDING if signal.getsignal(number) not in {signal.SIG_IGN, None}]


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals that end a command to the end of the block, which should be short.

    It is for cleanup: an interrupt in the middle would leave files that are never removed. Python
    delivers signals to the main thread only, so in other threads nothing is deferred.
    """
    noted: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (active_signals() if main else ())}
    for number in before:
        signal.signal(number, lambda seen, _: noted.append(seen))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in noted:
            signal.raise_signal(number)
