"""What every algorithm among peers is: one coroutine that every node runs."""

from abc import abstractmethod
from typing import ClassVar, Literal, Never

from fedsim.algorithms.base import Algorithm
from fedsim.ports import Client, Node, Server


class PeerAlgorithm(Algorithm):
    """An algorithm without a server: every node runs `live`, and speaks to its neighbours.

    Its world is a network with `peers`. What its nodes pack is what `uplink` says; there is
    nothing else that is sent. A node that cannot go on is gone for good: its coroutine is
    cancelled where it waits, and its neighbours go on without it.
    """

    objective: ClassVar[Literal["sum", "mean"]] = "sum"

    @abstractmethod
    async def live(self, node: Node) -> None:
        """Run a node: exchanges with its neighbours and commits, until a stop rule applies."""

    async def serve(self, server: Server) -> Never:  # noqa: ARG002
        """Refuse: there is no server."""
        raise TypeError(f"{self.kind} is a method of peers: it has no server")

    async def handle(self, client: Client, message: object) -> Never:  # noqa: ARG002
        """Refuse: there is nobody who asks."""
        raise TypeError(f"{self.kind} is a method of peers: nobody asks its nodes")
