"""Work on a thread beside the caller's: one piece at a time, so that memory stays bounded."""

from collections.abc import Callable
from threading import Thread

from fedsim.signals import defer_signals


class Background:
    """Does one piece of work at a time, in the order in which they are given.

    What a piece raises, the caller gets with its next call of any method, and with all that follow.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Begin a piece of work, once the one before it is over."""
        self.wait()
        thread = Thread(target=self._do, args=(work,), name=self._name)
        try:
            with defer_signals():  # which would leave a thread that nothing waits for
                thread.start()
                self._thread = thread
        except RuntimeError:  # there is no room for a thread
            work()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller gets it
            self._error = error

    def wait(self) -> None:
        """Wait until the last piece of work is over, and raise what one has raised."""
        self.settle()
        if self._error is not None:
            raise self._error

    def settle(self) -> None:
        """Wait until the last piece of work is over, whatever it has raised."""
        if self._thread is not None:
            self._thread.join()  # an interrupt ends this, and the next call waits again
            self._thread = None
