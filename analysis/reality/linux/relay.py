"""A long way between two TUN devices: every packet is handed over after a delay, and some are lost.

    python analysis/reality/linux/relay.py FIRST SECOND SHARE SEED LOSING SLOW CLIENT=SECONDS ...

FIRST and SECOND are open file descriptors of TUN devices, and each CLIENT is an IPv4 address: what
it sends or receives takes its SECONDS one way, and SLOW seconds for each byte: the kernel hands a
packet on before the time that it takes on a link of its rate. A SHARE of the packets with data that
LOSING (first or second) hands in are lost, by draws of the SEED. It prints a line when
it is ready, and ends when it is killed. It stands in for the kernel's `netem` where there is none.
"""

import heapq
import os
import random
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

LARGEST = 65_536
"""Bytes of the largest packet of IPv4."""

BATCH = 64
"""Packets that are read from one device before the other one has its turn."""

DATA = 1024
"""Bytes above which a packet carries data: losses meet no acknowledgements."""

Packet = tuple[float, int, int, bytes]
"""When it is due, its number, the descriptor that it goes to, and its bytes."""


def client_of(packet: bytes, delays: Mapping[bytes, float]) -> bytes | None:
    """Return the address of the client that sends or receives a packet of IPv4; None for others."""
    if packet[0] >> 4 != 4:
        return None
    source, target = packet[12:16], packet[16:20]
    return source if source in delays else target if target in delays else None


class Ways:
    """How long packets take between the devices, in the order in which those of a client came.

    Args:
        delays: by client, s.
        slow: for each byte beside, s.
    """

    def __init__(self, delays: Mapping[bytes, float], slow: float) -> None:
        self._delays, self._slow = delays, slow
        self._last: dict[tuple[bytes, int], float] = {}

    def due(self, packet: bytes, target: int, now: float) -> float | None:
        """Return when a packet that comes now is due at its device; None if it has none."""
        client = client_of(packet, self._delays)
        if client is None:
            return None
        due = now + self._delays[client] + self._slow * len(packet)
        self._last[client, target] = due = max(due, self._last.get((client, target), due))
        return due


def take(
    ready: int,
    other: int,
    ways: Ways,
    lost: Callable[[bytes], bool],
    waiting: list[Packet],
    number: int,
) -> int:
    """Read what a device has, and put it on its way.

    Returns:
        The number of the next packet.
    """
    for _ in range(BATCH):
        try:
            packet = os.read(ready, LARGEST)
        except BlockingIOError:
            break
        due = None if lost(packet) else ways.due(packet, other, time.monotonic())
        if due is not None:
            heapq.heappush(waiting, (due, number, other, packet))
            number += 1
    return number


def hand_over(waiting: list[Packet]) -> None:
    """Write every packet that is due to its device."""
    while waiting and waiting[0][0] <= time.monotonic():
        _, _, target, packet = heapq.heappop(waiting)
        os.write(target, packet)


def relay(ends: tuple[int, int], ways: Ways, lost: Callable[[int, bytes], bool]) -> None:
    """Carry packets between two devices until the process is killed."""
    waiting: list[Packet] = []
    number = 0
    for end in ends:
        os.set_blocking(end, False)
    print("ready", flush=True)
    while True:
        rest = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for ready in select.select(ends, [], [], rest)[0]:
            other = ends[1] if ready == ends[0] else ends[0]
            number = take(ready, other, ways, partial(lost, ready), waiting, number)
        hand_over(waiting)


def be_prompt() -> None:
    """Run before all programs that are not in real time themselves, where that is allowed.

    What this process starts does not: a relay would wait for it as for its equals.
    """
    with suppress(PermissionError):
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(10))


def main(arguments: Sequence[str]) -> None:
    """Carry packets as the arguments say."""
    be_prompt()
    first, second, share, seed, losing, slow, *clients = arguments
    ends = int(first), int(second)
    source, rng, loss = ends[losing == "second"], random.Random(int(seed)), float(share)
    delays = {
        socket.inet_aton(address): float(seconds)
        for address, seconds in (client.split("=") for client in clients)
    }

    def lost(end: int, packet: bytes) -> bool:
        return loss > 0 and end == source and len(packet) > DATA and rng.random() < loss

    relay(ends, Ways(delays, float(slow)), lost)


if __name__ == "__main__":
    main(sys.argv[1:])
