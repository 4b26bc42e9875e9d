"""Termination signals: their deferral during cleanup, and in processes that this one starts."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process, resource_tracker
from multiprocessing.process import BaseProcess

ENDING = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)
"""The signals that end a command, of those that this system has."""

_MASKED = hasattr(signal, "pthread_sigmask")
"""Whether this system can block signals; Windows cannot."""


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


@contextmanager
def postpone_signals() -> Iterator[None]:
    """Defer signals to the end of the block; processes started in it inherit them blocked.

    Such a process thus receives no signal while it is loading; `end_with_parent` then sets its
    handlers. Windows cannot block signals: there an interrupt ends a process that is loading.
    """
    if not _MASKED:
        with defer_signals():
            yield
        return
    resource_tracker.ensure_running()  # starting it unblocks signals: so before they are blocked
    with defer_signals():
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def end_with_parent() -> None:
    """Let this process, which its parent has started, leave interrupts to it and end with it."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if _MASKED:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    threading.Thread(target=_end_with, args=(parent_process(),), daemon=True).start()


def _end_with(parent: BaseProcess | None) -> None:
    """Wait until the parent has ended, for whatever reason, and end at once."""
    if parent is not None:
        parent.join()
        os._exit(1)
