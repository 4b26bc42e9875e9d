"""Traces: what follows a file, such as a rate that was measured on a drive."""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import OneOf, failure
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import AnyPath, Block, Given, Spec
from fedsim.physics.formats.rates import (
    Direction,
    read_lumos,
    read_monroe,
    read_pensieve,
    read_ucc,
)
from fedsim.physics.signals import Steps
from fedsim.physics.traces import read_csv, read_mahimahi

Shift = Literal["none", "random"]
"""Where in its pattern a trace starts: at the beginning, or anywhere, client by client."""

_SHIFT = "where clients start in the file: all at its beginning, or each at a random place"

_DIRECTION = "direction of the measured traffic: up from the device, or down to it"


def check_shift(shift: Shift, *, repeat: bool) -> None:
    """Raise a ValidationError where a pattern that does not repeat is to be shifted."""
    if shift == "random" and not repeat:
        text = 'got "random", but what does not repeat has one beginning; use repeat: true or none'
        raise failure(("shift", text, shift))


class TraceReader(Protocol):
    """Reads a file, once however often it is asked for."""

    def __call__(
        self, read: Callable[..., Steps], path: Path, **options: bool | int | str
    ) -> Steps:
        """Return what a function makes of a file.

        Args:
            read: the function; it is called with the file's path and the options.
            path: relative to the file of the scenario.
            options: passed on unchanged.
        """
        ...


class Trace(Spec):
    """The trace that a radio's rate follows. A user-defined one has its `kind` and its `rate`."""

    kind: str

    @property
    def starts_anywhere(self) -> bool:
        """Whether each client starts somewhere else in the pattern, as drawn for it."""
        return False

    @abstractmethod
    def rate(self, read: TraceReader) -> Steps:
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

    def rate(self, read: TraceReader) -> Steps:
        """Return what the file says."""
        return read(read_mahimahi, self.path)


class RateFile(Trace):
    """A file of rates over time, which starts again at its end or stays at its last rate."""

    path: AnyPath = Field(description="the file, relative to that of the scenario")
    repeat: bool = Field(
        default=True,
        description="whether the file repeats after its end; otherwise its last rate stays",
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


class CsvTrace(RateFile):
    """A trace of two columns: seconds, and Mbit/s from then on."""

    kind: Literal["csv"] = Field(default="csv", description="seconds, Mbit/s")

    def rate(self, read: TraceReader) -> Steps:
        """Return what the file says."""
        return read(read_csv, self.path, repeat=self.repeat)


class UccTrace(RateFile):
    """A drive or a stay of UCC's 5G data set: DL_bitrate or UL_bitrate, in kbit/s.

    Raca et al., "Beyond Throughput, The Next Generation: A 5G Dataset with Channel and Context
    Metrics", MMSys 2020. `fedsim fetch ucc-5g` gets it.
    """

    kind: Literal["ucc-5g"] = Field(default="ucc-5g", description="G-NetTrack's table")
    direction: Direction = Field(default="down", description=_DIRECTION)

    def rate(self, read: TraceReader) -> Steps:
        """Return what the file says of that direction."""
        return read(read_ucc, self.path, direction=self.direction, repeat=self.repeat)


class LumosTrace(RateFile):
    """A run of Lumos5G's table: the Throughput of each second, downlink, in Mbit/s.

    Narayanan et al., "Lumos5G: Mapping and Predicting Commercial mmWave 5G Throughput", IMC 2020.
    """

    kind: Literal["lumos5g"] = Field(default="lumos5g", description="Lumos5G's table")
    run: int = Field(ge=0, description="run_num of the table")

    def rate(self, read: TraceReader) -> Steps:
        """Return what the file says of that run."""
        return read(read_lumos, self.path, run=self.run, repeat=self.repeat)


class PensieveTrace(RateFile):
    """A trace of Pensieve, of FCC by way of it, or of the 5G measurements of SIGCOMM 2021.

    Lines of seconds and Mbit/s: the rate up to then. Mao et al., "Neural Adaptive Video Streaming
    with Pensieve", SIGCOMM 2017.
    """

    kind: Literal["pensieve"] = Field(default="pensieve", description="seconds Mbit/s")

    def rate(self, read: TraceReader) -> Steps:
        """Return what the file says."""
        return read(read_pensieve, self.path, repeat=self.repeat)


class MonroeTrace(RateFile):
    """A measurement of MONROE-Nettest: the bytes of its flows over time.

    Midoglu et al., "MONROE-Nettest: A Configurable Tool for Dissecting Speed Measurements in Mobile
    Broadband Networks", 2017, arXiv:1710.07805.
    """

    kind: Literal["monroe"] = Field(default="monroe", description="MONROE-Nettest's flows")
    direction: Direction = Field(default="down", description=_DIRECTION)

    def rate(self, read: TraceReader) -> Steps:
        """Return what the file says of that direction."""
        return read(read_monroe, self.path, direction=self.direction, repeat=self.repeat)


TRACES: Registry[Trace] = Registry(
    "trace",
    (MahimahiTrace, CsvTrace, UccTrace, LumosTrace, PensieveTrace, MonroeTrace),
    Trace,
)
"""The formats of rate traces."""

AnyTrace = Given[Annotated[Trace, OneOf(TRACES)] | None, Trace | Block | None]
"""A field that takes one of them."""
