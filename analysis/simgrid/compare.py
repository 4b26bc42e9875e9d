"""Do bits arrive when SimGrid says that they do?

Fifty random stars and trees, each with messages in both directions, under plain max-min
fairness and under LV08. What both simulators say of every message is written to
arrivals.csv, beside this file; tests/sim/test_simgrid_golden.py holds fedsim to it.

    python analysis/simgrid/compare.py [an interpreter that has SimGrid's Python module]

The table in the repository was made with SimGrid 3.32, the release of Debian 12, at its own
precision settings.

SimGrid: Casanova, Giersch, Legrand, Quinson, Suter, "Versatile, scalable, and accurate
simulation of distributed applications and platforms", JPDC 2014.
"""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from fedsim.physics.network_models import FluidFlows, Lv08, Site
from fedsim.physics.radios import ConstantRate
from fedsim.physics.topology import Topology, star, tree
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.models import layer

HERE = Path(__file__).resolve().parent
TABLE = HERE / "arrivals.csv"
COLUMNS = ("platform", "kind", "model", "message", "simgrid", "fedsim", "difference")
PLATFORMS = 50
Sharing = Literal["fluid", "lv08"]
"""The models of flows that SimGrid has, too."""

MODELS: tuple[Sharing, ...] = ("fluid", "lv08")


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        start: when it is sent, s.
        lane: the client whose uplink it takes, or the number of clients plus that client for
            its downlink; a lane has one message.
        size: bytes.
    """

    start: float
    lane: int
    size: int


@dataclass(frozen=True, slots=True)
class Platform:
    """A network, its radios, and what is sent over it.

    Attributes:
        kind: star or tree.
        topology: all but the radios.
        rates: of every lane's radio, bit/s.
        latency: of every client's radio, one way, s.
        messages: what is sent.
    """

    kind: Literal["star", "tree"]
    topology: Topology
    rates: tuple[float, ...]
    latency: tuple[float, ...]
    messages: tuple[Message, ...]

    @property
    def clients(self) -> int:
        """How many."""
        return len(self.latency)

    def lag(self, lane: int) -> float:
        """Return the latency of route and radio, s."""
        routes = (*self.topology.up, *self.topology.down)
        return routes[lane].latency + self.latency[lane % self.clients]


def platform(seed: int) -> Platform:
    """Draw a platform: a star for an even seed, a tree for an odd one."""
    rng = np.random.default_rng(seed)

    def magnitude(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    clients = int(rng.integers(3, 16))
    up, down, latency = magnitude(1e6, 1e9), magnitude(1e6, 1e9), magnitude(1e-3, 5e-2)
    if seed % 2:
        gateways, rate = int(rng.integers(2, 5)), magnitude(1e6, 1e8)
        lag = magnitude(1e-3, 1e-1)
        made = tree(
            clients,
            gateways,
            rate=rate,
            gateway_latency=lag,
            uplink=down,
            downlink=up,
            latency=latency,
        )
    else:
        made = star(clients, uplink=down, downlink=up, latency=latency)
    lanes = rng.permutation(2 * clients)[: rng.integers(clients // 2, 2 * clients) + 1]
    spread = magnitude(0.1, 10.0) if rng.random() < 0.5 else 0.0
    return Platform(
        "tree" if seed % 2 else "star",
        made,
        tuple([magnitude(1e5, 1e9) for _ in range(2 * clients)]),
        tuple([magnitude(1e-3, 2e-1) for _ in range(clients)]),
        tuple([_message(rng, int(lane), spread) for lane in sorted(lanes)]),
    )


def _message(rng: np.random.Generator, lane: int, spread: float) -> Message:
    size = int(np.exp(rng.uniform(np.log(1e4), np.log(1e7))))
    return Message(float(rng.uniform(0.0, spread)), lane, size)


def by_fedsim(one: Platform, model: Sharing) -> list[float]:
    """Return when each message has arrived, s."""
    calendar, arrived = Calendar(), [-1.0] * len(one.messages)
    site = Site(
        calendar=calendar,
        topology=one.topology,
        up=[ConstantRate(rate) for rate in one.rates[: one.clients]],
        down=[ConstantRate(rate) for rate in one.rates[one.clients :]],
        latency=one.latency,
    )
    network = layer(model, Lv08() if model == "lv08" else FluidFlows())
    up, down = network.bearers(site)

    def arrive(number: int) -> None:
        arrived[number] = calendar.now

    def begin(number: int, message: Message) -> None:
        bearer = (*up, *down)[message.lane]
        bearer.start(8.0 * message.size, one.rates[message.lane], arrive, number)

    for number, message in enumerate(one.messages):
        calendar.at(message.start + network.delay(one.lag(message.lane)), begin, number, message)
    calendar.run()
    return arrived


def by_simgrid(one: Platform, model: Sharing, python: str) -> list[float]:
    """Return the same by SimGrid, run by another interpreter.

    Its plain model would weigh flows by their latencies, so there latencies are waited for
    before the messages are sent.
    """
    plain = model == "fluid"
    links = [(_bytes(link.capacity), 0.0) for link in one.topology.links]
    lanes = range(2 * one.clients)
    radios = [(one.rates[n] / 8.0, 0.0 if plain else one.lag(n)) for n in lanes]
    routes = [route.links for route in (*one.topology.up, *one.topology.down)]
    messages = [
        (message.start + (one.lag(message.lane) if plain else 0.0), message.lane, message.size)
        for message in one.messages
    ]
    job = {
        "model": model,
        "links": links + radios,
        "routes": [(*route, len(links) + n) for n, route in enumerate(routes)],
        "messages": messages,
    }
    done = subprocess.run(
        [python, str(HERE / "reference.py")],
        input=json.dumps(job),
        check=True,
        capture_output=True,
        text=True,
    )
    answer = json.loads(done.stdout)
    return [float(arrival) for arrival in answer["arrivals"]]


def held_up(one: Platform, model: Sharing) -> int:
    """Return how many messages would have arrived earlier without the others."""
    alone = [by_fedsim(replace(one, messages=(message,)), model)[0] for message in one.messages]
    together = by_fedsim(one, model)
    return sum(late > early * (1 + 1e-9) for late, early in zip(together, alone, strict=True))


def _bytes(capacity: object) -> float:
    if not isinstance(capacity, ConstantRate):
        raise TypeError("the platforms of this study do not vary with time")
    return float(capacity.rate) / 8.0


def rows(python: str) -> Iterator[tuple[int, str, str, int, float, float, float]]:
    """Yield what is written of every message."""
    for seed in range(PLATFORMS):
        one = platform(seed)
        for model in MODELS:
            pairs = zip(by_simgrid(one, model, python), by_fedsim(one, model), strict=True)
            for number, (theirs, ours) in enumerate(pairs):
                yield seed, one.kind, model, number, theirs, ours, abs(ours - theirs) / theirs


def main(arguments: Sequence[str]) -> None:
    """Write the table, and print the largest difference under each model."""
    python = arguments[0] if arguments else sys.executable
    found = list(rows(python))
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([(*row[:4], *[f"{value:.9g}" for value in row[4:]]) for row in found])
    for model in MODELS:
        off = np.array([row[6] for row in found if row[2] == model])
        shared = sum(held_up(platform(seed), model) for seed in range(PLATFORMS))
        print(f"{model}: {off.size} messages, {shared} of them held up by others")
        print(f"    largest relative difference {off.max():.2e}, median {np.median(off):.2e}")


if __name__ == "__main__":
    main(sys.argv[1:])
