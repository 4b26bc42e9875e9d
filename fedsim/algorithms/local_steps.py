"""Local stochastic gradient steps: batches, base classes, means of replies, and messages."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, exp, log
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from fedsim.algorithms.base import Algorithm, IncrementVariant, Memory, StepSize
from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import (
    Array,
    Client,
    Meaning,
    Message,
    Oracle,
    Payload,
    Reply,
    Server,
    Structure,
    Work,
)
from fedsim.wire import of_round, senders


class GrowingBatch(Spec):
    """A batch that grows geometrically, b_t = ceil(start / ratio^t) in round t = 0, 1, ...

    Tong et al., Algorithms 2022, theorems 1 to 4: the noise of the stochastic gradients then
    falls as fast as the error does.
    """

    start: float = Field(gt=0, description="b_0, samples")
    ratio: float = Field(gt=0, lt=1, description="the factor by which 1/b_t falls every round")


Minibatches: TypeAlias = NDArray[np.intp] | Sequence[NDArray[np.intp] | None]
"""Minibatches as an `Oracle` draws them."""

WorkOn: TypeAlias = Callable[[Minibatches], Work]
"""A function that describes work on minibatches; each minibatch is one piece of the work."""

LARGEST = 2.0**62
"""The largest batch, in samples: more than any client has."""

LONGEST_GROWTH = 700.0
"""The largest log(1/ratio^t) whose power we compute: float64 overflows at exp(709.8)."""

StepCount = Field(default=1, ge=1, description="K, local steps per round")

Batch = Field(
    default=None,
    description="samples of a stochastic gradient, drawn without replacement: a number, all of "
    "them by default, or {start: 10, ratio: 0.9} for a growing batch",
)


def batch_size(batch: int | GrowingBatch | None, number: int) -> int | None:
    """Return the number of samples of a stochastic gradient in a round, counted from 1.

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


def draw_count(batch: int | GrowingBatch | None, rows: int) -> int:
    """Return the samples of a stochastic gradient out of `rows`; all for a growing batch."""
    return min(batch, rows) if isinstance(batch, int) else rows


def stochastic_gradient(client: Client, w: Array, batch: int | GrowingBatch | None) -> Work:
    """Describe a stochastic gradient of a client's loss at `w`, of `batch_size` samples."""
    return client.oracle.minibatch(w, batch_size(batch, client.round), client.rng)


def draws_nothing(oracle: Oracle, size: int | None) -> bool:
    """Return whether steps use full gradients and need no random draw, such as dropout masks.

    Args:
        oracle: the client's oracle.
        size: the size of the minibatches; None for all samples.
    """
    return (size is None or size >= oracle.rows) and not oracle.random


def local_steps(
    client: Client,
    w: Array,
    eta: float,
    steps: int,
    batch: int | GrowingBatch | None,
    pull: float | None = None,
) -> Awaitable[Array]:
    """Compute the model that a client's stochastic gradient steps reach from `w`, shape (d,).

    The steps are one submission of work, charged step by step. Minibatches are drawn at once, or
    with the steps if nothing can cancel them. If the work is cancelled, the random stream goes back
    to its state after the last step that began.

    Args:
        client: the client that takes the steps.
        w: the initial model, shape (d,).
        eta: the step size.
        steps: the number of steps, at least one.
        batch: see `batch_size`.
        pull: mu, for steps on f_m + mu/2 |. - w|^2; None for 0.
    """
    oracle, size = client.oracle, batch_size(batch, client.round)
    if draws_nothing(oracle, size):
        return client.compute(oracle.sgd_steps(w, eta, (None,) * steps, pull))
    later = None if size is None else oracle.later_draws(steps, size, client.rng)
    if later is not None:
        return client.compute(oracle.sgd_steps(w, eta, later, pull))
    draw = partial(oracle.draws, batch=size, rng=client.rng)
    return drawn_work(client, draw, steps, 1, lambda drawn: oracle.sgd_steps(w, eta, drawn, pull))


async def drawn_work(
    client: Client, draw: Callable[[int], Minibatches], count: int, each: int, work: WorkOn
) -> Array:
    """Compute work on drawn minibatches; if it is cancelled, undo the draws of steps not begun.

    Args:
        client: the client that computes.
        draw: draws `count` units from the client's stream: minibatches, or passes of several.
        count: the number of units.
        each: the number of minibatches in a unit.
        work: describes the work on the minibatches; each is one piece.
    """
    rng = client.rng
    before, begun = rng.bit_generator.state, 0

    def begin(number: int) -> None:
        nonlocal begun
        begun = number

    drawn = draw(count)
    try:
        return await client.compute(work(drawn), begin)
    except BaseException:  # also cancellation, which is no Exception; raised again
        # Replay only the draws of units that began, so that the next round's draws are the same
        # as if the others had never been drawn.
        rng.bit_generator.state = before
        draw(ceil(begun / each))
        raise


class LocalSteps(Algorithm[Memory]):
    """A method whose clients take K local stochastic gradient steps in every round."""

    measured_by: ClassVar[Literal["L", "L_max"]] = "L_max"

    local_steps: int = StepCount
    batch: GrowingBatch | PositiveInt | None = Batch
    step_size: StepSize = Field(
        description="the clients' step size: a number, or a multiple of 1/L_max, L_max the largest"
        ' smoothness constant of a client\'s loss ("1/L_max"), or of 1/L'
    )

    @property
    def eta(self) -> float:
        """The clients' step size as a number, after `configure`."""
        return float(self.step_size)

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of the local steps."""
        return float(self.local_steps * draw_count(self.batch, rows))

    def gradient(self, client: Client, w: Array) -> Work:
        """Describe a stochastic gradient of the client's loss at `w`."""
        return stochastic_gradient(client, w, self.batch)


def of_this_round(server: Server, replies: Sequence[Reply]) -> Sequence[Reply]:
    """Return the replies to this round's messages, without late ones."""
    return of_round(replies, server.round)


def mean(server: Server, replies: Sequence[Reply], field: str) -> Array:
    """Return an estimate of the mean of a message field over all clients, sum_m p_m x_m.

    The server's `coefficients` weight the replies.

    Args:
        server: the server, which has the weights.
        replies: at least one.
        field: the name of the message field.
    """
    return server.aggregate(replies, field, server.coefficients(replies))


def mean_around(server: Server, replies: Sequence[Reply], field: str, centre: Array) -> Array:
    """Return centre + sum c_m (x_m - centre), an estimate of the mean over all clients.

    As `mean`, for vectors near a known one: weights c_m that do not add up to 1 then scale the
    distance to it, not the vector.
    """
    coefficients = server.coefficients(replies)
    total = server.aggregate(replies, field, coefficients)
    left = 1 - float(coefficients.sum())
    return total + left * centre if abs(left) > _ROUNDING else total


_ROUNDING = 1e-12
"""Tolerance for the sum of weights: closer to 1 counts as 1."""


def ratio(server: Server, replies: Sequence[Reply], field: str) -> Array:
    """Return the mean of a message field, with the `coefficients` scaled to add up to 1.

    Use it for a number that multiplies a `mean`: if all clients send the same number, the result is
    that number.
    """
    coefficients = server.coefficients(replies)
    whole = float(coefficients.sum())
    if abs(1 - whole) > _ROUNDING:
        coefficients = coefficients / whole
    return server.aggregate(replies, field, coefficients)


def sum_of_all(
    server: Server, replies: Sequence[Reply], field: str, weights: Array | None = None
) -> Array:
    """Return an unbiased estimate of the weighted sum of a message field over all clients.

    Unlike `mean`, it is unbiased for every `participation.estimate` if clients are drawn with known
    probabilities. Use it for steps along sums over all clients, as papers define them.

    Args:
        server: the server, which has the factors.
        replies: at least one.
        field: the name of the message field.
        weights: the weights of all clients, shape (M,); p_m by default.
    """
    reply_weights = (server.weights if weights is None else weights)[senders(replies)]
    factors = server.factors(replies)
    if isinstance(factors, float):
        return server.aggregate(replies, field, reply_weights) * factors
    return server.aggregate(replies, field, reply_weights * factors)


def shares(server: Server, replies: Sequence[Reply], field: str) -> Array:
    """Return the sum of p_i times a message field, over the replies in their order.

    Unlike `mean` and `sum_of_all`, it does not stand for clients that did not reply. Use it for
    changes of a sum over all clients, in which the server keeps the terms of these clients.
    """
    if not replies:
        return np.zeros_like(server.initial)
    return server.aggregate(replies, field, server.weights[senders(replies)], changes=True)


# The clients' result of local steps is sent as a model, or as its difference from the received one.
#
# Within a round the server computes the same from both: the mean of w_m = w + (w_m - w) is w plus
# the mean of the differences, where all clients started from w. They differ in compression and in
# late replies. A model replaces another one, so it must belong to this round, and error feedback
# must not add errors of earlier models to it (EF21 is possible, since it sends changes). A
# difference is added to the server's model: error feedback corrects compression errors by later
# differences. If it consists of gradient steps, a late difference is as useful as a late gradient,
# and an asynchronous server can add it whenever it arrives. If it is a jump to a minimum, two
# differences from the same start overshoot it, so such a method needs rounds.

_MakeMessage = Callable[[Payload], Message]


@dataclass(frozen=True, slots=True)
class Change(Message):
    """Client to server: the result of its local steps minus the received model."""

    change: Payload


class SendsModels(Algorithm):
    """A method whose clients send the result of their local steps, or the difference.

    Late differences of earlier rounds are added, too, unless the method needs rounds.
    """

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE}

    sends: Literal["models", "differences"] = Field(
        default="models",
        description="the clients' messages: the result of their local steps, as in the paper, or"
        " the difference to the received model, which may be late and compressed with feedback",
    )

    @property
    def up(self) -> Mapping[str, Meaning]:
        """The meaning of clients' vectors: models replace, differences are added."""
        return {"": Meaning.INCREMENT} if self.sends == "differences" else self.uplink

    def increment_variant(self) -> IncrementVariant:
        """Return the method whose clients send differences."""
        other = self.model_copy(update={"sends": "differences"})
        return IncrementVariant("sends: differences", other)

    def result_message(
        self, client: Client, ends: Array, start: Array, kind: _MakeMessage, known: Structure
    ) -> Message:
        """Return a client's message.

        Args:
            client: the sender.
            ends: the vector after its local steps, shape (d,).
            start: the received vector, shape (d,).
            kind: creates the message from the packed result.
            known: the structure of `ends`, and of the difference.
        """
        if self.sends == "differences":
            return Change(client.pack(ends - start, known))
        return kind(client.pack(ends, known))

    def mean_of(self, server: Server, replies: Sequence[Reply], w: Array, field: str) -> Array:
        """Return the mean of the clients' results, shape (d,); `w` if no reply counts.

        Args:
            server: the server, in an open round.
            replies: the replies to this round, and late ones.
            w: the server's current vector.
            field: the name of the message field that holds the clients' models.
        """
        added = self.sends == "differences"
        counted = replies if added and not self.synchronous else of_this_round(server, replies)
        if not counted:
            return w
        if added:
            return w + mean(server, counted, "change")
        return mean_around(server, counted, field, w)


# The weighted mean of models, for theorems on averages rather than on the last model.


class Average:
    """The weighted mean of models, accumulated one by one."""

    __slots__ = ("_mean", "_weight")

    def __init__(self, like: Array) -> None:
        self._mean, self._weight = np.zeros_like(like), 0.0

    def add(self, w: Array, weight: float) -> None:
        """Add a model."""
        if weight > 0:
            self._weight += weight
            self._mean = self._mean + (weight / self._weight) * (w - self._mean)

    def or_else(self, w: Array) -> Array:
        """Return the mean, or `w` if the total weight is 0."""
        return self._mean if self._weight else w


# Messages of several families of methods; those of one family are defined in its module.
#
# The event log names a message by its class.


@dataclass(frozen=True, slots=True)
class Model(Message):
    """The model w, shape (d,), sent by the server to clients, or between peers."""

    w: Payload


@dataclass(frozen=True, slots=True)
class LocalModel(Message):
    """Client to server: the model after its local steps, shape (d,)."""

    w: Payload


@dataclass(frozen=True, slots=True)
class Progress(Message):
    """Client to server: (w - v)/eta, the sum of its local steps' directions, compressed."""

    delta: Payload
