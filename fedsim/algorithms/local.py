"""What methods with local steps have in common: batches, local gradients, and averages."""

from collections.abc import Awaitable, Sequence
from math import ceil, exp, log
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from fedsim.algorithms.base import Algorithm, Memory
from fedsim.algorithms.step_sizes import StepSize
from fedsim.blocks.spec import Spec
from fedsim.ports import Array, Client, Reply, Server, Work


class GrowingBatch(Spec):
    """A batch that grows geometrically, b_t = ceil(start / ratio^t) in round t = 0, 1, ...

    Tong et al., Algorithms 2022, theorems 1 to 4: the noise of the stochastic gradients then
    falls as fast as the error does.
    """

    start: float = Field(gt=0, description="b_0, samples")
    ratio: float = Field(gt=0, lt=1, description="the factor by which 1/b_t falls every round")


LARGEST = 2.0**62
"""Where batches stop growing, samples: more than any client has."""

LONGEST_GROWTH = 700.0
"""log(1/ratio^t) above which the power is no longer taken: a float64 ends at exp(709.8)."""

Batch = Field(
    default=None,
    description="samples of a stochastic gradient, drawn without replacement: a number, all of "
    "them where it is not given, or {start: 10, ratio: 0.9} for a batch that grows",
)


def batch_size(batch: int | GrowingBatch | None, number: int) -> int | None:
    """Return how many samples a stochastic gradient takes in a round, counted from 1.

    >>> [batch_size(GrowingBatch(start=4, ratio=0.5), number) for number in (1, 2, 3)]
    [4, 8, 16]
    """
    if not isinstance(batch, GrowingBatch):
        return batch
    growth = -(number - 1) * log(batch.ratio)
    if growth < LONGEST_GROWTH:
        grown = batch.start * float(batch.ratio ** (1 - number))
    else:
        grown = exp(min(log(batch.start) + growth, log(LARGEST)))
    return ceil(min(grown, LARGEST))


def drawn(batch: int | GrowingBatch | None, rows: int) -> int:
    """Return how many samples a stochastic gradient takes of so many; all, where that grows."""
    return min(batch, rows) if isinstance(batch, int) else rows


def stochastic_gradient(client: Client, w: Array, batch: int | GrowingBatch | None) -> Work:
    """Describe a stochastic gradient of a client's loss at `w`; `batch_size` says of how many."""
    return client.oracle.minibatch(w, batch_size(batch, client.round), client.rng)


def local_steps(
    client: Client,
    w: Array,
    eta: float,
    steps: int,
    batch: int | GrowingBatch | None,
    pull: float | None = None,
) -> Awaitable[Array]:
    """Compute where a client's stochastic gradient steps lead from `w`, shape (d,).

    They are one piece of work that takes time and energy step by step. The minibatches are drawn
    at once; if it is broken off, those of steps that never began are put back into the stream.

    Args:
        client: who takes them.
        w: where they start, shape (d,).
        eta: their length.
        steps: how many, at least one.
        batch: `batch_size` says of how many samples.
        pull: mu, where the steps are those on f_m + mu/2 |. - w|^2.
    """
    oracle, size = client.oracle, batch_size(batch, client.round)
    if size is None or size >= oracle.rows:  # nothing is drawn
        return client.compute(oracle.sgd_steps(w, eta, (None,) * steps, pull))
    return _drawn_steps(client, w, eta, steps, size, pull)


async def _drawn_steps(
    client: Client, w: Array, eta: float, steps: int, size: int, pull: float | None
) -> Array:
    """Do what `local_steps` does with minibatches of so many samples."""
    oracle, rng = client.oracle, client.rng
    before, begun = rng.bit_generator.state, 0

    def begin(number: int) -> None:
        nonlocal begun
        begun = number

    drawn = oracle.draws(steps, size, rng)
    try:
        return await client.compute(oracle.sgd_steps(w, eta, drawn, pull), begin)
    except BaseException:  # whatever broke it off goes on
        rng.bit_generator.state = before
        oracle.draws(begun, size, rng)
        raise


class LocalGradients(Algorithm[Memory]):
    """A method whose clients take K stochastic gradients, one after the other, in every round."""

    objective: ClassVar[Literal["sum", "mean"]] = "mean"

    local_steps: int = Field(default=1, ge=1, description="K, local steps of a round")
    batch: GrowingBatch | PositiveInt | None = Batch

    def samples_per_round(self, rows: int) -> float:
        """Return how many samples the local steps take."""
        return float(self.local_steps * drawn(self.batch, rows))

    def gradient(self, client: Client, w: Array) -> Work:
        """Describe a stochastic gradient of the client's loss at `w`."""
        return stochastic_gradient(client, w, self.batch)


class LocalSteps(LocalGradients[Memory]):
    """A method whose clients take K stochastic gradient steps of their own in every round."""

    measured_by: ClassVar[Literal["L", "L_max"]] = "L_max"

    step_size: StepSize = Field(
        description="the clients' step size: a number, or a multiple of 1/L_max, L_max the largest"
        ' smoothness constant of a client\'s loss ("1/L_max"), or of 1/L'
    )

    @property
    def eta(self) -> float:
        """The clients' step size as a number, which it is once `configured`."""
        return float(self.step_size)


def of_this_round(server: Server, replies: Sequence[Reply]) -> list[Reply]:
    """Return the replies to what was sent in this round, without those that come late."""
    return [reply for reply in replies if reply.round == server.round]


def mean(server: Server, replies: Sequence[Reply], field: str) -> Array:
    """Return the mean of what a field says in replies, weighted with the clients' p_m.

    Where only some reply, their weights are scaled to add up to one. The sum runs in the order
    of the replies, which is that of the clients.

    Args:
        server: knows the weights.
        replies: at least one.
        field: of the message.
    """
    weights = server.weights[[reply.client for reply in replies]]
    weights = weights / weights.sum()
    total: Array = np.zeros_like(getattr(replies[0].message, field).values)
    for weight, reply in zip(weights, replies, strict=True):
        total += weight * getattr(reply.message, field).values
    return total


def shares(server: Server, replies: Sequence[Reply], field: str) -> Array:
    """Return the sum of p_i times what a field says, over the replies in their order.

    Unlike `mean`, it leaves the weights as they are where only some reply: what is summed are
    changes of what all clients together amount to.
    """
    total = np.zeros_like(server.initial)
    for reply in replies:
        total += server.weights[reply.client] * getattr(reply.message, field).values
    return total
