"""A whole method over sockets: the protocol, its bytes and asyncio's own loop, in real time.

Nothing of the simulation takes part but the ends of the protocol, which are fed from streams of
the loopback device: so what feeds them may as well be a live network.
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.addons.conformance.link import LinkRecord, ProtocolClient, ProtocolServer
from fedsim.core.ports import SERVER, ClientId
from fedsim.protocol.server import Post, ReplyOutcome
from fedsim.protocol.stopping import RunStopped
from fedsim.protocol.transport import ByteTransport, Unpacking
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.wire import HEADER_BITS

ROUNDS, WORKERS = 100, 9
HEADER, LENGTH = HEADER_BITS // 8, 4  # bytes; the length of what follows ends the header

SCENARIO: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "logistic", "scale": "sum", "l2": 0.5, "labels": "plus-minus"},
        "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
        "split": {"kind": "contiguous"},
    },
    "algorithm": {"kind": "chb", "step_size": "0.5/L", "momentum": 0.4, "censor": 0.1},
    "fleet": [{"count": WORKERS}],
    "stop": {"rounds": ROUNDS},
    "models": {"every": 1},
}


async def framed(reader: StreamReader) -> bytes:
    """Read one message off a stream."""
    head = await reader.readexactly(HEADER)
    return head + await reader.readexactly(int.from_bytes(head[-LENGTH:], "little"))


class StreamServer(ProtocolServer):
    """A server whose clients are at the other end of streams.

    Attributes:
        ready: done once all clients are there.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job, ROUNDS)
        self.transport = job.transport
        self.writers: dict[ClientId, StreamWriter] = {}
        self.ready, self.closed = asyncio.Event(), asyncio.Event()

    async def welcome(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one client for as long as its connection lasts."""
        client = int.from_bytes(await reader.readexactly(4), "little")
        self.writers[client] = writer
        if len(self.writers) == len(self.clients):
            self.ready.set()
        unpacking = Unpacking()
        with suppress(asyncio.IncompleteReadError):  # it has hung up
            while True:
                self.hear(client, await framed(reader), unpacking)
        writer.close()

    def hear(self, client: ClientId, data: bytes, unpacking: Unpacking) -> None:
        assert isinstance(self.transport, ByteTransport)
        envelope = self.transport.read(data, client, unpacking)
        self.record.count(envelope)
        if self.end.receive_reply(client, envelope) is ReplyOutcome.CLOSED:
            self.closed.set()

    async def deliver(self, post: Post) -> None:
        self.closed.clear()
        for envelope, cohort in post:
            for client in cohort:
                self.writers[client].write(envelope.data)
        await self.closed.wait()


async def take_part(job: Job, number: ClientId, port: int) -> None:
    """Answer what comes, until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(number.to_bytes(4, "little"))
    client, unpacking = ProtocolClient(job, number), Unpacking()
    assert isinstance(job.transport, ByteTransport)
    with suppress(asyncio.IncompleteReadError):
        while True:
            asked = job.transport.read(await framed(reader), SERVER, unpacking)
            answer = await client.answer(asked)
            assert answer is not None, "with beacons, silence is a message"
            writer.write(answer.data)
    writer.close()


async def live(job: Job) -> LinkRecord:
    """Run a job over streams of the loopback device."""
    server = StreamServer(job)
    listener = await asyncio.start_server(server.welcome, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    clients = [asyncio.create_task(take_part(job, number, port)) for number in server.clients]
    await server.ready.wait()
    with pytest.raises(RunStopped):
        await job.algorithm.serve(server)
    for writer in server.writers.values():
        writer.close()
    await asyncio.gather(*clients)
    listener.close()
    await listener.wait_closed()
    return server.record


def test_chb_over_sockets_is_the_simulated_one() -> None:
    plan = load(SCENARIO)
    job = Builder(plan, "bytes").build(plan.variants[0], 1)
    counts = asyncio.run(live(job))
    simulated = fedsim.run(SCENARIO)
    models = np.stack(list(simulated.models["model"]))
    assert len(counts.models) == ROUNDS
    assert np.array_equal(models, counts.models)
    assert counts.sent == simulated.rounds["transmissions"].cumsum().tolist()[1:]
    assert 0 < counts.beacons == simulated.rounds["beacons"].sum()
    assert counts.transmissions + counts.beacons == ROUNDS * WORKERS
