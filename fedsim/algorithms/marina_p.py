"""MARINA-P: every client has its own model, and receives compressed steps of the server's model.

Gruntkowska, Tyurin, Richtarik, "Improving the Worst-Case Bidirectional Communication Complexity
for Nonconvex Distributed Optimization under Function Similarity", NeurIPS 2024. It minimises
f = sum_i p_i f_i (the paper: p_i = 1/n) with unbiased compressors Q_i of the downlink, drawn
independently for each client:

    x^{t+1} = x^t - gamma sum_i p_i grad f_i(w_i^t),
    w_i^{t+1} = x^{t+1} with probability p, for all i at once,
    w_i^{t+1} = w_i^t + Q_i(x^{t+1} - x^t) otherwise.

So the server sends each client a different message, or, if the coin is 1, the same model to all.
It also sends the model in full in the first round, and in the round after an abandoned one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import ClassVar, Literal

from fedsim.algorithms.base import Combines, ProblemInfo
from fedsim.algorithms.compressed import Gradient
from fedsim.algorithms.concerns import Concern, long_step
from fedsim.algorithms.local_steps import Model, shares
from fedsim.algorithms.marina import FullRounds, odds
from fedsim.core.ports import Array, Client, Meaning, Message, Payload, Server


@dataclass(frozen=True, slots=True)
class Step(Message):
    """Server to one client: the change of the model, compressed for this client alone."""

    d: Payload


@dataclass(slots=True)
class Own:
    """A client's state: its own model w_i, shape (d,)."""

    w: Array


class MarinaP(FullRounds[Own]):
    """MARINA-P: different compressed steps of the model for each client; full models by a coin."""

    kind: Literal["marina-p"] = "marina-p"
    combines: ClassVar[Combines] = "changes"
    source: ClassVar[str] = (
        "Gruntkowska, Tyurin, Richtarik: Improving the Worst-Case Bidirectional Communication"
        " Complexity for Nonconvex Distributed Optimization under Function Similarity,"
        " NeurIPS 2024, MARINA-P"
    )
    unbiased: ClassVar[tuple[Literal["up", "down"], ...]] = ("down",)
    downlink: ClassVar[Mapping[str, Meaning]] = {
        "": Meaning.DIFFERENCE,
        "full": Meaning.EXACT,
    }
    messages: ClassVar[tuple[type[Message], ...]] = (Model, Step, Gradient)
    synchronous: ClassVar[str] = "one coin decides which message all clients are sent"
    full_participation: ClassVar[str] = (
        "marina-p sends each client the change since the previous round, which all must receive;"
        " use participation: {kind: full}"
    )

    probability: float | None = odds(
        "by default 1/(1 + omega) of the downlink's compressor, which is k/d for rand-k"
    )

    def usual(self, info: ProblemInfo) -> float:
        """Return the default of p, 1/(1 + omega)."""
        return 1 / (1 + info.downlink.constant)

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the step is too long for the errors of the clients' models.

        With e_i = |w_i - x|^2, E e_i <= (1 - p) (e_i + omega |x^{t+1} - x^t|^2) from one round to
        the next, and |sum_i p_i (grad f_i(w_i) - grad f_i(x))|^2 <= sum_i p_i L_i^2 e_i; so
        f(x) + gamma/(2p) sum_i p_i L_i^2 e_i falls for the steps below.
        """
        omega, p, gamma = info.downlink.constant, self.p, float(self.step_size)
        squares = float(info.shares @ info.client_smoothness() ** 2)

        def text(bound: float) -> str:
            return (
                f"got {gamma:.4g}, but omega = {omega:.3g} and p = {p:.3g} take steps of at most"
                f" 1/(L + sqrt((1 - p) omega/p sum p_i L_i^2)) = {bound:.4g} (the recursion of"
                " Gruntkowska, Tyurin, Richtarik 2024, with the clients' shares)"
            )

        noise = sqrt((1 - p) / p * omega * squares)
        return long_step(gamma, info.smoothness() + noise, text)

    def memory(self, initial: Array) -> Own:
        """Return a client's initial state: the initial model."""
        return Own(initial)

    async def serve(self, server: Server) -> None:
        """Run the server of MARINA-P."""
        x, step, in_full = server.initial, 0 * server.initial, True
        while True:
            whole = partial(_in_full, server, x)
            if in_full:
                replies = await server.exchange(whole())
            else:
                steps = {i: Step(server.pack(step, to=i)) for i in server.clients}
                # After an abandoned round some clients have made the step, others have not.
                replies = await server.exchange(steps, again=whole)
            step = -float(self.step_size) * shares(server, replies, "g")
            x = x + step
            server.commit(x)
            in_full = self.in_full(server)

    async def handle(self, client: Client[Own], message: Model | Step) -> Gradient:
        """Run a client of MARINA-P."""
        own = client.state
        w = message.w.values if isinstance(message, Model) else own.w + message.d.values
        gradient = await client.compute(client.oracle.gradient(w))
        own.w = w
        return Gradient(client.pack(gradient))


def _in_full(server: Server, x: Array) -> Model:
    return Model(server.pack(x, field="full"))
