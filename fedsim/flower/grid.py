"""What a strategy sees of the clients: who they are. What it sends, fedsim carries."""

# ruff: noqa: ARG002 - what is refused takes what Flower hands over

from collections.abc import Iterable, Sequence
from typing import Never

from flwr.app import Message, RecordDict
from flwr.common import (
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
)
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from fedsim.flower.program import node_of
from fedsim.ports import ClientId

_PATIENCE = 5
"""How often in a row a strategy may ask who is there before it is said to wait in vain."""


class Waiting(RuntimeError):
    """A strategy waits for more clients than there are."""


class Nodes(Grid):
    """The clients, for a strategy of Flower's message interface."""

    def __init__(self, clients: Sequence[ClientId]) -> None:
        self._nodes = [node_of(client) for client in clients]
        self._asked = 0

    def get_node_ids(self) -> Iterable[int]:
        """Return the numbers of all nodes.

        Raises:
            Waiting: it is asked again and again.
        """
        self._asked += 1
        if self._asked > _PATIENCE:
            raise Waiting(
                f"the strategy waits for more clients than the {len(self._nodes)} there are"
                " (min_available_nodes, min_train_nodes, min_evaluate_nodes)"
            )
        return list(self._nodes)

    def rested(self) -> None:
        """Take note that something has been decided."""
        self._asked = 0

    def set_run(self, run: Run) -> Never:
        """Refuse."""
        raise _unable("set_run")

    @property
    def run(self) -> Run:
        """Refuse."""
        raise _unable("run")

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
        raise _unable("push_messages")

    def pull_messages(self, message_ids: Iterable[str]) -> Never:
        """Refuse."""
        raise _unable("pull_messages")

    def send_and_receive(
        self,
        messages: Iterable[Message],
        *,
        timeout: float | None = None,
    ) -> Never:
        """Refuse."""
        raise _unable("send_and_receive")


def _unable(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"the strategy calls grid.{what}: fedsim carries what configure_train and"
        " configure_evaluate return, and nothing else"
    )


class Place(ClientProxy):
    """Stands for a client, for a strategy of the older interface."""

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
        f"the strategy calls {what} of a client by itself: fedsim carries what configure_fit and"
        " configure_evaluate return, and nothing else"
    )


class Places(SimpleClientManager):
    """The clients, for a strategy of the older interface."""

    def __init__(self, clients: Sequence[ClientId]) -> None:
        super().__init__()
        for client in clients:
            self.register(Place(client))

    def wait_for(self, num_clients: int, timeout: int = 0) -> bool:
        """Say that so many are there.

        Raises:
            Waiting: there are fewer.
        """
        if num_clients > self.num_available():
            raise Waiting(
                f"the strategy waits for {num_clients} clients, and there are"
                f" {self.num_available()} (min_available_clients, min_fit_clients,"
                " min_evaluate_clients)"
            )
        return True
