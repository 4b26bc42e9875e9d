"""Clients with a token that mean harm: each is dropped by name, the others and the log go on."""

import struct
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest

from fedsim.addons.live.frames import MOST_PIECES, Kind, Report, WorkSpan
from fedsim.core.errors import FrameError
from fedsim.wire import Dense, ValueFormat, decode_message, encode_message
from tests.scripts import script

from .peers import FAST, Behaviour, Lived, RawClient, live

LAST = 2
"""The number of the hostile client."""

STEADY = replace(FAST, silence=5.0, joining=10.0)


def check_others_went_on(made: Lived) -> None:
    """Check that the run has ended by its rule, and that its log is finite and within the run."""
    assert (made.status, made.reason, made.failures) == ("done", "rounds: 4 of 4", [])
    log = made.events
    assert set(made.facts["left"]) <= {f"client-{LAST}"}
    assert np.isfinite(log[["t", "duration", "operations", "samples"]].to_numpy(float)).all()
    assert (log["t"] - log["duration"]).min() >= -1e-9
    assert log["t"].is_monotonic_increasing
    assert len(log) < 100


def pack(exchange: int, received: float, sent: float, *spans: tuple[Any, ...]) -> bytes:
    """Return a report that no client of fedsim's would make."""
    head = struct.pack("<IBddB", exchange, 0, received, sent, len(spans))
    return head + b"".join(struct.pack("<ddIddd", *each) for each in spans)


def reports(make: Callable[[float], bytes]) -> Behaviour:
    """Return a client that reports once what a function of the time makes."""

    async def behave(client: RawClient) -> None:
        await client.join()
        await client.message()
        client.send(Kind.REPORT, make(monotonic()))
        assert await client.until_end() == [Kind.REFUSED]

    return behave


WORK = 1, 10.0, 1.0, 0.0
REPORTS: dict[str, tuple[Callable[[float], bytes], str]] = {
    "twelve million rows": (
        lambda t: pack(1, t, t, *[(t, t, 1_000_000, 10.0, 1.0, 0.0)] * 12),
        f"a report has 12000000 pieces of work; at most {MOST_PIECES} go",
    ),
    "a span of 1e9 s": (lambda t: pack(1, t, t, (t - 1e9, t, *WORK)), "a report has an impossible"),
    "a span after it": (lambda t: pack(1, t, t, (t, t + 1.0, *WORK)), "a report has an impossible"),
    "times that are no numbers": (
        lambda _: pack(1, nan, nan),
        "a report has impossible times: received at nan s",
    ),
    "infinite joules": (lambda t: pack(1, t, t, (t, t, 1, 1.0, 1.0, inf)), "a report has an impos"),
    "many joules": (lambda t: pack(1, t, t, (t, t, 1, 1.0, 1.0, 1e15)), "client-2 reports 1e+15 J"),
    "many operations": (lambda t: pack(1, t, t, (t, t, 1, 1e308, 1.0, 0.0)), "a report has an im"),
}


@pytest.mark.parametrize("what", REPORTS)
def test_a_report_that_cannot_be_is_refused_with_its_reason(what: str, tmp_path: Path) -> None:
    make, said = REPORTS[what]
    made = live(tmp_path, (LAST, reports(make)), timing=STEADY)
    check_others_went_on(made)
    assert made.departure(LAST).startswith(said)


def test_a_report_of_more_time_than_there_was_ends_the_connection(tmp_path: Path) -> None:
    async def boast(client: RawClient) -> None:
        await client.join()
        await client.message()
        now = monotonic()
        client.send(Kind.REPORT, pack(1, now - 1e9, now, (now - 1e9, now, *WORK)))
        await client.until_end()

    made = live(tmp_path, (LAST, boast), timing=STEADY)
    check_others_went_on(made)
    assert made.departure(LAST).startswith("client-2 reports 1e+09 s of work on a message that was")


def test_times_of_the_handshake_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    async def try_twice(client: RawClient) -> None:
        first = client.another(LAST)
        await first.connect()
        first.send(*first.handshake.begin())
        proof = first.handshake.receive(*await first.receive(), lambda: nan)
        assert proof is not None
        first.send(Kind.PROOF, proof)
        assert await first.until_end() == []
        await client.join()
        for _ in range(4):
            body = await client.message()
            client.reply(body)

    made = live(tmp_path, (LAST, try_twice), timing=STEADY)
    check_others_went_on(made)
    assert list(map(str, made.refused)) == [
        "a PROOF frame has impossible times: received at nan s, sent at nan s"
    ]


def replies(value: float = 0.0, payloads: int = 1, **changes: int) -> Behaviour:
    """Return a client that replies once, with fields or numbers that are not due."""

    async def behave(client: RawClient) -> None:
        await client.join()
        header, _ = decode_message(await client.message())
        vector = Dense.of(np.full(client.job.setup.initial.size, value), ValueFormat.FLOAT64)
        fields = {
            "message_type": len(client.job.algorithm.messages),
            "round_number": header.round_number,
            "exchange": header.exchange,
            "sender": client.number,
        }
        client.report(header.exchange)
        client.send(Kind.MESSAGE, encode_message([vector] * payloads, **{**fields, **changes}))
        assert await client.until_end() == [Kind.REFUSED]

    return behave


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (
            replies(value=nan),
            "client-2 has failed: innovation.delta has numbers that are not finite",
        ),
        (replies(message_type=1), "client-2 replies to a message of the kind"),
        (replies(round_number=77), "client-2 replies in exchange 1 without a report"),
        (replies(payloads=500), "client-2 has sent an invalid message: a message of more"),
    ],
)
def test_a_reply_that_is_not_due_is_refused_with_its_reason(
    behaviour: Behaviour, said: str, tmp_path: Path
) -> None:
    made = live(tmp_path, (LAST, behaviour), timing=STEADY, goes_on=True)
    check_others_went_on(made)
    assert made.departure(LAST).startswith(said), made.departure(LAST)


def test_where_others_go_on_a_client_that_fails_is_dropped_and_its_text_is_escaped(
    tmp_path: Path,
) -> None:
    async def fail(client: RawClient) -> None:
        await client.join()
        await client.message()
        client.send(Kind.FAILED, b"\1\0\0\0\x1b[2J\n" + b"long " * 1000)
        assert await client.until_end() == [Kind.REFUSED]

    made = live(tmp_path, (LAST, fail), timing=STEADY, goes_on=True)
    check_others_went_on(made)
    assert made.departure(LAST).startswith(r"client-2 has failed: \x1b[2J\nlong long")
    assert all(text.isprintable() and len(text) < 1200 for text in made.told)


def test_connections_that_say_nothing_keep_no_client_out(tmp_path: Path) -> None:
    async def crowd(client: RawClient) -> None:
        for _ in range(60):
            await client.another(LAST).connect()
        await client.join()
        for _ in range(4):
            client.reply(await client.message())

    made = live(tmp_path, (LAST, crowd), timing=replace(STEADY, handshake=60.0))
    check_others_went_on(made)
    said = "a client that was not admitted was disconnected to make room for others"
    assert set(map(str, made.refused)) == {said}, made.refused


def test_an_honest_report_of_much_work_fits_and_keeps_its_sums() -> None:
    spans = [WorkSpan(1.0 + n, 1.5 + n, 1 + 40 * n, 10.0, 3.0, 0.25) for n in range(400)]
    report = Report(1, 1.25, 500.0, False, frozenset(), tuple(spans))
    read = Report.decode(report.encode())
    for name in ("operations", "samples"):
        sums = [
            sum(each.pieces * getattr(each, name) for each in one) for one in (spans, read.spans)
        ]
        assert sums[0] == pytest.approx(sums[1], rel=1e-12)
    assert sum(each.joules for each in read.spans) == pytest.approx(100.0)
    assert sum(each.pieces for each in read.spans) <= MOST_PIECES
    assert read.spans[0].began == 1.25  # not before the message was there


def test_a_report_of_too_many_pieces_is_none() -> None:
    with pytest.raises(FrameError, match="8192 pieces of work"):
        Report.decode(pack(1, 0.0, 1.0, *[(0.0, 1.0, MOST_PIECES, 1.0, 1.0, 0.0)] * 2))


@pytest.mark.slow
def test_whatever_clients_with_a_token_do_the_others_and_the_log_go_on() -> None:
    found = script("live/hostile").main(48, 3)
    assert found.faults == []
    assert found.behaviours >= 48
    assert found.runs == 2  # of clients that must stay away, and of those that may return
    assert found.rows < 50_000
