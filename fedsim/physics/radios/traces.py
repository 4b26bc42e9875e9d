"""Traces: what follows a file, such as a rate that was measured on a drive."""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.given import AnyPath, Block, Given
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.physics.signals import Steps
from fedsim.physics.traces import read_csv, read_mahimahi

Shift = Literal["none", "random"]
"""Where in its pattern a trace starts: at the beginning, or anywhere, client by client."""

_SHIFT = "where each client starts in the pattern: all at its beginning, or each anywhere"


def check_shift(shift: Shift, *, repeat: bool) -> None:
    """Raise a ValidationError where a pattern that does not repeat is to be shifted."""
    if shift == "random" and not repeat:
        text = 'seen "random", but what does not repeat has one beginning; use repeat: true or none'
        raise failure(("shift", text, shift))


class Reading(Protocol):
    """Reads a file, once however often it is asked for."""

    def __call__(self, read: Callable[..., Steps], path: Path, **options: bool) -> Steps:
        """Return what a function makes of a file.

        Args:
            read: the function; it is called with the file's path and the options.
            path: relative to the file of the scenario.
            options: told as they are.
        """
        ...


class Trace(Spec):
    """What the rate of a radio follows. One of one's own has its `kind` and its `rate`."""

    kind: str

    @property
    def starts_anywhere(self) -> bool:
        """Whether each client starts somewhere else in the pattern, as drawn for it."""
        return False

    @abstractmethod
    def rate(self, read: Reading) -> Steps:
        """Return the rate, bit/s; `read` reads a file, where it follows one.

        Raises:
            DataError, OSError: the file is not what it should be.
        """


class MahimahiTrace(Trace):
    """A Mahimahi trace: a line is an opportunity to deliver 1500 bytes, in ms.

    Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015. It
    repeats past its end.
    """

    kind: Literal["mahimahi"] = Field(default="mahimahi", description="Mahimahi's format")
    path: AnyPath = Field(description="the file, relative to that of the scenario")
    shift: Shift = Field(default="none", description=_SHIFT)

    @property
    def starts_anywhere(self) -> bool:
        """As was written."""
        return self.shift == "random"

    def rate(self, read: Reading) -> Steps:
        """Return what the file says."""
        return read(read_mahimahi, self.path)


class CsvTrace(Trace):
    """A trace of two columns: seconds, and Mbit/s from then on."""

    kind: Literal["csv"] = Field(default="csv", description="seconds, Mbit/s")
    path: AnyPath = Field(description="the file, relative to that of the scenario")
    repeat: bool = Field(
        default=True, description="whether it starts again at its end; else the last rate stays"
    )
    shift: Shift = Field(default="none", description=_SHIFT)

    @model_validator(mode="after")
    def _shiftable(self) -> Self:
        check_shift(self.shift, repeat=self.repeat)
        return self

    @property
    def starts_anywhere(self) -> bool:
        """As was written."""
        return self.shift == "random"

    def rate(self, read: Reading) -> Steps:
        """Return what the file says."""
        return read(read_csv, self.path, repeat=self.repeat)


TRACES: Registry[Trace] = Registry("trace", (MahimahiTrace, CsvTrace), Trace)
"""The formats of rate traces."""

AnyTrace = Given[Annotated[Trace, OneOf(TRACES)] | None, Trace | Block | None]
"""A field that takes one of them."""
