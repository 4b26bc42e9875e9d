"""A star of Linux's own network stacks: clients, two routers and a server, each in a namespace.

    client n ── router ══ way ══ router ── server

The routers' devices towards each other shape the server's link in both directions: a class of the
kernel's HTB sets its rate, and a drop-tail queue of packets stands in front of it, a hop away from
either end. Each client's own link is shaped in the same way. Delays and losses are those of the way
between: the kernel's `netem` where it has that, and else a relay between two TUN devices.

Nothing outside is touched: the namespaces hold all devices, and go with them.
"""

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from linux import netem
from packets import Case

RELAY = Path(__file__).with_name("relay.py")

NAMED = Path("/run/netns")
"""Where the kernel's namespaces have names."""

MTU = 1500

ETHERNET = 14
"""The bytes of a frame's header, which the kernel counts."""

LATE = 2e-4
"""How late the kernel may let a packet pass, s: with less in its bucket, a link misses its rate."""

SERVER = "10.255.0.2"


class Unavailable(RuntimeError):
    """This machine does not let the caller make network namespaces, with the reason."""


class Links(NamedTuple):
    """The links of a star; those of clients have as many entries as there are clients.

    Attributes:
        rate: of the server's link, bit/s.
        delay: of the server's link, one way, s.
        queue: in front of each link, packets.
        up, down: of the clients' links, bit/s.
        own_delays: of the clients' links, one way, s.
        loss: share of data packets that are lost on the server's link.
        losing: the direction that loses them, up or down.
        control: Linux's name of the law of congestion; empty where sockets choose it themselves.
    """

    rate: float
    delay: float
    queue: int
    up: Sequence[float]
    down: Sequence[float]
    own_delays: Sequence[float]
    loss: float = 0.0
    losing: str = "up"
    control: str = ""

    @property
    def routes(self) -> str:
        """What follows a route, so that connections over it take the law."""
        return f" congctl {self.control}" if self.control else ""


def links_of(case: Case) -> Links:
    """Return the links of a case, without gateways, and with drop-tail queues."""
    own = [case.own_rate] * case.flows
    delays = case.own_delays
    return Links(case.rate, case.delay, case.queue, own, own, delays, case.loss, case.direction)


class Star(NamedTuple):
    """The names of the namespaces.

    Attributes:
        clients: one each.
        server: its own.
    """

    clients: Sequence[str]
    server: str


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Open sockets and devices in a namespace, within the block."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/self/ns/net").open("rb") as own, (NAMED / name).open("rb") as there:
        _enter(libc, there.fileno())
        try:
            yield
        finally:
            _enter(libc, own.fileno())


def _enter(libc: ctypes.CDLL, descriptor: int) -> None:
    if libc.setns(descriptor, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def command(*words: str, given: str | None = None) -> None:
    """Run a program of the machine.

    Raises:
        Unavailable: it is missing, or it failed; with what it said.
    """
    program = shutil.which(words[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise Unavailable(f"there is no program {words[0]} (Debian's iproute2)")
    done = subprocess.run(
        [program, *words[1:]], input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")


def _batch(lines: Sequence[str], *, program: str = "ip", name: str = "") -> None:
    """Give several lines to ip or tc at once."""
    there = ("-n", name) if name else ()
    command(program, *there, "-batch", "-", given="\n".join(lines) + "\n")


def _shaped(device: str, rate: float, queue: int, *, ethernet: bool) -> list[str]:
    """Return the lines for tc that shape what a device sends: bit/s, and packets that may wait.

    A class of HTB sends while its tokens are not negative, so each packet waits until the ones
    before it have taken their time on the link; its bucket only makes up for a late kernel. A `tbf`
    has to hold a whole packet instead, with which 25 SYN pass at once. A link's rate is that of IP:
    what Ethernet adds to a packet is not counted.
    """
    frame = f"stab overhead -{ETHERNET} linklayer ethernet " if ethernet else ""
    burst = max(1, round(rate * LATE / 8))
    bucket = f"rate {round(rate)}bit ceil {round(rate)}bit burst {burst} cburst {burst}"
    return [
        f"qdisc add dev {device} root handle 1: {frame}htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb {bucket} quantum {MTU + ETHERNET}",
        f"qdisc add dev {device} parent 1:1 pfifo limit {queue}",
    ]


def _tun(name: str, namespace: str) -> int:
    """Return an open TUN device of a namespace."""
    with inside(namespace):
        descriptor = os.open("/dev/net/tun", os.O_RDWR)
        set_interface, tun_without_header = 0x400454CA, 0x1001
        fcntl.ioctl(
            descriptor, set_interface, struct.pack("16sH", name.encode(), tun_without_header)
        )
    return descriptor


def _settings(name: str) -> None:
    """Forward packets, and forget what was learnt from earlier connections."""
    settings = ("net.ipv4.ip_forward=1", "net.ipv4.tcp_no_metrics_save=1")
    widest = ("net.ipv4.tcp_rmem=4096 1048576 67108864", "net.ipv4.tcp_wmem=4096 1048576 67108864")
    for each in (*settings, *widest):
        key, value = each.split("=")
        with inside(name), suppress(OSError):
            Path("/proc/sys", *key.split(".")).write_text(value, encoding="ascii")


def address(client: int) -> str:
    """Return the address of a client."""
    return f"10.{1 + client // 200}.{client % 200}.2"


@contextmanager
def star(links: Links, seed: int = 0) -> Iterator[Star]:
    """Build a star, within the block.

    Args:
        links: its own.
        seed: of the losses.

    Raises:
        Unavailable: this machine does not allow it.
    """
    own = f"fedsim{os.getpid()}"
    near, far, server = f"{own}n", f"{own}f", f"{own}s"
    clients = [f"{own}c{number}" for number in range(len(links.up))]
    with _named([near, far, server, *clients]), _way(links, near, far, seed):
        _join(links, clients, near)
        _batch([f"link add uplink netns {far} type veth peer name eth0 netns {server}"])
        _batch(["address add 10.255.0.1/24 dev uplink", "link set uplink up"], name=far)
        own_device = ["address add 10.255.0.2/24 dev eth0", "link set eth0 gso_max_segs 1"]
        _batch(
            [*own_device, "link set eth0 up", f"route add default via 10.255.0.1{links.routes}"],
            name=server,
        )
        yield Star(clients, server)


@contextmanager
def _named(names: Sequence[str]) -> Iterator[None]:
    """Make namespaces, within the block."""
    try:
        _batch([f"netns add {name}" for name in names])
        for name in names:
            _settings(name)
        yield
    finally:
        for name in names:
            if (NAMED / name).exists():
                command("ip", "netns", "delete", name)


def has_netem() -> bool:
    """Return whether the kernel delays and loses packets by itself."""
    name = f"fedsim{os.getpid()}t"
    with _named([name]):
        try:
            _batch(["qdisc add dev lo root netem delay 1ms"], program="tc", name=name)
        except Unavailable:
            return False
    return True


@contextmanager
def _way(links: Links, near: str, far: str, seed: int) -> Iterator[None]:
    """Join the two routers by a long way, within the block: the kernel's, or a relay's."""
    kernels = has_netem()
    with _way_by_netem(links, near, far) if kernels else _way_by_relay(links, near, far, seed):
        shape = _shaped("way", links.rate, links.queue, ethernet=kernels)
        for name in (near, far):
            _batch(shape, program="tc", name=name)
        yield


def ways(links: Links) -> list[netem.Way]:
    """Return what the packets of each client take one way.

    The kernel hands a packet on before the time that it takes on a link of its rate, so that time
    comes here.
    """
    slow = 8 / links.rate + 8 / links.up[0]
    return [
        netem.Way(address(n), links.delay + own, slow) for n, own in enumerate(links.own_delays)
    ]


@contextmanager
def _way_by_netem(links: Links, near: str, far: str) -> Iterator[None]:
    between, up = f"fedsim{os.getpid()}w", links.losing == "up"
    each = ways(links)
    with _named([between]):
        _batch([*netem.links(near, between, far)])
        _batch([*netem.of_router(netem.NEAR)], name=near)
        _batch([*netem.of_router(netem.FAR)], name=far)
        _batch([*netem.addresses("10.255.0.0/24")], name=between)
        to_server = netem.disciplines("far", "src", each, links.loss if up else 0.0)
        to_clients = netem.disciplines("near", "dst", each, 0.0 if up else links.loss)
        _batch([*to_server, *to_clients], program="tc", name=between)
        yield


@contextmanager
def _way_by_relay(links: Links, near: str, far: str, seed: int) -> Iterator[None]:
    opened: list[int] = []
    carrier = None
    try:
        opened = [_tun("way", near), _tun("way", far)]
        for router in (near, far):
            _batch(
                [
                    "link set way txqueuelen 10000",
                    "link set way up",
                    "route add default dev way",
                ],
                name=router,
            )
        carrier = _relay(links, opened, seed)
        yield
    finally:
        if carrier is not None:
            carrier.kill()
            carrier.communicate()
        for descriptor in opened:
            os.close(descriptor)


def _join(links: Links, clients: Sequence[str], near: str) -> None:
    """Join each client to the router, by a link of its own rates."""
    joints, there = [], []
    for number, client in enumerate(clients):
        router = address(number)[:-1] + "1"
        joints.append(f"link add c{number} netns {near} type veth peer name eth0 netns {client}")
        there += [f"address add {router}/24 dev c{number}", f"link set c{number} up"]
    _batch(joints)
    _batch(there, name=near)
    shapes = [
        line
        for n, rate in enumerate(links.down)
        for line in _shaped(f"c{n}", rate, links.queue, ethernet=True)
    ]
    _batch(shapes, program="tc", name=near)
    for number, client in enumerate(clients):
        router = address(number)[:-1] + "1"
        own = [f"address add {address(number)}/24 dev eth0", "link set eth0 gso_max_segs 1"]
        _batch(
            [*own, "link set eth0 up", f"route add default via {router}{links.routes}"], name=client
        )
        _batch(
            _shaped("eth0", links.up[number], links.queue, ethernet=True), program="tc", name=client
        )


def _relay(links: Links, opened: Sequence[int], seed: int) -> "subprocess.Popen[bytes]":
    """Start the relay between the two devices, and wait until it is ready."""
    losing, each = "first" if links.losing == "up" else "second", ways(links)
    delays = [f"{way.address}={way.delay:.6f}" for way in each]
    words = [*map(str, opened), str(links.loss), str(seed), losing, f"{each[0].slow:.6g}", *delays]
    carrier = subprocess.Popen(
        [sys.executable, str(RELAY), *words], pass_fds=opened, stdout=subprocess.PIPE
    )
    assert carrier.stdout is not None
    carrier.stdout.readline()
    return carrier
