"""Fast federated dual averaging, for losses that are strongly convex.

Bao, Crawshaw, Luo, Liu, "Fast Composite Optimization and Statistical Recovery in Federated
Learning", ICML 2022 (Fast-FedDA; C-FedDA and MC-FedDA are in `fedsim.algorithms.balls`). It
minimises sum_i p_i f_i + h. mu is the parameter of strong convexity, gamma the damping, w0 the
centre, where all start from; with the weight A so far

    P_A(z) = argmin_w <z, w> + A (mu/4 |w|^2 + h(w)) + gamma/2 |w - w0|^2
           = prox_{h/b}(-(z/A - gamma w0/A)/b)    with b = mu/2 + gamma/A.

Fast-FedDA starts with w = w0, xs = w0, gs = 0. Round r = 1, 2, ... is

    client  v = w, g = gs, x = xs, and for k = 1..K, with A = (r - 1) K + k:
            g += grad F_i(v), v = P_A(g - (mu/2) x), x += v;
    server  gs = mean g, xs = mean x, w = P_A(gs - (mu/2) xs) with A = r K, xs += w.

Messages. Of gs and xs only z = gs - (mu/2) xs is needed, and w is P_A of the z
before w was added to xs: one vector comes down, and a client computes w itself, for one prox
more. What goes up are the sums of the gradients and of the v of this round alone, as the server
knows the rest: the same numbers, but they do not grow from round to round, the sum of the v is
sparse where they are, and a late one is as good as a late gradient. It takes two vectors, as in the
paper; `combined` sends what the server makes of them, (sum of gradients) - (mu/2) (sum of v). A is
in a message's header as its round, except after a round without replies, which does not count.

Round r of the run stands for the server's new w, or for the mean of those so far with the weights
by which A has grown: theorem 3.1 bounds a sum of values with these weights, and by Jensen's
inequality the value at the mean. Every round adds K to A, so they are equal.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.algorithms.base import Concern, ProblemInfo
from fedsim.algorithms.composite import Composite, CountedDual, Dual, dual, rounds_of
from fedsim.algorithms.local import Average, mean
from fedsim.algorithms.remedies import at_most, concern
from fedsim.ports import Array, Client, Message, Payload, Server
from fedsim.problems import Regulariser


@dataclass(frozen=True, slots=True)
class Sums(Message):
    """Client to server: the sums of its gradients and of its models in this round."""

    g: Payload
    x: Payload


@dataclass(frozen=True, slots=True)
class Combined(Message):
    """Client to server: the sum of its gradients less mu/2 times that of its models."""

    z: Payload


class StronglyConvex(Composite[Array]):
    """The parts that the methods share: mu, gamma and the map P_A."""

    source: ClassVar[str] = (
        "Bao, Crawshaw, Luo, Liu: Fast Composite Optimization and Statistical Recovery in"
        " Federated Learning, ICML 2022"
    )

    mu: float = Field(ge=0, description="mu, of which the loss is taken to be strongly convex")
    gamma: float = Field(gt=0, description="gamma, the damping towards the centre w0")
    output: Literal["last", "average"] = Field(
        default="last",
        description="the model of a round: the server's last, or the weighted mean of all its "
        "models so far (of a stage's, where there are stages, which start from it)",
    )

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that no loss of this kind, or of this smoothness, is strongly convex of mu."""
        if not info.convex:
            text = f"{info.loss} is not convex; the theorems of Bao et al. take losses that are"
            yield Concern("mu", f"got {self.mu:g}, but {text} strongly convex of mu")
        smoothness = info.largest_smoothness
        if self.mu > smoothness:
            text = (
                f"got {self.mu:g}, but the largest smoothness constant of a client's loss is"
                f" {smoothness:g}; the strong convexity that the theorems of Bao et al. assume is"
                " never above it"
            )
            yield concern("mu", text, at_most(smoothness))

    def reported_model(self, w: Array, average: Average) -> Array:
        """Return the model of a round, of the server's last one and the mean."""
        return average.or_else(w) if self.output == "average" else w

    def memory(self, initial: Array) -> Array:
        """Return the initial model of all, w0."""
        return initial

    def point(self, z: Array, weight: float, centre: Array, h: Regulariser) -> Array:
        """Return P_A(z) for the weight A, in a form that also holds where A is 0."""
        return h.prox(*self.prox_arguments(z, weight, centre))

    def prox_arguments(self, z: Array, weight: float, centre: Array) -> tuple[Array, float]:
        """Return the argument of the prox that computes P_A(z), and its step."""
        curvature = weight * self.mu / 2 + self.gamma  # A b
        return (self.gamma * centre - z) / curvature, weight / curvature


class FastFedDA(StronglyConvex):
    """Fast-FedDA: dual averaging whose weights also grow within a round.

    Its x adds up K + 1 models a round, the server's and K more, while A grows by K: the minimiser
    of f + h - mu/(4 K) |w|^2 is where a single client goes. C-FedDA has no such surplus.
    """

    kind: Literal["fast-fedda"] = "fast-fedda"
    messages: ClassVar[tuple[type[Message], ...]] = (Dual, CountedDual, Sums, Combined)

    combined: bool = Field(
        default=False,
        description="whether clients send one vector, all that the server makes of the two that "
        "the paper has them send",
    )

    async def serve(self, server: Server) -> None:
        """Run the server; z is gs - (mu/2) xs without the last w."""
        w, z, rounds = server.initial, np.zeros_like(server.initial), 0
        average = Average(w)
        while True:
            replies = await server.exchange(dual(server, z, rounds))
            if replies:
                rounds += 1
                z = z - self.mu / 2 * w
                if self.combined:
                    z = z + mean(server, replies, "z")
                else:
                    z = z + mean(server, replies, "g") - self.mu / 2 * mean(server, replies, "x")
                w = self.point(z, rounds * self.local_steps, server.initial, self.regulariser)
                average.add(w, self.local_steps)
            server.commit(self.reported_model(w, average))

    async def handle(self, client: Client[Array], message: Dual | CountedDual) -> Sums | Combined:
        """Run a client: K steps from the server's w, which it computes first."""
        h, centre, z = self.regulariser, client.state, message.z.values
        weight = rounds_of(client, message) * self.local_steps
        v = self.point(z, weight, centre, h)
        z = z - self.mu / 2 * v
        g, x = np.zeros_like(z), np.zeros_like(z)
        for k in range(1, self.local_steps + 1):
            work = self.gradient(client, v).plus(h.operations if k == 1 else 0.0)
            g = g + await client.compute(work)
            v = self.point(z + g - self.mu / 2 * x, weight + k, centre, h)
            x = x + v
        if self.combined:
            return Combined(client.pack(g - self.mu / 2 * x))
        return Sums(client.pack(g, field="g"), client.pack(x, self.structure, field="x"))
