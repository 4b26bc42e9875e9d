"""Recordings of known constants, drawn apart from fedsim's models: NumPy and the forms of files.

A message takes its latency, then its bits with headers at its rate, all times exp(sigma Z). Flows
of a shared link have max-min fair rates.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HEADERS, PACKET = 66, 1514
SEGMENT = PACKET - HEADERS


@dataclass(frozen=True)
class Truth:
    """The constants of a radio, and the spread of times."""

    up: float = 6e6
    down: float = 15e6
    latency: float = 20e-3
    sigma: float = 0.05


def on_wire(size: int) -> int:
    """Return the bits of a message with the headers of its packets."""
    return 8 * (size + HEADERS * -(-size // SEGMENT))


def csv(rng: np.random.Generator, truth: Truth, sizes: Sequence[int], count: int = 60) -> str:
    """Return messages of both directions and random sizes."""
    rows = ["client,direction,start,end,bytes"]
    for number in range(count):
        way, rate = ("up", truth.up) if number % 2 else ("down", truth.down)
        size = int(rng.choice(sizes))
        takes = (truth.latency + on_wire(size) / rate) * rng.lognormal(0, truth.sigma)
        rows.append(f"{number % 4},{way},{number},{number + takes:.7f},{size}")
    return "\n".join(rows)


def ping(rng: np.random.Generator, truth: Truth, count: int = 8) -> str:
    """Return what ping prints, with three decimals of a millisecond."""
    trips = 2e3 * truth.latency * rng.lognormal(0, truth.sigma, count)
    lines = [f"64 bytes from h: icmp_seq={n} ttl=64 time={t:.3f} ms" for n, t in enumerate(trips)]
    return "\n".join(["PING h (10.0.0.1) 56(84) bytes of data.", *lines])


def iperf3(rng: np.random.Generator, truth: Truth, count: int = 10) -> str:
    """Return intervals of a second, in which an application's share of the bits has passed."""
    passed = truth.up / 8 * SEGMENT / PACKET / rng.lognormal(0, truth.sigma, count)
    spans = [{"start": n, "end": n + 1, "bytes": round(each)} for n, each in enumerate(passed)]
    test = {"test_start": {"protocol": "TCP", "reverse": 0}}
    return json.dumps({"start": test, "intervals": [{"sum": each} for each in spans]})


def mahimahi(rng: np.random.Generator, truth: Truth, count: int = 8) -> str:
    """Return opportunities of 1500 bytes, evenly in each second, of another rate in each."""
    lines = list[int]()
    for second, rate in enumerate(truth.down / rng.lognormal(0, truth.sigma, count)):
        packets = round(rate / 12e3)
        lines += (
            (1000 * second + np.ceil(np.arange(1, packets + 1) * 1000 / packets))
            .astype(int)
            .tolist()
        )
    return "\n".join(map(str, lines))


def history(
    rng: np.random.Generator, speed: float, sigma: float, clients: int, count: int = 12
) -> str:
    """Return the mean times of tasks of 1,000 samples over the clients of each round."""
    times = 1000 / speed * rng.lognormal(0, sigma, (count, clients)).mean(axis=1)
    fit = {
        "train_time": [[n + 1, each] for n, each in enumerate(times)],
        "num_examples": [[n + 1, 1000] for n in range(count)],
    }
    return json.dumps({"losses_distributed": [], "metrics_distributed_fit": fit})


def capture(
    rng: np.random.Generator,
    truth: Truth,
    sizes: Sequence[int],
    path: Path,
    *,
    at_server: bool,
    clients: int = 3,
    count: int = 12,
) -> None:
    """Write a capture of kept connections: behind the radio a segment is seen as it has passed."""
    import dpkt

    frames = list[tuple[float, bytes]]()
    for number in range(clients):
        ends = (bytes([10, 0, 0, number + 1]), 40_000), (bytes([10, 0, 1, 1]), 7000)
        sequence = {True: 1000, False: 5000}

        def put(time: float, up: bool, flags: int, size: int = 0) -> None:
            (source, sport), (target, dport) = ends if up else ends[::-1]  # noqa: B023 - used within
            fields: dict[str, Any] = {"sport": sport, "dport": dport, "flags": flags}
            tcp = dpkt.tcp.TCP(**fields, seq=sequence[up], data=bytes(size))  # noqa: B023
            ip = dpkt.ip.IP(src=source, dst=target, p=6, data=tcp)
            ip.len = len(ip)
            frames.append((time, bytes(dpkt.ethernet.Ethernet(data=ip, type=0x0800))))
            sequence[up] += size + bool(flags & 2)  # noqa: B023

        to_server = truth.latency if at_server else 0.0
        now = 1.0 + 2.0 * number
        put(now + to_server, True, 2)
        put(now + truth.latency + (truth.latency - to_server), False, 18)
        put(now + 2 * truth.latency + to_server, True, 16)
        now += 2 * truth.latency + 0.1
        for turn in range(2 * count):
            up, noise = turn % 2 == 0, rng.lognormal(0, truth.sigma)
            rate = (truth.up if up else truth.down) / noise
            for first, last, size in _segments(int(rng.choice(sizes)), rate):
                behind = up == at_server
                put(now + (truth.latency * noise + last if behind else first), up, 24, size)
                end = last
            now += truth.latency * noise + end + 0.03
    with path.open("wb") as file:
        writer = dpkt.pcap.Writer(file)
        for time, frame in sorted(frames, key=lambda one: one[0]):
            writer.writepkt(frame, ts=time)


def _segments(size: int, rate: float) -> Iterator[tuple[float, float, int]]:
    """Yield when each segment begins and has passed, s, and its bytes."""
    passed = 0.0
    while size:
        own = min(size, SEGMENT)
        last = passed + 8 * (own + HEADERS) / rate
        yield passed, last, own
        passed, size = last, size - own


def shared(
    rng: np.random.Generator, truth: Truth, link: float, sizes: Sequence[int], clients: int = 4
) -> str:
    """Return uploads of clients that begin together, over one link, and downloads apart."""
    rows = ["client,direction,start,end,bytes"]
    for turn in range(10):
        base, chosen = 100.0 * turn, rng.choice(sizes, clients)
        left = {n: float(on_wire(int(size))) for n, size in enumerate(chosen)}
        starts = dict(enumerate(rng.uniform(0, 0.05, clients)))
        ends, now = dict[int, float](), 0.0
        while left:
            active = [n for n in left if starts[n] + truth.latency <= now + 1e-12]
            later = [starts[n] + truth.latency for n in left if n not in active]
            rate = min(truth.up, link / len(active)) if active else 0.0
            dues = [now + left[n] / rate for n in active] + later
            then = min(dues)
            for n in active:
                left[n] -= (then - now) * rate
            for n in [n for n in active if left[n] < 1e-3]:
                ends[n] = then
                del left[n]
            now = then
        for n, end in ends.items():
            takes = (end - starts[n]) * rng.lognormal(0, truth.sigma)
            begun = base + starts[n]
            rows.append(f"{n},up,{begun:.7f},{begun + takes:.7f},{chosen[n]}")
            size = int(rng.choice(sizes))
            takes = (truth.latency + on_wire(size) / truth.down) * rng.lognormal(0, truth.sigma)
            begun = base + 50 + n
            rows.append(f"{n},down,{begun:.7f},{begun + takes:.7f},{size}")
    return "\n".join(rows)
