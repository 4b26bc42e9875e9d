"""The common base of Flower's methods: their problem, and the exchange of a round."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import PrivateAttr

from fedsim.addons.flower.problem import FlowerProblem
from fedsim.algorithms.base import Algorithm, ProblemInfo
from fedsim.algorithms.local_steps import of_this_round
from fedsim.core.errors import Failed, ParameterError
from fedsim.core.ports import ClientId, Message, Reply, Server
from fedsim.problems import Problem, Reference


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
