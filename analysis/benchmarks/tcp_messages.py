"""What does a message cost under `model: tcp`, in units of one under `model: fluid`?

A hundred clients send a message each, at once, over a server's link of 100 Mbit/s, 20 ms away. Both
models are measured in the same run, in turn, by the time of the process; a ratio is the median of
those of the turns. Everything that a run does not do once for each message is left out: links and
bearers are there before.

    python analysis/benchmarks/tcp_messages.py
"""

import statistics
import time
from collections.abc import Sequence

import numpy as np

from fedsim.physics.radios import ConstantRate
from fedsim.physics.radios.base import Framing
from fedsim.physics.tcp import Tcp
from fedsim.physics.topology import star
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.lanes import Bearer
from fedsim.sim.network.tcp.bearers import Connections
from fedsim.sim.network.transmission import Sharing, choose_bearers

CLIENTS, RATE, OWN, REPEATS = 100, 1e8, 2e7, 7
LATENCIES = tuple(0.01 + 0.0001 * client for client in range(CLIENTS))
SIZES = {"10 kB": 8e4, "100 kB": 8e5, "1 MB": 8e6}
QUEUES = {"room for all windows": 10_000, "Linux's queue": 1000, "a short queue": 100}


def bearers(calendar: Calendar, model: Sharing, queue: int) -> Sequence[Bearer]:
    """Return the bearers of all clients' uplinks under a model."""
    radios = [ConstantRate(OWN)] * CLIENTS
    packets = Framing(52, 1500)
    connections = Connections(
        Tcp(queue=queue), lambda _: packets, None, lambda *_: np.random.default_rng(0)
    )
    up, _ = choose_bearers(
        calendar,
        star(CLIENTS, uplink=RATE, downlink=RATE, latency=0.0),
        radios,
        radios,
        model=model,
        radio_latency=LATENCIES,
        connections=connections if model == "tcp" else None,
    )
    return [up[client] for client in range(CLIENTS)]


def seconds(model: Sharing, queue: int, bits: float) -> float:
    """Return the processor's time for a message, s."""
    calendar, arrived = Calendar(), list[int]()
    made = bearers(calendar, model, queue)
    begun = time.process_time()
    for client, bearer in enumerate(made):
        bearer.start(bits, OWN, arrived.append, client)
    calendar.run()
    spent = time.process_time() - begun
    if len(arrived) != CLIENTS:
        raise RuntimeError(f"{len(arrived)} of {CLIENTS} messages have arrived")
    return spent / CLIENTS


def main() -> None:
    """Print the table."""
    print(f"{'queue':22s}{'message':>9s}{'fluid':>10s}{'tcp':>10s}{'ratio':>7s}")
    for name, queue in QUEUES.items():
        for size, bits in SIZES.items():
            pairs = [
                (seconds("fluid", queue, bits), seconds("tcp", queue, bits)) for _ in range(REPEATS)
            ]
            fluid, tcp = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median([tcp / fluid for fluid, tcp in pairs])
            print(f"{name:22s}{size:>9s}{1e6 * fluid:>7.0f} us{1e6 * tcp:>7.0f} us{ratio:>7.1f}")


if __name__ == "__main__":
    main()
