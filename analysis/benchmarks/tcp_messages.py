"""What does a message cost under `model: tcp`, in units of one under `model: fluid`?

A hundred clients send a message each, at once, over a server's link of 100 Mbit/s, 20 ms away. Both
models are measured in the same run, in turn, by the time of the process; a ratio is the median of
those of the turns. Everything that a run does not do once for each message is left out: links and
bearers are there before. The messages of the first round are simulated, as objects or by kernels,
which are compiled before; those of later ones recur, here ten times.

The second table has whole runs: rounds of a broadcast to all clients, some computing, and a reply
of each, with the log and all else that a run has, and a method that costs nothing. A message is a
broadcast to one client, or a reply. Computing takes the same time in every round, so that all
rounds after the first recur; or another one each time, and none of the replies' does. Of objects
there are fewer rounds then.

    python analysis/benchmarks/tcp_messages.py
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Literal

import client_round
import numpy as np

from fedsim.addons.tcp import worlds
from fedsim.addons.tcp.bearers import Connections
from fedsim.addons.tcp.bearers import bearers as tcp_bearers
from fedsim.core.ports import Array, Work
from fedsim.core.ports.bearers import Bearer
from fedsim.physics.network_models import FluidFlows, Lv08, Site
from fedsim.physics.radios import ConstantRate, Radio
from fedsim.physics.radios.channel import Framing
from fedsim.physics.tcp import Tcp
from fedsim.physics.topology import star
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.models import layer

Sharing = Literal["fluid", "lv08", "tcp"]
"""Max-min fairness, SimGrid's validated model of TCP, or TCP's windows in queues."""

FLOWS = {"fluid": FluidFlows(), "lv08": Lv08()}
CLIENTS, RATE, OWN, REPEATS = 100, 1e8, 2e7, 7
AGAIN, ROUNDS, OF_OBJECTS, RUNS = 10, 40, 4, 3
FORMS = {"objects": inf, "kernels": 0.0}
LATENCIES = tuple(0.01 + 0.0001 * client for client in range(CLIENTS))
SIZES = {"10 kB": 8e4, "100 kB": 8e5, "1 MB": 8e6}
QUEUES = {"room for all windows": 10_000, "Linux's queue": 1000, "a short queue": 100}


def bearers(calendar: Calendar, model: Sharing, queue: int) -> Sequence[Bearer]:
    """Return the bearers of all clients' uplinks under a model."""
    radios = [ConstantRate(OWN)] * CLIENTS
    packets = Framing(52, 1500)
    site = Site(
        calendar=calendar,
        topology=star(CLIENTS, uplink=RATE, downlink=RATE, latency=0.0),
        up=radios,
        down=radios,
        latency=LATENCIES,
        framing=lambda _: packets,
    )
    if model == "tcp":
        law = Tcp(queue=queue, connections="new")
        up, _ = tcp_bearers(site, Connections(law, lambda *_: np.random.default_rng(0)))
    else:
        up, _ = layer(model, FLOWS[model]).bearers(site)
    return [up[client] for client in range(CLIENTS)]


def seconds(model: Sharing, queue: int, bits: float, form: str = "objects") -> tuple[float, float]:
    """Return the processor's time for a message, s: of the first round, and of those that recur."""
    worlds.COMPILED_FROM = FORMS[form]
    calendar, arrived = Calendar(), list[int]()
    made = bearers(calendar, model, queue)
    spent = []
    for rounds in (1, AGAIN):
        begun = time.process_time()
        for _ in range(rounds):
            for client, bearer in enumerate(made):
                bearer.start(bits, OWN, arrived.append, client)
            calendar.run()
        spent.append((time.process_time() - begun) / (rounds * CLIENTS))
    if len(arrived) != (1 + AGAIN) * CLIENTS:
        raise RuntimeError(f"{len(arrived)} of {(1 + AGAIN) * CLIENTS} messages have arrived")
    return spent[0], spent[1]


# Whole runs.


class Computing:
    """An oracle whose gradient is work for the virtual processor only.

    Args:
        client: whose it is.
        recurs: whether it takes the same time in every round.
    """

    def __init__(self, client: int, *, recurs: bool) -> None:
        self._rng = None if recurs else np.random.default_rng(client)
        self._operations = 1e8 + 1e5 * client

    def gradient(self, w: Array) -> Work:
        """Describe the work."""
        drawn = 1.0 if self._rng is None else self._rng.uniform(0.5, 1.5)
        return Work(client_round.nothing, None, (w,), drawn * self._operations)


def run(model: Sharing, bits: float, rounds: int, *, recurs: bool) -> None:
    """Run rounds with messages of some bits."""
    setup = client_round.setup(star(CLIENTS, uplink=RATE, downlink=RATE), rounds)
    oracles: list[Any] = [Computing(client, recurs=recurs) for client in range(CLIENTS)]
    joules = {"energy_up": 1e-7, "energy_down": 1e-7, "base": 1.0}
    radios = [
        Radio.in_si(kind="custom", up=OWN, down=OWN, latency=latency, **joules)
        for latency in LATENCIES
    ]
    fleet = [
        ClientConfig(client_round.DEVICE, radio, radio.rates({}), oracle)
        for radio, oracle in zip(radios, oracles, strict=True)
    ]
    law = Tcp(connections="new")  # which kernels carry
    network = layer(model, law if model == "tcp" else FLOWS[model])
    setup = replace(setup, fleet=fleet, header_bits=round(bits), network=network)
    client_round.run(setup)


def run_seconds(model: Sharing, bits: float, form: str = "objects", *, recurs: bool) -> float:
    """Return the processor's time for a message of a run, s."""
    worlds.COMPILED_FROM = FORMS[form]
    rounds = OF_OBJECTS if model == "tcp" and form == "objects" and not recurs else ROUNDS
    spent: float = client_round.seconds(partial(run, model, bits, rounds, recurs=recurs))
    return spent / (2 * CLIENTS * rounds)


def report(name: str, size: str, columns: Sequence[Sequence[float]]) -> None:
    """Print a row: the times of all columns, and the ratios of the others to the first."""
    medians = [statistics.median(column) for column in columns]
    row = f"{name:22s}{size:>9s}{1e6 * medians[0]:>8.1f} us"
    for column, median in zip(columns[1:], medians[1:], strict=True):
        ratio = statistics.median(
            [each / unit for each, unit in zip(column, columns[0], strict=True)]
        )
        row += f"{1e6 * median:>9.1f} us{ratio:>8.1f}"
    print(row)


def turn(queue: int, bits: float) -> tuple[float, ...]:
    """Return what a message takes once, s: as a flow, as objects, by kernels, and again."""
    first, again = seconds("tcp", queue, bits, "kernels")
    return seconds("fluid", queue, bits)[0], seconds("tcp", queue, bits)[0], first, again


def head(name: str, *columns: str) -> None:
    """Print the head of a table."""
    ratios = "".join(f"{column:>12s}{'ratio':>8s}" for column in columns)
    print(f"{name:22s}{'message':>9s}{'fluid':>11s}{ratios}")


def main() -> None:
    """Print both tables."""
    seconds("tcp", 1000, 8e4, "kernels")  # compiles them
    head("queue", "objects", "kernels", "again")
    for name, queue in QUEUES.items():
        for size, bits in SIZES.items():
            turns = [turn(queue, bits) for _ in range(REPEATS)]
            report(name, size, [*zip(*turns, strict=True)])
    head("whole run", "objects", "kernels")
    for name, recurs in {"rounds recur": True, "no round recurs": False}.items():
        for size, bits in SIZES.items():
            runs = [
                (
                    run_seconds("fluid", bits, recurs=recurs),
                    *[run_seconds("tcp", bits, form, recurs=recurs) for form in FORMS],
                )
                for _ in range(RUNS)
            ]
            report(name, size, [*zip(*runs, strict=True)])


if __name__ == "__main__":
    main()
