"""Secure aggregation as scenario blocks: which protocol, and how vectors become integers."""

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PositiveFloat, WithJsonSchema, model_validator

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import Fraction, Share
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, Spec, as_written
from fedsim.protocol.participation.rounds import at_least

_RATIO = re.compile(r"\s*([0-9]{1,6})\s*/\s*([1-9][0-9]{0,5})\s*")


def _ratio(value: object) -> object:
    """Return a text such as "2/3" as a number; other values unchanged."""
    match = _RATIO.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) / int(match[2]) if match else value


_Part = Annotated[
    Share,
    BeforeValidator(_ratio),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                {"type": "string", "pattern": r"^\s*[0-9.]+\s*(%|/\s*[1-9][0-9]{0,5})\s*$"},
            ]
        }
    ),
]
"""A share, also written as a ratio."""


class Secrecy(Spec):
    """Base class of protocols of secure aggregation: the server learns sums of vectors only."""

    agreed: ClassVar[bool] = True
    """Whether masks come from keys, and not from vectors that are sent before those of clients."""

    kind: str
    threshold: _Part = as_written(
        2 / 3,
        "share of the clients with keys that have to reply in every interaction; with fewer, the"
        ' round is abandoned; a number, "67 %" or "2/3"',
    )
    bits: int = Field(
        default=16, ge=2, le=24, description="b, the bits of one coordinate of a client's vector"
    )
    clip: PositiveFloat = Field(
        default=1.0, description="the largest L2 norm of a vector: a longer one is scaled down"
    )
    silence: Literal["reveal", "mask", "grouped"] = Field(
        default="reveal",
        description="what a silent client sends. reveal: nothing, so the server sees the silence"
        " and removes the client's masks; mask: a masked zero, which the server cannot distinguish"
        " from a vector; grouped: nothing if its whole group is silent, else a masked zero, so the"
        " server only sees which groups are silent",
    )
    group: int | None = Field(
        default=None,
        ge=2,
        description="smallest size of a group of clients, with silence: grouped; 4 by default",
    )
    supports: Literal["common", "union"] = Field(
        default="common",
        description="the coordinates that clients send. common: the same ones, known in advance;"
        " union: each at which some client has an integer other than zero, for top-k. The server"
        " then sees each client's support, and the value of a coordinate that only one client has",
    )
    contributors: int = Field(
        default=1,
        ge=1,
        description="with supports: union, the server keeps a coordinate only if at least this many"
        " clients have it in their supports",
    )
    values: Literal["counted", "exact"] = Field(
        default="counted",
        description="counted: integers are added up, and keys, shares and masks are only charged;"
        " exact: they are computed, by the extra `.[secrecy]`. Both give the same log",
    )

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        if self.silence != "grouped" and self.group is not None:
            text = f"group: got {self.group}, but silence is {self.silence}; leave it out"
            raise ValueError(f"{text}, or give silence: grouped")
        return self

    @model_validator(mode="after")
    def _united(self) -> Self:
        if self.contributors > 1 and self.supports != "union":
            text = f"contributors: got {self.contributors}, but supports is {self.supports}, whose"
            raise ValueError(f"{text} coordinates all clients send; leave it out, or give union")
        return self

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield why no live run can have it, and why its costs decide nothing else."""
        text = f"got {self.kind}, whose messages have no encoding as bytes yet"
        yield "kind", Nature(simulated=text)

    @property
    def group_size(self) -> int:
        """The least size of a group."""
        return self.group or 4

    @property
    def signed(self) -> bool:
        """Whether clients sign their keys and the list of those in the sum."""
        return False

    def neighbours_among(self, clients: int) -> int:
        """Return with how many others each of some clients shares keys and masks."""
        return clients - 1


class SecAgg(Secrecy):
    """Pairwise masks between all clients, and shares of their keys for those that drop out."""

    source: ClassVar[str] = (
        "Bonawitz et al.: Practical Secure Aggregation for Privacy-Preserving Machine Learning, "
        "CCS 2017"
    )
    kind: Literal["secagg"] = "secagg"
    consistency: bool = Field(
        default=False,
        description="whether clients sign their keys, and then the list of the clients in the sum,"
        " and check each other's signatures. It protects against a server that sends them different"
        " lists",
    )

    @property
    def signed(self) -> bool:
        """Whether `consistency` is asked for."""
        return self.consistency


class SecAggPlus(Secrecy):
    """SecAgg on a random ring: each client has masks and shares with few neighbours."""

    source: ClassVar[str] = (
        "Bell et al.: Secure Single-Server Aggregation with (Poly)Logarithmic Overhead, CCS 2020"
    )
    kind: Literal["secagg+"] = "secagg+"
    neighbours: int = Field(
        ge=2,
        multiple_of=2,
        description="the neighbours of each client, half of them on each side of the ring",
    )

    @model_validator(mode="after")
    def _groups_are_neighbours(self) -> Self:
        # A group has up to 2 group - 1 clients, one beside the other on the ring.
        size, least = self.group_size, 4 * (self.group_size - 1)
        if self.silence == "grouped" and self.neighbours < least:
            text = f"group: got {size}, whose clients need {least} neighbours to share keys with"
            raise ValueError(f"{text} one another; give smaller groups, or more neighbours")
        return self

    def neighbours_among(self, clients: int) -> int:
        """Return `neighbours`, or all others if there are fewer."""
        return min(self.neighbours, clients - 1)


class LightSecAgg(Secrecy):
    """Each client's mask, encoded in parts that are sent before its vector."""

    agreed: ClassVar[bool] = False
    source: ClassVar[str] = (
        "So et al.: LightSecAgg: a Lightweight and Versatile Design for Secure Aggregation in "
        "Federated Learning, MLSys 2022"
    )
    kind: Literal["lightsecagg"] = "lightsecagg"
    colluding: Fraction = as_written(0.5, "T/N, share of clients that learn nothing by colluding")

    def parts(self, clients: int) -> tuple[int, int]:
        """Return T and U: how many clients learn nothing, and how many recover the sum.

        U is at least T + 1.
        """
        colluding = min(int(self.colluding * clients + 1e-9), clients - 1)
        return colluding, max(at_least(self.threshold * clients), colluding + 1)


SECRECY: Registry[Secrecy] = Registry(
    "secrecy", (SecAgg, SecAggPlus, LightSecAgg), plural="secrecy"
)
"""The kinds of secure aggregation; a user cannot define one, as each has its own cryptography."""

AnySecrecy = Given[Annotated[Secrecy, OneOf(SECRECY)] | None, Secrecy | Block | None]
"""A field that takes one of them, or none."""
