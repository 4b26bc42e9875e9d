"""The handshake and the frames, without sockets."""

import struct
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.addons.live.frames import FrameReader, Kind, Report, WorkSpan, frame
from fedsim.addons.live.handshake import (
    LONGEST_HELLO,
    NO_DIGEST,
    ClientHandshake,
    RunOffer,
    ServerHandshake,
    check_ready,
    ready,
    refusal,
)
from fedsim.core.errors import AdmissionError, FrameError
from tests.tiers import every

TOKEN = b"a token of which both know"
DIGEST = bytes(range(32))
OFFER = RunOffer(DIGEST, "base", 3, "seed: 3", 10)


def nothing_taken(_: int) -> RunOffer:
    return OFFER


def meet(client: ClientHandshake, server: ServerHandshake) -> list[tuple[Kind, bytes]]:
    """Exchange all frames; return them."""
    hello = client.begin()
    challenge = server.receive(*hello)
    proof = client.receive(*challenge, lambda: 1.0)
    assert proof is not None
    welcome = server.receive(Kind.PROOF, proof)
    assert client.receive(*welcome, lambda: 2.0) is None
    return [hello, challenge, (Kind.PROOF, proof), welcome]


@every("token", [None, TOKEN])
@every("digest", [NO_DIGEST, DIGEST])
def test_both_ends_agree(token: bytes | None, digest: bytes) -> None:
    client, server = ClientHandshake(7, digest, token), ServerHandshake(OFFER, token, nothing_taken)
    frames = meet(client, server)
    assert (client.offer, server.client, server.admitted) == (OFFER, 7, True)
    assert all(len(body) <= LONGEST_HELLO for _, body in frames[:3])


def test_the_token_does_not_travel_and_no_proof_is_made_twice() -> None:
    seen: list[bytes] = []
    for _ in range(2):
        frames = meet(
            ClientHandshake(7, DIGEST, TOKEN), ServerHandshake(OFFER, TOKEN, nothing_taken)
        )
        assert not any(TOKEN in body for _, body in frames)
        seen += [frames[2][1], frames[3][1][:32]]
    assert len(set(seen)) == 4  # the proofs of both ends differ, and those of both handshakes


def test_a_recorded_proof_is_of_no_use() -> None:
    frames = meet(ClientHandshake(7, DIGEST, TOKEN), ServerHandshake(OFFER, TOKEN, nothing_taken))
    server = ServerHandshake(OFFER, TOKEN, nothing_taken)
    server.receive(*frames[0])
    with pytest.raises(AdmissionError) as refused:
        server.receive(*frames[2])
    assert refused.value.code == "token"


def is_there(number: int) -> RunOffer:
    raise AdmissionError("connected", f"client-{number} is there")


def refuse(server: ServerHandshake, client: ClientHandshake) -> AdmissionError:
    proof = client.receive(*server.receive(*client.begin()), lambda: 0.0)
    assert proof is not None
    with pytest.raises(AdmissionError) as refused:
        server.receive(Kind.PROOF, proof)
    assert not server.admitted
    assert server.client == -1
    with pytest.raises(AdmissionError, match="the server has refused the connection: ") as came:
        client.receive(Kind.REFUSED, refusal(refused.value), lambda: 0.0)
    assert came.value.code == refused.value.code
    return refused.value


def test_what_is_refused_is_named() -> None:
    server = ServerHandshake(OFFER, TOKEN, nothing_taken)
    wrong = refuse(server, ClientHandshake(7, bytes(31) + b"\1", b"another token of a client"))
    assert wrong.code == "token"  # it learns nothing of the scenario, nor of numbers
    server = ServerHandshake(OFFER, TOKEN, nothing_taken)
    other = refuse(server, ClientHandshake(7, bytes(31) + b"\1", TOKEN))
    assert other.code == "scenario"
    digests = "000000000000, the server's 000102030405"
    assert str(other).startswith(f"the client's scenario has the digest {digests}: use the same")
    beyond = refuse(
        ServerHandshake(OFFER, TOKEN, nothing_taken), ClientHandshake(10, DIGEST, TOKEN)
    )
    assert str(beyond) == "expected a client from 0 to 9, got 10"
    there = ServerHandshake(OFFER, TOKEN, is_there)
    assert str(refuse(there, ClientHandshake(9, DIGEST, TOKEN))) == "client-9 is there"


def test_another_version_is_refused_by_name() -> None:
    _, hello = ClientHandshake(0, DIGEST, TOKEN).begin()
    newer = hello[:11] + struct.pack("<H", 9) + hello[13:]
    with pytest.raises(AdmissionError, match="the client speaks version 9 of the protocol") as said:
        ServerHandshake(OFFER, TOKEN, nothing_taken).receive(Kind.HELLO, newer)
    assert said.value.code == "version"


def test_a_client_does_not_trust_a_server_without_the_token() -> None:
    client = ClientHandshake(7, DIGEST, TOKEN)
    client.begin()
    with pytest.raises(AdmissionError, match="but the server requires none"):
        client.receive(Kind.CHALLENGE, bytes(33), lambda: 0.0)
    client = ClientHandshake(7, DIGEST, TOKEN)
    client.receive(Kind.CHALLENGE, bytes(32) + b"\1", lambda: 0.0)
    with pytest.raises(AdmissionError, match="the server does not prove the shared token"):
        client.receive(Kind.WELCOME, bytes(32) + OFFER.encode(), lambda: 0.0)
    with pytest.raises(AdmissionError, match="requires a shared token, but none was given"):
        ClientHandshake(7, DIGEST, None).receive(Kind.CHALLENGE, bytes(32) + b"\1", lambda: 0.0)


def test_other_data_are_refused() -> None:
    for metered in (False, True):
        for knows in (False, True):
            said = check_ready(ready("abc", metered=metered, knows=knows), "abc")
            assert said == (metered, knows)
    with pytest.raises(AdmissionError, match="built its losses from other data"):
        check_ready(ready("abd", metered=True), "abc")
    with pytest.raises(FrameError):
        check_ready(b"", "abc")


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from(list(Kind)), st.binary(max_size=40)), max_size=6),
    st.integers(1, 30),
)
def test_frames_are_read_as_they_were_written_however_they_arrive(
    written: list[tuple[Kind, bytes]], piece: int
) -> None:
    stream = b"".join(frame(*each) for each in written)
    reader = FrameReader(40)
    pieces = (stream[start : start + piece] for start in range(0, len(stream), piece))
    assert [each for data in pieces for each in reader.feed(data)] == written


def test_a_long_body_is_refused_before_it_arrives() -> None:
    reader = FrameReader(100)
    assert list(reader.feed(frame(Kind.MESSAGE, bytes(100)))) == [(Kind.MESSAGE, bytes(100))]
    with pytest.raises(FrameError, match="announces 101 bytes; at most 100 are accepted"):
        list(reader.feed(frame(Kind.MESSAGE, bytes(101))[:5]))


REPORT = Report(4, 1.0, 2.5, True, frozenset({"now"}), (WorkSpan(1.0, 2.0, 3, 10.0, 5.0, 0.25),))


def test_a_report_is_read_as_it_was_written() -> None:
    assert Report.decode(REPORT.encode()) == REPORT


@every(
    "wrong",
    [
        WorkSpan(2.0, 1.0, 1, 0.0, 0.0, nan),
        WorkSpan(1.0, inf, 1, 0.0, 0.0, nan),
        WorkSpan(1.0, 2.0, 0, 0.0, 0.0, nan),
        WorkSpan(1.0, 2.0, 1, -1.0, 0.0, nan),
        WorkSpan(1.0, 2.0, 1, 1.0, nan, nan),
        WorkSpan(1.0, 2.0, 1, 1.0, 1.0, -1.0),
    ],
)
def test_impossible_work_is_refused(wrong: WorkSpan) -> None:
    said = Report(4, 1.0, 2.5, False, frozenset(), (wrong,)).encode()
    with pytest.raises(FrameError, match="impossible span"):
        Report.decode(said)


def test_impossible_times_and_lengths_are_refused() -> None:
    with pytest.raises(FrameError, match="received at 3 s, answered at 2 s"):
        Report.decode(Report(4, 3.0, 2.0, False, frozenset(), ()).encode())
    with pytest.raises(FrameError):
        Report.decode(REPORT.encode()[:-1])
    with pytest.raises(FrameError):
        Report.decode(b"")
