"""Control variates: local steps corrected towards the direction of all clients together.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: Stochastic Controlled Averaging for
Federated Learning", ICML 2020 (Algorithm 1 with option II). The server keeps a model x and a
control c, client i its own c_i, all controls 0 at first. Asked with (x, c), the client goes

    y <- y - eta_l (g_i(y) - c_i + c),  K times from y = x,
    c_i+ = c_i - c + (x - y)/(K eta_l),

sends y - x and c_i+ - c_i, and keeps c_i+. Of the cohort S the server makes

    x <- x + eta_g sum_S p_i (y_i - x)/sum_S p_i,    c <- c + sum_S p_i (c_i+ - c_i).

With equal shares p_i = 1/N this is the paper's step, c <- c + |S|/N mean_S(c_i+ - c_i). In general
c stays sum_i p_i c_i, which is what the gradient of f = sum_i p_i f_i is made of. The kept c_i is
the server's copy of it: a compression error is corrected by the next message.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.algorithms.averaging import local_step_concern
from fedsim.algorithms.base import Concern, ProblemInfo
from fedsim.algorithms.local import LocalSteps, mean, shares
from fedsim.ports import Array, Client, Meaning, Message, Payload, Server


@dataclass(frozen=True, slots=True)
class Controlled(Message):
    """Server to client: the model x and the control c."""

    x: Payload
    c: Payload


@dataclass(frozen=True, slots=True)
class ControlledUpdate(Message):
    """Client to server: y - x, and c_i+ - c_i."""

    x: Payload
    c: Payload


@dataclass(slots=True)
class Control:
    """A client's state between rounds.

    Attributes:
        c: c_i as the server has received it, shape (d,).
    """

    c: Array


class Scaffold(LocalSteps[Control]):
    """SCAFFOLD: local steps corrected by the difference of the server's control and their own."""

    kind: Literal["scaffold"] = "scaffold"
    messages: ClassVar[tuple[type[Message], ...]] = (Controlled, ControlledUpdate)
    source: ClassVar[str] = "Karimireddy et al.: SCAFFOLD, ICML 2020, algorithm 1, option II"
    uplink: ClassVar[Mapping[str, Meaning]] = {
        "x": Meaning.INCREMENT,
        "c": Meaning.DIFFERENCE,
    }
    downlink: ClassVar[Mapping[str, Meaning]] = {"x": Meaning.STATE, "c": Meaning.STATE}

    server_rate: float = Field(default=1.0, gt=0, description="eta_g, the server's step size")

    def memory(self, initial: Array) -> Control:
        """Return a client's memory: c_i = 0."""
        return Control(np.zeros_like(initial))

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that a local step is longer than 1/L_max."""
        yield from local_step_concern(self.eta, info.largest_smoothness, "L_max")

    async def serve(self, server: Server) -> None:
        """Run the server of SCAFFOLD."""
        x, c = server.initial, np.zeros_like(server.initial)
        while True:
            message = Controlled(server.pack(x, field="x"), server.pack(c, field="c"))
            replies = await server.exchange(message)
            if replies:
                x = x + self.server_rate * mean(server, replies, "x")
                c = c + shares(server, replies, "c")
            server.commit(x)

    async def handle(self, client: Client[Control], message: Controlled) -> ControlledUpdate:
        """Run a client of SCAFFOLD."""
        control = client.state
        x, correction = message.x.values, message.c.values - control.c
        y = x
        for _ in range(self.local_steps):
            gradient = await client.compute(self.gradient(client, y))
            y = y - self.eta * (gradient + correction)
        renewed = (x - y) / (self.local_steps * self.eta) - correction
        change = client.pack(renewed - control.c, field="c")
        control.c = control.c + change.values
        return ControlledUpdate(client.pack(y - x, field="x"), change)

    def undelivered(self, client: Client[Control], message: ControlledUpdate) -> None:
        """Take back a change of c_i that the server will not receive."""
        client.state.c = client.state.c - message.c.values
