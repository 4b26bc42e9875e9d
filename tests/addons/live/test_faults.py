"""Clients that break the protocol, die, or stop: each is dropped by name, and the run goes on."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from fedsim.addons.live.access import Access, Address
from fedsim.addons.live.connection import Timing
from fedsim.addons.live.frames import Kind, frame
from fedsim.addons.live.handshake import NO_DIGEST, RunOffer
from fedsim.addons.live.joining import run_clients
from fedsim.addons.live.memory import ClientPart
from fedsim.addons.live.meters import NoMeter
from fedsim.core.errors import AdmissionError, FedsimError, FrameError, PeerError, PeerTimeoutError
from fedsim.wire import HEADER_BITS

from .peers import FAST, TOKEN, Behaviour, Lived, RawClient, live

LAST = 2
"""The number of the client that does as a test says."""


def ends_well_without_it(made: Lived) -> None:
    assert (made.status, made.failures) == ("done", [])
    assert made.reason == "rounds: 4 of 4"
    offline = made.events[made.events["event"] == "offline"]
    assert offline["node"].tolist() == [f"client-{LAST}"]
    assert offline["detail"].tolist() == [made.departure(LAST)]


async def die_in_a_round(client: RawClient) -> None:
    await client.join()
    await client.message()
    client.writer.transport.abort()


async def die_as_it_connects(client: RawClient) -> None:
    await client.another(LAST).connect()


async def die_after_hello(client: RawClient) -> None:
    other = client.another(LAST)
    await other.connect()
    other.send(*other.handshake.begin())


async def die_while_it_builds(client: RawClient) -> None:
    await client.another(LAST).enter()


async def die_before_the_run(client: RawClient) -> None:
    await client.another(LAST).join()


PHASES = [die_as_it_connects, die_after_hello, die_while_it_builds, die_before_the_run]


@pytest.mark.parametrize("phase", PHASES)
def test_a_client_that_dies_before_the_run_begins_may_be_followed(
    phase: Behaviour, tmp_path: Path
) -> None:
    async def die_and_follow(client: RawClient) -> None:
        await phase(client)
        await client.close()
        await asyncio.sleep(0.05)
        again, last = client.another(LAST), client.another(1)
        await again.join()
        await last.join()
        for each in (again, last):
            each.reply(await each.message())

    made = live(tmp_path, (LAST, die_and_follow), good=(0,))
    assert (made.status, made.failures) == ("done", [])
    assert len(made.events[made.events["event"] == "round"]) == 4


async def die_after_its_report(client: RawClient) -> None:
    await client.join()
    await client.message()
    client.report()
    await client.writer.drain()
    await asyncio.sleep(0.05)
    client.writer.transport.abort()


async def announce_too_much(client: RawClient) -> None:
    await client.join()
    await client.message()
    client.writer.write(b"\xff\xff\xff\x7f\x07")
    await client.until_end()


async def send_an_unknown_kind(client: RawClient) -> None:
    await client.join()
    await client.message()
    client.writer.write(b"\0\0\0\0\x63")
    await client.until_end()


async def send_what_the_server_sends(client: RawClient) -> None:
    await client.join()
    await client.message()
    client.send(Kind.END, b"\0")
    await client.until_end()


async def reply_with_noise(client: RawClient) -> None:
    await client.join()
    await client.message()
    client.report()
    client.send(Kind.MESSAGE, bytes(range(200)))
    await client.until_end()


async def reply_without_a_report(client: RawClient) -> None:
    await client.join()
    body = await client.message()
    client.send(Kind.MESSAGE, body[:3] + LAST.to_bytes(4, "little") + body[7:])
    await client.until_end()


async def reply_in_the_name_of_another(client: RawClient) -> None:
    await client.join()
    body = await client.message()
    client.report()
    client.send(Kind.MESSAGE, body[:3] + (0).to_bytes(4, "little") + body[7:])
    await client.until_end()


async def report_what_was_not_sent(client: RawClient) -> None:
    await client.join()
    await client.message()
    client.report(exchange=77)
    await client.until_end()


async def send_nothing(client: RawClient) -> None:
    await client.join()
    await client.until_end()


FAULTS: dict[str, tuple[Behaviour, str]] = {
    "dies": (die_in_a_round, "client-2 "),
    "dies after its report": (die_after_its_report, "client-2 "),
    "long frame": (announce_too_much, "a frame announces 2147483647 bytes; at most "),
    "unknown kind": (send_an_unknown_kind, "no frame has the kind 99"),
    "misplaced": (send_what_the_server_sends, "client-2 has sent an unexpected END frame"),
    "noise": (reply_with_noise, "client-2 has sent an invalid message: "),
    "no report": (reply_without_a_report, "client-2 replies in exchange 1 without a report"),
    "other name": (reply_in_the_name_of_another, "client-2 has sent an invalid message"),
    "other exchange": (report_what_was_not_sent, "client-2 reports on exchange 77"),
    "silent": (send_nothing, "client-2 has sent nothing for 0.25 s"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_client_is_dropped_and_the_run_goes_on(fault: str, tmp_path: Path) -> None:
    behaviour, said = FAULTS[fault]
    made = live(tmp_path, (LAST, behaviour))
    ends_well_without_it(made)
    assert made.departure(LAST).startswith(said)


async def beat_alone(client: RawClient) -> None:
    await client.join()
    beats = asyncio.create_task(client.beat())
    await client.until_end()
    beats.cancel()


def test_a_client_that_is_alive_and_never_answers_is_dropped(tmp_path: Path) -> None:
    made = live(tmp_path, (LAST, beat_alone), timing=Timing(beat=0.05, silence=5.0, answer=0.2))
    ends_well_without_it(made)
    assert made.departure(LAST) == "client-2 has not answered for 0.2 s"


@pytest.mark.slow
def test_under_a_deadline_the_round_closes_without_it(tmp_path: Path) -> None:
    policy = {"kind": "full", "deadline": "100 ms"}
    made = live(tmp_path, (LAST, beat_alone), participation=policy)
    assert (made.status, made.failures, made.facts["left"]) == ("done", [], {})
    rounds = made.events[made.events["event"] == "round"]
    assert (rounds["t"].diff().dropna() >= 0.1).all()
    in_flight = made.events[made.events["detail"] == "in flight"]
    assert in_flight["peer"].unique().tolist() == ["client-2"]


def test_a_round_with_spare_clients_closes_without_it(tmp_path: Path) -> None:
    policy = {"kind": "uniform", "count": 2, "over": 1.5}
    made = live(tmp_path, (LAST, beat_alone), participation=policy)
    assert (made.status, made.failures, made.facts["left"]) == ("done", [], {})
    assert made.events["t"].max() < FAST.answer


async def read_nothing(client: RawClient) -> None:
    await client.join()
    for _ in range(100):
        client.send(Kind.BEAT)
        await asyncio.sleep(FAST.beat)
        if client.writer.is_closing():
            return


@pytest.mark.slow
def test_a_client_that_reads_nothing_is_dropped(tmp_path: Path) -> None:
    wide = {
        "loss": {"kind": "squared", "l2": 1.0},
        "data": {"kind": "sparse-linear", "clients": 3, "rows": 2, "features": 60_000, "ones": 3},
        "split": {"kind": "groups"},
        "optimum": "unknown",
    }
    step = {"kind": "gd", "step_size": 1e-9}
    made = live(tmp_path, (LAST, read_nothing), send_buffer=4096, problem=wide, algorithm=step)
    ends_well_without_it(made)
    assert made.departure(LAST).startswith("client-2 reads too slowly: nothing taken for")


def test_a_second_client_of_a_number_is_refused(tmp_path: Path) -> None:
    async def come_twice(client: RawClient) -> None:
        await client.join()
        second = client.another(client.number)
        with pytest.raises(AdmissionError, match="client-2 is connected already; a broken"):
            await second.enter()
        await client.message()

    made = live(tmp_path, (LAST, come_twice))
    assert made.failures == []
    said = "client-2 is connected already; a broken connection is noticed after 0.25 s"
    assert list(map(str, made.refused)) == [said]


def test_a_client_may_come_back_before_the_run_begins(tmp_path: Path) -> None:
    async def try_twice(client: RawClient) -> None:
        await client.join()
        client.writer.close()
        await asyncio.sleep(0.05)
        again = client.another(client.number)
        await again.join()
        other = client.another(1)
        await other.join()
        await other.message()
        await again.message()

    made = live(tmp_path, (LAST, try_twice), good=(0,))
    assert made.failures == []


def test_a_run_that_lacks_clients_does_not_begin(tmp_path: Path) -> None:
    timing = Timing(joining=0.2)
    made = live(tmp_path, timing=timing)
    assert (made.status, made.reason) == (
        "clients-missing",
        "1 of 3 clients have not joined within 0.2 s: client-2",
    )


def test_a_client_whose_handler_fails_ends_the_run(tmp_path: Path) -> None:
    async def fail(client: RawClient) -> None:
        await client.join()
        await client.message()
        client.send(Kind.FAILED, bytes(4) + b"ZeroDivisionError()")
        await client.until_end()

    made = live(tmp_path, (LAST, fail))
    assert (made.status, made.reason) == ("failed", "client-2 has failed: ZeroDivisionError()")


def test_all_clients_may_leave(tmp_path: Path) -> None:
    made = live(tmp_path, *((number, die_in_a_round) for number in range(3)), good=())
    assert made.status == "no-clients"


@pytest.mark.slow
def test_a_slow_handshake_is_ended(tmp_path: Path) -> None:
    async def say_nothing(client: RawClient) -> None:
        await client.connect()
        assert await client.until_end() == []

    timing = Timing(handshake=0.2, joining=0.6)
    made = live(tmp_path, (LAST, say_nothing), timing=timing)
    assert made.failures == []
    assert "a client that was not admitted has not finished its handshake within 0.2 s" in map(
        str, made.refused
    )


def test_messages_that_do_not_arrive_are_lost_in_the_log(tmp_path: Path) -> None:
    made = live(tmp_path, (LAST, die_in_a_round))
    lost = made.events[made.events["event"] == "lost"]
    assert lost["peer"].tolist() == ["client-2"]
    assert lost["header_bits"].tolist() == [HEADER_BITS]


@pytest.mark.slow
def test_only_frames_of_the_handshake_reach_a_client_without_the_token(tmp_path: Path) -> None:
    async def guess(client: RawClient) -> None:
        await client.connect()
        client.send(*client.handshake.begin())
        kind, challenge = await client.receive()
        assert kind is Kind.CHALLENGE
        proof = client.handshake.receive(kind, challenge, lambda: 0.0)
        assert proof is not None
        client.send(Kind.PROOF, proof)
        assert await client.until_end() == [Kind.REFUSED]
        code = b"\x01the client does not prove the shared token"
        assert client.came == frame(Kind.CHALLENGE, challenge) + frame(Kind.REFUSED, code)

    timing = Timing(joining=0.5)
    made = live(tmp_path, (LAST, guess), timing=timing, token=TOKEN + b"!")
    assert made.failures == []
    assert made.status == "clients-missing"


Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""What a server of a test does with a connection."""


def join_a_server(serve: Play) -> BaseException:
    """Return what a client raises that joins a server of a test."""

    async def meet() -> BaseException:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await serve(reader, writer)
            finally:
                writer.transport.abort()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            address = Address(*server.sockets[0].getsockname())
            timing = Timing(beat=0.05, silence=0.1, joining=0.5)
            ends = address, NO_DIGEST, no_part, Access(TOKEN), NoMeter(), timing
            (client,) = run_clients([1], *ends, once=True)
            with pytest.raises(FedsimError) as raised:
                await client
            return raised.value

    return asyncio.run(meet())


def no_part(_: RunOffer) -> ClientPart:
    raise AssertionError("a client has built its part for a server that it cannot trust")


async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10_000)
    writer.close()
    await writer.wait_closed()


async def answer_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(10_000):
        pass


async def challenge_and_freeze(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(frame(Kind.CHALLENGE, bytes(32) + b"\1"))
    while await reader.read(10_000):
        pass


async def answer_as_a_web_server(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await asyncio.sleep(1)


async def welcome_without_the_token(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(frame(Kind.CHALLENGE, bytes(32) + b"\1"))
    await reader.read(10_000)
    writer.write(frame(Kind.WELCOME, bytes(32) + b"{}"))
    await asyncio.sleep(1)


SERVERS: dict[Play, tuple[type[PeerError], str]] = {
    close_at_once: (PeerError, "the server has closed the connection"),
    answer_nothing: (PeerTimeoutError, "the server has not answered within 0.5 s"),
    challenge_and_freeze: (PeerTimeoutError, "the server has sent nothing for 0.1 s"),
    answer_as_a_web_server: (
        FrameError,
        "the server speaks another protocol than fedsim's: it begins with b'HTTP/1.1 400 Bad'",
    ),
    welcome_without_the_token: (AdmissionError, "the server does not prove the shared token"),
}


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_a_client_names_what_is_wrong_with_a_server(server: Play) -> None:
    kind, said = SERVERS[server]
    error = join_a_server(server)
    assert isinstance(error, kind), repr(error)
    assert str(error).startswith(said)
