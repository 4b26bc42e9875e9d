"""Problems: the losses of all clients, and the objectives composed of them."""

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.in_memory import code_in, without_keys
from fedsim.core.blocks.plugins import own_modules
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.memory import MODELS, check_budget
from fedsim.core.ports import Array, Oracle
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.description import Naming
from fedsim.problems.losses import LeastSquares, Logistic, Loss, Softmax
from fedsim.problems.oracle import LossOracle, oracles
from fedsim.problems.partition import Cuts, Partition, blocks, labels, sizes
from fedsim.problems.parts import ModelPart
from fedsim.problems.penalties import NoPenalty, Penalty, Regulariser
from fedsim.problems.projections import largest_eigenvalue
from fedsim.problems.samples import Draw, Samples
from fedsim.problems.tables.fit_exchange import FitExchange

Weighting = Literal["rows", "equal", "sum"]
"""The weights w_m of the objective F = sum_m w_m f_m.

- "rows": n_m/n, client m's share of all rows.
- "equal": 1/M.
- "sum": 1, the plain sum.
"""


_AT_ONCE = 2**16
"""The number of terms of a sum that are Python numbers at the same time."""


def usual_weighting(loss: Loss) -> Weighting:
    """Return the weighting under which F is the loss of all rows pooled in one place."""
    return "sum" if loss.scale in ("sum", "share") else "rows"


def client_shares(rows: NDArray[np.int64], weighting: Weighting) -> Array:
    """Return p_m, the clients' weights divided by their sum, shape (M,).

    Args:
        rows: the clients' numbers of rows, shape (M,).
        weighting: the rule of the weights.
    """
    counts = rows if weighting == "rows" else np.ones(len(rows))
    return np.asarray(counts / counts.sum())


@dataclass(frozen=True, eq=False)
class Problem:
    """The problem that a fleet minimises: the clients' losses, and one penalty for all of them.

    Attributes:
        loss: shared by all clients.
        losses: f_m of each client, M of them. In a large fleet, each is built when it is looked up.
        fingerprint: SHA-256 of the loss, of all clients' samples and of the test rows, in
            hexadecimal. Python code that was passed in enters it only as a mark that there is some.
        truth: the model planted in the data by a generator, if any.
        penalty: the term h beside the losses.
        samples: the samples of each client, as passed.
        test: rows that no client has, if any.
        weighting: the rule of the clients' weights w_m in the objective F = sum_m w_m f_m.
        naming: the names of clients and labels, if the data has names.
        fit_exchange: the messages that fit the preprocessing before the method starts, if they are
            charged.
        unassigned: the number of rows that the split assigns to no client, not even for testing.
    """

    loss: Loss
    losses: Sequence[LocalLoss]
    fingerprint: str
    truth: Array | None = None
    penalty: Penalty = field(default_factory=NoPenalty)
    samples: Sequence[Samples] = ()
    test: Samples | None = None
    weighting: Weighting = "rows"
    naming: Naming = field(default_factory=Naming)
    fit_exchange: FitExchange | None = None
    unassigned: int = 0

    @classmethod
    def of(
        cls,
        loss: Loss,
        samples: Sequence[Samples],
        penalty: Penalty | None = None,
        test: Samples | None = None,
        weighting: Weighting | None = None,
    ) -> Self:
        """Join a loss with the samples of each client, in the order of the fleet.

        Args:
            loss: shared by all clients.
            samples: the samples of each client.
            penalty: the term h beside the losses; none by default.
            test: rows that no client has.
            weighting: of the objective. By default, F is the loss of the pooled rows, see
                `usual_weighting`.

        Raises:
            DataError: there is no client, a client has no row, clients differ in the number of
                features, the loss cannot be used with the labels, or the penalty cannot be used
                with the shape of the model.
        """
        _check(samples)
        losses = ClientLosses.join(loss, samples, loss.encode(labels(samples)))
        d = losses[0].dimension
        check_budget("loss", f"a model of {d} numbers and what is computed with it", MODELS * 8 * d)
        penalty = penalty or NoPenalty()
        penalty.check(losses[0].shape)
        weighting = weighting or usual_weighting(loss)
        fingerprint = _fingerprint(loss, samples, penalty, test, weighting)
        return cls(loss, losses, fingerprint, samples[0].truth, penalty, samples, test, weighting)

    @cached_property
    def has_code(self) -> bool:
        """Whether the loss or penalty is Python code passed in, unknown to other processes."""
        return bool(code_in([self.loss, self.penalty]))

    @property
    def dimension(self) -> int:
        """The length d of the model."""
        return self.losses[0].dimension

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the flat model: (d,), or the rows and columns of a matrix."""
        return self.losses[0].shape

    @property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the parts that the flat model consists of, in order."""
        return self.losses[0].layers

    @property
    def parts(self) -> tuple[ModelPart, ...]:
        """The named parts of the flat model, in order."""
        return self.losses[0].parts

    @cached_property
    def labels(self) -> Array:
        """The labels of all clients' rows, client by client, shape (n,)."""
        return labels(self.samples)

    @cached_property
    def regulariser(self) -> Regulariser:
        """The penalty, on flat models."""
        return Regulariser(self.penalty, self.shape)

    @cached_property
    def weights(self) -> Array:
        """p_m, the clients' weights over their sum, shape (M,): shares of all rows, or 1/M."""
        return client_shares(self.rows, self.weighting)

    @cached_property
    def coefficients(self) -> Array:
        """The clients' weights w_m in the objective, shape (M,)."""
        return np.ones(len(self.losses)) if self.weighting == "sum" else self.weights

    @property
    def total_weight(self) -> float:
        """W, the sum of the w_m. The clients' part of F/W is the weighted mean of their losses."""
        return float(len(self.losses)) if self.weighting == "sum" else 1.0

    @cached_property
    def node_coefficients(self) -> Array:
        """M w_m, shape (M,): among peers F is the plain mean of the losses M w_m f_m."""
        clients = len(self.losses)
        if self.weighting == "equal":
            return np.ones(clients)
        if self.weighting == "sum":
            return np.full(clients, float(clients))
        return np.asarray(self.rows * clients / self.rows.sum())  # exactly 1 for equal numbers

    def describe_objective(self) -> str:
        """Return F as a formula.

        >>> from fedsim.problems import Logistic, Samples
        >>> rows = Samples(np.eye(2), np.array([1.0, -1.0]))
        >>> Problem.of(Logistic(labels="plus-minus"), [rows] * 3).describe_objective()
        'F(w) = sum_m (n_m/n) f_m(w)'
        """
        weight = {"rows": "(n_m/n) ", "equal": "(1/M) ", "sum": ""}[self.weighting]
        return (
            f"F(w) = sum_m {weight}f_m(w){'' if isinstance(self.penalty, NoPenalty) else ' + h(w)'}"
        )

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The number of rows of each client, n_m, shape (M,)."""
        return sizes(self.samples)

    @property
    def oracles(self) -> Sequence[LossOracle]:
        """The clients' losses as priced work, in the order of the fleet."""
        return oracles(self.losses)

    def fresh_oracles(self, draw: Draw, *, among_peers: bool = False) -> Sequence[Oracle]:
        """Return the clients' losses as priced work, for a new world.

        Args:
            draw: draws their minibatches.
            among_peers: whether the weights are those of a method without a server,
                `node_coefficients`.
        """
        weights = self.node_coefficients if among_peers else self.coefficients
        return oracles(self.losses, draw, weights)

    def looked_at(self, w: Array, values: Callable[[Array], Sequence[float] | Array]) -> float:
        """Return the objective at `w`, shape (d,), with penalty; NaN if it cannot be evaluated.

        Args:
            w: the model.
            values: returns the f_m of all clients at a model.
        """
        return self.total(values(w)) + self.regulariser.value(w)

    @property
    def valued(self) -> bool:
        """Whether the objective can be evaluated."""
        return True

    @property
    def observers(self) -> Sequence[Callable[[Array], Mapping[str, float]]]:
        """Observers of further figures of a model, which need no configured measure."""
        return ()

    def with_losses(self, losses: Sequence[LocalLoss]) -> Self:
        """Return the same problem with other objects for its losses.

        Both problems share the weights.
        """
        problem = replace(self, losses=losses)
        vars(problem)["weights"] = self.weights  # of many clients, a second array takes memory
        return problem

    def flipped_losses(self, false: NDArray[np.intp]) -> ClientLosses:
        """Return the clients' losses, with those of some clients on flipped labels.

        Args:
            false: these clients.
        """
        targets, cuts = self.loss.encode(self.labels), Cuts(self.rows)
        flipped, known = self.loss.flip(targets, self.labels), targets.copy()
        for own in map(cuts.of, false.tolist()):
            known[own] = flipped[own]
        return ClientLosses.join(self.loss, self.samples, known)

    def remembering(self) -> Self:
        """Return the same problem with caches of the losses' values and derivatives at a model."""
        return replace(self, losses=ClientLosses.of(self.losses).remembering())

    def initial(self, rng: np.random.Generator) -> Array:
        """Return the initial model, shape (d,): zeros for linear models."""
        return self.losses[0].initial(rng)

    def value(self, w: Array) -> float:
        """Return the objective at `w`, penalty included; infinity if the sum overflows."""
        return self.smooth_value(w) + self.regulariser.value(w)

    def smooth_value(self, w: Array) -> float:
        """Return the objective at `w` without the penalty, summed without rounding."""
        return self.total(ClientLosses.of(self.losses).values(w))

    def total(self, values: Sequence[float] | Array) -> float:
        """Return the objective without the penalty from the clients' values of f_m."""
        terms = np.asarray(values)
        weights = None if self.weighting == "sum" else self.coefficients
        try:
            return math.fsum(_terms(terms, weights))
        except (OverflowError, ValueError):  # an overflow, or infinities of both signs
            return sum(_terms(terms, weights))

    def gradient(self, w: Array) -> Array:
        """Return a (sub)gradient at `w` of the objective without its penalty, shape (d,).

        The clients' gradients are summed in client order.
        """
        total = np.zeros(self.dimension)
        for c, loss in zip(self.coefficients, self.losses, strict=True):
            total += c * loss.gradient(w)
        return total

    def hessian(self, w: Array) -> Array:
        """Return the Hessian at `w` of the objective without its penalty, shape (d, d).

        Raises:
            DataError: the loss does not provide one.
        """
        total = np.zeros((self.dimension, self.dimension))
        for c, loss in zip(self.coefficients, self.losses, strict=True):
            total += c * loss.hessian(w)
        return total

    def smoothness(self) -> float:
        """Return L, the smoothness constant of the objective without its penalty.

        It is the constant of the sum itself, which may be much smaller than the sum of the L_m.

        Raises:
            DataError: the loss has none, since it is not convex.
        """
        majorants = [loss.majorant for loss in self.losses]
        shares = self.coefficients
        weights = [float(p) * c for p, (c, _) in zip(shares, majorants, strict=True)]
        largest = largest_eigenvalue(weights, [A for _, A in majorants])
        return largest + float(shares.sum()) * self.loss.l2

    @cached_property
    def client_smoothness(self) -> Array:
        """The smoothness constants L_m of the clients' losses, shape (M,).

        Raises:
            DataError: the loss has none, since it is not convex.
        """
        return np.array([loss.smoothness for loss in self.losses])


def _terms(values: Array, weights: Array | None) -> Iterator[float]:
    """Yield the terms of a sum, weighted if there are weights; only a block is a list at a time."""
    for begin in range(0, len(values), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        yield from (values[part] if weights is None else weights[part] * values[part]).tolist()


def _check(samples: Sequence[Samples]) -> None:
    if not samples:
        raise DataError("split.clients", "a problem takes at least one client; got none")
    empty = np.flatnonzero(sizes(samples) == 0)
    if len(empty):
        raise DataError("split", f"client {empty[0]} has no samples; each takes at least one")
    if isinstance(samples, Partition):  # of one array
        return
    for m, part in enumerate(samples):
        if part.features != samples[0].features:
            raise DataError(
                "data",
                f"client {m} has {part.features} features, but client 0 has "
                f"{samples[0].features}; all take the same number",
            )


def _fingerprint(
    loss: Loss,
    samples: Sequence[Samples],
    penalty: Penalty,
    test: Samples | None,
    weighting: Weighting,
) -> str:
    """Return a hash of a problem: of its values, and of the source text of plugins."""
    digest = hashlib.sha256(without_keys(loss.model_dump_json()).encode())
    if not isinstance(penalty, NoPenalty):
        digest.update(penalty.model_dump_json().encode())
    for text in own_modules([loss, penalty]).values():
        digest.update(text)
    for block in blocks(samples):
        digest.update(block)
    if test is not None:
        digest.update(b" test ")
        for block in test.blocks():
            digest.update(block)
    if weighting != "rows":  # older hashes, all of "rows", stay valid
        digest.update(f" weights {weighting}".encode())
    return digest.hexdigest()


# Starts: the initial model of server and clients.


class Start(Spec):
    """The initial model."""

    source: ClassVar[str]
    """Human-readable source of the start."""

    kind: str

    @abstractmethod
    def draw(self, problem: Problem, rng: np.random.Generator) -> Array:
        """Return the initial model, shape (d,)."""


class OwnStart(Start):
    """The loss's default: zeros for linear models, random weights for a network."""

    source: ClassVar[str] = "the loss"

    kind: Literal["own"] = "own"

    def draw(self, problem: Problem, rng: np.random.Generator) -> Array:
        """Return the loss's initial model."""
        return problem.initial(rng)


class NormalStart(Start):
    """Independent normal coordinates."""

    source: ClassVar[str] = "as in Bao et al., ICML 2022: N(0, I)"

    kind: Literal["normal"] = "normal"
    scale: float = Field(default=1.0, gt=0, description="standard deviation of each coordinate")

    def draw(self, problem: Problem, rng: np.random.Generator) -> Array:
        """Draw the model."""
        return self.scale * rng.standard_normal(problem.dimension)


STARTS: Registry[Start] = Registry("start", (OwnStart, NormalStart), Start)
"""The starts that a scenario can name."""


# The largest smoothness constant of all clients, without computing the constant of each.

_VALUES_AT_ONCE = 2**18
"""The number of values of samples and of their Gram matrices in one block."""


def largest_smoothness(problem: Problem) -> float:
    """Return L_max, the largest smoothness constant of a client's loss.

    The Gram matrices give an upper bound on each client's constant. The constant itself is computed
    only for clients whose bound exceeds the largest constant so far.

    Raises:
        DataError: the loss has none, since it is not convex.
    """
    bounds = _bounds(problem)
    if bounds is None:
        return float(problem.client_smoothness.max())
    # The constant of the client with the largest bound excludes most others, so only the few that
    # are left are sorted.
    largest = float(problem.losses[int(bounds.argmax())].smoothness)
    left = np.flatnonzero(bounds >= largest)
    for client in left[np.argsort(-bounds[left], kind="stable")].tolist():
        if bounds[client] < largest:
            break
        largest = max(largest, problem.losses[client].smoothness)
    return float(largest)


def _bounds(problem: Problem) -> Array | None:
    """Return upper bounds on the L_m, shape (M,); None if they are unknown or not finite."""
    samples, loss = problem.samples, problem.loss
    # The majorants of these losses are a number times X^T X, in which the signs of rows cancel.
    if not isinstance(samples, Partition) or not isinstance(
        loss, LeastSquares | Logistic | Softmax
    ):
        return None
    bounds = np.empty(len(samples))
    for rows, whose in samples.alike:
        factor = problem.losses[int(whose[0])].majorant[0]
        for some in _in_blocks(samples, whose, rows):
            bounds[some] = factor * _norms(samples, some, rows) * (1 + 1e-9) + loss.l2
    return bounds if np.isfinite(bounds).all() else None


def _in_blocks(
    samples: Partition, whose: NDArray[np.intp] | range, rows: int
) -> Iterator[NDArray[np.intp]]:
    """Yield clients with `rows` rows each, in blocks that take little memory."""
    d = samples.features
    step = max(_VALUES_AT_ONCE // (rows * d + min(rows, d) ** 2), 1)
    for at in range(0, len(whose), step):
        yield np.asarray(whose[at : at + step])


def _norms(samples: Partition, whose: NDArray[np.intp], rows: int) -> Array:
    """Return bounds on |X_m^T X_m| of clients with `rows` rows each.

    Let G be the smaller of X X^T and X^T X. Its largest eigenvalue is at most |G^2|_F^(1/2), the
    fourth root of the sum of the eigenvalues' fourth powers.
    """
    X = samples.stack_rows(samples.X, whose, rows).astype(np.float64, copy=False)
    gram = X @ X.transpose(0, 2, 1) if rows < samples.features else X.transpose(0, 2, 1) @ X
    square = gram @ gram
    return np.asarray(np.sqrt(np.sqrt(np.einsum("mij,mij->m", square, square))))
