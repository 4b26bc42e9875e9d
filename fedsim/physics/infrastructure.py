"""The energy of the server and of the network behind the clients' radios.

Clients and log do not depend on it: it follows from the time, the bits and the work of a run. It is
an average over all traffic. Equipment that is on anyway draws hardly more for a further bit (Mytton
et al., "Network energy use not directly proportional to data volume", J. Industrial Ecology 2024),
so the energy that a run causes may be far less, and so may the energy that fewer bits save.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import OneOf, failure
from fedsim.core.blocks.presets import Preset, Presettable, names_of
from fedsim.core.blocks.quantities import JoulesPerBit, Share, Speed, Watts
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, KindFirst, as_written
from fedsim.physics.sources import (
    ASLAN_2018,
    GSMA_2023,
    SPECPOWER,
    TOP500,
    UPTIME_2023,
    Figure,
    lit,
    meas,
    preset,
)

OPERATIONS = 2.0
"""Operations of the server per number of a client's reply: a product and a sum."""


class InfrastructureJoules(NamedTuple):
    """The energy of a run beyond that of its clients.

    Attributes:
        server: J, cooling and power supply of its site included.
        network: J, of all equipment between the clients' radios and the server.
    """

    server: float
    network: float


def _with_server(basis: str, per_bit: Figure) -> Preset:
    """Return a preset with the server of all presets."""
    return preset(
        basis,
        per_bit=per_bit,
        idle=meas("74 W", 48, 132, SPECPOWER),
        active=meas("414 W", 292, 616, SPECPOWER),
        speed=meas("950 Gflop/s", 330, 2700, TOP500),
        pue=lit(1.58, 1.1, 2.0, UPTIME_2023),
    )


ACCESS: Mapping[str, Preset] = {
    "fixed": _with_server(
        "[lit] fixed access and core, 0.0065 kWh/GB in 2020; server: SPECpower, two sockets",
        lit("2.9 uJ/bit", 0.45, 27, ASLAN_2018),
    ),
    "mobile": _with_server(
        "[lit] mobile access and core, 0.2 kWh/GB in 2020; server: SPECpower, two sockets",
        lit("90 uJ/bit", 27, 270, GSMA_2023),
    ),
}
"""The presets, by the access network of the clients.

1 kWh/GB is 450 uJ/bit. Fixed: the projection of Aslan et al. for 2020; the interval is from 0.001
kWh/GB, the coefficient of Cloud Carbon Footprint, to their 0.06 kWh/GB for 2015. Finland's network
operators reported 0.05 kWh/GB for 2021. Mobile: the geometric mean of these operators' 0.12 kWh/GB
and of GSMA's 0.33 kWh/GB (0.24 in the radio access network, 73 % of the whole); the interval
is a factor of 10, that between the best and the worst network of GSMA's benchmark.

Idle and full power are the medians of 84 servers with two sockets in SPECpower_ssj2008 of 2018 to
2021, and the intervals their 5 % and 95 % quantiles. Speed is that of Linpack on one server with
an Ampere Altra Max; the interval is from 32 to 192 cores. PUE is the average of Uptime's survey of
2023; its interval is an estimate, since large sites report 1.1.
"""


class Infrastructure(KindFirst, Presettable):
    """The server's device and site, and the network between the clients' radios and the server.

    The server takes no simulated time for its work; its work takes energy here.
    """

    presets: ClassVar[Mapping[str, Preset]] = ACCESS

    per_bit: JoulesPerBit = Field(
        description="energy of the network per bit, up and down; a broadcast counts per receiver"
    )
    idle: Watts = Field(description="the server's power while it waits")
    active: Watts = Field(description="the server's power while it computes, idle or more")
    speed: Speed = Field(description="the server's operations per second")
    pue: float = Field(
        ge=1, le=100, description="power usage effectiveness: energy of the site per energy of IT"
    )
    share: Share = as_written("100 %", "the part of the server's idle power that this run counts")

    @model_validator(mode="after")
    def _working_takes_more(self) -> Self:
        if self.active < self.idle:
            text = f"got {self.active:g} W, below the idle power of {self.idle:g} W; give more"
            raise failure(("active", text, self.active))
        return self

    def joules(self, seconds: float, bits: float, operations: float) -> InfrastructureJoules:
        """Return the energy of server and network.

        Args:
            seconds: the time that the run takes, s.
            bits: of all messages, framing included; a broadcast counts per receiver.
            operations: floating-point operations of the server.

        Example:
            >>> from fedsim.physics.infrastructure import Infrastructure
            >>> block = Infrastructure.model_validate("fixed")
            >>> block.joules(100.0, 1e9, 0.0).network
            2900.0
        """
        work = (self.active - self.idle) * operations / self.speed
        return InfrastructureJoules(
            self.pue * (self.share * self.idle * seconds + work), self.per_bit * bits
        )


@dataclass(frozen=True, slots=True)
class InfrastructureMeter:
    """The energy of server and network in a run.

    Attributes:
        law: the block.
        dimension: numbers in a reply.
    """

    law: Infrastructure
    dimension: int

    def read(
        self, seconds: float, bits: float, replies: float, operations: float
    ) -> InfrastructureJoules:
        """Return the energy so far.

        Args:
            seconds: simulated time, s.
            bits: of both directions.
            replies: uplink messages that carry something.
            operations: further ones of the server, as under secure aggregation.

        Example:
            >>> from fedsim.physics.infrastructure import Infrastructure, InfrastructureMeter
            >>> meter = InfrastructureMeter(Infrastructure.model_validate("fixed"), 10)
            >>> round(meter.read(10.0, 0.0, 4, 0.0).server, 1)
            1169.2
        """
        work = OPERATIONS * self.dimension * replies + operations
        return self.law.joules(seconds, bits, work)


INFRASTRUCTURE: Registry[Infrastructure] = Registry(
    "infrastructure",
    (Infrastructure,),
    plural="infrastructure",
    names=names_of,
)
"""The kinds of infrastructure."""

AnyInfrastructure = Given[
    Annotated[Infrastructure, OneOf(INFRASTRUCTURE)] | None, Infrastructure | Block | None
]
"""A field for the energy of server and network, or the name of a preset."""
