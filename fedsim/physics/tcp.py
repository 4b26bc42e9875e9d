"""TCP: the block `network.tcp`, with parameters of connections and of the queues on their way."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.modes import Moded
from fedsim.core.blocks.quantities import Bytes, Seconds
from fedsim.core.blocks.spec import as_written
from fedsim.physics.radios.channel import Framing, framing

_QUEUE = "packets that wait in front of each direction of each link; one more is being sent"
_KEPT = "one for each client and direction, open from the start"
_BDP = "the same in products of the link's rate and the longest round trip over it"

_STACKS: Mapping[str, Mapping[str, object]] = {
    "linux": {"min_rto": "200 ms", "delayed_ack": "40 ms", "idle_restart": True},
    # MinRto and DelAckTimeout of its sockets, whose windows stay as they are while idle.
    "ns-3": {"min_rto": "1 s", "delayed_ack": "200 ms", "idle_restart": False},
}
"""The defaults of each stack, in the notation of a scenario."""

_NO_BBR = (
    "there is no model of BBR: expected cubic or newreno; cubic is within some percent of BBR where"
    " first windows fit the queues and no packets are lost, and not beyond"
    " (docs/howto/uplink.md)"
)


class Tcp(Moded):
    """The parameters of `model: tcp`. Defaults are those of Linux unless a description differs."""

    variant: Literal["cubic", "newreno"] = Field(
        default="cubic",
        description="congestion control: CUBIC (RFC 9438), or NewReno (RFC 5681 with RFC 6582)",
    )
    stack: Literal["linux", "ns-3"] = Field(
        default="linux",
        description=(
            "the implementation whose timers (ns-3: `min_rto` 1 s, `delayed_ack` 200 ms),"
            " growth of NewReno, end of slow start, and `idle_restart` (ns-3: false) apply"
        ),
    )
    initial_window: int = Field(
        default=10, ge=1, description="segments in the initial window, RFC 6928"
    )
    queue: int = Field(default=1000, ge=1, description=f"{_QUEUE} (Linux's txqueuelen)")
    queue_bdp: float | None = Field(default=None, gt=0, description=f"{_BDP}, in place of `queue`")
    discipline: Literal["drop-tail", "fq-codel"] = Field(
        default="drop-tail",
        description="drop-tail: a full queue drops what arrives; fq-codel: RFC 8290",
    )
    min_rto: Seconds = as_written(
        "200 ms", "shortest retransmission timeout; RFC 6298 and ns-3 have 1 s, Linux 200 ms"
    )
    delayed_ack: Seconds = as_written(
        "40 ms", "delay of the acknowledgement of an odd segment; RFC 1122 allows up to 500 ms"
    )
    connections: Literal["new", "kept"] = Field(
        default="kept",
        description=f"kept: {_KEPT}, as with gRPC and HTTP/2; new: one for each message, with its"
        " handshake",
    )
    idle_restart: bool = Field(
        default=True, description="whether a kept connection's window shrinks while idle, RFC 2861"
    )
    headers: Bytes = as_written(
        "52 B", "of IP and TCP with timestamps in each packet, where the radio has no `framing`"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_bbr(cls, block: object) -> object:
        """Refuse BBR with the measured reason; analysis/reality/README.md has the tables."""
        if isinstance(block, Mapping) and block.get("variant") == "bbr":
            raise failure(("variant", _NO_BBR, "bbr"))
        return block

    @classmethod
    def implied(cls, block: Mapping[str, object]) -> Mapping[str, object]:
        """Return the timers of the stack, and whether its windows shrink while idle."""
        return _STACKS.get(str(block.get("stack", "linux")), {})

    def packaging(self, own: Framing) -> Framing:
        """Return how messages are divided into segments.

        Args:
            own: the framing of the radio, which is used if it has headers.
        """
        return own if own.overhead else framing(int(self.headers), own.packet)
