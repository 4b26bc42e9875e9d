"""A Flower ServerApp as a method: its `main(grid, context)` runs as it is.

It runs in its own thread, in turns with the simulation: when it calls `grid.send_and_receive`, its
messages are simulated, and it continues with the replies. So it computes only while the simulation
waits for it, and a run is a function of the scenario.

The messages of one `group_id` form a round; Flower's strategies set it to their round number. If
the app sets none, each call that sends messages to train begins a round. The model of a round is
the one in `context.state`, or else the one that the server sends after the round's training: to
evaluate, or as the next round begins.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any, ClassVar, Literal, Self

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, RecordDict
from flwr.common.serde import message_to_proto, recorddict_from_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.serverapp import ServerApp
from flwr.supercore.run import Run, RunNotRunningException

from fedsim.addons.flower.arrays import Arrays, FlowerContent, numpy_of
from fedsim.addons.flower.blocks import AppBlock
from fedsim.addons.flower.method import AppMethod
from fedsim.addons.flower.program import ClientProgram, RawQuestion, client_of
from fedsim.addons.flower.server import NodeIds, unavailable
from fedsim.addons.flower.user_code import RUN, SERVER_NODE, call_user_code
from fedsim.algorithms.base import ProblemInfo
from fedsim.core.errors import Failed, ParameterError
from fedsim.core.ports import Array, Client, ClientId, Payload, Server
from fedsim.core.ports import Message as Sent
from fedsim.core.streams import stream
from fedsim.wire import Octets

# Messages between the server and its clients: those of Flower's, serialised.

_NODE = 2**62
"""Replaces random node numbers in serialised messages; it has the same length."""


@dataclass(frozen=True, slots=True)
class Asked(Sent):
    """Server to clients: a message of the app, in Flower's encoding."""

    content: Payload


@dataclass(frozen=True, slots=True)
class Answered(Sent):
    """Client to server: the reply, in Flower's encoding."""

    content: Payload


def write(message: Message) -> bytes:
    """Return a message in Flower's encoding, its times and node numbers replaced by fixed ones."""
    proto = message_to_proto(message)
    metadata = proto.metadata
    metadata.src_node_id = metadata.dst_node_id = _NODE
    metadata.ttl = metadata.created_at = 1.0
    return bytes(proto.SerializeToString(deterministic=True))


def question_of(data: bytes, number: int, seed: int) -> RawQuestion:
    """Return the request in the bytes of a message."""
    proto = ProtoMessage.FromString(data)
    kind, group = proto.metadata.message_type, proto.metadata.group_id
    return RawQuestion(kind, group, recorddict_from_proto(proto.content), number, seed)


# The app's side: a thread that runs in turns with the simulation.


class _ClosedError(BaseException):
    """The simulation is over; not an Exception, so that an app does not catch it."""


class AppGrid(NodeIds):
    """The grid of an app: sent messages wait until it is the simulation's turn.

    Args:
        clients: all of them.
        thread: in which the app runs.
        send: passes messages to the simulation, and returns the replies.

    Attributes:
        closed: whether the run is over.
    """

    refusal = (
        "the app calls grid.{call}; fedsim sends messages and waits for the replies in one call,"
        " grid.send_and_receive"
    )

    def __init__(
        self,
        clients: Sequence[ClientId],
        thread: Thread,
        send: Callable[[list[Message]], list[Message]],
    ) -> None:
        super().__init__(clients)
        self._thread, self._send = thread, send
        self.closed = False

    def get_node_ids(self) -> Iterable[int]:
        """Return the numbers of all nodes.

        An app with a client manager has a Flower thread that calls this every five seconds, until
        it gets the error that the run has ended.

        Raises:
            WaitsInVain: the app requests them again and again.
            RunNotRunningException: Flower's thread calls after the end of the run.
        """
        if current_thread() is self._thread:
            return super().get_node_ids()
        if self.closed:
            raise RunNotRunningException
        return list(self._nodes)

    def send_and_receive(  # type: ignore[override]  # which a strategy alone must not call
        self,
        messages: Iterable[Message],
        *,
        timeout: float | None = None,
    ) -> list[Message]:
        """Send messages, and return the replies that arrive in time, and errors for the others."""
        sent = list(messages)
        self.rest()
        return self._send(sent) if sent else []

    @property
    def run(self) -> Run:
        """The run; only its number is set."""
        return Run.create_empty(RUN)


class Turns:
    """A thread in which an app runs, and pauses whenever it sends messages.

    Args:
        app: with a `main`.
        clients: all of them.
        context: of the server.
    """

    def __init__(self, app: ServerApp, clients: Sequence[ClientId], context: Context) -> None:
        self._asked: SimpleQueue[list[Message] | BaseException | None] = SimpleQueue()
        self._replies: SimpleQueue[list[Message] | None] = SimpleQueue()
        self._app, self._context = app, context
        self._thread = Thread(target=self._run, name="fedsim-server-app", daemon=True)
        self._grid = AppGrid(clients, self._thread, self._send)
        self._thread.start()

    def next(self, replies: list[Message]) -> list[Message] | None:
        """Resume the app with replies; return its next messages, or None at its end."""
        self._replies.put(replies)
        asked = self._asked.get()
        if isinstance(asked, BaseException):
            raise asked
        return asked

    def close(self) -> None:
        """End an app that waits for replies."""
        self._grid.closed = True
        self._replies.put(None)

    def _run(self) -> None:
        try:
            self._wait()
            self._app(self._grid, self._context)
        except _ClosedError:
            return
        except BaseException as error:  # noqa: BLE001 - raised again where the simulation waits
            self._asked.put(error)
        else:
            self._asked.put(None)

    def _send(self, messages: list[Message]) -> list[Message]:
        self._asked.put(messages)
        return self._wait()

    def _wait(self) -> list[Message]:
        replies = self._replies.get()
        if replies is None:
            raise _ClosedError
        return replies


# The method.


class FlowerServerApp(AppMethod):
    """A Flower ServerApp, whose messages are sent in Flower's encoding."""

    kind: Literal["flower-server-app"] = "flower-server-app"
    synchronous: ClassVar[str] = "its app waits for the replies to what it has sent"
    messages: ClassVar[tuple[type[Sent], ...]] = (Asked, Answered)
    server_app: ClassVar[Any] = None

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with its problem.

        Raises:
            ParameterError: the problem is not a Flower app, or the ServerApp has no `main`.
        """
        made = super().configure(info)
        self._check_main()
        return made

    def _check_main(self) -> None:
        if getattr(type(self).server_app, "_main", None) is None:
            text = "the ServerApp has no main; give its strategy instead: method(strategy)"
            raise ParameterError("kind", text)

    def first_arrays(self, app: AppBlock, clients: int, seed: int) -> Arrays | None:
        """Run `main` up to its first messages, and return the model in them, if any.

        Raises:
            ParameterError: there is no `main`, or it fails.
        """
        self._check_main()
        context = _context_of(app)
        turns = Turns(type(self).server_app, range(clients), context)
        begin = partial(turns.next, [])
        try:
            asked = call_user_code("main of the ServerApp", first_seed(seed), begin, quiet=True)
        except Failed as error:
            raise ParameterError("kind", str(error)) from None
        finally:
            turns.close()
        records = _array_records([context.state, *(each.content for each in asked or ())])
        return next((numpy_of(record) for record in records), None)

    async def serve(self, server: Server) -> None:
        """Run the server: the app, until the app or the run ends."""
        context = _context_of(self.problem.loss)
        turns = Turns(type(self).server_app, server.clients, context)
        try:
            await self._play(server, turns, context)
        finally:
            turns.close()

    async def _play(self, server: Server, turns: Turns, context: Context) -> None:
        """Run the app and the simulation in turns."""
        # The app's model; after a training it is unknown until the app sends or stores it.
        model: Array | None = self.problem.layout.flat(self.problem.start)
        replies: list[Message] = []
        group, trained, begun = "", False, False
        seed = first_seed(self.problem.seed)
        while True:
            what = f"main of the ServerApp in round {server.round}"
            asked = call_user_code(what, seed, partial(turns.next, replies))
            found = self._model([context.state, *(each.content for each in asked or ())])
            model = model if found is None else found
            if asked is None:
                break
            now, trains = asked[0].metadata.group_id, any(map(_trains, asked))
            ended = now != group and (trained or not trains) if now or group else trained and trains
            if begun and ended:
                self._commit(server, model)
                trained = False
            group, trained, begun = now, trained or trains, True
            model = None if trains else model
            replies = []
            for part in _once_each(asked):
                replies += await self._exchange(server, part)
            seed = int(server.rng.integers(2**63))
        self._commit(server, model)
        raise Failed(_ENDED.format(rounds=server.round - 1))

    def _commit(self, server: Server, model: Array | None) -> None:
        """Close the round with the app's model, or without one if nobody evaluates it.

        Raises:
            Failed: the model has to be evaluated, but is not known.
        """
        if model is None and self.problem.evaluated_by != "nobody":
            raise Failed(_UNKNOWN.format(round=server.round))
        server.commit(np.zeros(0) if model is None else model)

    def _model(self, contents: Iterable[RecordDict]) -> Array | None:
        """Return the first model in contents; None if there is none."""
        layout = self.problem.layout
        for record in _array_records(contents):
            arrays = numpy_of(record)
            if not layout.misfit(arrays, exact=False):
                return layout.flat(arrays)
        return None

    async def _exchange(self, server: Server, asked: Mapping[ClientId, Message]) -> list[Message]:
        """Send messages, and return the replies in time, and errors for clients without one."""
        packed: dict[bytes, Sent] = {}
        sent: dict[ClientId, Sent] = {}
        for client, message in asked.items():
            data = write(message)
            sent[client] = packed.setdefault(data, Asked(Octets(data)))
        replies, missing = await self.exchange(server, sent)
        contents: dict[ClientId, RecordDict | Error] = {
            client: unavailable(client) for client in missing
        }
        contents |= {client: _content(reply.message) for client, reply in replies.items()}
        return [Message(contents[client], reply_to=asked[client]) for client in sorted(contents)]

    async def handle(self, client: Client, message: Asked) -> Answered:
        """Run a client: call its app."""
        seed = int(client.rng.integers(2**63))
        question = question_of(_bytes(message.content), client.round, seed)
        program: Any = client.oracle
        assert isinstance(program, ClientProgram)  # noqa: S101 - of a Flower app, see `configure`
        answer: Any = await client.compute(program.raw_work(question, write))
        assert isinstance(answer, FlowerContent)  # noqa: S101 - likewise
        return Answered(Octets(answer.rest))


_UNKNOWN = (
    "the ServerApp has not sent the model that it holds after round {round}; let its main keep it:"
    ' context.state["model"] = result.arrays, an ArrayRecord; or let nobody evaluate it:'
    " problem.loss.evaluated_by: nobody"
)
_ENDED = (
    "the ServerApp has ended after {rounds} rounds, and the run's stop rule was not yet true; take"
    " stop: {{rounds: {rounds}}}"
)


def first_seed(seed: int) -> int:
    """Return the seed of the global generators until `main` sends its first messages.

    Args:
        seed: the seed of the run.
    """
    return int(stream(seed, "flower", "main").integers(2**63))


def _context_of(app: AppBlock) -> Context:
    """Return the initial context of a `main`."""
    return Context(RUN, SERVER_NODE, {}, RecordDict(), dict(app.run_config))


def _array_records(contents: Iterable[RecordDict]) -> Iterator[ArrayRecord]:
    for content in contents:
        yield from content.array_records.values()


def _trains(message: Message) -> bool:
    return message.metadata.message_type.partition(".")[0] == "train"


def _once_each(messages: Sequence[Message]) -> list[dict[ClientId, Message]]:
    """Split messages into parts with at most one message per client."""
    parts: list[dict[ClientId, Message]] = []
    counts: dict[ClientId, int] = defaultdict(int)
    for each in messages:
        client = client_of(each.metadata.dst_node_id)
        if counts[client] == len(parts):
            parts.append({})
        parts[counts[client]][client] = each
        counts[client] += 1
    return parts


def _content(message: Sent) -> RecordDict:
    """Return the content of a reply."""
    assert isinstance(message, Answered)  # noqa: S101 - the only reply of a client
    return recorddict_from_proto(ProtoMessage.FromString(_bytes(message.content)).content)


def _bytes(payload: Payload) -> bytes:
    assert isinstance(payload, Octets)  # noqa: S101 - the only one of these messages
    return payload.data
