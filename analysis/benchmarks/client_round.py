"""What does one client-round cost, on a problem that costs nothing?

A client-round is: the server's broadcast reaches a client over a radio with a finite rate
and a latency, the client's handler computes for some virtual time and replies, the reply
travels up, and all five rows are in the event log. The unit is one bare SimPy timeout
(a process that yields timeouts, nothing else), measured in the same run, in turn.

    python analysis/benchmarks/client_round.py
    python analysis/benchmarks/client_round.py --active 100000 --rounds 5
    python analysis/benchmarks/client_round.py --active 100000 --rounds 5 --tails

The second form measures the same of federated averaging, as in `scale.py`, all clients of a fleet
active: rounds but the first and the last, by all threads and by the run's own. The radio is like
that of the first form. The third form has that of `scale.py`, whose tails have two rows more.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import simpy

from fedsim.algorithms.censored import GradientDescent, Innovation, Iterate
from fedsim.core.ports import Array, Client, Server, Work
from fedsim.core.streams import Streams, stream
from fedsim.physics.devices import Device
from fedsim.physics.radios import Radio
from fedsim.physics.topology import Topology, star
from fedsim.protocol.stopping import Stop
from fedsim.protocol.transport import ValueTransport
from fedsim.results.record.models import ModelTable
from fedsim.results.record.parts import PartWriter
from fedsim.results.record.recorder import RunRecorder
from fedsim.sim.config import WorldConfig
from fedsim.sim.members import ClientConfig
from fedsim.sim.world import World
from fedsim.wire import HEADER_BITS, Identity, Plain, ValueFormat

DEVICE = Device.in_si(kind="custom", speed=1e9, active=2.0, idle=1.0)
RADIO = {
    "kind": "custom",
    "up": "1 Mbit/s",
    "down": "2 Mbit/s",
    "latency": "10 ms",
    "energy_up": "1e-7 J/bit",
    "energy_down": "1e-7 J/bit",
    "base": "1 W",
}
"""Of active clients: a finite rate, a latency, and no tail."""

CLIENTS, ROUNDS, REPEATS = 100, 1000, 7
NOTHING: Array = np.zeros(1)
SHARED = star(CLIENTS, downlink=5e7, uplink=5e7, latency=0.001)


def nothing(_: Array) -> Array:
    """Return the gradient of a problem that costs nothing."""
    return NOTHING


class Free:
    """An oracle whose gradient is work for the virtual processor only."""

    def gradient(self, w: Array) -> Work:
        """Describe the work."""
        return Work(nothing, None, (w,), 1e6)


FREE: Any = Free()


class Echo(GradientDescent):
    """The least that an algorithm does: ask all, take what comes, commit."""

    in_arrays: ClassVar[bool] = True

    async def serve(self, server: Server) -> None:
        """Exchange and commit."""
        message = Iterate(server.pack(NOTHING))
        while True:
            await server.exchange(message)
            server.commit(NOTHING)

    async def handle(self, client: Client, message: Iterate) -> Innovation:
        """Compute and reply."""
        await client.compute(client.oracle.gradient(message.theta.values))
        return REPLY


PACKER = Plain(Identity(), ValueFormat.FLOAT32, stream(1, "compressor"))
REPLY = Innovation(PACKER.pack(NOTHING))


def bare_timeouts(count: int) -> None:
    """Let SimPy wait `count` times, and nothing else."""
    env = simpy.Environment()

    def process() -> Any:
        for _ in range(count):
            yield env.timeout(1.0)

    env.process(process())
    env.run()


def setup(links: Topology | None = None, rounds: int = ROUNDS) -> WorldConfig:
    """Return a world of CLIENTS clients, for some rounds."""
    radios = [
        Radio.in_si(
            kind="custom",
            up=1e6 + i,
            down=2e6 + i,
            latency=0.01,
            energy_up=1e-7,
            energy_down=1e-7,
            base=1.0,
        )
        for i in range(CLIENTS)
    ]
    fleet = [ClientConfig(DEVICE, radio, radio.rates({}), FREE) for radio in radios]
    return WorldConfig(
        algorithm=Echo(step_size=1.0),
        fleet=fleet,
        initial=NOTHING,
        smoothness=lambda: NOTHING,
        evaluate=lambda _: 1.0,
        optimum=0.0,
        packer_up=lambda client, field, number: PACKER,  # noqa: ARG005 - the same for all
        packer_down=lambda field, number: PACKER,  # noqa: ARG005 - the same for all
        header_bits=HEADER_BITS,
        transport=ValueTransport(Echo.messages, updates=False),
        rng=Streams(1),
        topology=links,
        stop=Stop(rounds=rounds),
    )


def client_rounds(links: Topology | None = None, rounds: int = ROUNDS) -> None:
    """Run CLIENTS x rounds client-rounds, event log included."""
    run(setup(links, rounds))


def run(world_setup: WorldConfig) -> None:
    """Run a world, event log included."""
    with tempfile.TemporaryDirectory() as folder:
        models = ModelTable(PartWriter(Path(folder), "models"), NOTHING.shape)
        with RunRecorder(Path(folder), CLIENTS, models=models) as book:
            world = World(world_setup, book)
            world.close(world.run())


def seconds(job: Callable[[], None]) -> float:
    """Return the processor time of a job."""
    start = time.process_time()
    job()
    return time.process_time() - start


def active(clients: int, rounds: int, data: Path, *, tails: bool) -> tuple[float, float]:
    """Return the cost of a client-round of active clients, s: of all threads, of the run's own."""
    import scale

    import fedsim  # what follows needs more than a bare world

    # Readings of all threads are around those of the run's own, which are part of them.
    moments = list[tuple[float, float, float]]()
    scenario = scale.scenario("active", clients, data, rounds, "full")
    if not tails:
        scenario["fleet"][0]["radio"] = RADIO
    with tempfile.TemporaryDirectory() as folder:
        fedsim.run(
            scenario,
            out=folder,
            watch=lambda _: moments.append(
                (time.process_time(), time.thread_time(), time.process_time())
            ),
        )
    begin, end = moments[0], moments[rounds - 2]
    count = (rounds - 2) * clients
    return (end[2] - begin[0]) / count, (end[1] - begin[1]) / count


def fleet(clients: int, rounds: int, repeats: int, *, tails: bool) -> None:
    """Print what a client-round of active clients costs, in bare timeouts."""
    import scale

    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        scale.write_data(data, scale.ROWS["active"] * clients)
        for _ in range(repeats):
            unit = seconds(partial(bare_timeouts, 400_000)) / 400_000
            ratios.append([cost / unit for cost in active(clients, rounds, data, tails=tails)])
    every, own = (
        f"{statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f})"
        for each in zip(*ratios, strict=True)
    )
    size = "seven rows" if tails else "five rows"
    print(f"{clients:,} active, {size}: {every} bare timeouts, {own} without the log's thread")


def main() -> None:
    """Print the cost of a client-round in bare timeouts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--active", type=int, help="so many clients, in federated averaging")
    parser.add_argument("--rounds", type=int, default=5, help="of these, three or more")
    parser.add_argument("--tails", action="store_true", help="with a radio that has tails")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    if given.active:
        fleet(given.active, given.rounds, given.repeats, tails=given.tails)
        return
    count = CLIENTS * ROUNDS
    cases = {"open server link": None, "shared server link": SHARED}
    for name, server in cases.items():
        ratios, costs = [], []
        for _ in range(given.repeats):
            unit = seconds(partial(bare_timeouts, 4 * count)) / (4 * count)
            cost = seconds(partial(client_rounds, server)) / count
            ratios.append(cost / unit)
            costs.append(cost)
        print(
            f"{name}: one client-round is {statistics.median(ratios):.1f} bare timeouts "
            f"({min(ratios):.1f} to {max(ratios):.1f}), {1e6 * statistics.median(costs):.1f} us"
        )


if __name__ == "__main__":
    main()
