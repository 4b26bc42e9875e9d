"""Live worlds with clients that do as a test says, in one event loop."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pandas as pd

from fedsim.addons.live.access import Access, Address
from fedsim.addons.live.connection import Timing
from fedsim.addons.live.frames import FrameReader, Kind, Report, frame
from fedsim.addons.live.handshake import NO_DIGEST, ClientHandshake, RunOffer, ready
from fedsim.addons.live.joining import LivePart, run_clients
from fedsim.addons.live.meters import NoMeter
from fedsim.addons.live.returning import ReturnRule
from fedsim.addons.live.world import LiveSettings, LiveWorld
from fedsim.algorithms.messages import annotated_replies
from fedsim.core.errors import PeerError, RunError
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.summary import status_of
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.wire import Dense, ValueFormat, decode_message, encode_message

TOKEN = b"a token that is shared"
FAST = Timing(beat=0.05, silence=0.25, handshake=1.0, building=5.0, joining=1.0, answer=5.0)

SMALL: Mapping[str, Any] = {
    "problem": {
        "loss": {"kind": "squared", "l2": 1.0},
        "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
        "split": {"kind": "iid"},
        "optimum": "unknown",
    },
    "algorithm": {"kind": "gd", "step_size": "0.5/L"},
    "fleet": [{"count": 3}],
    "stop": {"rounds": 4},
}


def job_of(scenario: Mapping[str, Any]) -> Job:
    plan = load(dict(scenario))
    return Builder(plan, "bytes").build(plan.variants[0], 1)


class RawClient:
    """A connection of a test: frames in and out, with no rule that would be kept."""

    def __init__(
        self, port: int, job: Job, number: int, token: bytes | None = TOKEN, **options: Any
    ) -> None:
        self.job, self.number, self._port = job, number, port
        self.handshake = ClientHandshake(number, options.pop("digest", NO_DIGEST), token)
        self.came = b""
        self.others: list[RawClient] = []
        self._options = options
        self._reader = FrameReader(1 << 24)
        self._frames: list[tuple[Kind, bytes]] = []
        self.stream: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    def reply(self, model: bytes, size: int = 0) -> None:
        """Answer a message with a gradient of zeros, of the model's size if no other is given."""
        header, _ = decode_message(model)
        numbers = {"round_number": header.round_number, "exchange": header.exchange}
        length = size or self.job.setup.initial.size
        values = Dense.of(np.zeros(length), ValueFormat.FLOAT64)
        kind = len(self.job.algorithm.messages)
        self.report(header.exchange)
        self.send(
            Kind.MESSAGE,
            encode_message([values], message_type=kind, sender=self.number, **numbers),
        )

    def another(self, number: int) -> "RawClient":
        """Return a further connection, under a number."""
        self.others.append(RawClient(self._port, self.job, number))
        return self.others[-1]

    async def close(self) -> None:
        """Close this connection, and all further ones."""
        for each in (self, *self.others):
            if hasattr(each, "writer"):
                each.writer.transport.abort()
                with suppress(ConnectionError):
                    await each.writer.wait_closed()

    async def connect(self) -> None:
        end = socket.socket()
        if receive := self._options.get("buffer"):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        end.setblocking(False)
        await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", self._port))
        self.stream, self.writer = await asyncio.open_connection(sock=end, limit=1024)

    def send(self, kind: Kind, body: bytes = b"") -> None:
        self.writer.write(frame(kind, body))

    async def receive(self) -> tuple[Kind, bytes]:
        """Return the next frame that is no heartbeat; EOFError where there is none."""
        while not self._frames:
            data = await self.stream.read(1 << 16)
            if not data:
                raise EOFError
            self.came += data
            self._frames += [each for each in self._reader.feed(data) if each[0] is not Kind.BEAT]
        return self._frames.pop(0)

    async def until_end(self) -> list[Kind]:
        """Return the kinds of all frames up to the end of the connection."""
        kinds = []
        try:
            while True:
                kinds.append((await self.receive())[0])
        except (EOFError, ConnectionError):
            return kinds

    async def enter(self) -> None:
        """Be let in."""
        await self.connect()
        self.send(*self.handshake.begin())
        while self.handshake.offer is None:
            proof = self.handshake.receive(*await self.receive(), monotonic)
            if proof is not None:
                self.send(Kind.PROOF, proof)

    async def join(self, *, knows: bool = False) -> None:
        """Be let in, and be ready."""
        await self.enter()
        said = ready(self.job.problem.fingerprint, metered=False, knows=knows)
        self.send(Kind.READY, said)

    async def message(self) -> bytes:
        """Return the body of the next frame, which has to be a message."""
        kind, body = await self.receive()
        assert kind is Kind.MESSAGE, kind
        return body

    def report(self, exchange: int = 1) -> None:
        now = monotonic()
        self.send(Kind.REPORT, Report(exchange, now, now, False, frozenset(), ()).encode())

    async def beat(self) -> None:
        """Show that the connection is alive, for as long as it is."""
        while not self.writer.is_closing():
            self.send(Kind.BEAT)
            await asyncio.sleep(FAST.beat)


Behaviour = Callable[[RawClient], Awaitable[None]]
"""What a raw client does, once it is made."""


@dataclass(frozen=True)
class Lived:
    """What a live world has left.

    Attributes:
        status, reason: how it has ended.
        events: its log.
        refused: the errors of connections that were not let in.
        facts: those of the manifest.
        failures: what raw clients have raised.
        told: what a user at the server was told.
        unheard: how many clients were asked, and of which no reply has counted.
    """

    status: str
    reason: str
    events: pd.DataFrame
    refused: list[PeerError]
    facts: Mapping[str, Any]
    failures: list[BaseException]
    told: list[str]
    unheard: int

    def details(self, event: str) -> list[str]:
        """Return the details of all rows of an event."""
        return self.events[self.events["event"] == event]["detail"].tolist()

    def departure(self, client: int) -> str:
        """Return why a client has left."""
        return str(self.facts["left"][f"client-{client}"])


def live(
    folder: Path,
    *behaviours: tuple[int, Behaviour],
    good: Sequence[int] = (0, 1),
    timing: Timing = FAST,
    access: Access | None = None,
    own_access: Access | None = None,
    send_buffer: int = 0,
    returning: ReturnRule | None = None,
    patience: float = 0.0,
    token: bytes | None = TOKEN,
    goes_on: bool = False,
    **changes: Any,
) -> Lived:
    """Run a live world to its end.

    Args:
        folder: of the run.
        behaviours: a number of a client with what it does, each.
        good: the clients that keep to the protocol.
        timing: of all connections.
        access: of the server and the good clients.
        own_access: of the good clients, if it is another one.
        returning: see `LiveSettings`; that of the scenario if None.
        patience: see `LiveSettings`.
        send_buffer: of the server's sockets, bytes; 0 for the system's.
        token: of the raw clients.
        goes_on: see `LiveSettings`.
        changes: of the scenario.
    """
    job = job_of({**SMALL, **changes})
    access = access or Access(TOKEN)
    failures: list[BaseException] = []
    refused: list[PeerError] = []
    facts: dict[str, Any] = {}
    told: list[str] = []
    offer = RunOffer(bytes(32), "base", 1, "a scenario", len(job.members))

    async def behave(port: int, number: int, behaviour: Behaviour) -> None:
        client = RawClient(port, job, number, token, buffer=send_buffer)
        try:
            await behaviour(client)
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            await client.close()

    def start(port: int) -> Sequence[Coroutine[Any, Any, None]]:
        build = partial(_part, LivePart(job))
        ends = Address("127.0.0.1", port), bytes(32), build, own_access or access, NoMeter(), timing
        return [
            *run_clients(good, *ends, once=True),
            *(behave(port, number, each) for number, each in behaviours),
        ]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        if send_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        settings = LiveSettings(
            listener=listener,
            access=access,
            offer=offer,
            fingerprint=job.problem.fingerprint,
            participation=job.scenario.participation.among(len(job.members)),
            timing=timing,
            start_clients=start,
            refused=refused.append,
            tell=told.append,
            returning=returning or ReturnRule.of(job),
            patience=patience,
            replies=annotated_replies(type(job.algorithm)),
            goes_on=goes_on,
            facts=facts,
        )
        folder.mkdir(exist_ok=True)
        with RunRecorder(folder, len(job.members)) as book:
            world = LiveWorld(job.setup, book, settings=settings)
            with np.errstate(all="ignore"):
                try:
                    reason, status = world.run(), world.status
                except RunError as error:
                    status, reason = status_of(type(error)), str(error)
            world.close(reason)
    events = pd.read_parquet(folder / "events.parquet")
    return Lived(status, reason, events, refused, facts, failures, told, world.unheard)


def _part(part: LivePart, _: RunOffer) -> LivePart:
    return part
