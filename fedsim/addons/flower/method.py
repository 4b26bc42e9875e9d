"""A Flower strategy as a method: client selection, tasks, and aggregation.

In a round the strategy chooses clients and their messages (`configure_train`, or `configure_fit`);
fedsim transmits those, the clients train, and the strategy receives the replies that arrive in time
(`aggregate_train`, `aggregate_fit`). If it chooses all clients and sends all of them the same
message, the scenario's participation samples the cohort. Round t stands for the model after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Literal, Self, cast

import flwr.server.strategy as older
import flwr.serverapp.strategy as newer
import numpy as np
from flwr.app import RecordDict
from flwr.common import ndarrays_to_parameters
from pydantic import Field, PrivateAttr

from fedsim.addons.flower.arrays import FlowerContent, Misfit, encode, read
from fedsim.addons.flower.problem import FlowerProblem
from fedsim.addons.flower.program import ClientProgram, Question, Task
from fedsim.addons.flower.server import Contents, Host, MessageHost, OlderHost
from fedsim.addons.flower.user_code import call_user_code
from fedsim.algorithms.base import Algorithm, ProblemInfo
from fedsim.algorithms.local_steps import SendsModels, of_this_round
from fedsim.core.blocks.wording import unknown
from fedsim.core.errors import Failed, ParameterError
from fedsim.core.ports import Array, Client, ClientId, Message, Payload, Reply, Server
from fedsim.problems import Problem, Reference
from fedsim.wire import Octets


class AppMethod(Algorithm):
    """A method whose messages are chosen by Flower code; clients run the programs of an app."""

    source: ClassVar[str] = "Beutel et al.: Flower: A Friendly Federated Learning Framework, 2020"
    asks: ClassVar[Literal["loss", "steps", "program"]] = "program"
    asks_all: ClassVar[bool] = False  # Flower code selects the clients

    _problem: FlowerProblem | None = PrivateAttr(default=None)
    _all_asked: bool = PrivateAttr(default=True)  # whether only Flower code selects clients

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with its problem.

        Raises:
            ParameterError: the problem is no Flower app.
        """
        if not isinstance(info.programs, FlowerProblem):
            raise ParameterError("kind", f"{self.kind} is for the clients of a Flower app")
        configured = self.model_copy()
        configured._problem, configured._all_asked = info.programs, info.cohort_size is None  # noqa: SLF001 - a copy
        return configured

    def reference(self, problem: Problem) -> Reference | None:
        """Return None: the smallest objective is unknown."""
        return None

    @property
    def problem(self) -> FlowerProblem:
        """The problem of the app's clients, after `configure`."""
        if self._problem is None:
            raise Failed(f"{self.kind} runs only after it is configured for its problem")
        return self._problem

    async def exchange(
        self, server: Server, sent: Mapping[ClientId, Message]
    ) -> tuple[dict[ClientId, Reply], list[ClientId]]:
        """Send each client its message.

        Returns:
            The replies received in time, by client, and the clients without a reply. If the
            scenario samples a cohort, only clients of the cohort receive a message.
        """
        one = next(iter(sent.values()))
        same = all(reply is one for reply in sent.values())
        to = None if len(sent) == len(server.clients) else sorted(sent)
        replies = await server.exchange(one if same else sent, to=to)
        counted = {reply.client: reply for reply in of_this_round(server, replies)}
        all_named = to is not None or self._all_asked
        missing = [client for client in sorted(sent) if all_named and client not in counted]
        return counted, missing


# Messages between a Flower server and its clients: a model, with Flower's records.


@dataclass(frozen=True, slots=True)
class Train(Message):
    """Server to clients: train on this model, and how."""

    w: Payload
    records: Payload


@dataclass(frozen=True, slots=True)
class Trained(Message):
    """Client to server: the model after training, and its metrics."""

    w: Payload
    records: Payload


@dataclass(frozen=True, slots=True)
class Changed(Message):
    """Client to server: the difference of the trained to the received model, and metrics."""

    change: Payload
    records: Payload


@dataclass(frozen=True, slots=True)
class Evaluate(Message):
    """Server to clients: evaluate this model."""

    w: Payload
    records: Payload


@dataclass(frozen=True, slots=True)
class Evaluated(Message):
    """Client to server: the metrics of an evaluation."""

    records: Payload


Scalar = bool | int | float | str


class Flower(AppMethod, SendsModels):
    """A Flower strategy: a built-in one by name, or that of a subclass."""

    kind: Literal["flower"] = "flower"
    synchronous: ClassVar[str] = "its strategy aggregates the replies of a round"
    messages: ClassVar[tuple[type[Message], ...]] = (Train, Trained, Changed, Evaluate, Evaluated)

    sends: Literal["models", "differences"] = Field(
        default="models",
        description="the clients' messages: the model after training, as in Flower, or the"
        " difference to the received model, which may be compressed with feedback",
    )
    strategy: str = Field(
        default="FedAvg",
        description="name of a strategy of Flower's, for the interface of the app's clients",
    )
    options: Mapping[str, Scalar] = Field(
        default={}, description="arguments of the strategy, such as {fraction_train: 0.5}"
    )
    train_config: Mapping[str, Scalar] = Field(
        default={}, description="configuration of the clients' training, such as {lr: 0.01}"
    )
    evaluate_config: Mapping[str, Scalar] = Field(
        default={}, description="configuration of their evaluation"
    )
    evaluation: bool = Field(
        default=False,
        description="whether the strategy has clients evaluate in every round, as in Flower: their"
        " messages and work are charged, and the metrics are those of the selected clients",
    )

    @property
    def reads_sent(self) -> bool:
        """Whether clients send differences, which are added to the model sent to each."""
        return self.sends == "differences"

    def make(self, problem: FlowerProblem) -> older.Strategy | newer.Strategy:
        """Return a strategy for one run."""
        home = older if problem.legacy else newer
        options = dict(self.options)
        strategy_class: Any = getattr(home, self.strategy)
        if "initial_parameters" in signature(strategy_class).parameters:
            arrays = list(problem.start.values())
            options = {"initial_parameters": cast("Any", ndarrays_to_parameters(arrays)), **options}
        return cast("older.Strategy | newer.Strategy", strategy_class(**options))

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with its problem.

        Raises:
            ParameterError: there is no such strategy, or its arguments are invalid.
        """
        configured = super().configure(info)
        home = older if configured.problem.legacy else newer
        if type(self).make is Flower.make and not hasattr(home, self.strategy):
            strategies = [
                name for name in vars(home) if name in home.__all__ and name != "Strategy"
            ]
            raise ParameterError("strategy", unknown(self.strategy, strategies))
        try:
            configured.build_strategy()
        except Failed as error:
            raise ParameterError("options", str(error)) from None
        return configured

    def build_strategy(self) -> older.Strategy | newer.Strategy:
        """Return a new instance of the strategy.

        Raises:
            Failed: it cannot be created.
        """
        return call_user_code(
            f"making the strategy {self.strategy}", 0, lambda: self.make(self.problem)
        )

    async def serve(self, server: Server) -> None:
        """Run the server: the strategy's rounds."""
        host = self._host(server)
        while True:
            await self._round(server, host, "train")
            host.central(server.round)
            if self.evaluation:
                await self._round(server, host, "evaluate")
            server.commit(self._flat(host, server.round), **host.figures)

    def _flat(self, host: Host, number: int) -> Array:
        """Return the strategy's model as a vector, shape (d,)."""
        arrays, layout = host.model, self.problem.layout
        if len(arrays) == len(layout.names):  # the older interface has no names
            arrays = dict(zip(layout.names, arrays.values(), strict=True))
        if misfit := layout.misfit(arrays, exact=False):
            raise Failed(f"the strategy {self.strategy} makes {misfit} (round {number})")
        return layout.flat(arrays)

    def _host(self, server: Server) -> Host:
        strategy = self.build_strategy()
        start = self.problem.start
        if isinstance(strategy, older.Strategy):
            return OlderHost(strategy, server.clients, start, server.rng)
        settings: dict[Task, Mapping[str, Scalar]] = {
            "train": self.train_config,
            "evaluate": self.evaluate_config,
        }
        return MessageHost(strategy, server.clients, start, settings, server.rng)

    async def _round(self, server: Server, host: Host, task: Task) -> None:
        """Send a task to clients, and pass the replies received in time to the strategy."""
        contents = host.configure(task, server.round)
        if not contents:
            return
        sent = self._messages(server, task, contents)
        replies, missing = await self.exchange(server, sent)
        answers = {
            client: self._receive(replies[client], sent[client]) for client in sorted(replies)
        }
        host.aggregate(task, server.round, answers, missing)

    def _messages(self, server: Server, task: Task, asked: Contents) -> dict[ClientId, Message]:
        """Return the message for each client; equal contents share one message."""
        kind = Train if task == "train" else Evaluate
        contents: dict[int, FlowerContent] = {}
        for record in asked.values():
            if id(record) not in contents:
                contents[id(record)] = self._write(record, task, server.round)
        packed: dict[bytes, Payload] = {}
        made: dict[tuple[bytes, bytes], Message] = {}
        sent: dict[ClientId, Message] = {}
        several = len({_key(each) for each in contents.values()}) > 1
        for client, record in asked.items():
            content = contents[id(record)]
            model, rest = _key(content)
            if model not in packed:
                packed[model] = server.pack(_vector(content), to=client if several else None)
            if (model, rest) not in made:
                made[model, rest] = kind(packed[model], Octets(rest))
            sent[client] = made[model, rest]
        return sent

    def _write(self, record: RecordDict, task: Task, number: int) -> FlowerContent:
        try:
            content = encode(record, self.problem.layout, exact=False)
        except Misfit as error:
            text = f"the strategy {self.strategy} sends {error}"
            raise Failed(f"{text} (configure_{task}, round {number})") from None
        if content.flat is None:
            raise Failed(f"the strategy {self.strategy} sends no model in round {number}")
        return content

    def _receive(self, reply: Reply, asked: Message) -> RecordDict:
        """Return a client's reply in Flower's form."""
        message, flat = reply.message, None
        if isinstance(message, Changed):
            flat = cast("Train", asked).w.values + message.change.values
        elif isinstance(message, Trained):
            flat = message.w.values
        content = FlowerContent(flat, cast("Octets", message.records).data)
        return read(content, self.problem.layout, legacy=self.problem.legacy)

    async def handle(self, client: Client, message: Train | Evaluate) -> Message:
        """Run a client: call its program."""
        task: Task = "train" if isinstance(message, Train) else "evaluate"
        w, rest = message.w.values, cast("Octets", message.records).data
        seed = int(client.rng.integers(2**63))
        question = Question(task, FlowerContent(w, rest), client.round, seed)
        program = cast("ClientProgram", client.oracle)
        answer = cast("FlowerContent", cast("object", await client.compute(program.work(question))))
        said = Octets(answer.rest)
        if task == "evaluate":
            return Evaluated(said)
        flat = _vector(answer)
        if self.sends == "differences":
            return Changed(client.pack(flat - w), said)
        return Trained(client.pack(flat), said)


def _vector(content: FlowerContent) -> Array:
    """Return the model of a content."""
    return np.zeros(0) if content.flat is None else content.flat


def _key(content: FlowerContent) -> tuple[bytes, bytes]:
    """Return a key that is equal for equal contents."""
    return _vector(content).tobytes(), content.rest
