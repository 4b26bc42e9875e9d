"""Federated iterative hard thresholding: models with at most tau nonzero entries.

Tong, Liang, Ding, Zhu, Pan, Bi, "Federated Optimization of l0-norm Regularized Sparse Learning",
Algorithms 2022, 15, 319: Fed-HT (algorithm 1), FedIter-HT (algorithm 2), and their baseline,
Distributed-IHT (algorithm A1). All minimise f = sum_m p_m f_m over the models with at most tau
nonzero entries. H_tau keeps the tau entries of largest magnitude; among equal magnitudes it keeps
those of lowest index:

    Distributed-IHT, Fed-HT:  w_m <- w_m - gamma g_m(w_m)            K times (once), from w^t
    FedIter-HT:               w_m <- H_tau(w_m - gamma g_m(w_m))     K times, from w^t
    all:                      w^{t+1} = H_tau(sum_m p_m w_m)

If the model is a matrix, such as that of softmax regression with one column per class, H_tau acts
on each column. Round t commits w^{t+1}. The messages of the server are tau-sparse, and so are those
of FedIter-HT's clients.

The mean is over models that started from the same w^t. A reply after the end of its round is not
counted, since it would replace a newer model by an older one. With `sends: differences` clients
send w_m - w^t, and the server computes H_tau(w^t + mean(w_m - w^t)). This is the same model, but
late differences count, too, the server may be asynchronous, and compression may have error feedback
(`fedsim.algorithms.local_steps`).
"""

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, PrivateAttr

from fedsim.algorithms.base import Combines, ProblemInfo
from fedsim.algorithms.concerns import Concern, concern, long_step
from fedsim.algorithms.local_steps import Change, LocalModel, LocalSteps, Model, SendsModels
from fedsim.core.errors import ParameterError
from fedsim.core.ports import DENSE, SPARSE, Array, Client, Message, Server, Structure
from fedsim.problems import Problem, Reference, sparse_optimum
from fedsim.problems.projections import hard_threshold, hard_threshold_columns

# Steps and sparsity admissible in the analysis of hard thresholding.
#
# The theorems of Tong et al. 2022 bound the distance to the best model after a round: local steps
# decrease it by a factor, and thresholding may increase it by another. The conditions tested here
# are derived, and necessary for any such bound; those of the paper contain restricted constants
# that are not known for a given problem. With w* of tau* nonzero entries,
#
#     |H_tau(v) - w*|^2 <= nu |v - w*|^2,    nu = 1 + (r + sqrt((4 + r) r))/2,
#     r = m/(tau - tau* + m),  m = min(tau*, d - tau)
#
# (Shen, Li, J. Mach. Learn. Res. 2018, theorem 1, which is tight), and a gradient step of size
# gamma on a mu_m-strongly convex loss multiplies the distance to its minimiser by at most max(|1 -
# gamma mu_m|, |1 - gamma L_m|), which is at least |1 - gamma L_m|. K averaged steps and n
# thresholds (1, or K + 1 with those of local steps) can be a contraction of this kind only if
#
#     gamma < 2/L_max    and    nu^n (sum_m p_m |1 - gamma L_m|^K)^2 < 1,    tau* = 1 at best.
#
# Thresholding undoes steps that are too short for the sparsity: a wrong support is then a fixed
# point (Beck, Eldar, SIAM J. Optim. 2013, L-stationarity).


def expansion(kept: ArrayLike, length: int, target: int = 1) -> Array:
    """Return nu, the factor by which thresholding may increase squared distances to a target.

    Args:
        kept: tau >= tau*, a number or many.
        length: d, of the vector.
        target: tau*, the number of nonzero entries of the target.

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
    """Yield a concern if a step is too long for a gradient step, or too short for the sparsity.

    Args:
        info: with the clients' smoothness constants.
        eta: gamma.
        steps: K.
        kept: tau.
        thresholds: n, the number of thresholds of a model in a round.
    """

    def text(bound: float) -> str:
        return (
            f"got {eta:g}, but 2/L_max = {bound:g}: a longer gradient step on a client's loss may"
            " increase the distance to its minimiser (derived, for the theorems of Tong et al.)"
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
            f"got {kept}: thresholding may multiply the distance to the best model by {moved:.4g},"
            f" and local steps of {eta:g} by {rate:.4g} at best; no theorem like those of Tong et"
            " al. 2022 holds for such short steps (Shen, Li 2018)"
        )
        yield concern("sparsity", worst, str(kept + int(np.argmax(bears))))


TONG = (
    "Tong, Liang, Ding, Zhu, Pan, Bi: Federated Optimization of l0-norm Regularized Sparse "
    "Learning, Algorithms 2022"
)


class FedHT(SendsModels, LocalSteps):
    """Fed-HT: clients take local steps, and the server thresholds the mean of their models."""

    kind: Literal["fed-ht"] = "fed-ht"
    combines: ClassVar[Combines] = "mean"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, LocalModel, Change)
    handles_rows: ClassVar[bool] = True
    sampled: ClassVar[bool] = False
    source: ClassVar[str] = f"{TONG}, algorithm 1"
    known: ClassVar[Structure] = DENSE
    """The known structure of the model that a client sends."""

    sparsity: int = Field(
        ge=1, description="tau, the number of nonzero entries of the model (per column of a matrix)"
    )
    _shape: tuple[int, ...] = PrivateAttr(default=())

    def reference(self, problem: Problem) -> Reference | None:
        """Return the best model of this sparsity, see `sparse_optimum`."""
        columns = len(problem.shape) > 1
        return sparse_optimum(problem, self.sparsity, columns=columns)

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with the step size as a number and the shape of models.

        Raises:
            ParameterError: the sparsity exceeds the number of entries.
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
        """Yield concerns about the step and the sparsity, see `concerns` of this module.

        Also yield one for a constant batch, which leaves an error that vanishes in the theorems.
        """
        if isinstance(self.batch, int):
            text = (
                f"a batch of {self.batch} samples in every round; in the theorems of Tong et al. "
                "it grows as Gamma/omega^t: with a constant one the error stays at the level of "
                "the gradients' noise"
            )
            yield concern("batch", text, f"{{start: {self.batch}, ratio: 0.9}}")
        yield from concerns(info, self.eta, self.local_steps, self.sparsity, self.thresholds)

    def threshold(self, w: Array) -> Array:
        """Return H_tau(w), shape (d,)."""
        if len(self._shape) < 2:
            return hard_threshold(w, self.sparsity)
        return hard_threshold_columns(w.reshape(self._shape), self.sparsity).ravel()

    def retain(self, w: Array) -> Array:
        """Return a client's model after a local step: here unchanged."""
        return w

    async def serve(self, server: Server) -> None:
        """Run the server; a round without a reply leaves the model unchanged."""
        w = self.threshold(server.initial)
        while True:
            replies = await server.exchange(Model(server.pack(w, SPARSE)))
            w = self.threshold(self.mean_of(server, replies, w, "w"))
            server.commit(w)

    async def handle(self, client: Client, message: Model) -> Message:
        """Run a client: K local steps from the received model."""
        w = start = message.w.values
        for _ in range(self.local_steps):
            g = await client.compute(self.gradient(client, w))
            w = self.retain(w - self.eta * g)
        return self.result_message(client, w, start, LocalModel, self.known)


class FedIterHT(FedHT):
    """FedIter-HT: clients threshold every local step, so that their messages are sparse, too."""

    kind: Literal["fediter-ht"] = "fediter-ht"  # type: ignore[assignment]
    handles_rows: ClassVar[bool] = False
    source: ClassVar[str] = f"{TONG}, algorithm 2"
    known: ClassVar[Structure] = SPARSE

    @property
    def thresholds(self) -> int:
        """The number of thresholds of a model in a round: one per local step, and the server's."""
        return self.local_steps + 1

    def retain(self, w: Array) -> Array:
        """Return a client's model after a local step: H_tau(w)."""
        return self.threshold(w)


class DistributedIHT(FedHT):
    """Distributed-IHT: one stochastic gradient per client and round; Fed-HT with K = 1."""

    kind: Literal["distributed-iht"] = "distributed-iht"  # type: ignore[assignment]
    source: ClassVar[str] = f"{TONG}, algorithm A1"

    local_steps: Literal[1] = Field(default=1, description="K, which is 1 for this method")


def check_sparsity(sparsity: int, most: int) -> None:
    """Check that a model has at least as many entries as its sparsity.

    Raises:
        ParameterError: it has fewer.
    """
    if sparsity > most:
        raise ParameterError(
            "sparsity", f"got {sparsity}, but there are {most} entries; give {most} or less"
        )
