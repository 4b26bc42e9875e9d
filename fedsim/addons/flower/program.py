"""A client's program in a world: a Flower app that trains instead of fedsim's steps."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from fedsim.addons.flower.arrays import (
    ArrayLayout,
    Arrays,
    FlowerContent,
    Misfit,
    encode,
    read,
    record_of,
)
from fedsim.addons.flower.blocks import AppBlock
from fedsim.addons.flower.user_code import RUN, SleepMeter, call_user_code
from fedsim.core.errors import Failed
from fedsim.core.ports import Array, ClientId, Work
from fedsim.core.streams import stream
from fedsim.problems.programs import ProgramOracle
from fedsim.problems.samples import Minibatches

Task = Literal["train", "evaluate"]
"""The task of a client, by Flower's name."""

_FIRST_NODE = 2
"""The number of client 0's node; 1 is the server's."""


def node_of(client: ClientId) -> int:
    """Return the number of a client's node."""
    return client + _FIRST_NODE


def client_of(node: int) -> ClientId:
    """Return the client of a node."""
    return node - _FIRST_NODE


def context_of(app: AppBlock, client: ClientId, clients: int) -> Context:
    """Return a client's context: its index, the number of clients, and the settings."""
    return Context(
        run_id=RUN,
        node_id=node_of(client),
        node_config={"partition-id": client, "num-partitions": clients},
        state=RecordDict(),
        run_config=dict(app.run_config),
    )


@dataclass(frozen=True)
class Question:
    """A request to a client.

    Attributes:
        task: train or evaluate.
        content: the model and the settings.
        round: the number of the round; 0 for a request of the observer.
        seed: of the global random generators during the call.
    """

    task: Task
    content: FlowerContent
    round: int
    seed: int


@dataclass(frozen=True)
class RawQuestion:
    """A message of a ServerApp to a client.

    Attributes:
        kind: the type of the message, such as train or query.action.
        group: its group.
        content: all of it.
        round: the number of the round.
        seed: of the global random generators during the call.
    """

    kind: str
    group: str
    content: RecordDict
    round: int
    seed: int

    @property
    def task(self) -> str:
        """The type without an action."""
        return self.kind.partition(".")[0]


class Setting(Protocol):
    """The part of a `FlowerProblem` that a client's program uses."""

    @property
    def loss(self) -> AppBlock:
        """The block of the app."""
        ...

    @property
    def client_app(self) -> ClientApp:
        """The app."""
        ...

    @property
    def legacy(self) -> bool:
        """Whether its clients have the older interface."""
        ...

    @property
    def layout(self) -> ArrayLayout:
        """The layout of the model."""
        ...

    @property
    def rows(self) -> NDArray[np.int64]:
        """The number of samples of each client, shape (M,)."""
        ...

    @property
    def sleep(self) -> SleepMeter:
        """Counts the time that clients sleep."""
        ...

    @property
    def seed(self) -> int:
        """The seed of all random streams."""
        ...

    def asking(self, task: Task, settings: Mapping[str, Any]) -> bytes:
        """Return the bytes sent beside the model, with the task and its settings."""
        ...


class ClientProgram(ProgramOracle):
    """The program of one client; the state in its context belongs to one world.

    Args:
        problem: of the client.
        client: its number.
    """

    def __init__(self, problem: Setting, client: ClientId) -> None:
        super().__init__(problem.loss, int(problem.rows[client]))
        self._problem = problem
        self._client = client
        self._asked = 0
        self._context = context_of(problem.loss, client, len(problem.rows))

    def work(self, question: Question) -> Work:
        """Describe a request as work; its result is a `FlowerContent`."""
        cost = self._problem.loss.cost
        share = 1.0 if question.task == "train" else cost.evaluation
        operations = share * cost.operations_of(self.rows)
        return Work(_answer, None, (self, question), operations, float(self.rows))

    def raw_work(self, question: RawQuestion, write: Callable[[Message], bytes]) -> Work:
        """Describe a message of a ServerApp as work; its result is a `FlowerContent` of bytes.

        A message of the type train that carries arrays costs a fit, and one of the type evaluate an
        evaluation; others, such as exchanges of keys and queries, cost nothing.

        Args:
            question: the message.
            write: returns the bytes of a reply.
        """
        cost = self._problem.loss.cost
        trains = question.task == "train" and bool(question.content.array_records)
        share = 1.0 if trains else cost.evaluation if question.task == "evaluate" else 0.0
        operations = share * cost.operations_of(self.rows)
        rows = float(self.rows) if share else 0.0
        return Work(_reply, None, (self, question, write), operations, rows)

    def reply(self, question: RawQuestion) -> Message:
        """Call the program, mods included, and return its reply.

        Raises:
            Failed: the call fails.
        """
        app, context = self._problem.client_app, self._context
        what = f"{question.kind} of client {self._client} in round {question.round}"

        def call() -> Message:
            message = Message(
                question.content,
                dst_node_id=context.node_id,
                message_type=question.kind,
                group_id=question.group,
            )
            with self._problem.sleep.watch():
                return app(message, context)

        replied = call_user_code(what, question.seed, call, self._problem.loss.limit)
        if not replied.has_content():
            raise Failed(f"{what} has returned an error: {replied.error.reason}")
        return replied

    def sgd_steps(
        self,
        w: Array,
        eta: float,
        drawn: Minibatches,
        pull: float | None = None,
        *,
        change: bool = False,
    ) -> Work:
        """Describe training from `w`, shape (d,), in place of gradient steps.

        The program receives the settings of fedsim's method, and may ignore them.
        """
        self._asked += 1
        settings = {"server-round": self._asked, "lr": eta, "local-steps": len(drawn)}
        if pull is not None:
            settings["proximal-mu"] = pull
        seed = int(stream(self._problem.seed, "flower", self._client, self._asked).integers(2**63))
        content = FlowerContent(w, self._problem.asking("train", settings))
        work = self.work(Question("train", content, self._asked, seed))
        if change:
            return work._replace(kernel=_train_change, arguments=(*work.arguments, w))
        return work._replace(kernel=_train)

    def answer(self, question: Question) -> FlowerContent:
        """Call the program and return its answer.

        Raises:
            Failed: the call fails, or does not return a model of the same layout.
        """
        problem, task = self._problem, question.task
        when = f"in round {question.round}" if question.round else "for the observer"
        what = f"{task} of client {self._client} {when}"
        request = read(question.content, problem.layout, legacy=problem.legacy)
        app, context = problem.client_app, self._context

        def call() -> RecordDict:
            message = Message(request, dst_node_id=context.node_id, message_type=task)
            # The observer's requests take no simulated time, whatever they do.
            with self._problem.sleep.watch() if question.round else nullcontext():
                return app(message, context).content

        replied = call_user_code(what, question.seed, call, problem.loss.limit)
        try:
            content = encode(replied, problem.layout)
        except Misfit as error:
            raise Failed(f"{what} has returned {error}") from None
        if task == "train":
            _check(content.flat, what)
        return content


def _check(flat: Array | None, what: str) -> None:
    """Check that there is a model, and that it is finite.

    Raises:
        Failed: there is no model, or it has NaN or infinity.
    """
    if flat is None:
        raise Failed(f"{what} has returned no arrays; expected the model")
    invalid_count = np.count_nonzero(~np.isfinite(flat))
    if invalid_count:
        raise Failed(
            f"{what} has returned NaN or infinity in {invalid_count:,} of {flat.size:,} numbers"
        )


def _answer(program: ClientProgram, question: Question) -> Any:
    """Call a program: the kernel of a client's work."""
    return program.answer(question)


def _reply(program: ClientProgram, question: RawQuestion, write: Callable[[Message], bytes]) -> Any:
    """Call a program, and return its reply: the kernel of a client's work."""
    return FlowerContent(None, write(program.reply(question)))


def _train(program: ClientProgram, question: Question) -> Array:
    """Call a program to train, and return the model alone."""
    flat = program.answer(question).flat
    return cast("Array", flat)


def _train_change(program: ClientProgram, question: Question, w: Array) -> Array:
    """Call a program to train from `w`, and return the model minus that."""
    return _train(program, question) - w


def instruction(
    task: Task, settings: Mapping[str, Any], arrays: Arrays, *, legacy: bool
) -> RecordDict:
    """Return the content of a request for a client of either interface.

    Args:
        task: train or evaluate.
        settings: of the task.
        arrays: the model, by name.
        legacy: whether the client has the older interface.
    """
    record = record_of(arrays, legacy=legacy)
    config = ConfigRecord(dict(settings))
    if not legacy:
        return RecordDict({"arrays": record, "config": config})
    front = "fitins" if task == "train" else "evaluateins"
    return RecordDict({f"{front}.parameters": record, f"{front}.config": config})
