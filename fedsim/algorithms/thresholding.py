"""Iterative hard thresholding over clients: models of at most tau entries other than zero.

Tong, Liang, Ding, Zhu, Pan, Bi, "Federated Optimization of l0-norm Regularized Sparse
Learning", Algorithms 2022, 15, 319: Fed-HT (algorithm 1), FedIter-HT (algorithm 2), and the
method they are compared with, Distributed-IHT (algorithm A1). All minimise
f = sum_m p_m f_m over the models with at most tau entries other than zero, with H_tau, which
keeps the tau largest magnitudes, of equal ones those of lowest index:

    Distributed-IHT, Fed-HT:  w_m <- w_m - gamma g_m(w_m)            K times (once), from w^t
    FedIter-HT:               w_m <- H_tau(w_m - gamma g_m(w_m))     K times, from w^t
    all:                      w^{t+1} = H_tau(sum_m p_m w_m)

Of a model that is a matrix, such as that of softmax regression with its column a class, H_tau
acts on each column. Round t commits w^{t+1}. What the server sends is tau-sparse, and so is
what FedIter-HT's clients send.

The mean is of models that started from the same w^t: a reply that comes after its round has
closed is not counted, since it would put an older model in the place of a newer one. With
`sends: differences` clients send w_m - w^t, and the server takes H_tau(w^t + mean(w_m - w^t)):
the same model, but late differences count, too, servers may be asynchronous, and compression
may have feedback (`fedsim.algorithms.local_steps`).
"""

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, PrivateAttr

from fedsim.algorithms.base import ProblemInfo
from fedsim.algorithms.concerns import Concern, concern, long_step
from fedsim.algorithms.local_steps import Change, LocalModel, LocalSteps, Model, SendsModels
from fedsim.errors import ParameterError
from fedsim.ports import DENSE, SPARSE, Array, Client, Message, Server, Structure
from fedsim.problems import Problem, Reference, sparse_optimum
from fedsim.problems.projections import hard_threshold, hard_threshold_columns

# Steps and sparsity admissible in the analysis of hard thresholding.
#
# The theorems of Tong et al. 2022 (`fedsim.algorithms.thresholding`) bound a round by what local
# steps bring the model nearer to the best one and what thresholding may move it away. What is
# tested here is derived, and necessary for any such bound; their own conditions have restricted
# constants that are not known for a given problem. With w* of tau* entries other than zero,
#
#     |H_tau(v) - w*|^2 <= nu |v - w*|^2,    nu = 1 + (r + sqrt((4 + r) r))/2,
#     r = m/(tau - tau* + m),  m = min(tau*, d - tau)
#
# (Shen, Li, J. Mach. Learn. Res. 2018, theorem 1, which is tight), and a gradient step of length
# gamma on a loss that is mu_m-strongly convex brings a model nearer to its minimiser by the factor
# max(|1 - gamma mu_m|, |1 - gamma L_m|), which is no less than |1 - gamma L_m|. K of them,
# averaged, and n thresholds (1; with those of local steps K + 1) make a contraction of this kind
# only where
#
#     gamma < 2/L_max    and    nu^n (sum_m p_m |1 - gamma L_m|^K)^2 < 1,    tau* = 1 at best.
#
# Steps too short for their sparsity are those that thresholding takes back: a wrong support is then
# a fixed point (Beck, Eldar, SIAM J. Optim. 2013, L-stationarity).


def expansion(kept: ArrayLike, length: int, target: int = 1) -> Array:
    """Return nu, by which squared distances to a target may grow as a vector is thresholded.

    Args:
        kept: tau >= tau*, a number or many.
        length: d, of the vector.
        target: tau*, the entries of the target that differ from zero.

    >>> float(expansion(1, 10)), float(expansion(10, 10))
    (2.618033988749895, 1.0)
    """
    tau = np.asarray(kept, dtype=np.float64)
    most = np.minimum(target, length - tau)
    r = most / np.maximum(tau - target + most, 1)
    return np.asarray(1 + (r + np.sqrt((4 + r) * r)) / 2)


def concerns(
    info: ProblemInfo, eta: float, steps: int, kept: int, thresholds: int
) -> Iterator[Concern]:
    """Yield that a step is too long for a gradient step, or too short for the sparsity.

    Args:
        info: with the clients' smoothness constants.
        eta: gamma.
        steps: K.
        kept: tau.
        thresholds: n, the number of thresholds of a model in a round.
    """

    def text(bound: float) -> str:
        return (
            f"got {eta:g}, but 2/L_max = {bound:g}: no longer gradient step on a client's loss is"
            " sure to bring a model nearer (derived, for the theorems of Tong et al. 2022)"
        )

    yield from long_step(eta, info.largest_smoothness / 2, text, "1/L_max")
    if eta * info.largest_smoothness >= 2:
        return
    nearer = np.abs(1 - eta * info.client_smoothness()) ** steps
    rate, length = float(info.shares @ nearer), (info.shape or (info.dimension,))[0]
    bears = expansion(np.arange(kept, length + 1), length) ** thresholds * rate**2 < 1
    if bears.any() and not bears[0]:
        moved = float(np.power(expansion(kept, length), thresholds / 2))
        worst = (
            f"got {kept}, which may move a model away from the best one by {moved:.4g}, while"
            f" local steps of {eta:g} bring it nearer by {rate:.4g} at best: no theorem like those"
            " of Tong et al. 2022 holds for such short steps (Shen, Li 2018)"
        )
        yield concern("sparsity", worst, str(kept + int(np.argmax(bears))))


TONG = (
    "Tong, Liang, Ding, Zhu, Pan, Bi: Federated Optimization of l0-norm Regularized Sparse "
    "Learning, Algorithms 2022"
)


class FedHT(SendsModels, LocalSteps):
    """Fed-HT: clients take local steps, and the server thresholds the mean of their models."""

    kind: Literal["fed-ht"] = "fed-ht"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, LocalModel, Change)
    sampled: ClassVar[bool] = False
    source: ClassVar[str] = TONG
    known: ClassVar[Structure] = DENSE
    """The known structure of the model that a client sends."""

    sparsity: int = Field(
        ge=1, description="tau, entries of the model (of each column) that may differ from zero"
    )
    _shape: tuple[int, ...] = PrivateAttr(default=())

    def reference(self, problem: Problem) -> Reference | None:
        """Return the best model known with so many entries (of each column) beside zero."""
        columns = len(problem.shape) > 1
        return sparse_optimum(problem, self.objective, self.sparsity, columns=columns)

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy that knows its step size and how models are read.

        Raises:
            ParameterError: the sparsity exceeds what there is.
            DataError: the step size is relative to a constant that the problem lacks.
        """
        check_sparsity(self.sparsity, (info.shape or (info.dimension,))[0])
        ready = super().configure(info)
        ready._shape = info.shape  # noqa: SLF001 - a copy of this very class
        return ready

    @property
    def thresholds(self) -> int:
        """The number of thresholds of a model in a round: the server's."""
        return 1

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield the objections of `thresholding_theory` to the step and the sparsity.

        Also yield that a constant batch leaves an error where the theorems let it vanish.
        """
        if isinstance(self.batch, int):
            text = (
                f"a batch of {self.batch} samples in every round; the theorems of Tong et al. let "
                "it grow as Gamma/omega^t: with one that is constant the error stays at the level "
                "of the gradients' noise"
            )
            yield concern("batch", text, f"{{start: {self.batch}, ratio: 0.9}}")
        yield from concerns(info, self.eta, self.local_steps, self.sparsity, self.thresholds)

    def threshold(self, w: Array) -> Array:
        """Return H_tau(w), shape (d,)."""
        if len(self._shape) < 2:
            return hard_threshold(w, self.sparsity)
        return hard_threshold_columns(w.reshape(self._shape), self.sparsity).ravel()

    def retain(self, w: Array) -> Array:
        """Return the part of a client's model that is kept after a local step: all of it."""
        return w

    async def serve(self, server: Server) -> None:
        """Run the server; a round without a reply in time leaves the model as it is."""
        w = self.threshold(server.initial)
        while True:
            replies = await server.exchange(Model(server.pack(w, SPARSE)))
            w = self.threshold(self.mean_of(server, replies, w, "w"))
            server.commit(w)

    async def handle(self, client: Client, message: Model) -> Message:
        """Run a client: K local steps from the model it has received."""
        w = start = message.w.values
        for _ in range(self.local_steps):
            g = await client.compute(self.gradient(client, w))
            w = self.retain(w - self.eta * g)
        return self.result_message(client, w, start, LocalModel, self.known)


class FedIterHT(FedHT):
    """FedIter-HT: clients threshold every local step, so what they send is sparse, too."""

    kind: Literal["fediter-ht"] = "fediter-ht"  # type: ignore[assignment]
    known: ClassVar[Structure] = SPARSE

    @property
    def thresholds(self) -> int:
        """One a local step, and the server's."""
        return self.local_steps + 1

    def retain(self, w: Array) -> Array:
        """Return H_tau(w)."""
        return self.threshold(w)


class DistributedIHT(FedHT):
    """Distributed-IHT: one stochastic gradient a client and round; Fed-HT with K = 1."""

    kind: Literal["distributed-iht"] = "distributed-iht"  # type: ignore[assignment]

    local_steps: Literal[1] = Field(default=1, description="K, which is 1 for this method")


def check_sparsity(sparsity: int, most: int) -> None:
    """Check that a model has as many entries as are to be kept.

    Raises:
        ParameterError: it has fewer.
    """
    if sparsity > most:
        raise ParameterError(
            "sparsity", f"got {sparsity}, but there are {most} entries; give {most} or less"
        )
