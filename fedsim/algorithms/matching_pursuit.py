"""Federated gradient matching pursuit: clients select atoms, then minimise their loss over them.

Jeong, Needell, Qin, "Federated Gradient Matching Pursuit", IEEE Trans. Inf. Theory 2024
(FedGradMP, algorithms 1 and 2). It minimises f = sum_m p_m f_m over the models A x with at
most tau nonzero entries of x, with a dictionary A. A client, K times from x = x^t:

    r = a stochastic gradient of f_m at A x
    Gamma = the 2 tau largest |A^T r|, and the support of x
    b = argmin f_m over the span of the atoms Gamma
    x = the projection of b on the tau atoms whose coefficients in b are largest

and the server sets x^{t+1} to the best tau terms of sum_m p_m x_m, in the same way. Without a
dictionary (A = I) the projection is hard thresholding. An optional ball |A x| <= R bounds the
iterates of server and clients.

Messages carry coefficients. Round t commits the model A x^{t+1}. If only some clients reply, their
p_m are scaled to add up to 1. A reply after the end of its round is not counted, since it started
from an older x^t. With `sends: differences` clients send x_m - x^t
(`fedsim.algorithms.local_steps`). Such a difference is a jump to the minimum over some atoms. Two
jumps from the same x^t, added up, overshoot it, so this variant needs rounds, too.

If the model is a matrix, such as that of softmax regression with one column per class, each column
has its own tau atoms (section IV-D): tau and 2 tau above are numbers for each column.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, PrivateAttr

from fedsim.algorithms.base import Combines, ProblemInfo
from fedsim.algorithms.concerns import Concern
from fedsim.algorithms.dictionaries import AnyDictionary, Atoms, Columnwise, IdentityDictionary
from fedsim.algorithms.local_steps import (
    Batch,
    Change,
    GrowingBatch,
    SendsModels,
    StepCount,
    stochastic_gradient,
)
from fedsim.algorithms.solvers import AnySolver, Exact
from fedsim.algorithms.thresholding import check_sparsity
from fedsim.core.ports import SPARSE, Array, Client, Message, Payload, Server
from fedsim.problems import Problem, Reference, sparse_optimum


@dataclass(frozen=True, slots=True)
class Coefficients(Message):
    """Server to client: x^t, tau-sparse."""

    x: Payload


@dataclass(frozen=True, slots=True)
class Estimate(Message):
    """Client to server: the coefficients after its steps, tau-sparse."""

    x: Payload


class FedGradMP(SendsModels):
    """Federated gradient matching pursuit (FedGradMP)."""

    kind: Literal["fedgradmp"] = "fedgradmp"
    combines: ClassVar[Combines] = "mean"
    messages: ClassVar[tuple[type[Message], ...]] = (Coefficients, Estimate, Change)
    source: ClassVar[str] = (
        "Jeong, Needell, Qin: Federated Gradient Matching Pursuit, IEEE Trans. Inf. Theory 2024,"
        " algorithms 1 and 2"
    )

    synchronous: ClassVar[str] = (
        "an estimate is a jump to the minimum over some atoms, and adding two jumps from the same"
        " model overshoots"
    )

    local_steps: int = StepCount
    batch: GrowingBatch | PositiveInt | None = Batch
    sparsity: int = Field(ge=1, description="tau, atoms per model (per column of a matrix)")
    solver: AnySolver = Field(
        default=Exact(), description="how a client minimises its loss over the selected atoms"
    )
    ball: float | None = Field(default=None, gt=0, description="R, a bound on the norm of models")
    dictionary: AnyDictionary = Field(
        default=IdentityDictionary(), description="the atoms that models are sparse combinations of"
    )
    _atoms: Atoms = PrivateAttr()

    def reference(self, problem: Problem) -> Reference | None:
        """Return the best tau-sparse model, see `sparse_optimum`.

        None with a dictionary other than the identity, or if that model is not in the ball.
        """
        if not isinstance(self.dictionary, IdentityDictionary):
            return None
        columns = len(problem.shape) > 1
        optimum = sparse_optimum(problem, self.sparsity, columns=columns)
        outside = optimum and self.ball and np.linalg.norm(optimum.model) > self.ball
        return None if outside else optimum

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with its atoms and a configured solver.

        Raises:
            ParameterError: the sparsity exceeds the number of atoms, the dictionary does not fit
                the model, or the solver the loss.
            DataError: the step size is relative to a constant that the problem lacks.
        """
        atoms = self._build_atoms(info)
        check_sparsity(self.sparsity, atoms.count)

        def smoothness() -> float:
            return float(info.client_smoothness().max()) * atoms.norm**2

        solver = self.solver.configure(info, smoothness)
        ready = self.model_copy(update={"solver": solver})
        ready._atoms = atoms  # noqa: SLF001 - a copy of this very class
        return ready

    def _build_atoms(self, info: ProblemInfo) -> Atoms:
        """Return the atoms; for a matrix model, those of each column."""
        if len(info.shape) < 2:
            return self.dictionary.atoms(info)
        rows, columns = info.shape
        return Columnwise(self.dictionary.atoms(replace(info, dimension=rows)), columns)

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of the fits in a round."""
        return self.local_steps * self.solver.samples(rows)

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the accuracy of a client's solver is not known."""
        yield from self.solver.concerns(info)

    def nearest(self, x: Array) -> Array:
        """Return the best tau terms of coefficients, shape (D,), with their model in the ball."""
        x = self._atoms.truncate(x, self.sparsity)
        if self.ball is None:
            return x
        norm = float(np.linalg.norm(self._atoms.model(x)))
        return x * (self.ball / norm) if norm > self.ball else x

    async def serve(self, server: Server) -> None:
        """Run the server; a round without a reply leaves the model unchanged."""
        x = self.nearest(self._atoms.coefficients(server.initial))
        while True:
            replies = await server.exchange(Coefficients(server.pack(x, SPARSE)))
            x = self.nearest(self.mean_of(server, replies, x, "x"))
            server.commit(self._atoms.model(x))

    async def handle(self, client: Client, message: Coefficients) -> Message:
        """Run a client: K local steps from the received coefficients."""
        x = start = message.x.values
        for _ in range(self.local_steps):
            x = await self._pursue(client, x)
        return self.result_message(client, x, start, Estimate, SPARSE)

    async def _pursue(self, client: Client, x: Array) -> Array:
        atoms, oracle = self._atoms, client.oracle
        work = stochastic_gradient(client, atoms.model(x), self.batch)
        r = await client.compute(work.plus(atoms.operations(self.sparsity)))
        largest = atoms.largest(atoms.correlations(r), 2 * self.sparsity)
        merged = np.union1d(largest, np.flatnonzero(x))
        restricted = oracle.restricted(atoms.basis(merged))
        b = np.zeros_like(x)
        b[merged] = await self.solver.minimise(client, restricted, x[merged])
        return self.nearest(b)
