"""Traces: what follows a file, such as a rate that was measured on a drive."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec

Shift = Literal["none", "random"]
"""Where in its pattern a trace starts: at the beginning, or anywhere, client by client."""

_SHIFT = "where each client starts in the pattern: all at its beginning, or each anywhere"


def check_shift(shift: Shift, *, repeat: bool) -> None:
    """Raise a ValidationError where a pattern that does not repeat is to be shifted."""
    if shift == "random" and not repeat:
        text = 'seen "random", but what does not repeat has one beginning; use repeat: true or none'
        raise failure(("shift", text, shift))


class MahimahiTrace(Spec):
    """A Mahimahi trace: a line is an opportunity to deliver 1500 bytes, in ms.

    Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015. It
    repeats past its end.
    """

    kind: Literal["mahimahi"] = Field(default="mahimahi", description="Mahimahi's format")
    path: Path = Field(description="the file, relative to that of the scenario")
    shift: Shift = Field(default="none", description=_SHIFT)


class CsvTrace(Spec):
    """A trace of two columns: seconds, and Mbit/s from then on."""

    kind: Literal["csv"] = Field(default="csv", description="seconds, Mbit/s")
    path: Path = Field(description="the file, relative to that of the scenario")
    repeat: bool = Field(
        default=True, description="whether it starts again at its end; else the last rate stays"
    )
    shift: Shift = Field(default="none", description=_SHIFT)

    @model_validator(mode="after")
    def _shiftable(self) -> Self:
        check_shift(self.shift, repeat=self.repeat)
        return self


Trace = MahimahiTrace | CsvTrace
TRACES: Registry[Spec] = Registry("trace", (MahimahiTrace, CsvTrace))
"""The formats of rate traces."""

AnyTrace = Annotated[Trace, OneOf(TRACES)]
"""A field that takes one of them."""
