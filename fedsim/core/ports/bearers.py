"""What carries the bits of messages: interfaces between radios and models of networks."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class CalledLater(Protocol):
    """A callback with a time."""

    def cancel(self) -> None:
        """Do not call it."""
        ...


class Clock(Protocol):
    """The simulated time, and what is to happen in it."""

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        ...

    def at(self, when: float, callback: Callable[..., object], *args: Any) -> CalledLater:
        """Call a function at a time, s, from now on; what is returned cancels it."""
        ...


class Transfer(Protocol):
    """Bits that flow, or have flowed."""

    def passed(self, now: float) -> float:
        """Return the bits that have passed by the time `now`, the present or a recent one."""
        ...

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        ...


class Bearer(Protocol):
    """How the bits of a lane's messages flow.

    Attributes:
        open: whether every message runs at its own cap from first to last, whatever the
            others do.
    """

    open: bool

    def start(
        self,
        bits: float,
        cap: float,
        finished: Callable[[T], None],
        token: T,
    ) -> Transfer:
        """Let bits flow from now on.

        Args:
            bits: how many.
            cap: the radio's rate for this message, bit/s; at most the peak of its law.
                Where the rate law follows a signal, the bearer knows it.
            finished: called with the token when the last bit has passed.
            token: the caller's, passed to `finished`.
        """
        ...
