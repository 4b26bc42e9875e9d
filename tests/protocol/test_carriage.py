"""A world that sends bytes: what it logs, what it refuses, and whose a receiver's state is."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.algorithms import Algorithm, StepSize
from fedsim.algorithms.compressed import CompressedDescent, Gradient
from fedsim.algorithms.local_steps import Model
from fedsim.algorithms.messages import register_messages
from fedsim.cli import app
from fedsim.core.errors import DecodeError
from fedsim.core.ports import SERVER, Array, Beacon, Client, Message, Payload, Server
from fedsim.protocol.transport import (
    BEACON,
    VALUES,
    ByteTransport,
    Envelope,
    LocalProtocolError,
    Unpacking,
    ValueTransport,
)
from fedsim.results.record.manifest import EVENTS, read_manifest
from fedsim.wire import HEADER_BITS, Dense, Empty, Sparse, Update, ValueFormat, encode_message
from tests import methods
from tests.algorithms.packing import COMPRESSORS, link, run, scenario
from tests.protocol.bytewise import jobs, play
from tests.runs import small
from tests.sim.test_packing import LOSSLESS, WORLDS
from tests.tiers import every, some

F32 = ValueFormat.FLOAT32
FEW = ("chb", "scaffold", "signsgd")


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("method", some(methods.METHODS, *FEW))
def test_bytes_and_values_log_the_same(method: str, tmp_path: Path) -> None:
    """With compressors, both ways where the method takes it, under the strongest feedback.

    Those of the default tier are given every compressor, the others one in three, in turn.
    """
    first = list(methods.METHODS).index(method) % 3
    kinds = list(COMPRESSORS) if method in FEW else list(COMPRESSORS)[first::3]
    played = []
    for kind in kinds:
        job = jobs(method, kind)
        if job is None:
            continue
        assert isinstance(job.setup.transport, ByteTransport)
        came = play(job.setup, tmp_path / kind / "bytes")
        due = play(replace(job.setup, transport=VALUES), tmp_path / kind / "values")
        assert came.sha256 == due.sha256, kind
        assert np.array_equal(came.models, due.models), kind
        played.append(kind)
    assert played == (["identity"] if method == "signsgd" else kinds)


@pytest.mark.slow
@pytest.mark.parametrize("world", LOSSLESS)
def test_a_client_s_update_that_is_taken_back_was_never_added(world: str, tmp_path: Path) -> None:
    wire = {"up": link("rand-k", "ef21")}
    blocks = scenario(wire=wire, stop={"rounds": 30}, **WORLDS[world])
    plain = run(blocks, tmp_path / "plain")
    wired = run(blocks, tmp_path / "wired", bytewise=True)
    assert plain.sha256 == wired.sha256
    assert np.array_equal(plain.models, wired.models)


def test_nothing_of_a_sender_reaches_a_receiver_but_bytes(tmp_path: Path) -> None:
    wire = {"up": link("top-k", "ef21"), "down": link("identity", "ef21")}
    seen = run(scenario(wire=wire), tmp_path, bytewise=True)
    sent = [payload for packer in (*seen.up.values(), seen.down) for payload in packer.payloads]
    owned = {id(payload) for payload in sent} | {id(payload.values) for payload in sent}
    for replies in seen.method.replies:
        for reply in replies:
            assert id(reply.message.g) not in owned
            assert not np.shares_memory(reply.message.g.values, sent[-1].values)
            assert reply.message.g.note is None
    assert not {id(told) for heard in seen.method.told.values() for told in heard} & owned


@dataclass(frozen=True, slots=True)
class Asked(Message):
    w: Payload


@dataclass(frozen=True, slots=True)
class Told(Message):
    g: Payload


class Descent(Algorithm):
    """A method of a user's own, which leaves its messages to the annotations of `handle`."""

    kind: Literal["descent"] = "descent"
    source: ClassVar[str] = "a user"
    weighs_losses: ClassVar[bool] = True
    step_size: StepSize

    async def serve(self, server: Server) -> None:
        w = server.initial
        while True:
            replies = await server.exchange(Asked(server.pack(w)))
            w = w - float(self.step_size) * sum(reply.message.g.values for reply in replies)
            server.commit(w)

    async def handle(self, client: Client, message: Asked) -> Told:
        gradient = await client.compute(client.oracle.gradient(message.w.values))
        return Told(client.pack(client.weight * gradient))


class Untold(Descent):
    """One whose annotations say nothing."""

    kind: Literal["untold"] = "untold"  # type: ignore[assignment]

    async def handle(self, client: Client, message: Any) -> Any:
        return await super().handle(client, message)


class Forgetful(Descent):
    """One that sends what it has not registered."""

    kind: Literal["forgetful"] = "forgetful"  # type: ignore[assignment]
    messages: ClassVar[tuple[type[Message], ...]] = (Asked,)

    async def handle(self, client: Client, message: Any) -> Any:
        return await super().handle(client, message)


def own(kind: str, carry: Any = "values", out: Path | None = None) -> fedsim.Result:
    algorithm = {"kind": kind, "step_size": "0.5/L"}
    made = small(algorithm=algorithm, stop={"rounds": 4})
    return fedsim.run(made, blocks=[Descent, Untold, Forgetful], carry=carry, out=out)


def log_of(result: fedsim.Result) -> str:
    (folder,) = result.runs
    return str(read_manifest(folder)[EVENTS]["sha256"])


def test_a_method_s_messages_are_what_its_handler_is_annotated_with() -> None:
    assert register_messages(Descent) == (Asked, Told)
    assert register_messages(CompressedDescent) == (Model, Gradient)
    assert log_of(own("descent")) == log_of(own("descent", "bytes"))


def test_a_method_that_does_not_tell_its_messages_runs_with_values_only() -> None:
    assert own("untold").summary["status"].tolist() == ["done"]
    with pytest.raises(fedsim.ScenarioError, match="Untold does not declare its") as caught:
        own("untold", "bytes")
    assert "messages: ClassVar = (Model, Gradient)" in str(caught.value)


@pytest.mark.parametrize("carry", ["values", "bytes"])
def test_a_message_that_is_not_registered_is_refused_when_it_is_sent(carry: str) -> None:
    with pytest.raises(LocalProtocolError, match="sends Told, and its `messages` are Asked; add"):
        own("forgetful", carry)


def test_a_class_that_speaks_of_other_messages_is_refused_when_it_is_made() -> None:
    def make(*given: Any) -> type[Algorithm]:
        class Wrong(Descent):
            """A method."""

            messages: ClassVar[tuple[type[Message], ...]] = given

        return Wrong

    assert make(Told, Asked).messages == (Told, Asked)
    with pytest.raises(TypeError, match=r"Wrong.handle is annotated with Told, but `mess"):
        make(Asked)
    with pytest.raises(TypeError, match="has Asked twice"):
        make(Asked, Told, Asked)
    for stranger in (int, "Asked", Beacon):
        with pytest.raises(TypeError, match="which is no message class"):
            make(Asked, Told, stranger)


def test_every_built_in_method_has_registered_its_messages() -> None:
    for kind in methods.METHODS:
        assert methods.the_class(kind).messages, kind


# -- what arrives ----------------------------------------------------------------------


def said(*payloads: Any, kind: int = 2, sender: int = 3) -> bytes:
    return encode_message(payloads, message_type=kind, sender=sender, round_number=7, exchange=9)


TRANSPORT = ByteTransport((Asked, Told))
VECTOR = Dense.of(np.arange(3.0), F32)


def test_a_header_tells_what_a_reply_answers() -> None:
    came = TRANSPORT.read(said(VECTOR), 3, Unpacking())
    assert (came.round, came.exchange, came.bits) == (7, 9, HEADER_BITS + VECTOR.bits)
    assert isinstance(came.message, Told)
    assert came.message.g.values.tolist() == [0.0, 1.0, 2.0]
    assert TRANSPORT.read(said(kind=0), 3, Unpacking()).message is BEACON


@every(("data", "named"), [
    (said(VECTOR, kind=3), "no message has the number 3, only 0 to 2"),
    (said(VECTOR, sender=2), "node 3 sends a message in the name of node 2"),
    (said(), "a told has 1 payloads, but 0 arrived"),
    (said(VECTOR, VECTOR), "a told has 1 payloads, but 2 arrived"),
    (said(VECTOR, kind=0), "a beacon has 0 payloads, but 1 arrived"),
    (said(VECTOR)[:18], "19 bytes"),
])  # fmt: skip
def test_what_no_sender_of_the_method_would_write_is_refused(data: bytes, named: str) -> None:
    with pytest.raises(DecodeError, match=named):
        TRANSPORT.read(data, 3, Unpacking())


def test_an_update_of_another_shape_changes_nothing() -> None:
    unpacking = Unpacking()
    TRANSPORT.read(said(Update(VECTOR)), 3, unpacking)
    with pytest.raises(DecodeError, match=r"an update of shape \(2,\) to a vector of shape"):
        TRANSPORT.read(said(Update(Dense.of(np.ones(2), F32))), 3, unpacking)
    came: Any = TRANSPORT.read(said(Update(VECTOR)), 3, unpacking).message
    assert came.g.values.tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("transport", [TRANSPORT, ValueTransport((Asked, Told)), VALUES])
def test_what_is_held_is_held_of_each_sender_and_of_each_vector(transport: Any) -> None:
    unpacking = Unpacking()

    def heard(sender: int, number: int, *values: float) -> list[float]:
        update = Update(Sparse.of(np.array(values), F32), number)
        envelope = transport.encode(Envelope(Told(update), 1, 1, HEADER_BITS), sender)
        held: list[float] = transport.decode(envelope, sender, unpacking).message.g.values.tolist()
        return held

    assert heard(0, 0, 1, 0) == [1, 0]
    assert heard(1, 0, 0, 5) == [0, 5]
    assert heard(0, 1, 7, 7) == [7, 7]
    assert heard(0, 0, 1, 1) == [2, 1]
    assert heard(SERVER, 0, 3, 0) == [3, 0]


@pytest.mark.parametrize("transport", [VALUES, TRANSPORT])
def test_a_sender_s_own_idea_of_what_is_held_does_not_matter(transport: Any) -> None:
    update = Update(VECTOR, 0, np.full(3, 100.0), "a note")
    envelope = transport.encode(Envelope(Told(update), 1, 1, HEADER_BITS), 0)
    came = transport.decode(envelope, 0, Unpacking()).message.g
    assert came.values.tolist() == [0.0, 1.0, 2.0]
    assert came.note is None


@dataclass(frozen=True, eq=False)
class Fraud:
    """A payload that is longer than it says."""

    kind: ClassVar[int] = 1
    format: ClassVar[ValueFormat] = F32
    values: Array
    bits: int = 8

    def body(self) -> bytes:
        return VECTOR.body()


@dataclass(frozen=True, eq=False)
class Foreign:
    """A payload that has no encoding."""

    values: Array
    bits: int = 8


def test_a_payload_that_does_not_go_as_it_says_is_refused() -> None:
    envelope = Envelope(Told(Fraud(VECTOR.values)), 1, 1, HEADER_BITS)
    with pytest.raises(LocalProtocolError, match=r"a told of 8 bits is encoded in \d+"):
        TRANSPORT.encode(envelope, 0)
    with pytest.raises(TypeError, match="a payload of the class Foreign has no encoding"):
        TRANSPORT.encode(Envelope(Told(Foreign(VECTOR.values)), 1, 1, HEADER_BITS), 0)
    with pytest.raises(
        LocalProtocolError, match="a told has a payload of no bits; leave its field"
    ):
        TRANSPORT.encode(Envelope(Told(Empty()), 1, 1, HEADER_BITS), 0)


@pytest.mark.slow
def test_the_command_line_carries_bytes_and_logs_the_same(tmp_path: Path) -> None:
    logs = set()
    for carry in ("values", "bytes"):
        out = tmp_path / carry
        parts = ["scenarios/censoring.yaml", "--set", "stop.rounds=3", "--set", "variants={}"]
        result = CliRunner().invoke(app, ["run", *parts, "--carry", carry, "--out", str(out)])
        assert result.exit_code == 0, result.output
        logs.add(read_manifest(out / "base/seed-1")[EVENTS]["sha256"])
    assert len(logs) == 1
    refused = CliRunner().invoke(app, ["run", "scenarios/censoring.yaml", "--carry", "post"])
    assert refused.exit_code == 2
    assert "'values'" in refused.output
    with pytest.raises(ValueError, match="carry is one of values, bytes; got 'post'"):
        fedsim.run(small(), carry="post")  # type: ignore[arg-type]


def test_a_method_with_an_objective_of_its_own_is_refused() -> None:
    with pytest.raises(TypeError, match="the objective belongs to the problem"):

        class Summing(Descent):
            objective: ClassVar[str] = "sum"
