"""Work on a thread beside the caller's: one piece at a time, so that memory stays bounded."""

from collections.abc import Callable
from threading import Thread

from fedsim.core.signals import defer_signals


class Background:
    """Does one piece of work at a time, in the order of submission.

    An error of a piece is raised by the next call of any method, and by all later calls.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Start a piece of work after the last one has ended."""
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
        """Wait for the end of the last piece of work, and raise any error."""
        self.settle()
        if self._error is not None:
            raise self._error

    def settle(self) -> None:
        """Wait for the end of the last piece of work, and ignore its error."""
        if self._thread is not None:
            self._thread.join()  # an interrupt ends this, and the next call waits again
            self._thread = None
