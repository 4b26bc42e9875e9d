"""Mutated frames and handshakes against both ends of a live connection: none may crash.

    python analysis/live/fuzz.py [--count 100000] [--seed 1]

A short live run is recorded first: the bytes that each end sends. Then its conversations are played
again to a fresh end, with some bytes changed, cut, repeated, inserted or in another order. Each end
has to go on, or to end the connection with a `PeerError`; any other exception is a crash. The
server must not send anything but CHALLENGE and REFUSED before a client has proved the token.
"""

import argparse
import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fedsim.addons.live.client import ClientSession
from fedsim.addons.live.clock import OrderedLog, WallClock
from fedsim.addons.live.connection import FrameConnection, Timing
from fedsim.addons.live.frames import FrameReader, Kind, frame, largest_vector
from fedsim.addons.live.handshake import NO_DIGEST, ClientHandshake, RunOffer
from fedsim.addons.live.joining import LivePart
from fedsim.addons.live.meters import NoMeter
from fedsim.addons.live.network import LiveNetwork
from fedsim.addons.live.session import Door, ServerSession
from fedsim.core.errors import PeerError
from fedsim.protocol.selection import Selection
from fedsim.protocol.server import ServerProtocol
from fedsim.protocol.transport import Envelope
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import Traffic
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job

TOKEN = b"a token that mutants lack"
SCENARIO = {
    "problem": {
        "loss": {"kind": "squared", "l2": 1.0},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "iid"},
        "optimum": "unknown",
    },
    "algorithm": {"kind": "chb", "step_size": "0.5/L"},
    "wire": {"up": {"compressor": {"kind": "top-k", "fraction": 0.3}}},
    "fleet": [{"count": 2}],
}


class Wire(asyncio.Transport):
    """A transport without a socket: what is written is kept.

    Args:
        end: of the connection, which is told when it is over.
    """

    def __init__(self, end: FrameConnection) -> None:
        super().__init__()
        self.written = b""
        self._end: FrameConnection | None = end

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep the data."""
        self.written += data

    def get_write_buffer_size(self) -> int:
        """Return 0: all is sent."""
        return 0

    def close(self) -> None:
        """End the connection: all is sent."""
        end, self._end = self._end, None
        if end is not None:
            asyncio.get_running_loop().call_soon(end.connection_lost, None)

    def abort(self) -> None:
        """End the connection."""
        self.close()


def _offer(job: Job) -> RunOffer:
    return RunOffer(bytes(32), "base", 1, "", len(job.members))


class Conversation:
    """A server's end and a client's end, joined without sockets, through two exchanges.

    Args:
        job: the run.
        recorder: takes the log.
    """

    def __init__(self, job: Job, recorder: RunRecorder) -> None:
        setup = job.setup
        clock, traffic = WallClock(), Traffic()
        self.network = network = LiveNetwork(
            len(job.members),
            clock,
            OrderedLog(recorder.log),
            traffic,
            setup.transport,  # type: ignore[arg-type] # of bytes, see `main`
            set(),
            60.0,
            largest_vector(setup.initial.size),
        )
        clock.begin()
        clients = range(len(job.members))
        selection = Selection(job.participation, network, clients, setup.rng("cohort", 0))
        policy, silence = job.participation, setup.silence
        self.protocol = ServerProtocol(
            clients, selection, policy, silence, setup.header_bits, setup.transport
        )
        network.on_reply = self._count
        network.on_lost = self._lose
        network.on_failed = lambda *_: None
        self.refused: list[PeerError] = []
        self.job, self.setup = job, setup
        ends = network, setup.initial.size, job.problem.fingerprint, Timing(), self.refused.append
        self.door = Door(_offer(job), TOKEN, *ends)
        self.server = ServerSession(self.door)
        self.server_wire = Wire(self.server)
        self.server.connection_made(self.server_wire)

    def _count(self, client: int, envelope: Envelope) -> None:
        self.protocol.receive_reply(client, envelope)

    def _lose(self, client: int) -> None:
        self.protocol.client_left(client)

    def ask(self) -> None:
        """Open an exchange with the client, if it is there."""
        if self.protocol.exchange is not None:
            self.protocol.cancel()
        method = self.job.algorithm
        vector = self.setup.packer_down("", 0).pack(self.setup.initial)
        message = method.messages[0](vector)  # type: ignore[call-arg] # of a class with one field
        for envelope, clients in self.protocol.open(message, [0]):
            self.network.send_down(clients, envelope)


def client_end(job: Job) -> tuple[ClientSession, Wire]:
    """Return a client's end that has just connected."""
    handshake = ClientHandshake(0, NO_DIGEST, TOKEN)
    build: Callable[[RunOffer], LivePart] = partial(_part, LivePart(job))
    session = ClientSession(handshake, build, NoMeter(), Timing(), apart=False)
    wire = Wire(session)
    session.connection_made(wire)
    return session, wire


def _part(part: LivePart, _: RunOffer) -> LivePart:
    return part


def mutated(frames: list[bytes], rng: random.Random) -> bytes:
    """Return frames as bytes, changed in one to four places."""
    frames = list(frames)
    if rng.random() < 0.3 and len(frames) > 1:
        one, other = rng.sample(range(len(frames)), 2)
        frames[one], frames[other] = frames[other], frames[one]
    if rng.random() < 0.2:
        frames.insert(rng.randrange(len(frames) + 1), rng.choice(frames))
    if rng.random() < 0.2:
        body = rng.randbytes(rng.randrange(60))
        frames.insert(rng.randrange(len(frames) + 1), frame(rng.choice(list(Kind)), body))
    if rng.random() < 0.5:  # of one frame, whose length stays right
        place = rng.randrange(len(frames))
        body = _changed(frames[place][5:], rng)
        frames[place] = frame(Kind(frames[place][4]), body)
        return b"".join(frames)
    return _changed(b"".join(frames), rng)


def _changed(whole: bytes, rng: random.Random) -> bytes:
    data = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 1 if place < len(data):
                data[place] = rng.choice((0, 1, 127, 128, 255))
            case 2:
                del data[place : place + rng.randint(1, 8)]
            case _:
                data[place:place] = rng.randbytes(rng.randint(1, 8))
    return bytes(data)


@dataclass
class Outcome:
    """What mutants have led to.

    Attributes:
        ends: how often a connection ended with an error of each class, or went on.
        crashes: mutants that have raised something else, with that.
        leaks: mutants to which the server has said more than it may.
    """

    ends: Counter[str] = field(default_factory=Counter)
    crashes: list[tuple[bytes, BaseException]] = field(default_factory=list)
    leaks: list[bytes] = field(default_factory=list)

    def note(self, data: bytes, end: FrameConnection, error: BaseException | None) -> None:
        """Register what a mutant has led to."""
        if error is not None:
            self.crashes.append((data, error))
        self.ends["ended by name" if end.ended else "went on"] += 1


Mutant = tuple[bytes, FrameConnection, BaseException | None, bool]
"""A mutant, the end that it was given to, what that has raised, and whether it said too much."""


async def _settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def _feed(end: FrameConnection, data: bytes, rng: random.Random) -> BaseException | None:
    """Give an end some bytes, in pieces; return what it has raised."""
    try:
        start = 0
        while start < len(data) and not end.ended:
            size = rng.choice((1, 5, 64, len(data)))
            end.data_received(data[start : start + size])
            start += size
    except Exception as error:  # noqa: BLE001 - a crash is what is looked for
        return error
    return None


def _kinds(data: bytes) -> list[Kind]:
    return [kind for kind, _ in FrameReader(1 << 24).feed(data)]


async def _against_server(job: Job, recorder: RunRecorder, rng: random.Random) -> Mutant:
    """Play a mutated client: before it is let in, or after."""
    talk = Conversation(job, recorder)
    session, wire = client_end(job)
    before = rng.random() < 0.5
    sent: list[bytes] = []

    def pump(limit: int) -> None:
        """Exchange frames until the client has sent so many."""
        while len(sent) < limit:
            out, wire.written = wire.written, b""
            back, talk.server_wire.written = talk.server_wire.written, b""
            if not out and not back:
                return
            sent.extend(frame(*each) for each in FrameReader(1 << 24).feed(out))
            talk.server.data_received(out)
            session.data_received(back)

    if before:
        hello = frame(*session._handshake.begin())  # noqa: SLF001 - the frames of an honest client
        data = mutated([hello, frame(Kind.PROOF, rng.randbytes(80)), hello], rng)
        error = _feed(talk.server, data, rng)
        said = _kinds(talk.server_wire.written)
        leaked = any(kind not in {Kind.CHALLENGE, Kind.REFUSED, Kind.BEAT} for kind in said)
        _end(session)
        return data, talk.server, error, leaked
    pump(2)
    await _settle()
    pump(9)
    talk.ask()
    session.data_received(talk.server_wire.written)
    await _settle()
    report = [frame(*each) for each in FrameReader(1 << 24).feed(wire.written)]
    data = mutated(report or [frame(Kind.BEAT)], rng)
    error = _feed(talk.server, data, rng)
    _end(session)
    return data, talk.server, error, False


async def _against_client(job: Job, recorder: RunRecorder, rng: random.Random) -> Mutant:
    """Play a mutated server: in its handshake, or with its messages."""
    talk = Conversation(job, recorder)
    session, wire = client_end(job)
    steps = rng.randrange(3)
    for _ in range(2):  # HELLO and CHALLENGE, PROOF and WELCOME
        out, wire.written = wire.written, b""
        talk.server.data_received(out)
        back, talk.server_wire.written = talk.server_wire.written, b""
        if steps == 0:
            break
        steps -= 1
        session.data_received(back)
    await _settle()
    if session._handshake.offer is not None:  # noqa: SLF001 - whether it is let in
        talk.server.data_received(wire.written)
        talk.ask()
        back = talk.server_wire.written
    data = mutated([back] if back else [frame(Kind.END, b"\0")], rng)
    error = _feed(session, data, rng)
    await _settle()
    ended = session.done.done()
    if ended and (raised := session.done.exception()) is not None:
        error = error or (None if isinstance(raised, PeerError) else raised)
    _end(session)
    return data, session, error, False


def _end(session: ClientSession) -> None:
    session.drop(PeerError("the mutant is over"))
    if session.done.done():
        session.done.exception()


async def fuzz(count: int, seed: int, recorder: RunRecorder, job: Job) -> Outcome:
    """Play mutants against both ends.

    Args:
        count: the number of mutants.
        seed: of their changes.
        recorder: takes the log of the server.
        job: the run.
    """
    rng, outcome = random.Random(seed), Outcome()
    for number in range(count):
        play = _against_client if number % 3 == 0 else _against_server
        data, end, error, leaked = await play(job, recorder, rng)
        outcome.note(data, end, error)
        if leaked:
            outcome.leaks.append(data)
        end.close()
    return outcome


def main(count: int, seed: int) -> Outcome:
    """Play mutants, and return what they have led to."""
    plan = load(SCENARIO)
    job = Builder(plan, "bytes").build(plan.variants[0], 1)
    with TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        recorder = RunRecorder(Path(folder), len(job.members))
        stack.callback(recorder.log.abandon)
        return asyncio.run(fuzz(count, seed, recorder, job))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    found = main(given.count, given.seed)
    print(f"{given.count} mutants in {time.monotonic() - began:.0f} s: {dict(found.ends)}")
    print(f"crashes: {len(found.crashes)}, bytes to a client not admitted: {len(found.leaks)}")
    for data, error in found.crashes[:5]:
        print(repr(error), data.hex())
    raise SystemExit(bool(found.crashes or found.leaks))
