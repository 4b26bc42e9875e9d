"""Traces: rates that follow a file, such as one measured on a drive."""

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
"""Where a trace starts in its pattern: at the beginning, or at a random place for each client."""

_SHIFT = "where clients start in the file: all at its beginning, or each at a random place"

_DIRECTION = "direction of the measured traffic: up from the device, or down to it"


class TraceReader(Protocol):
    """Calls a reader for a file, once per file and options."""

    def __call__(
        self, read: Callable[..., Steps], path: Path, **options: bool | int | str
    ) -> Steps:
        """Return the result of a reader for a file.

        Args:
            read: the reader; called with the file's path and the options.
            path: the path, relative to the file of the scenario.
            options: passed on unchanged.
        """
        ...


class Pattern(Spec):
    """A law over time. One with a field `shift` may start at a random place for each client."""

    kind: str

    @property
    def starts_anywhere(self) -> bool:
        """Whether each client starts at a random place in the pattern."""
        return getattr(self, "shift", "none") == "random"

    @model_validator(mode="after")
    def _repeats(self) -> Self:
        if self.starts_anywhere and not getattr(self, "repeat", True):
            text = 'got "random", but what does not repeat has one beginning'
            raise failure(("shift", f"{text}; use repeat: true or none", "random"))
        return self


class Trace(Pattern):
    """The trace that a radio's rate follows. A user-defined one has its `kind` and its `rate`."""

    @abstractmethod
    def rate(self, read: TraceReader) -> Steps:
        """Return the rate over time, bit/s.

        Args:
            read: reads the file of the trace, if it has one.

        Raises:
            DataError: the file is malformed.
            OSError: the file cannot be read.
        """


class MahimahiTrace(Trace):
    """A Mahimahi trace: each line is the time of an opportunity to deliver 1500 bytes, in ms.

    Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015. The trace
    starts again after its end.
    """

    kind: Literal["mahimahi"] = Field(default="mahimahi", description="Mahimahi's format")
    path: AnyPath = Field(description="the file, relative to that of the scenario")
    shift: Shift = Field(default="none", description=_SHIFT)

    def rate(self, read: TraceReader) -> Steps:
        """Return the rate in the file."""
        return read(read_mahimahi, self.path)


class RateFile(Trace):
    """A file of rates over time, which starts again after its end or keeps its last rate."""

    path: AnyPath = Field(description="the file, relative to that of the scenario")
    repeat: bool = Field(
        default=True,
        description="whether the file repeats after its end; otherwise its last rate stays",
    )
    shift: Shift = Field(default="none", description=_SHIFT)


class CsvTrace(RateFile):
    """A trace with two columns: seconds, and Mbit/s from each time on."""

    kind: Literal["csv"] = Field(default="csv", description="seconds, Mbit/s")

    def rate(self, read: TraceReader) -> Steps:
        """Return the rate in the file."""
        return read(read_csv, self.path, repeat=self.repeat)


class UccTrace(RateFile):
    """A drive or a stay of UCC's 5G data set: DL_bitrate or UL_bitrate, in kbit/s.

    Raca et al., "Beyond Throughput, The Next Generation: A 5G Dataset with Channel and Context
    Metrics", MMSys 2020. `fedsim fetch ucc-5g` downloads it.
    """

    kind: Literal["ucc-5g"] = Field(default="ucc-5g", description="G-NetTrack's table")
    direction: Direction = Field(default="down", description=_DIRECTION)

    def rate(self, read: TraceReader) -> Steps:
        """Return the rate of that direction."""
        return read(read_ucc, self.path, direction=self.direction, repeat=self.repeat)


class LumosTrace(RateFile):
    """A run of Lumos5G's table: the downlink Throughput of each second, in Mbit/s.

    Narayanan et al., "Lumos5G: Mapping and Predicting Commercial mmWave 5G Throughput", IMC 2020.
    """

    kind: Literal["lumos5g"] = Field(default="lumos5g", description="Lumos5G's table")
    run: int = Field(ge=0, description="run_num of the table")

    def rate(self, read: TraceReader) -> Steps:
        """Return the rate of that run."""
        return read(read_lumos, self.path, run=self.run, repeat=self.repeat)


class PensieveTrace(RateFile):
    """A trace in Pensieve's format, such as FCC's, or the 5G measurements of SIGCOMM 2021.

    Each line has seconds, and the rate until then in Mbit/s. Mao et al., "Neural Adaptive Video
    Streaming with Pensieve", SIGCOMM 2017.
    """

    kind: Literal["pensieve"] = Field(default="pensieve", description="seconds Mbit/s")

    def rate(self, read: TraceReader) -> Steps:
        """Return the rate in the file."""
        return read(read_pensieve, self.path, repeat=self.repeat)


class MonroeTrace(RateFile):
    """A measurement of MONROE-Nettest: the bytes of its flows over time.

    Midoglu et al., "MONROE-Nettest: A Configurable Tool for Dissecting Speed Measurements in Mobile
    Broadband Networks", 2017, arXiv:1710.07805.
    """

    kind: Literal["monroe"] = Field(default="monroe", description="MONROE-Nettest's flows")
    direction: Direction = Field(default="down", description=_DIRECTION)

    def rate(self, read: TraceReader) -> Steps:
        """Return the rate of that direction."""
        return read(read_monroe, self.path, direction=self.direction, repeat=self.repeat)


TRACES: Registry[Trace] = Registry(
    "trace",
    (MahimahiTrace, CsvTrace, UccTrace, LumosTrace, PensieveTrace, MonroeTrace),
    Trace,
)
"""The formats of rate traces."""

AnyTrace = Given[Annotated[Trace, OneOf(TRACES)] | None, Trace | Block | None]
"""A field for a trace, or none."""
