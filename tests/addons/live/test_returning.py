"""Clients that leave a run and come back, and clients whose replies do not fit."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.addons.live import api
from fedsim.addons.live.access import Access, Address
from fedsim.addons.live.client import ClientSession
from fedsim.addons.live.connection import FrameConnection, Timing
from fedsim.addons.live.frames import Kind
from fedsim.addons.live.handshake import RunOffer
from fedsim.addons.live.joining import LivePart, run_clients
from fedsim.addons.live.memory import ClientMemory
from fedsim.addons.live.meters import Meter
from fedsim.addons.live.misfits import ReplySizes
from fedsim.addons.live.returning import ReturnRule
from fedsim.core.errors import AdmissionError
from fedsim.core.ports import Array, Message, Reply
from fedsim.protocol.exchange import Exchange
from fedsim.scenario.building import Job
from fedsim.wire import Dense, ValueFormat
from tests import methods
from tests.tiers import every

from .peers import FAST, Lived, RawClient, job_of, live

LAST = 2
"""The number of the client that does as a test says."""

ANYBODY = ReturnRule()
ALONE: dict[str, Any] = {"fleet": [{"count": 1}]}


async def answer_all(client: RawClient, *, first: bytes = b"") -> None:
    """Answer for as long as the run goes on."""
    if first:
        client.reply(first)
    while True:
        kind, body = await client.receive()
        if kind is Kind.END:
            return
        client.reply(body)


class Gate:
    """Holds a round up until another client has done something.

    Args:
        rounds: that are answered at once.

    Attributes:
        reached: set once the round is held up.
    """

    def __init__(self, rounds: int = 0) -> None:
        self._rounds, self._open, self.reached = rounds, asyncio.Event(), asyncio.Event()

    async def hold(self, client: RawClient) -> None:
        """Answer some rounds, and the others once the gate is open."""
        await client.join()
        beats = asyncio.create_task(client.beat())
        for _ in range(self._rounds):
            client.reply(await client.message())
        held = await client.message()
        self.reached.set()
        await self._open.wait()
        await answer_all(client, first=held)
        beats.cancel()

    async def open(self) -> None:
        """Let the round end, once what was sent before has been read."""
        await asyncio.sleep(0.05)
        self._open.set()


async def leave(client: RawClient) -> RawClient:
    """Join, leave in the first round, and return another connection of the client."""
    await client.join()
    await client.message()
    client.writer.transport.abort()
    await asyncio.sleep(0.05)
    return client.another(client.number)


def presence(made: Lived) -> list[tuple[str, str]]:
    rows = made.events[made.events["event"].isin(["offline", "online"])]
    return list(zip(rows["event"], rows["node"], strict=True))


def test_a_client_takes_its_place_again_by_the_rounds_rules(tmp_path: Path) -> None:
    gate = Gate()

    async def come_back(client: RawClient) -> None:
        again = await leave(client)
        await again.join()
        await gate.open()
        await answer_all(again)

    made = live(tmp_path, (1, gate.hold), (LAST, come_back), good=(0,), returning=ANYBODY)
    assert made.failures == []
    assert (made.status, made.reason) == ("done", "rounds: 4 of 4")
    assert presence(made) == [("offline", "client-2"), ("online", "client-2")]
    back = made.events[made.events["event"] == "online"].iloc[0]
    # The server notices an aborted connection some time after the client has closed it.
    assert back["duration"] > 0.0
    assert made.facts["left"] == {}
    assert made.facts["returned"] == {"client-2": 1}
    assert [text.split(":")[0] for text in made.told] == [
        "client-2 has left",
        "client-2 is back, and is asked again from the next exchange on",
    ]
    lost = made.events[made.events["event"] == "lost"]
    assert lost["peer"].tolist() == ["client-2"]  # what was in transit to it
    replies = made.events[(made.events["event"] == "receive") & (made.events["node"] == "server")]
    senders = replies.groupby("round")["peer"].agg(sorted).tolist()
    assert senders == [["client-0", "client-1"]] + 3 * [["client-0", "client-1", "client-2"]]


def test_a_client_whose_replies_never_count_is_unheard(tmp_path: Path) -> None:
    async def be_silent(client: RawClient) -> None:
        await client.join()
        beats = asyncio.create_task(client.beat())
        await client.until_end()
        beats.cancel()

    quorum = {"kind": "full", "quorum": 0.6}
    made = live(tmp_path, (LAST, be_silent), participation=quorum)
    assert (made.status, made.failures) == ("done", [])
    assert made.unheard == 1
    heard = live(tmp_path / "all", good=(0, 1, LAST), participation={"kind": "full"})
    assert (heard.status, heard.unheard) == ("done", 0)


def test_rounds_go_on_without_it_meanwhile(tmp_path: Path) -> None:
    gate = Gate(rounds=2)

    async def come_back(client: RawClient) -> None:
        again = await leave(client)
        await gate.reached.wait()
        await again.join()
        await gate.open()
        await answer_all(again)

    made = live(tmp_path, (1, gate.hold), (LAST, come_back), good=(0,), returning=ANYBODY)
    assert (made.status, made.failures) == ("done", [])
    replies = made.events[(made.events["event"] == "receive") & (made.events["node"] == "server")]
    senders = replies.groupby("round")["peer"].agg(list)
    assert [("client-2" in each) for each in senders] == [False, False, False, True]


def test_all_may_leave_and_one_comes_back(tmp_path: Path) -> None:
    async def come_back(client: RawClient) -> None:
        again = await leave(client)
        await again.join()
        await answer_all(again)

    made = live(tmp_path, (0, come_back), good=(), patience=5.0, returning=ANYBODY, **ALONE)
    assert made.failures == []
    assert (made.status, made.reason) == ("done", "rounds: 4 of 4")


def test_a_run_that_nobody_comes_back_to_ends(tmp_path: Path) -> None:
    async def die(client: RawClient) -> None:
        await client.join()
        await client.message()
        client.writer.transport.abort()

    made = live(tmp_path, (0, die), good=(), patience=0.2, **ALONE)
    assert made.status == "no-clients"
    assert made.events["t"].max() >= 0.2


@pytest.mark.parametrize("knows", [True, False])
def test_what_it_remembered_decides_whether_a_client_comes_back(
    knows: bool, tmp_path: Path
) -> None:
    came: list[str] = []
    gate = Gate()

    async def come_back(client: RawClient) -> None:
        again = await leave(client)
        await again.join(knows=knows)
        await gate.open()
        kind, body = await again.receive()
        came.append(body[1:].decode() if kind is Kind.REFUSED else kind.name)
        if knows:
            await answer_all(again, first=body)

    rule = ReturnRule(remembers="algorithm.kind: chb")
    made = live(tmp_path, (1, gate.hold), (LAST, come_back), good=(0,), returning=rule)
    assert made.failures == []
    text = (
        "client-2 has left this run, and what it remembered (algorithm.kind: chb) is lost:"
        " only the same process can come back"
    )
    assert came == ["MESSAGE" if knows else text]
    assert made.facts["returned"] == ({"client-2": 1} if knows else {})


def test_nobody_comes_back_to_a_server_that_sends_changes(tmp_path: Path) -> None:
    gate = Gate()

    async def come_back(client: RawClient) -> None:
        again = await leave(client)
        with pytest.raises(AdmissionError, match="client-2 has left this run and cannot come back"):
            await again.enter()
        await gate.open()

    rule = ReturnRule(never="the server sends changes")
    made = live(tmp_path, (1, gate.hold), (LAST, come_back), good=(0,), returning=rule)
    assert made.failures == []


EF = {"compressor": {"kind": "top-k", "count": 2}, "error_feedback": "ef"}
RULES: dict[str, tuple[Mapping[str, Any], str, str]] = {
    "fedavg": ({}, "", ""),
    "chb": ({}, "", "algorithm.kind: chb"),
    "fed-ht with feedback": (
        {"algorithm": {"sends": "differences"}, "wire": {"up": EF}},
        "",
        "wire.up.error_feedback: ef",
    ),
    "fedavg, changes down": (
        {"wire": {"down": {"compressor": {"kind": "top-k", "count": 2}, "error_feedback": "ef21"}}},
        "the server sends changes of what clients hold (wire.down.error_feedback: ef21)",
        "",
    ),
    "marina-p": (
        {},
        "the server sends changes of what clients hold (algorithm.kind: marina-p)",
        "algorithm.kind: marina-p",
    ),
}


@pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")
@every("case", RULES)
def test_who_may_come_back_follows_from_messages_and_memory(case: str) -> None:
    changes, never, remembers = RULES[case]
    made = methods.scenario(case.split(",", maxsplit=1)[0].split(" with", maxsplit=1)[0])
    made |= {"problem": made["problem"] | {"optimum": "unknown"}, "fleet": [{"count": 3}]}
    changes = dict(changes)
    made["algorithm"] |= changes.pop("algorithm", {})
    assert ReturnRule.of(job_of(made | changes)) == ReturnRule(never, remembers)


# A client whose connection breaks, with the process that it was.


class Breaking:
    """Breaks the connection of client 1 at some of its replies; the others wait until it is back.

    Args:
        places: of the replies, from 1; of a negative one nothing leaves.
    """

    def __init__(self, places: Sequence[int]) -> None:
        self._places, self._count = list(places), 0
        self._back = asyncio.Event()
        self._back.set()
        self.held: dict[int, Array] = {}

    def send_bytes(self, session: FrameConnection, data: bytes) -> None:
        """Send, and break the connection at some of the replies."""
        ours = isinstance(session, ClientSession) and session.peer.endswith("client-1")
        if ours and data[4] == Kind.READY and not self._back.is_set():
            asyncio.get_running_loop().call_later(0.05, self._back.set)
        self._count += ours and data[4] == Kind.REPORT
        if not ours or not self._places or self._count != abs(self._places[0]):
            SEND(session, data)
            return
        self._back.clear()
        if self._places.pop(0) > 0:
            SEND(session, data)
        session._transport.abort()

    async def answer(self, memory: ClientMemory, asked: Any) -> Any:
        """Answer, and keep what the client took for the server's copy of its gradient before."""
        self.held[memory.client.id] = memory.client.state.held
        if memory.client.id != 1:
            await self._back.wait()
        return await ANSWER(memory, asked)


SLOW = pytest.mark.slow
SEND, ANSWER = FrameConnection.send_bytes, ClientMemory.answer


@pytest.mark.parametrize(
    "places", [(-4,), pytest.param((3,), marks=SLOW), pytest.param((-3, 8, -9), marks=SLOW)]
)
def test_after_broken_connections_the_server_has_the_sum_of_what_clients_have_sent(
    places: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of CHB adds up differences of gradients, and each client knows its last gradient.

    A reply that was lost with a connection is taken back; else the sum would miss it for good.
    """
    chb = methods.scenario("chb")
    step = {"kind": "chb", "step_size": 1e-3, "momentum": 0.0, "censor": 0.0}
    changes = {
        "problem": chb["problem"] | {"optimum": "unknown"},
        "algorithm": step,
        "fleet": [{"count": 3}],
        "stop": {"rounds": 12},
        "models": {"every": 1},
    }
    breaking = Breaking(places)
    monkeypatch.setattr(FrameConnection, "send_bytes", _bound(breaking.send_bytes))
    monkeypatch.setattr(ClientMemory, "answer", _bound(breaking.answer))
    monkeypatch.setattr(api, "_start_here", start_again)
    result = api.run_live(chb | changes, out=tmp_path, timing=FAST)
    presence = result.events["event"].isin(["offline", "online"]).sum()
    assert presence == 2 * len(places)
    moved = result.model(round=10) - result.model(round=11)  # held as the last round is answered
    np.testing.assert_allclose(moved, 1e-3 * sum(breaking.held.values()), rtol=1e-9)


def _bound(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes the place of a method, and is given its object."""

    def bound(own: object, *others: Any) -> Any:
        return call(own, *others)

    return bound


def start_again(
    job: Job, offer: RunOffer, port: int, *, access: Access, meter: Meter, timing: Timing
) -> Sequence[Coroutine[Any, Any, None]]:
    """Return clients that connect again, as those in processes of their own."""
    build = partial(_same_part, LivePart(job))
    address = Address("127.0.0.1", port)
    return run_clients(range(offer.clients), address, offer.digest, build, access, meter, timing)


def _same_part(part: LivePart, _: RunOffer) -> LivePart:
    return part


# Replies that do not fit.


async def reply_with_another_size(client: RawClient) -> None:
    await client.join()
    client.reply(await client.message(), size=3)
    kind, body = await client.receive()
    while kind is not Kind.REFUSED:
        kind, body = await client.receive()
    assert (
        body[1:]
        .decode()
        .startswith("client-2 has sent a vector of another size (innovation.delta)")
    )
    with pytest.raises(AdmissionError, match="client-2 may not come back into this run: client-2"):
        await client.another(client.number).enter()


def test_a_client_of_another_dimension_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    made = live(tmp_path, (LAST, reply_with_another_size))
    assert made.failures == []
    assert (made.status, made.reason) == ("done", "rounds: 4 of 4")
    assert presence(made) == [("offline", "client-2")]
    assert "(3,), and most send (10,)" in made.departure(LAST)


def test_where_a_round_has_spare_clients_another_one_counts_in_its_place(tmp_path: Path) -> None:
    policy = {"kind": "uniform", "count": 2, "over": 1.5}
    gate = Gate()

    async def misfit(client: RawClient) -> None:
        await reply_with_another_size(client)
        await gate.open()

    behaviours = (1, gate.hold), (LAST, misfit)
    made = live(tmp_path, *behaviours, good=(0,), participation=policy)
    assert (made.status, made.failures) == ("done", [])
    first = made.events[(made.events["round"] == 1) & (made.events["node"] == "server")]
    assert {"client-0", "client-1"} <= set(first[first["event"] == "receive"]["peer"])


@dataclass(frozen=True)
class Gradient(Message):
    """A message of a test."""

    g: Dense


def sizes(*lengths: int) -> list[Reply]:
    return [
        Reply(client, 1, Gradient(Dense.of(np.zeros(length), ValueFormat.FLOAT64)))
        for client, length in enumerate(lengths)
    ]


def test_the_size_of_most_replies_is_right_else_that_of_before() -> None:
    seen = ReplySizes((10,))
    assert seen.misfits(sizes(10, 3)).keys() == {1}  # as what the server has sent
    assert seen.misfits(sizes(4, 4, 10)).keys() == {2}  # of this exchange
    assert seen.misfits(sizes(4, 5)).keys() == {1}  # of the one before
    assert seen.misfits(sizes(5)).keys() == {0}
    assert seen.misfits(sizes(5, 5)) == {}  # all alike
    assert ReplySizes((10,)).misfits(sizes(4, 5)) == {}  # nothing is known


def test_a_reply_that_is_taken_back_leaves_the_exchange_to_the_others() -> None:
    exchange = Exchange(1, {0, 1, 2}, goal=2)
    for client in (0, 1):
        exchange.waiting.discard(client)
        exchange.replies.append(sizes(1, 1)[client])
        exchange.reported += 1
        exchange.look()
    assert exchange.over
    exchange.disown(1)
    assert (exchange.over, exchange.reported, exchange.waiting) == (False, 1, {2})
    exchange.client_left(2)
    assert exchange.over
