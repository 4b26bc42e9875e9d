"""Small worlds of all kinds of radios, played in arrays and as events: thousands in some minutes.

    python -m tests.sim.array_worlds --count 10000

Times are on a grid in most of them, so that much happens at one instant; with `--tied` in all of
them, of which radios in stages are the only difference. The log's digest, which covers every row
and name, the traffic and the end have to be the same.
"""

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import fields
from math import fsum, inf
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

import numpy as np

from fedsim.core.errors import RunError
from fedsim.core.ports import SILENCE, Message, Silence
from fedsim.physics.availability import ALWAYS, BernoulliAvailability
from fedsim.physics.packet_loss import GilbertElliottLoss, IndependentLoss, PacketLoss
from fedsim.physics.radios import RadioStage, Shannon
from fedsim.physics.radios.channel import Framing
from fedsim.physics.radios.lora import LoRa
from fedsim.physics.signals import Steps
from fedsim.protocol.stop_rules import RoundEnd
from fedsim.results.record.recorder import RunRecorder
from fedsim.sim.arrays.fits import VARIABLE, why_events
from fedsim.sim.client import SimClient
from fedsim.sim.config import WorldConfig
from fedsim.sim.members import ClientConfig
from fedsim.sim.server import SimServer
from fedsim.sim.world import World
from tests.physics.batteries import AnyBattery, battery_of

from .devices import device_of
from .links import ServerLink
from .radios import RadioModel, client_of
from .worlds import NO_LOSS, Question, Told, answered, asked, deadline, setup, work

Generator = np.random.Generator

_NAMES = ("inactivity", "drx", "paging", "")


class Waits(Told):
    """What it does waits for messages and work alone."""

    in_arrays: ClassVar[bool] = True
    handle: Any = None  # what an instance is given

    async def serve(self, server: SimServer) -> None:
        """See `Told.serve`."""
        await super().serve(server)


class Outcome(NamedTuple):
    """How a world ended: the log's digest, the reason, what was charged, and its batteries.

    `spent` is the energy until each commit, with what is open then, and after it (tails).
    """

    digest: str
    reason: str
    charged: tuple[float, ...]
    stores: tuple[bytes, ...] = ()
    spent: tuple[float, ...] = ()


def _time(rng: Generator) -> float:
    return float(rng.choice([0.25, 0.5, 1.0, rng.uniform(0.01, 3.0)]))


def _some(rng: Generator, chance: float, value: float) -> float:
    return value if rng.random() < chance else 0.0


def _rate(rng: Generator) -> Any:
    kind = rng.integers(8)
    if kind == 0:
        return inf
    if kind == 1:
        values = [64.0, 0.0, 16.0, rng.uniform(1, 100)]
        return Steps([0.0, 0.5, 2.0, 3.5], values, period=float(rng.choice([5.0, 7.3])))
    if kind == 2:
        return Shannon(bandwidth=30.0, power=0.1, distance=800.0)
    return float(rng.choice([8.0, 64.0, 256.0, rng.uniform(5, 500)]))


def _loss(rng: Generator) -> PacketLoss | None:
    if rng.random() < 0.5:
        return None
    if rng.random() < 0.5:
        return IndependentLoss.model_validate(
            {"kind": "independent", "rate": str(rng.choice(["5 %", "30 %"]))}
        )
    return GilbertElliottLoss.model_validate({"kind": "gilbert-elliott", "p": "20 %", "r": "50 %"})


def _stages(rng: Generator) -> tuple[RadioStage, ...] | None:
    """Draw stages: none but idle, a tail of one's own, or several, in which it may sleep."""
    if rng.random() < 0.5:
        return None
    count = int(rng.integers(1, 4))
    names = rng.choice(_NAMES, count + 1)
    powers = np.sort(rng.uniform(0.0, 2.0, count))[::-1]
    *stages, last = [
        RadioStage(
            float(power),
            _time(rng),
            _some(rng, 0.4, _time(rng)) if place else 0.0,
            _some(rng, 0.5, _time(rng)) if place else 0.0,
            _some(rng, 0.5, rng.uniform(0.1, 1.0)) if place else 0.0,
            str(names[place]),
        )
        for place, power in enumerate([*powers, 0.0])
    ]
    idle = RadioStage(0.0, inf, last.cycle, last.wake_time, last.wake_power, last.name)
    return (*stages, idle)


def radio(rng: Generator) -> RadioModel:
    """Draw a radio."""
    silent = rng.random() < 0.1  # after a message
    stages = None if silent else _stages(rng)
    chance = 0.0 if silent else 0.4
    tail = _some(rng, chance, _time(rng)), _some(rng, chance, _time(rng))
    return RadioModel(
        up=LoRa() if silent else _rate(rng),
        down=_rate(rng),
        latency=max(_some(rng, 0.6, _time(rng)), 0.1 if stages and stages[0].name else 0.0),
        loss=_loss(rng),
        stages=stages,
        tail_time=tail[0],
        tail_power=_some(rng, 0.8, 1.5),
        promotion_time=tail[1],
        promotion_power=_some(rng, 0.8, 0.7),
        energy_up=_some(rng, 0.7, 1e-3),
        energy_down=_some(rng, 0.7, 3e-4),
        base=_some(rng, 0.5, 0.3),
        send=_some(rng, 0.4, 2.0),
        receive=_some(rng, 0.4, 1.0),
        framing=Framing(int(rng.choice([0, 2])), int(rng.choice([3, 10, 1500]))),
    )


def _rates(radio: RadioModel) -> tuple[Any, Any]:
    return radio.up, radio.down


def battery(rng: Generator, radio: RadioModel) -> AnyBattery | None:
    """Draw a battery, or none: of a radio whose rates change, or that spends energy in no time."""
    if rng.random() < 0.5 or any(each == inf or isinstance(each, Steps) for each in _rates(radio)):
        return None
    return battery_of(
        capacity=float(rng.choice([60.0, 1e3, 1e5])),
        leak=_some(rng, 0.3, 1e-3),
        charge=float(rng.choice([0.4, 0.7, 1.0])),
        discharge_efficiency=float(rng.choice([0.9, 1.0, rng.uniform(0.5, 1)])),
        cutoff=float(rng.choice([0.0, 0.05])),
        threshold=float(rng.choice([0.0, 0.2])),
    )


def fleet(rng: Generator) -> list[ClientConfig]:
    """Draw up to three kinds of clients."""
    members = list[ClientConfig]()
    for _ in range(rng.integers(1, 4)):
        device = device_of(
            float(rng.choice([1.0, inf])), active=1.0, idle=float(rng.choice([0, 1]))
        )
        law = BernoulliAvailability.model_construct(share=0.8) if rng.random() < 0.2 else ALWAYS
        own = radio(rng)
        kind = client_of(device, own, NO_LOSS, battery(rng, own), availability=law)
        members += [kind] * int(rng.integers(1, 4))
    return members


def tied_fleet(rng: Generator) -> list[ClientConfig]:
    """Draw clients whose messages and stages take whole quarters of a second."""
    members, device = list[ClientConfig](), device_of(1.0, active=1.0)
    for _ in range(rng.integers(2, 4)):
        times, wakes = rng.choice([0.25, 0.5, 0.75, 1.0], size=(2, 4)) * (rng.random((2, 4)) < 0.6)
        stages = [
            RadioStage(3.0 - n, times[n] or 1.25, 0.0, wakes[n] * (n > 0), 0.5) for n in range(3)
        ]
        own = tuple(stages[: rng.integers(1, 4)])
        last = RadioStage(0.0, inf, 0.0, wakes[3], 0.5)
        law = RadioModel(64.0, 64.0, _some(rng, 0.5, 0.25), stages=(*own, last))
        members += [client_of(device, law, NO_LOSS)] * int(rng.integers(1, 3))
    return members


def world(number: int, *, tied: bool = False) -> WorldConfig:
    """Return the world of a number."""
    rng = np.random.default_rng(number)
    members, silent = (tied_fleet if tied else fleet)(rng), bool(rng.random() < 0.3)
    count, rounds = len(members), int(rng.integers(1, 5)) + 2 * tied
    sizes = rng.choice([16, 32, 64] if tied else [1, 8, 64, 100, 1000], size=(rounds, 2)).tolist()
    times = rng.choice([0.0, 0.5, 1.0, 1.25], size=(rounds, count, int(rng.integers(3)))).tolist()
    pieces = rng.choice([1, 1, 2, 3], size=np.shape(times)).tolist()
    whom = [
        sorted(rng.choice(count, int(rng.integers(1, count + 1)), replace=False).tolist())
        for _ in range(rounds)
    ]
    quiet = rng.random((rounds, count)) < 0.3
    both = bool(rng.random() < 0.3)

    async def serve(server: SimServer) -> None:
        for (size, _), some in zip(sizes, whom, strict=True):
            await server.exchange(asked(size), to=some)
            server.commit(server.initial)

    async def handle(client: SimClient, message: Message) -> Message | Silence:
        number = (client.round - 1) % rounds
        for seconds, count in zip(times[number][client.id], pieces[number][client.id], strict=True):
            await client.compute(work(seconds)._replace(pieces=count))
        if silent and quiet[number][client.id]:
            return SILENCE
        answer = answered(sizes[number][1])
        return Question(answer.load) if both and client.id % 2 else answer

    parts: dict[str, Any] = {"silence": deadline(1e5)} if silent else {}
    if not tied and rng.random() < 0.3:
        up, down = rng.choice([32.0, 300.0, inf], 2).tolist()
        parts["server"] = ServerLink(up, down, float(rng.choice([0.0, 0.125])))
    parts["header_bits"] = 0 if tied else int(rng.choice([0, 8]))
    made = setup(serve, handle, members, seed=number, **parts)
    object.__setattr__(made, "algorithm", Waits(serve, handle))
    return made


def played(made: WorldConfig) -> Outcome:
    """Play a world to its end."""
    with tempfile.TemporaryDirectory() as name, RunRecorder(Path(name), len(made.fleet)) as book:
        spent = list[float]()

        def see(end: RoundEnd) -> None:
            spent.extend((end.joules, fsum(one.unsettled.tails.joules.tolist())))

        one = World(made, book, see)
        try:
            reason = one.run()
        except RunError as error:
            reason = str(error)
        one.close(reason)
        cost = one.traffic
        charged = (cost.bits_up, cost.bits_down, cost.joules, cost.transmissions, cost.beacons)
        held = one.meters().stores
        stores = tuple(getattr(held, each.name).tobytes() for each in fields(held))
        return Outcome(book.log.sha256, reason, charged, stores, tuple(spent))


def compared(number: int, *, tied: bool = False) -> str:
    """Return "same", how a world differs, or why it is played as events."""
    if why := why_events(world(number, tied=tied)):
        return f"events: {why}"
    again = list[int]()
    with (
        patch.object(World, "_start_again", _noting(again)),
        patch.dict("os.environ", {VARIABLE: "arrays"}),
    ):
        one = played(world(number, tied=tied))
    with patch.dict("os.environ", {VARIABLE: "events"}):
        other = played(world(number, tied=tied))
    if one != other:
        return "different"
    return "made again" if again else "same"


def _noting(again: list[int]) -> Any:
    start = World._start_again

    def start_again(one: World) -> None:
        again.append(1)
        start(one)

    return start_again


def main() -> int:
    """Compare the worlds that the command line asks for; return 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many worlds")
    parser.add_argument("--seed", type=int, default=1, help="the number of the first one")
    parser.add_argument("--tied", action="store_true", help="with all times on a grid")
    asked_for = parser.parse_args()
    ends = Counter[str]()
    for number in range(asked_for.seed, asked_for.seed + asked_for.count):
        try:
            ends[end := compared(number, tied=asked_for.tied)] += 1
        except Exception as error:
            ends[end := f"different: {type(error).__name__}: {error}"] += 1
        if end.startswith("different"):
            sys.stdout.write(f"world {number}: {end}\n")
        if ends.total() % 500 == 0:
            sys.stdout.write(f"{ends.total()}: {dict(ends)}\n")
        sys.stdout.flush()
    sys.stdout.writelines(f"{n:7}  {what}\n" for what, n in ends.most_common())
    return int(any(each.startswith("different") for each in ends))


if __name__ == "__main__":
    sys.exit(main())
