"""Clients with a token that do anything: the server goes on, and its log stays sound.

    python analysis/live/hostile.py [--count 5000] [--seed 1] [--clients 24] [--rounds 3] [--jobs 1]

In each run, honest clients and hostile ones are let in to a live server over TCP. A hostile client
draws what it does for each message that it receives, and often comes back after it was dropped:
times, spans and joules that cannot be, messages of other kinds, sizes, rounds and senders, numbers
that are not finite, texts with control characters, frames that are cut off or have no place, floods
of connections that say nothing, or nothing at all. The run has to end by its own rule with all
honest clients, and its log has to hold nothing that is not finite and within the run. Finite
numbers that are merely wrong are a matter of the method, and are not drawn.
"""

import argparse
import asyncio
import random
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, repeat
from math import inf, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import pandas as pd

from fedsim.addons.live.access import Access, Address
from fedsim.addons.live.connection import Timing
from fedsim.addons.live.frames import MOST_PIECES, FrameReader, Kind, Report, frame
from fedsim.addons.live.handshake import NO_DIGEST, ClientHandshake, RunOffer, ready
from fedsim.addons.live.joining import LivePart, run_clients
from fedsim.addons.live.returning import ReturnRule
from fedsim.addons.live.world import LiveSettings, LiveWorld
from fedsim.algorithms.messages import annotated_replies
from fedsim.core.errors import PeerError
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.wire import Dense, ValueFormat, decode_message, encode_message

TOKEN = b"a token that all of them have"
HONEST = 6
METHODS: tuple[dict[str, Any], ...] = (
    {"kind": "gd", "step_size": "0.5/L"},
    {"kind": "fedavg", "step_size": 0.01, "local_steps": 2, "batch": 8},
)
"""Runs take them in turn. Clients of the second keep nothing, so those that were dropped return."""

TIMING = Timing(beat=0.05, silence=2.0, handshake=2.0, building=5.0, joining=60.0, answer=0.3)
SCENARIO: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "squared", "l2": 1.0},
        "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
        "split": {"kind": "iid"},
        "optimum": "unknown",
    },
}
_AGAIN = 3.0
"""How long a client that comes back waits for the server, s."""

HARMLESS = "as it should", "comes back"
"""What honest clients do, too."""

ODD = (nan, inf, -inf, 1e308, -1e308, 1e30, -1e9, 1e9, 1e17, 5e-324, -0.0, -1.0, 0.0)
"""Doubles that are drawn in place of times, seconds, operations and joules."""


class SteadyMeter:
    """A meter of 5 W."""

    known = True

    def joules(self) -> float:
        """See `fedsim.addons.live.meters.Meter`."""
        return 5.0 * time.monotonic()

    def close(self) -> None:
        """Do nothing."""


class Hostile:
    """A client with a token that does anything.

    Args:
        job: the run.
        number: of the client.
        rng: draws what it does.
        did: counts that.
    """

    def __init__(self, job: Job, number: int, rng: random.Random, did: Counter[str]) -> None:
        self._job, self._number, self._rng, self._did = job, number, rng, did
        self._reader = FrameReader(1 << 24)
        self._frames: list[tuple[Kind, bytes]] = []
        self._joined = self._over = False
        self._stream: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def play(self, port: int) -> None:
        """Connect, be let in, and do anything until the connection ends."""
        others = []
        if self._drawn("silent connections", 0.05):
            others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        with suppress(OSError):  # the server has ended, or does not answer any more
            while not self._over:
                self._reader, self._frames = FrameReader(1 << 24), []
                self._stream, self._writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    async with asyncio.timeout(_AGAIN if self._joined else TIMING.joining):
                        await self._play()
                except (EOFError, PeerError):
                    pass
                finally:
                    await _end(self._writer)
                if self._joined and not self._drawn("comes back", 0.3):
                    break
                await asyncio.sleep(0.01)
        for _, writer in others:
            await _end(writer)

    async def _play(self) -> None:
        if self._drawn("noise at once", 0.03):
            self._writer.write(self._rng.randbytes(self._rng.randrange(400)))
        handshake = ClientHandshake(self._number, NO_DIGEST, TOKEN)
        clock = time.monotonic
        if self._drawn("odd times in the handshake", 0.1):
            clock = partial(self._rng.choice, ODD)
        self._send(*handshake.begin())
        while handshake.offer is None:
            proof = handshake.receive(*await self._receive(), clock)
            if proof is not None:
                self._send(Kind.PROOF, proof)
        said = ready(self._job.problem.fingerprint, metered=True)
        if self._drawn("odd READY", 0.03):
            said = self._rng.randbytes(self._rng.randrange(100))
        self._send(Kind.READY, said)
        while not self._over:
            kind, body = await self._receive()
            self._over = kind is Kind.END
            if kind is Kind.MESSAGE:
                self._joined = True
                self._answer(body)

    def _drawn(self, name: str, chance: float) -> bool:
        drawn = self._rng.random() < chance
        self._did[name] += drawn
        return drawn

    def _send(self, kind: Kind, body: bytes = b"") -> None:
        self._writer.write(frame(kind, body))

    async def _receive(self) -> tuple[Kind, bytes]:
        while not self._frames:
            data = await self._stream.read(1 << 16)
            if not data:
                raise EOFError
            came = self._reader.feed(data)
            self._frames += [each for each in came if each[0] is not Kind.BEAT]
        return self._frames.pop(0)

    def _answer(self, body: bytes) -> None:
        """Answer a message, in one of many ways."""
        ways: dict[str, Callable[[bytes], None]] = {
            "as it should": self._reply,
            "odd report": self._odd_report,
            "raw report": self._raw_report,
            "odd reply": self._odd_reply,
            "raw reply": self._raw_reply,
            "fails": self._fail,
            "misplaced frame": self._misplace,
            "cut off": self._cut_off,
            "nothing": lambda _: None,
        }
        way = self._rng.choice(list(ways))
        self._did[way] += 1
        ways[way](body)

    def _report(self, body: bytes) -> None:
        header, _ = decode_message(body)
        now = time.monotonic()
        said = Report(header.exchange, now, now, silent=False, looks=frozenset(), spans=())
        self._send(Kind.REPORT, said.encode())

    def _reply(self, body: bytes, **changes: Any) -> None:
        header, _ = decode_message(body)
        size = changes.pop("size", self._job.setup.initial.size)
        values = np.full(size, changes.pop("value", 0.0))
        fields: dict[str, Any] = {
            "message_type": len(self._job.algorithm.messages),
            "sender": self._number,
            "round_number": header.round_number,
            "exchange": header.exchange,
        }
        payloads = [Dense.of(values, ValueFormat.FLOAT64)] * changes.pop("payloads", 1)
        self._report(body)
        self._send(Kind.MESSAGE, encode_message(payloads, **{**fields, **changes}))

    def _odd_report(self, body: bytes) -> None:
        """Report what cannot be, in the form of a report."""
        header, _ = decode_message(body)
        rng, now = self._rng, time.monotonic()

        def odd(usual: float) -> float:
            return usual if rng.random() < 0.7 else rng.choice((*ODD, usual + rng.choice(ODD)))

        spans = [
            struct.pack(
                "<ddIddd",
                odd(now),
                odd(now),
                rng.choice((1, 1, 1, 0, 3, 100, MOST_PIECES, 1_000_000, 2**32 - 1)),
                odd(10.0),
                odd(1.0),
                odd(0.1),
            )
            for _ in range(rng.choice((0, 1, 1, 2, 12, 255)))
        ]
        exchange = header.exchange if rng.random() < 0.9 else rng.randrange(2**32)
        flags = rng.choice((0, 0, 1, 2, 7, 255))
        front = struct.pack("<IBddB", exchange, flags, odd(now), odd(now), len(spans))
        self._send(Kind.REPORT, front + b"".join(spans))
        self._reply_alone(body)

    def _reply_alone(self, body: bytes) -> None:
        """Reply without a further report."""
        self._send(Kind.BEAT)
        header, _ = decode_message(body)
        numbers = {"round_number": header.round_number, "exchange": header.exchange}
        values = Dense.of(np.zeros(self._job.setup.initial.size), ValueFormat.FLOAT64)
        kind = len(self._job.algorithm.messages)
        whole = encode_message([values], message_type=kind, sender=self._number, **numbers)
        self._send(Kind.MESSAGE, whole)

    def _raw_report(self, _: bytes) -> None:
        self._send(Kind.REPORT, self._rng.randbytes(self._rng.choice((0, 5, 22, 66, 560, 20_000))))

    def _odd_reply(self, body: bytes) -> None:
        rng = self._rng
        changes = rng.choice(
            (
                {"value": rng.choice((nan, inf, -inf))},
                {"size": rng.choice((0, 1, 9, 11, 1000, 60_000))},
                {"message_type": rng.choice((0, 1, 3, 65535))},
                {"sender": rng.choice((-1, 0, 2**31 - 1))},
                {"round_number": rng.choice((0, 77, 2**32 - 1))},
                {"exchange": rng.choice((0, 77, 2**32 - 1))},
                {"payloads": rng.choice((0, 2, 500))},
            )
        )
        self._reply(body, **changes)

    def _raw_reply(self, body: bytes) -> None:
        self._report(body)
        changed = bytearray(body)
        for _ in range(self._rng.randint(1, 4)):
            changed[self._rng.randrange(len(changed))] = self._rng.randrange(256)
        changed[3:7] = self._number.to_bytes(4, "little")
        self._send(
            Kind.MESSAGE, bytes(changed[:19]) if self._rng.random() < 0.3 else bytes(changed)
        )

    def _fail(self, _: bytes) -> None:
        number = self._rng.choice((0, 1, 2**32 - 1)).to_bytes(4, "little")
        text = self._rng.choice((b"", b"\x1b[2J\x07 no \r\n news", b"\xff" * 900, b"long " * 5000))
        self._send(Kind.FAILED, number + text)

    def _misplace(self, _: bytes) -> None:
        self._send(self._rng.choice(list(Kind)), self._rng.randbytes(self._rng.randrange(300)))

    def _cut_off(self, _: bytes) -> None:
        length = self._rng.choice((10, 1 << 20, 2**32 - 1))
        kind = self._rng.choice((7, 8, 10, 0, 99))
        self._writer.write(struct.pack("<IB", length, kind) + self._rng.randbytes(5))
        if self._rng.random() < 0.5:
            self._writer.transport.abort()


async def _end(writer: asyncio.StreamWriter) -> None:
    """End a connection now."""
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


@dataclass(frozen=True)
class Size:
    """The size of a run.

    Attributes:
        clients: the number of hostile clients.
        rounds: after which it ends.
    """

    clients: int = 24
    rounds: int = 3


@dataclass
class Outcome:
    """What behaviours have led to.

    Attributes:
        runs: that were made.
        sessions: the hostile clients.
        did: how often each thing was done.
        reasons: why hostile clients have left, without their numbers.
        faults: what must not have happened.
        rows: the largest number of rows of a log.
    """

    runs: int = 0
    sessions: int = 0
    did: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    rows: int = 0

    @property
    def behaviours(self) -> int:
        """The number of things done that no honest client does."""
        return self.did.total() - sum(self.did[name] for name in HARMLESS)

    def add(self, other: Self) -> None:
        """Add the outcome of other runs."""
        self.runs += other.runs
        self.sessions += other.sessions
        self.did += other.did
        self.reasons += other.reasons
        self.faults += other.faults
        self.rows = max(self.rows, other.rows)


def _part(part: LivePart, _: RunOffer) -> LivePart:
    return part


def play(job: Job, folder: Path, rng: random.Random, rounds: int) -> Outcome:
    """Make one live run with hostile clients, and return what it has left."""
    offer = RunOffer(bytes(32), "base", 1, "a scenario", len(job.members), "a run")
    outcome = Outcome(runs=1, sessions=len(job.members) - HONEST)
    facts: dict[str, Any] = {}
    texts: list[str] = []

    def start(port: int) -> Sequence[Coroutine[Any, Any, None]]:
        ends = Address("127.0.0.1", port), bytes(32), partial(_part, LivePart(job)), Access(TOKEN)
        hostile = [
            Hostile(job, number, random.Random(rng.random()), outcome.did).play(port)
            for number in range(HONEST, len(job.members))
        ]
        return [*run_clients(range(HONEST), *ends, SteadyMeter(), TIMING, once=True), *hostile]

    with (
        socket.create_server(("127.0.0.1", 0), backlog=1024) as listener,
        RunRecorder(folder, len(job.members)) as book,
    ):
        settings = LiveSettings(
            listener=listener,
            access=Access(TOKEN),
            offer=offer,
            fingerprint=job.problem.fingerprint,
            participation=job.scenario.participation.among(len(job.members)),
            timing=TIMING,
            start_clients=start,
            refused=lambda error: texts.append(str(error)),
            tell=texts.append,
            returning=ReturnRule.of(job),
            replies=annotated_replies(type(job.algorithm)),
            goes_on=True,
            facts=facts,
        )
        world = LiveWorld(job.setup, book, settings=settings)
        try:
            reason = world.run()
        except Exception as error:  # noqa: BLE001 - any would end the server
            reason = repr(error)
        world.close(reason)
    if reason != f"rounds: {rounds} of {rounds}":
        outcome.faults.append(f"the run ended by {reason}")
    log = pd.read_parquet(folder / "events.parquet")
    outcome.faults += [*_faults_of_clients(facts, texts), *_faults_of_log(log, rounds)]
    outcome.rows = len(log)
    left = {name: why for name, why in facts.get("left", {}).items() if name not in _names()}
    outcome.reasons.update(re.sub(r"\S*\d\S*", "N", why)[:60] for why in left.values())
    return outcome


def _names() -> set[str]:
    return {f"client-{number}" for number in range(HONEST)}


def _faults_of_clients(facts: dict[str, Any], texts: Sequence[str]) -> Iterator[str]:
    """Yield what must not be in what a run says of its clients."""
    left = facts.get("left", {})
    if gone := _names() & {*left}:
        yield f"honest clients have left: {[left[name] for name in gone]}"
    odd = [text for text in [*texts, *left.values()] if not text.isprintable()]
    if odd:
        yield f"a text that cannot be shown: {odd[0]!r}"


def _faults_of_log(log: pd.DataFrame, rounds: int) -> Iterator[str]:
    """Yield what must not be in a log."""
    end = log["t"].iloc[-1]
    amounts = log[["t", "duration", "joules", "operations", "samples"]]
    if not np.isfinite(amounts.to_numpy(np.float64)).all() or (amounts < 0).any(axis=None):
        yield "the log has numbers that are negative or not finite"
    if (log["t"] > end).any() or (log["t"] - log["duration"] < -1e-9).any():
        yield "the log has times outside of the run"
    if log["joules"].max() > 1e6 * (end + 1.0):
        yield f"the log has {log['joules'].max():g} J"
    if log["round"].max() > rounds:
        yield f"the log has the round {log['round'].max()}"


def main(count: int, seed: int, size: Size = Size()) -> Outcome:
    """Make runs with hostile clients up to a number of behaviours, and return their outcome."""
    rng, outcome = random.Random(seed), Outcome()
    fleet = [{"count": HONEST + size.clients}]
    for method in cycle(METHODS):
        if outcome.behaviours >= count:
            break
        run = {"algorithm": method, "fleet": fleet, "stop": {"rounds": size.rounds}}
        plan = load({**SCENARIO, **run})
        job = Builder(plan, "bytes").build(plan.variants[0], 1)
        with TemporaryDirectory() as folder:
            outcome.add(play(job, Path(folder), rng, size.rounds))
    return outcome


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000, help="of behaviours")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=24, help="hostile ones of a run")
    parser.add_argument("--rounds", type=int, default=3, help="of a run")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with runs of its own")
    given = parser.parse_args()
    began, made = time.monotonic(), Outcome()
    share = -(-given.count // given.jobs)
    with ProcessPoolExecutor(given.jobs) as pool:
        seeds = range(given.seed, given.seed + given.jobs)
        for one in pool.map(main, repeat(share), seeds, repeat(Size(given.clients, given.rounds))):
            made.add(one)
    print(
        f"{made.behaviours} behaviours of {made.sessions} hostile clients in {made.runs} runs,"
        f" {time.monotonic() - began:.0f} s; logs of up to {made.rows} rows"
    )
    print(f"what they did: {dict(made.did)}")
    for why, times in made.reasons.most_common(40):
        print(f"{times:6} {why}")
    print(f"faults: {len(made.faults)}")
    for fault, times in Counter(made.faults).most_common(10):
        print(times, fault)
    raise SystemExit(bool(made.faults))
