"""FedSGM with one exchange a round: clients switch by the constraint's last known value.

The second exchange of a round of FedSGM (`fedsim.algorithms.switching`) sends its clients g(w_t).
Here they receive, with w_t, the server's present estimate of g, and answer with g_j(w_t) and their
steps together:

    the server estimates g = sum_j p_j g_j by the last g_j received of each client, the p_j of
    clients with one scaled to add up to one; s = s(g); client j computes g_j(w_t), and E steps v <-
    v - eta ((1 - s) grad f_j(v) + s grad g_j(v)); w_{t+1} = w_t - eta mean_j C((w_t - v)/eta).

So a round takes one latency, and no two clients need to be of one round: late steps count, and a
server may be asynchronous. A client without an estimate, in round 1, answers with g_j alone. What
is switched by is a round old, or as old as the slowest client: the constraint is met later, and
passed by more. The theorem of the paper is of the fresh g; there is none of this.

Round t stands for w_t, and for what is known of g once its replies are in.
"""

from dataclasses import dataclass
from math import nan
from typing import ClassVar, Literal

import numpy as np

from fedsim.algorithms.local import Average, Model, mean
from fedsim.algorithms.switching import Constraint, FedSGM
from fedsim.ports import Array, Client, ClientId, Message, Payload, Server


@dataclass(frozen=True, slots=True)
class KnownConstraint(Message):
    """Server to client: w_t, and what is known of g."""

    w: Payload
    g: Payload


@dataclass(frozen=True, slots=True)
class ConstrainedProgress(Message):
    """Client to server: g_j(w_t), and the sum of its steps' directions, compressed."""

    g: Payload
    delta: Payload


class StaleFedSGM(FedSGM):
    """FedSGM that switches by the last constraint it knows: one exchange a round, or none."""

    kind: Literal["fedsgm-stale"] = "fedsgm-stale"  # type: ignore[assignment]
    messages: ClassVar[tuple[type[Message], ...]] = (
        Model,
        KnownConstraint,
        Constraint,
        ConstrainedProgress,
    )
    synchronous: ClassVar[str] = ""

    async def serve(self, server: Server) -> None:
        """Run the server."""
        w, average = server.initial, Average(server.initial)
        known: dict[ClientId, float] = {}
        while True:
            replies = await server.exchange(_client_message(server, w, known))
            known |= {reply.client: float(reply.message.g.values) for reply in replies}
            g = _mean(server, known)
            s = self.switch(g) if known else nan
            if replies:
                average.add(w, 1 - s)
            model = average.or_else(w) if self.output == "average" else w
            moved = [reply for reply in replies if isinstance(reply.message, ConstrainedProgress)]
            if moved:
                w = w - self.eta * mean(server, moved, "delta")
            server.commit(model, seen_constraint=g, switch=s)

    async def handle(  # type: ignore[override]
        self, client: Client, message: Model | KnownConstraint
    ) -> Constraint | ConstrainedProgress:
        """Run a client: what its constraint is, and its local steps."""
        w = message.w.values
        g = await client.compute(client.oracle.constraint(w))
        if isinstance(message, Model):
            return Constraint(client.pack(g))
        moved = await self._progress(client, w, self.switch(float(message.g.values)))
        return ConstrainedProgress(client.pack(g), moved.delta)


def _mean(server: Server, known: dict[ClientId, float]) -> float:
    """Return the estimate of g; NaN if there is none."""
    if not known:
        return nan
    weights = server.weights[sorted(known)]
    return float(weights @ [known[client] for client in sorted(known)] / weights.sum())


def _client_message(server: Server, w: Array, known: dict[ClientId, float]) -> Message:
    """Return the message to clients: w_t, and the estimate of g once there is one."""
    if not known:
        return Model(server.pack(w))
    return KnownConstraint(server.pack(w), server.pack(np.array(_mean(server, known))))
