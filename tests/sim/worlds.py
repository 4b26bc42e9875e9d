"""Small worlds: a fleet, an algorithm told in the test, and all that the run has left.

Times are chosen to be exact in binary: a device does 1 operation a second, and a message
has as many bits as it is told, so a test can say when something happens to the last bit.
"""

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedsim.core.errors import RunError
from fedsim.core.ports import DENSE, Array, Message, Payload, Structure, Work
from fedsim.core.streams import Streams
from fedsim.physics.cells import CellSharing
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.medium import RadioGraph
from fedsim.physics.network_models import FluidFlows, Lv08
from fedsim.physics.radios import RadioLaw
from fedsim.physics.radios.lorawan import LoRaGateway
from fedsim.physics.tcp import Tcp
from fedsim.protocol.silence import SilencePolicy
from fedsim.results.record.ledger import Ledger
from fedsim.results.record.log import Rows
from fedsim.results.record.parts import read_table
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.schema import RowColumns
from fedsim.sim.client import Handler, SimClient
from fedsim.sim.config import WorldConfig
from fedsim.sim.lazy import LazyTable
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.models import layer
from fedsim.sim.participant import Follows
from fedsim.sim.server import SimServer
from fedsim.sim.star import Star
from fedsim.sim.world import World
from tests.policies import silence_of
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel, client_of

from .links import ServerLink

Serve = Callable[[SimServer], Awaitable[None]]
Row = dict[str, Any]

MODEL: Array = np.zeros(1)
IDEAL = RadioModel()
SLOW = device_of(speed=1.0)
"""A device that does one operation a second."""


@dataclass(frozen=True, slots=True)
class Load:
    """A payload of as many bits as it is told."""

    bits: int
    value: float = 0.0

    @property
    def values(self) -> Array:
        return np.array([self.value])


@dataclass(frozen=True, slots=True)
class Question(Message):
    """From the server."""

    load: Payload


@dataclass(frozen=True, slots=True)
class Answer(Message):
    """From a client."""

    load: Payload


def asked(bits: int = 8, value: float = 0.0) -> Question:
    return Question(Load(bits, value))


def answered(bits: int = 8, value: float = 0.0) -> Answer:
    return Answer(Load(bits, value))


def work(seconds: float, value: float = 0.0) -> Work:
    """Work that takes a slow device so long and results in `value`."""
    return Work(_same, None, (value,), seconds)


def _same(value: float) -> Array:
    return np.array([value])


class NoLoss:
    """The loss of a client that only works as its handler says."""

    def gradient(self, w: Array) -> Work:
        return work(1.0)


NO_LOSS: Any = NoLoss()


class Loads:
    """Packs every vector as a load of 8 bits a coordinate."""

    def pack(self, vector: Array, structure: Structure = DENSE) -> Load:
        return Load(8 * vector.size)

    def take_back(self, payload: Payload) -> None:
        pass


LOADS = Loads()


class Told:
    """An algorithm that is two functions, or three: what follows a reply."""

    def __init__(self, serve: Serve, handle: Handler, follows: Follows = None) -> None:
        self.handle = handle
        self.computes_after_reply, self.afterwards = follows is not None, follows
        self._serve = serve

    async def serve(self, server: SimServer) -> None:
        await self._serve(server)

    def memory(self, initial: Array) -> SimpleNamespace:
        return SimpleNamespace(taken_back=[])

    def undelivered(self, client: SimClient, message: Message) -> None:
        client.state.taken_back.append((client.now, message))


async def rounds(server: SimServer) -> None:
    """Ask all, commit, for ever."""
    while True:
        await server.exchange(asked())
        server.commit(server.initial)


async def echo(client: SimClient, message: Message) -> Message:
    """Answer at once."""
    return answered()


def working(seconds: float) -> Handler:
    """A handler that answers after so much work on a slow device."""

    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(seconds))
        return answered()

    return handle


def fleet(*members: tuple[DeviceLaw, RadioLaw]) -> list[ClientConfig]:
    return [client_of(device, radio, NO_LOSS) for device, radio in members]


def star(world: World) -> Star:
    """Return the server and the clients of a world."""
    assert isinstance(world.actors, Star)
    return world.actors


@dataclass
class Run:
    """What a run has left.

    Attributes:
        reason: why it ended; the error's text where it failed.
        error: what it failed with, where that was an error of the run.
        rows: the event log.
        rounds: the round table.
    """

    world: World
    ledger: Ledger
    reason: str = ""
    error: RunError | None = None
    rows: list[Row] = field(default_factory=list)
    rounds: list[Row] = field(default_factory=list)
    raw: list[Rows] = field(default_factory=list)

    @property
    def t(self) -> float:
        return self.world.calendar.now

    @property
    def clients(self) -> LazyTable[SimClient]:
        return star(self.world).clients

    def of(self, event: str, **wanted: object) -> list[Row]:
        """Return the rows of an event that have these values."""
        wanted["event"] = event
        return [row for row in self.rows if all(row[key] == wanted[key] for key in wanted)]

    def times(self, event: str, **wanted: object) -> list[float]:
        return [row["t"] for row in self.of(event, **wanted)]


def setup(
    serve: Serve = rounds,
    handle: Handler = echo,
    members: Sequence[ClientConfig] = (),
    *,
    seed: int = 1,
    header_bits: int = 0,
    server: ServerLink | None = None,
    evaluate: Callable[[Array], float] = lambda _: 1.0,
    optimum: float = 0.0,
    follows: Follows = None,
    sharing: str = "fluid",
    cell: CellSharing | None = None,
    lora: LoRaGateway | None = None,
    cells: bool = False,
    medium: RadioGraph | None = None,
    **parts: Any,
) -> WorldConfig:
    """Say what a world is made of; `parts` are the policies and a topology."""
    network = layer(sharing, {"fluid": FluidFlows, "lv08": Lv08, "tcp": Tcp}[sharing]())
    around = {"cell": cell, "lora": lora, "broadcast": cells or None, "medium": medium}
    for name, block in around.items():
        network = network if block is None else layer(name, block, network)
    members = members or fleet((SLOW, IDEAL))
    if server is not None:
        parts["topology"] = server.of(len(members))
    return WorldConfig(
        algorithm=Told(serve, handle, follows),
        fleet=members,
        initial=MODEL,
        smoothness=lambda: MODEL,
        evaluate=evaluate,
        optimum=optimum,
        packer_up=lambda client, field, number: LOADS,
        packer_down=lambda field, number: LOADS,
        header_bits=header_bits,
        rng=Streams(seed),
        network=network,
        **parts,
    )


def play(made: WorldConfig) -> Run:
    """Run a world to its end, close it and audit it.

    An error of the run is noted, as the commands do; any other is the caller's.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, raw = Path(name), list[Rows]()

        def look(chunk: RowColumns) -> None:
            raw.append(chunk.pack())

        with RunRecorder(folder, len(made.fleet), look=look) as book:
            run = Run(World(made, book), book.ledger, raw=raw)
            try:
                run.reason = run.world.run()
            except RunError as error:
                run.error, run.reason = error, str(error)
            run.world.close(run.reason)
        run.rows = read_table(folder, "events").to_pylist()
        run.rounds = read_table(folder, "rounds").to_pylist()[1:]  # without the start
    return run


def deadline(after: float, *, keep_late: bool = True) -> SilencePolicy:
    """Silence is silence, and the round closes so many seconds after its broadcast."""
    return silence_of(beacon=False, after=after, keep_late=keep_late)
