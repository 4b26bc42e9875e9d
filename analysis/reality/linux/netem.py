"""A long way by the kernel's `netem`: the lines for `ip` and `tc` that make it.

A namespace of its own stands between the two routers. Of what it sends to either of them, each
client's packets take the client's delay, and those with data may be lost:

    router ── near [way] far ── router
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Place = Literal["src", "dst"]
"""Where a packet has the address of the client."""

PREFIX = 30
NEAR, FAR = ("10.253.0.1", "10.253.0.2"), ("10.254.0.1", "10.254.0.2")
"""The addresses of a router's device and of the way's device that faces it."""

LIMIT = 1_000_000
"""Packets that may be on their way: none is dropped here."""

DATA = "match u16 0x0400 0x0400 at 2"
"""What a packet of 1024 bytes to the 1500 of the largest one has in its length."""

SHORT, LONG = 52, 1500
"""The bytes of packets without data, and with it."""


class Way(NamedTuple):
    """What a client's packets take one way.

    Attributes:
        address: of the client.
        delay: s.
        slow: for each byte beside, s.
    """

    address: str
    delay: float
    slow: float


def disciplines(device: str, place: Place, ways: Sequence[Way], loss: float) -> Iterator[str]:
    """Yield the lines for tc that delay, and perhaps lose, what a device sends.

    Args:
        device: of the way.
        place: where its packets have the clients' addresses.
        ways: of all clients.
        loss: share of packets with data that are lost.
    """
    yield f"qdisc add dev {device} root handle 1: htb default 1"
    yield f"class add dev {device} parent 1: classid 1:1 htb rate 100gbit"
    for number, way in enumerate(ways):
        for data in (False, True):
            minor = f"{2 + 2 * number + data:x}"
            seconds = way.delay + way.slow * (LONG if data else SHORT)
            lost = f" loss {100 * loss:.6f}%" if data and loss else ""
            match = f"match ip {place} {way.address}/32" + (f" {DATA}" if data else "")
            yield f"class add dev {device} parent 1: classid 1:{minor} htb rate 100gbit"
            yield (
                f"qdisc add dev {device} parent 1:{minor} netem limit {LIMIT}"
                f" delay {1e6 * seconds:.0f}us{lost}"
            )
            yield (
                f"filter add dev {device} parent 1: protocol ip prio {1 if data else 2}"
                f" u32 {match} flowid 1:{minor}"
            )


def links(near: str, way: str, far: str) -> Iterator[str]:
    """Yield the lines for ip that join two routers to the way between them, by namespaces."""
    yield f"link add way netns {near} type veth peer name near netns {way}"
    yield f"link add way netns {far} type veth peer name far netns {way}"


def addresses(servers: str) -> Iterator[str]:
    """Yield the lines for ip in the way's own namespace: servers are behind its far router."""
    for device, (there, here) in (("near", NEAR), ("far", FAR)):
        yield f"address add {here}/{PREFIX} dev {device}"
        yield f"link set {device} up"
        yield f"route add {'default' if device == 'near' else servers} via {there}"


def of_router(ends: tuple[str, str]) -> Iterator[str]:
    """Yield the lines for ip in a router's namespace: it sends all that it does not know there."""
    here, there = ends
    yield f"address add {here}/{PREFIX} dev way"
    yield "link set way up"
    yield f"route add default via {there}"
