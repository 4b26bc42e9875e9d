"""A client's end of a connection: the handshake, then messages and their answers."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from fedsim.addons.live.connection import FrameConnection, Timing, ignore_text, misplaced_frame
from fedsim.addons.live.frames import Kind, Report, frame, longest_message
from fedsim.addons.live.handshake import (
    LONGEST_WELCOME,
    ClientHandshake,
    RunOffer,
    read_refusal,
    ready,
)
from fedsim.addons.live.memory import ClientMemory, ClientPart
from fedsim.addons.live.meters import Meter
from fedsim.core.errors import AdmissionError, Diverged, FrameError, PeerError, PeerTimeoutError
from fedsim.core.ports import SILENCE, node_name
from fedsim.protocol.transport import Envelope

Build = Callable[[RunOffer], ClientPart]
"""Builds a client's part of the offered run; may take long."""


@dataclass
class KeptMemory:
    """State of a client that outlives a connection.

    Attributes:
        memory: the memory of the last joined run; None for none.
    """

    memory: ClientMemory | None = None


class ClientSession(FrameConnection):
    """A client's end of a connection, for one run.

    Args:
        handshake: the handshake of this connection.
        build: see `Build`.
        meter: the meter of its energy.
        timing: the timeouts of the connection.
        apart: whether building and work run in threads.
        kept: state from former connections, for later ones.
        tell: called with messages to the user.

    Attributes:
        done: a future: its result is whether another run follows, its exception why it ended.
        admitted: whether the server has admitted it.
    """

    def __init__(
        self,
        handshake: ClientHandshake,
        build: Build,
        meter: Meter,
        timing: Timing,
        *,
        apart: bool,
        kept: KeptMemory | None = None,
        tell: Callable[[str], None] = ignore_text,
    ) -> None:
        super().__init__(timing, LONGEST_WELCOME)
        self.peer = "the server"
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._handshake = handshake
        self._build = build
        self._meter = meter
        self._apart = apart
        self._kept = kept or KeptMemory()
        self._tell = tell
        self._began = b""  # the first bytes that came
        self._inbox: deque[tuple[Envelope, float]] = deque()
        self._waiting_for: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._read: Callable[[bytes], Envelope] | None = None  # once it has built its part

    @property
    def admitted(self) -> bool:
        """Whether the server has admitted it."""
        return self._handshake.offer is not None

    def on_open(self) -> None:
        """Begin the handshake."""
        # The system accepts connections while the server still builds the run.
        self.watched, span, loop = False, self._timing.joining, asyncio.get_running_loop()
        error = PeerTimeoutError(f"the server has not answered within {span:g} s")
        text = f"connected; the server does not answer yet: waiting for {span:g} s"
        self._timers = [
            loop.call_later(span, self.drop, error),
            loop.call_later(_PATIENCE, self._tell, text),
        ]
        self.send(*self._handshake.begin())

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol.data_received`."""
        if not self.watched:
            self._began = self._began or data[:_FEW]
        super().data_received(data)

    def on_frame(self, kind: Kind, body: bytes) -> None:
        """Handle a frame of the server."""
        self.watched = True
        if kind is Kind.MESSAGE and self._read is not None:
            # Decoded on arrival, also if earlier messages wait: updates of vectors have to be
            # applied in order.
            self._inbox.append((self._read(body), monotonic()))
            if self._waiting_for is not None and not self._waiting_for.done():
                self._waiting_for.set_result(None)
        elif not self.admitted:
            self._on_handshake(kind, body)
        elif kind is Kind.END:
            self._finish(another=bool(body and body[0]))
        elif kind is Kind.REFUSED:
            raise read_refusal(body)
        else:
            raise misplaced_frame(kind, self.peer)

    def _on_handshake(self, kind: Kind, body: bytes) -> None:
        answer = self._handshake.receive(kind, body, monotonic)
        if answer is not None:
            self.send(Kind.PROOF, answer)
        if (offer := self._handshake.offer) is not None:
            self._stop_waiting()
            self._task = asyncio.create_task(self._run(offer))

    def on_end(self, error: PeerError) -> None:
        """End the client: the server is gone."""
        self._stop_waiting()
        if self._task is not None:
            self._task.cancel()
        if not self.done.done():
            self.done.set_exception(self._explain(error))

    def _explain(self, error: PeerError) -> PeerError:
        """Return the error, or its cause if the other end is not a fedsim server."""
        if self.watched or isinstance(error, AdmissionError | PeerTimeoutError):
            return error
        if self._began[:1] in _OF_TLS and self._began[1:2] == b"\3":
            text = "it requires TLS; give --certificate, --key and --authority"
            return AdmissionError("token", f"the server's identity is not the expected one: {text}")
        if isinstance(error, FrameError):
            text = f"it begins with {self._began!r}; is the port the one of `fedsim serve`?"
            return FrameError(f"the server speaks another protocol than fedsim's: {text}")
        why = "it may speak another protocol than fedsim's, or require TLS"
        if self._transport.get_extra_info("ssl_object") is not None:  # agreed to by this end alone
            why = "it may not accept this client's certificate; its output has the reason"
        return PeerError(f"{error} before it has sent anything: {why}")

    def _stop_waiting(self) -> None:
        for timer in self._timers:
            timer.cancel()

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
            memory, knows = await self._recall(offer)
            self._tell(f"admitted to the run {offer.variant}, seed {offer.seed}")
            await self._answer_all(memory, knows=knows)
        except PeerError as error:
            self.drop(error)
        except Exception as error:  # noqa: BLE001 - any of a handler: the server has to know
            self.send(Kind.FAILED, describe_failure(error))
            self.close()
            if not self.done.done():
                self.done.set_exception(error)

    async def _recall(self, offer: RunOffer) -> tuple[ClientMemory, bool]:
        """Return the client's memory of a run, and whether it is complete."""
        memory = self._kept.memory
        # `run` tells two runs of one seed apart: a server that was started again has no use for
        # this memory.
        if memory is not None and memory.run == offer.run and memory.recover(offer.last_exchange):
            return memory, True
        if self._apart:
            part = await asyncio.to_thread(self._build, offer)
        else:
            part = self._build(offer)
        number = self._handshake.client
        self._kept.memory = ClientMemory(part, number, offer, self._meter, apart=self._apart)
        return self._kept.memory, offer.returns == 0

    async def _answer_all(self, memory: ClientMemory, *, knows: bool) -> None:
        client, inbox = memory.client, self._inbox
        self.peer = f"the server of {node_name(self._handshake.client)}"
        self.limit = longest_message(memory.part.setup.initial.size)
        self._read = memory.read
        said = ready(memory.part.fingerprint, metered=self._meter.known, knows=knows)
        self.send(Kind.READY, said)
        loop = asyncio.get_running_loop()
        while True:
            while not inbox:
                self._waiting_for = loop.create_future()
                await self._waiting_for
            asked, received = inbox.popleft()
            reply, envelope = await memory.answer(asked)
            silent, looks = reply is SILENCE, frozenset(client.looks)
            spans = tuple(client.spans)
            report = Report(asked.exchange, received, monotonic(), silent, looks, spans)
            data = frame(Kind.REPORT, report.encode())
            # Report and reply in one write, so that the server finds them together, and the reply
            # has no second delay.
            self.send_bytes(data if envelope is None else data + frame(Kind.MESSAGE, envelope.data))


_PATIENCE = 2.0
"""Time without an answer after which a client reports that it waits, s."""

_FEW = 16
"""Number of bytes of another protocol that an error shows."""

_OF_TLS = {b"\x15", b"\x16"}
"""The first byte of a record of TLS: an alert, or a handshake; the second is 3."""


def describe_failure(error: BaseException) -> bytes:
    """Return the body of a FAILED frame: the round if the client has diverged, and the reason."""
    number, text = (error.round, error.seen) if isinstance(error, Diverged) else (0, repr(error))
    return number.to_bytes(4, "little") + text.encode()[:1000]
