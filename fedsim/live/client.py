"""A client of a live run: its session with the server, and the port that its handler runs on."""

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Any, Protocol, cast

import numpy as np

from fedsim.computing.serial import finite
from fedsim.errors import Diverged, PeerError, PeerTimeoutError
from fedsim.live.connection import FrameConnection, Timing, misplaced_frame
from fedsim.live.frames import Kind, Report, WorkSpan, frame
from fedsim.live.handshake import LONGEST_WELCOME, ClientHandshake, RunOffer, ready
from fedsim.live.limits import largest_vector, longest_message
from fedsim.live.meters import Meter
from fedsim.ports import SERVER, SILENCE, Array, ClientId, Oracle, Payload, Work, node_name
from fedsim.protocol.transport import ByteTransport, ClientProtocol, Envelope, Unpacking
from fedsim.sim.config import Method, WorldConfig
from fedsim.wire.packers import Packing


class ClientPart(Protocol):
    """What a client builds of a scenario; a `fedsim.building.Job` has all of it."""

    @property
    def setup(self) -> WorldConfig:
        """Everything that its world is made of."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of the clients' losses."""
        ...


class LiveClient:
    """Implements `fedsim.ports.Client`: work takes the time that it takes.

    Args:
        setup: of the run.
        protocol: its endpoint.
        meter: of the energy of its work.
        apart: whether work is evaluated in a thread, so that the connection stays alive meanwhile.

    Attributes:
        id: its number.
        oracle: its loss.
        state: the algorithm's own.
        spans: the work done since they were last taken.
        looks: what the method has read beside its messages.
    """

    def __init__(
        self, setup: WorldConfig, protocol: ClientProtocol, meter: Meter, *, apart: bool
    ) -> None:
        self.id: ClientId = protocol.id
        self.oracle: Oracle = setup.fleet[protocol.id].oracle
        self.state: Any = setup.algorithm.memory(setup.initial)
        self.spans: list[WorkSpan] = []
        self.looks: set[str] = set()
        self._protocol = protocol
        self._setup = setup
        self._meter = meter
        self._apart = apart
        self._start = monotonic()
        self._rng: np.random.Generator | None = None

    @property
    def round(self) -> int:
        """The round of the message being handled."""
        return self._protocol.round

    @property
    def now(self) -> float:
        """Seconds since this client began."""
        self.looks.add("now")
        return monotonic() - self._start

    @property
    def battery(self) -> float | None:
        """None: a live run knows of no battery."""
        self.looks.add("battery")
        return None

    @property
    def pack(self) -> Callable[..., Payload]:
        """See `fedsim.ports.Client.pack`."""
        return self._protocol.packing.pack

    @property
    def rng(self) -> np.random.Generator:
        """This client's own random stream, that of the simulated run."""
        if self._rng is None:
            self._rng = self._setup.rng("client", self.id)
        return self._rng

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.ports.Client.compute`.

        Raises:
            Diverged: a vector that was computed is not finite.
        """
        if not 0.0 <= work.operations < inf:
            raise ValueError(f"work has a finite number of operations, not {work.operations}")
        evaluator = self._setup.evaluator
        before, began = self._meter.joules(), monotonic()
        ticket = evaluator.submit(work)
        if begun is not None:
            for number in range(1, work.pieces + 1):
                begun(number)
        result: Array
        if self._apart:
            result = await asyncio.to_thread(evaluator.result, ticket)
        else:
            result = evaluator.result(ticket)
        ended, spent = monotonic(), self._meter.joules() - before
        amounts = work.operations, work.samples
        self.spans.append(WorkSpan(began, ended, work.pieces, *amounts, spent))
        if not finite(result):
            text = f"client {self.id} has computed what is not finite"
            raise Diverged(self._protocol.round, text)
        return result


Build = Callable[[RunOffer], ClientPart]
"""Builds a client's part of the run that the server offers; may take long."""


class ClientSession(FrameConnection):
    """A client's end of a connection, for one run.

    Args:
        handshake: of this connection.
        build: see `Build`.
        meter: of the energy of its work.
        timing: of the connection.
        apart: whether building and work are done in threads.

    Attributes:
        done: its result is whether another run follows; or the reason why it has ended.
    """

    def __init__(
        self,
        handshake: ClientHandshake,
        build: Build,
        meter: Meter,
        timing: Timing,
        *,
        apart: bool,
    ) -> None:
        super().__init__(timing, LONGEST_WELCOME)
        self.peer = "the server"
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._handshake = handshake
        self._build = build
        self._meter = meter
        self._apart = apart
        self._inbox: deque[tuple[Envelope, float]] = deque()
        self._waiting_for: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._late: asyncio.TimerHandle | None = None
        self._read: Callable[[bytes], Envelope] | None = None  # once it has built its part

    def on_open(self) -> None:
        """Begin the handshake."""
        # The system accepts connections while the server still builds the run.
        self.watched, span = False, self._timing.joining
        error = PeerTimeoutError(f"the server has not answered within {span:g} s")
        self._late = asyncio.get_running_loop().call_later(span, self.drop, error)
        self.send(*self._handshake.begin())

    def on_frame(self, kind: Kind, body: bytes) -> None:
        """Handle a frame of the server."""
        self.watched = True
        if self._handshake.offer is None:
            self._on_handshake(kind, body)
        elif kind is Kind.END:
            self._finish(another=bool(body and body[0]))
        elif kind is Kind.MESSAGE and self._read is not None:
            self._inbox.append((self._read(body), monotonic()))
            if self._waiting_for is not None and not self._waiting_for.done():
                self._waiting_for.set_result(None)
        else:
            raise misplaced_frame(kind, self.peer)

    def _on_handshake(self, kind: Kind, body: bytes) -> None:
        answer = self._handshake.receive(kind, body, monotonic)
        if answer is not None:
            self.send(Kind.PROOF, answer)
        if (offer := self._handshake.offer) is not None:
            if self._late is not None:
                self._late.cancel()
            self._task = asyncio.create_task(self._run(offer))

    def on_end(self, error: PeerError) -> None:
        """End the client: the server is gone."""
        if self._late is not None:
            self._late.cancel()
        if self._task is not None:
            self._task.cancel()
        if not self.done.done():
            self.done.set_exception(error)

    def _finish(self, *, another: bool) -> None:
        if self._task is not None:
            self._task.cancel()
        self.close()
        if not self.done.done():
            self.done.set_result(another)

    # -- what it does ------------------------------------------------------------------

    async def _run(self, offer: RunOffer) -> None:
        """Build the client, and answer messages for as long as the connection lasts."""
        try:
            if self._apart:
                part = await asyncio.to_thread(self._build, offer)
            else:
                part = self._build(offer)
            await self._answer_all(part)
        except PeerError as error:
            self.drop(error)
        except Exception as error:  # noqa: BLE001 - any of a handler: the server has to know
            self.send(Kind.FAILED, describe_failure(error))
            self.close()
            if not self.done.done():
                self.done.set_exception(error)

    async def _answer_all(self, part: ClientPart) -> None:
        setup, number = part.setup, self._handshake.client
        transport, unpacking = cast("ByteTransport", setup.transport), Unpacking()
        protocol = ClientProtocol(
            number,
            Packing(setup.packer_up, number),
            beacons=setup.silence.beacon,
            header_bits=setup.header_bits,
            transport=transport,
        )
        client = LiveClient(setup, protocol, self._meter, apart=self._apart)
        handle = cast("Method", setup.algorithm).handle
        self.peer = f"the server of {node_name(number)}"
        size = setup.initial.size
        self.limit, largest = longest_message(size), largest_vector(size)
        self._read = lambda body: transport.read(body, SERVER, unpacking, largest)
        self.send(Kind.READY, ready(part.fingerprint, metered=self._meter.known))
        inbox = self._inbox
        while True:
            while not inbox:
                self._waiting_for = asyncio.get_running_loop().create_future()
                await self._waiting_for
            asked, received = inbox.popleft()
            reply = await handle(client, protocol.open(asked))
            envelope = protocol.answer(asked, reply)
            spans, client.spans = tuple(client.spans), []
            silent, looks = reply is SILENCE, frozenset(client.looks)
            report = Report(asked.exchange, received, monotonic(), silent, looks, spans)
            data = frame(Kind.REPORT, report.encode())
            self.send_bytes(data if envelope is None else data + frame(Kind.MESSAGE, envelope.data))


def describe_failure(error: BaseException) -> bytes:
    """Return the body of a FAILED frame: the round if the client has diverged, and the reason."""
    number, text = (error.round, error.seen) if isinstance(error, Diverged) else (0, repr(error))
    return number.to_bytes(4, "little") + text.encode()[:1000]
