"""A strategy's view of the clients: their ids only. fedsim transmits the messages."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Never, TypeVar, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.common import (
    Code,
    DisconnectRes,
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
    GetPropertiesIns,
    GetPropertiesRes,
    ReconnectIns,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.compat.common.recorddict_compat import (
    evaluateins_to_recorddict,
    fitins_to_recorddict,
    recorddict_to_evaluateres,
    recorddict_to_fitres,
)
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy as OlderStrategy
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.supercore.run import Run
from numpy.typing import NDArray

from fedsim.addons.flower.arrays import Arrays, numpy_of, record_of
from fedsim.addons.flower.program import Task, client_of, node_of
from fedsim.addons.flower.user_code import call_user_code, numbers
from fedsim.core.errors import Failed
from fedsim.core.ports import ClientId

_PATIENCE = 5
"""The number of consecutive requests for nodes after which a strategy is taken to wait for ever."""


class WaitsInVain(RuntimeError):
    """A strategy waits for more clients than there are."""


class NodeIds(Grid):
    """The clients, for a strategy of Flower's message interface.

    Attributes:
        refusal: the error of a call that fedsim does not support.
    """

    refusal: ClassVar[str] = (
        "the strategy calls grid.{call}: fedsim transmits only what configure_train and"
        " configure_evaluate return"
    )

    def __init__(self, clients: Sequence[ClientId]) -> None:
        self._nodes = [node_of(client) for client in clients]
        self._asked = 0

    def get_node_ids(self) -> Iterable[int]:
        """Return the numbers of all nodes.

        Raises:
            WaitsInVain: the strategy requests them again and again.
        """
        self._asked += 1
        if self._asked > _PATIENCE:
            raise WaitsInVain(
                f"the strategy waits for more clients than the {len(self._nodes)} there are"
                " (min_available_nodes, min_train_nodes, min_evaluate_nodes)"
            )
        return list(self._nodes)

    def rest(self) -> None:
        """Reset the count of requests, after a decision of the strategy."""
        self._asked = 0

    def set_run(self, run: Run) -> Never:
        """Refuse."""
        raise self._refusal_of("set_run")

    @property
    def run(self) -> Run:
        """Refuse."""
        raise self._refusal_of("run")

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a message."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def push_messages(self, messages: Iterable[Message]) -> Never:
        """Refuse."""
        raise self._refusal_of("push_messages")

    def pull_messages(self, message_ids: Iterable[str]) -> Never:
        """Refuse."""
        raise self._refusal_of("pull_messages")

    def send_and_receive(
        self,
        messages: Iterable[Message],
        *,
        timeout: float | None = None,
    ) -> Never:
        """Refuse."""
        raise self._refusal_of("send_and_receive")

    def _refusal_of(self, call: str) -> NotImplementedError:
        return NotImplementedError(self.refusal.format(call=call))


class NodeProxy(ClientProxy):
    """A client for a strategy of the older interface."""

    def __init__(self, client: ClientId) -> None:
        super().__init__(str(client))
        self.client = client
        self.node_id = node_of(client)

    def get_properties(
        self, ins: GetPropertiesIns, timeout: float | None, group_id: int | None
    ) -> GetPropertiesRes:
        """Refuse."""
        raise _by_itself("get_properties")

    def get_parameters(
        self, ins: GetParametersIns, timeout: float | None, group_id: int | None
    ) -> GetParametersRes:
        """Refuse."""
        raise _by_itself("get_parameters")

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        """Refuse."""
        raise _by_itself("fit")

    def evaluate(
        self, ins: EvaluateIns, timeout: float | None, group_id: int | None
    ) -> EvaluateRes:
        """Refuse."""
        raise _by_itself("evaluate")

    def reconnect(
        self, ins: ReconnectIns, timeout: float | None, group_id: int | None
    ) -> DisconnectRes:
        """Refuse."""
        raise _by_itself("reconnect")


def _by_itself(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"the strategy calls {what} of a client directly: fedsim transmits only what configure_fit"
        " and configure_evaluate return"
    )


class Places(SimpleClientManager):
    """The clients, for a strategy of the older interface."""

    def __init__(self, clients: Sequence[ClientId]) -> None:
        super().__init__()
        for client in clients:
            self.register(NodeProxy(client))

    def wait_for(self, num_clients: int, timeout: int = 0) -> bool:
        """Return True if there are `num_clients` clients.

        Raises:
            WaitsInVain: there are fewer.
        """
        if num_clients > self.num_available():
            raise WaitsInVain(
                f"the strategy waits for {num_clients} clients, and there are"
                f" {self.num_available()} (min_available_clients, min_fit_clients,"
                " min_evaluate_clients)"
            )
        return True


# Hosts run a Flower strategy round by round: one class per interface of strategies.
#
# A round of a host: `configure` returns the task of each selected client, `aggregate` passes the
# replies to the strategy.

T = TypeVar("T")

Contents = Mapping[ClientId, RecordDict]
"""Contents sent to some clients, or received from them."""

Settings = Mapping[str, Any]

UNAVAILABLE = 1005
"""Flower's error code for a node that does not answer in time."""


def unavailable(client: ClientId) -> Error:
    """Return the error that replaces the reply of a client that did not answer in time."""
    return Error(UNAVAILABLE, f"client {client} has not answered")


class Host(ABC):
    """Calls a strategy.

    Args:
        strategy: of Flower's, or user-defined.
        rng: the server's stream, from which each call of the strategy is seeded.

    Attributes:
        figures: the metrics that the strategy has aggregated in this round.
    """

    def __init__(self, strategy: object, rng: np.random.Generator) -> None:
        self.figures: dict[str, float] = {}
        self._name = type(strategy).__name__
        self._rng = rng

    @property
    @abstractmethod
    def model(self) -> Arrays:
        """The model, by name."""

    @abstractmethod
    def configure(self, task: Task, number: int) -> Contents:
        """Return the task of each client that the strategy has selected in a round."""

    @abstractmethod
    def aggregate(
        self, task: Task, number: int, replies: Contents, missing: Sequence[ClientId]
    ) -> None:
        """Pass the replies of a round to the strategy.

        Args:
            task: the requested task.
            number: of the round.
            replies: the replies, in their order.
            missing: the selected clients without a reply.
        """

    def central(self, number: int) -> None:  # noqa: B027 - most have none
        """Let the strategy evaluate the model centrally, if it can."""

    def call(self, what: str, number: int, make: Callable[[], T]) -> T:
        """Call the strategy.

        Raises:
            Failed: it fails.
        """
        seed = int(self._rng.integers(2**63))
        return call_user_code(f"{what} of the strategy {self._name} in round {number}", seed, make)

    def note(self, front: str, figures: Mapping[str, Any]) -> None:
        """Record metrics of a round."""
        for name, value in numbers(figures).items():
            self.figures[name if name.startswith(f"{front}_") else f"{front}_{name}"] = value


class MessageHost(Host):
    """Calls a strategy of the message interface (`flwr.serverapp.strategy`)."""

    def __init__(
        self,
        strategy: Strategy,
        clients: Sequence[ClientId],
        start: Arrays,
        settings: Mapping[Task, Settings],
        rng: np.random.Generator,
    ) -> None:
        super().__init__(strategy, rng)
        self._strategy = strategy
        self._nodes = NodeIds(clients)
        self._model = record_of(start, legacy=False)
        self._settings = {task: ConfigRecord(dict(each)) for task, each in settings.items()}
        self._sent: dict[ClientId, Message] = {}

    @property
    def model(self) -> Arrays:
        """The model, by name."""
        return numpy_of(self._model)

    def configure(self, task: Task, number: int) -> Contents:
        """See `Host.configure`."""
        strategy, settings = self._strategy, self._settings[task]
        configure = strategy.configure_train if task == "train" else strategy.configure_evaluate

        def make() -> list[Message]:
            return list(configure(number, self._model, settings, self._nodes))

        messages = self.call(f"configure_{task}", number, make)
        self._nodes.rest()
        self._sent = {client_of(each.metadata.dst_node_id): each for each in messages}
        return {client: each.content for client, each in self._sent.items()}

    def aggregate(
        self, task: Task, number: int, replies: Contents, missing: Sequence[ClientId]
    ) -> None:
        """See `Host.aggregate`."""
        sent, strategy = self._sent, self._strategy

        def make() -> Any:
            answers = [Message(each, reply_to=sent[client]) for client, each in replies.items()]
            answers += [Message(unavailable(each), reply_to=sent[each]) for each in missing]
            if task == "train":
                return strategy.aggregate_train(number, answers)
            return None, strategy.aggregate_evaluate(number, answers)

        arrays, figures = self.call(f"aggregate_{task}", number, make)
        if arrays is not None:
            self._model = cast("ArrayRecord", arrays)
        if figures is not None:
            self.note(task, figures)


class OlderHost(Host):
    """Calls a strategy of the older interface (`flwr.server.strategy`)."""

    def __init__(
        self,
        strategy: OlderStrategy,
        clients: Sequence[ClientId],
        start: Arrays,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(strategy, rng)
        self._strategy = strategy
        self._places = Places(clients)
        own = self.call(
            "initialize_parameters", 0, lambda: strategy.initialize_parameters(self._places)
        )
        self._model = own or ndarrays_to_parameters(list(start.values()))

    @property
    def model(self) -> Arrays:
        """The model, by name.

        Raises:
            Failed: the strategy's parameters are not NumPy arrays as Flower writes them.
        """
        try:
            arrays: list[NDArray[Any]] = parameters_to_ndarrays(self._model)
        except Exception as error:
            raise Failed(
                f"the strategy {self._name} has parameters that NumPy cannot read"
                f" ({type(error).__name__}: {error}); give it those of ndarrays_to_parameters"
            ) from error
        return {str(number): each for number, each in enumerate(arrays)}

    def configure(self, task: Task, number: int) -> Contents:
        """See `Host.configure`."""
        strategy, parameters, places = self._strategy, self._model, self._places

        def make() -> dict[ClientId, RecordDict]:
            made: dict[
                int, RecordDict
            ] = {}  # one object for a content that several clients receive
            chosen: dict[ClientId, RecordDict] = {}
            if task == "train":
                for proxy, fit in strategy.configure_fit(number, parameters, places):
                    content = made.setdefault(id(fit), fitins_to_recorddict(fit, keep_input=True))
                    chosen[_client(proxy)] = content
            else:
                for proxy, ask in strategy.configure_evaluate(number, parameters, places):
                    content = made.setdefault(
                        id(ask), evaluateins_to_recorddict(ask, keep_input=True)
                    )
                    chosen[_client(proxy)] = content
            return chosen

        return self.call(f"configure_{'fit' if task == 'train' else task}", number, make)

    def aggregate(
        self, task: Task, number: int, replies: Contents, missing: Sequence[ClientId]
    ) -> None:
        """See `Host.aggregate`."""
        absent: list[Any] = [
            TimeoutError(f"client {client} has not answered in round {number}")
            for client in missing
        ]
        if task == "train":
            self._train(number, replies, absent)
        else:
            self._evaluate(number, replies, absent)

    def _train(self, number: int, replies: Contents, failures: list[Any]) -> None:
        results: list[tuple[ClientProxy, FitRes]] = []
        for client, content in replies.items():
            result = self._places.all()[str(client)], recorddict_to_fitres(content, False)  # noqa: FBT003
            (results if result[1].status.code == Code.OK else failures).append(result)
        parameters, figures = self.call(
            "aggregate_fit",
            number,
            lambda: self._strategy.aggregate_fit(number, results, failures),
        )
        if parameters is not None:
            self._model = parameters
        self.note("train", figures)

    def _evaluate(self, number: int, replies: Contents, failures: list[Any]) -> None:
        results: list[tuple[ClientProxy, EvaluateRes]] = []
        for client, content in replies.items():
            result = self._places.all()[str(client)], recorddict_to_evaluateres(content)
            (results if result[1].status.code == Code.OK else failures).append(result)
        loss, figures = self.call(
            "aggregate_evaluate",
            number,
            lambda: self._strategy.aggregate_evaluate(number, results, failures),
        )
        self.note("evaluate", {**({} if loss is None else {"loss": loss}), **figures})

    def central(self, number: int) -> None:
        """Let the strategy evaluate the model centrally, if it can."""
        found = self.call("evaluate", number, lambda: self._strategy.evaluate(number, self._model))
        if found is not None:
            self.note("central", {"loss": found[0], **found[1]})


def _client(proxy: ClientProxy) -> ClientId:
    """Return the client of a proxy."""
    return proxy.client if isinstance(proxy, NodeProxy) else int(proxy.cid)
