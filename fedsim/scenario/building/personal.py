"""Personal models: clients keep parts of the model, and the observer evaluates each client's model.

Methods of the averaging family send the whole model. If parts stay local, server and client see
only the part that is sent. The client's steps change both parts, and its own part is stored in its
memory at their end. So methods need no change, and only the sent part is packed, charged or lost.
The observer evaluates each client's loss at that client's own model.
"""

from collections.abc import Callable, Sequence
from glob import escape
from typing import Any, cast, overload

import numpy as np

from fedsim.algorithms import Algorithm
from fedsim.algorithms.local_steps import Minibatches
from fedsim.algorithms.local_training import LocalUpdates
from fedsim.core.errors import DataError, Failed
from fedsim.core.ports import Array, Client, ClientId, Message, Oracle, Server, Silence, Work
from fedsim.problems import (
    Loss,
    Observer,
    OwnObserver,
    Problem,
    ProgramProblem,
    kernels,
)
from fedsim.problems.optimizers import SGD, Ranges, Training
from fedsim.problems.parts import LocalParts, local_parts
from fedsim.protocol.participation import Participation, Sample
from fedsim.protocol.wrapping import View, Wrapper


def division(
    problem: Problem, algorithm: Algorithm, policy: Participation, *, private: bool = False
) -> LocalParts | None:
    """Return the parts of the model that stay with clients; None for none.

    Args:
        problem: the clients' losses.
        algorithm: the method of the scenario.
        policy: the client sampling.
        private: whether sums have noise.

    Raises:
        ParameterError: a pattern matches no part, or nothing would be sent.
        DataError: the method does not support the statistics of batch normalisation.
    """
    if isinstance(problem, ProgramProblem):
        return None
    one = problem.losses[0]
    kept = problem.loss.kept_names(one.features, one.outputs)
    named = algorithm.local if isinstance(algorithm, LocalUpdates) else ()
    if not kept and not named:
        return None
    if kept and (reason := _no_statistics(problem.loss, algorithm)):
        raise DataError("loss.statistics", reason)
    if kept and _averages_statistics(problem.loss) and _extrapolates(problem, policy):
        text = (
            "got averaged, but the weights of an unbiased estimate may add up to more than 1, where"
            " variances may be negative; take participation.estimate: self-normalised, or local"
        )
        raise DataError("loss.statistics", text)
    if kept and _averages_statistics(problem.loss) and private:
        text = "got averaged, but the noise of privacy may make variances negative; take local, or"
        raise DataError("loss.statistics", f"{text} a module with group norm")
    statistics = () if _averages_statistics(problem.loss) else kept
    return local_parts((*named, *map(escape, statistics)), problem.parts)


def _averages_statistics(loss: Loss) -> bool:
    # `TorchLoss` has the attribute; its class is not imported for other losses.
    return getattr(loss, "statistics", "") == "averaged"


def _extrapolates(problem: Problem, policy: Participation) -> bool:
    """Return whether the weights of replies may add up to more than 1."""
    if not isinstance(policy, Sample) or policy.estimate != "unbiased":
        return False
    by_rows = np.allclose(problem.weights, problem.rows / problem.rows.sum())
    return policy.chances != "by-size" or not by_rows


def _no_statistics(loss: Loss, algorithm: Algorithm) -> str:
    """Return why a method cannot train a module with statistics; empty if it can."""
    if not isinstance(algorithm, LocalUpdates):
        return (
            f"running means and variances need local steps as one piece of work, which"
            f" {algorithm.kind} does not have; take group norm, or fedavg"
        )
    if _averages_statistics(loss) and not algorithm.takes_means:
        return (
            f"got averaged, but the server of {algorithm.kind} extrapolates from the clients'"
            " models, which may give negative variances; take local, or fedavg"
        )
    if not _averages_statistics(loss) and (algorithm.personal or algorithm.computes_after_reply):
        return (
            f"got local, but clients of {algorithm.kind} have personal models of full size; take"
            " averaged, which leaves each its own statistics"
        )
    if getattr(algorithm, "alpha_rate", None) is not None:
        return "got statistics, which have no gradient for alpha; leave out alpha_rate"
    return ""


class PersonalMemory:
    """The memory of a client.

    Attributes:
        inner: the state of its method.
        own: its part of the model, shape (own,); None if the method has a model per client.
    """

    __slots__ = ("inner", "own")

    def __init__(self, inner: Any, own: Array | None) -> None:
        self.inner, self.own = inner, own


class OwnModels(Sequence[Array]):
    """The models of all clients, each computed at its lookup.

    Args:
        count: the number of clients.
        model: returns the model of a client, shape (d,).
    """

    def __init__(self, count: int, model: Callable[[ClientId], Array]) -> None:
        self._count, self._model = count, model

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Array: ...
    @overload
    def __getitem__(self, at: slice) -> "OwnModels": ...
    def __getitem__(self, at: int | slice) -> "Array | OwnModels":
        if isinstance(at, slice):
            selected = range(self._count)[at]
            return OwnModels(len(selected), lambda client: self._model(selected[client]))
        if not -self._count <= at < self._count:
            raise IndexError(at)
        return self._model(at % self._count)


class PersonalMethod(Wrapper):
    """Runs a method whose clients have models of their own.

    Args:
        method: the method that runs.
        initial: the whole initial model, shape (d,).
        clients: the number of clients.
        parts: the parts that are sent, and those that stay; None if the whole model is sent.
    """

    def __init__(
        self, method: Algorithm, initial: Array, clients: int, parts: LocalParts | None
    ) -> None:
        super().__init__(method)
        self.method: Algorithm
        self.parts, self._clients = parts, clients
        self._initial = initial
        self._memories: dict[ClientId, PersonalMemory] = {}
        self._seen: dict[ClientId, Array] = {}

    def memory(self, initial: Array) -> PersonalMemory:
        """Return a client's memory; `initial` is the whole initial model."""
        if self.parts is None:
            return PersonalMemory(self.method.memory(initial), None)
        sent, local = initial[self.parts.shared], initial[self.parts.local]
        return PersonalMemory(self.method.memory(sent), local)

    async def serve(self, server: Server) -> None:
        """Run the method's server with the part of the model that is sent."""
        # Models that earlier runs have left would count as those of this one.
        self._memories, self._seen = {}, {}
        await super().serve(server)

    async def handle(self, client: Client[PersonalMemory], message: Any) -> Message | Silence:
        """Answer a message as the method does."""
        self._memories[client.id] = client.state
        return await super().handle(client, message)

    def server(self, server: Server) -> Server:
        """Return the server, restricted to the part of the model that is sent."""
        return cast("Server", _PersonalServer(server, self))

    def client(self, client: Client[PersonalMemory]) -> Client[Any]:
        """Return a client, restricted to the part of the model that is sent."""
        return cast("Client[Any]", _PersonalClient(client, self))

    def sent_part(self, w: Array) -> Array:
        """Return the part of a model, shape (d,), that is sent."""
        return w if self.parts is None else w[self.parts.shared]

    def close_round(self) -> None:
        """Store the clients' own models, as evaluations of this round need them later."""
        self._seen = {client: self._own(memory) for client, memory in self._memories.items()}

    def _own(self, memory: PersonalMemory) -> Array:
        return self.method.own_model(memory.inner) if memory.own is None else memory.own

    def models(self, w: Array) -> OwnModels:
        """Return the clients' models in a round that was closed with the model `w`, shape (d,)."""
        return OwnModels(self._clients, lambda client: self._model(client, w))

    def objective(self, problem: Problem) -> Callable[[Array], float]:
        """Return a function of a round's model: the losses of the clients' models, joined."""

        def value(w: Array) -> float:
            pairs = zip(problem.losses, self.models(w), strict=True)
            return problem.total([loss.value(model) for loss, model in pairs])

        return value

    def observer(self, observe: OwnObserver) -> Observer:
        """Return a measure of the clients' models as a function of a round's model."""
        return lambda w: observe(self.models(w))

    def _model(self, client: ClientId, w: Array) -> Array:
        model = self._seen.get(client)
        if self.parts is None:
            return self._initial if model is None else model
        return self.whole_model(w[self.parts.shared], model)

    def whole_model(self, sent: Array, own: Array | None = None) -> Array:
        """Return a whole model; the own part is the initial one by default."""
        if self.parts is None:
            return sent
        return self.parts.join(sent, self._initial[self.parts.local] if own is None else own)


class _PersonalServer(View):
    """The server, restricted to the part of the model that is sent."""

    def __init__(self, server: Server, method: PersonalMethod) -> None:
        super().__init__(server)
        self._method = method
        self.initial = method.sent_part(server.initial)

    def commit(self, model: Array, **measures: float) -> None:
        """Close the round with a whole model."""
        self._method.close_round()
        self._seen.commit(self._method.whole_model(model), **measures)


class _PersonalClient(View):
    """A client, restricted to the part of the model that is sent."""

    def __init__(self, client: Client[PersonalMemory], method: PersonalMethod) -> None:
        super().__init__(client)
        self._memory = client.state
        self.state = client.state.inner
        self.oracle: Oracle = client.oracle
        if method.parts is not None:
            first = getattr(method.method, "local_first", None) or 0
            steps = PartOracle(client.oracle, method.parts, self._memory, first)
            self.oracle = cast("Oracle", steps)

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.core.ports.Client.compute`; the client's own part is stored after steps."""
        if not isinstance(self.oracle, PartOracle):
            return cast("Array", await self._seen.compute(work, begun))
        # Steps change the whole model, of which only a part is sent.
        result = await self._seen.compute(work._replace(sent=False), begun)
        if work.client is None:
            return cast("Array", result)
        return self.oracle.take(result)


class PartOracle:
    """A client's loss; its steps start from the received part and the client's own part.

    Args:
        oracle: the loss of the whole model.
        parts: the parts that are sent, and those that stay.
        memory: the memory of the client, with its part.
        first: the number of steps on the own part, before those on the sent part; 0 for joint ones.

    Attributes:
        rows: the number of samples, n_m.
    """

    def __init__(
        self, oracle: Oracle, parts: LocalParts, memory: PersonalMemory, first: int
    ) -> None:
        self._oracle, self._parts, self._memory, self._first = oracle, parts, memory, first
        self._drawn = False
        self._less: Array | None = None
        self.rows, self.weight, self.random = oracle.rows, oracle.weight, oracle.random

    def __getattr__(self, name: str) -> Any:
        raise Failed(
            f"the method needs `{name}` of a client's loss, but parts that stay local"
            " (algorithm.local) only support local steps; leave out algorithm.local"
        )

    def later_draws(self, count: int, batch: int, rng: np.random.Generator) -> None:
        """Return None: minibatches are drawn at once."""

    def draws(self, count: int, batch: int | None, rng: np.random.Generator) -> Minibatches:
        """Draw minibatches; the first call also draws those of the steps on the own part."""
        return self._after_first(batch, rng, lambda: self._oracle.draws(count, batch, rng))

    def passes(
        self, count: int, batch: int | None, rng: np.random.Generator, *, drop_last: bool = False
    ) -> Minibatches:
        """Draw the minibatches of passes, after those of the steps on the own part."""
        passes = self._oracle.passes
        return self._after_first(batch, rng, lambda: passes(count, batch, rng, drop_last=drop_last))

    def _after_first(
        self, batch: int | None, rng: np.random.Generator, draw: Callable[[], Minibatches]
    ) -> Minibatches:
        if self._drawn or not self._first:
            return draw()
        self._drawn = True
        return [*self._oracle.draws(self._first, batch, rng), *draw()]

    def sgd_steps(
        self,
        w: Array,
        eta: float,
        drawn: Minibatches,
        pull: float | None = None,
        *,
        change: bool = False,
    ) -> Work:
        """Describe steps from the received part `w`; see `fedsim.core.ports.Oracle.sgd_steps`."""
        self._less = w if change else None
        start = self._parts.join(w, self._start)
        if not self._first:
            return self._oracle.sgd_steps(start, eta, drawn, pull)
        steps = len(drawn) - self._first if self._drawn else len(drawn)
        return self._alternate(start, drawn, Training(SGD(), (eta,) * steps, pull=pull))

    def optimizer_steps(self, w: Array, drawn: Minibatches, training: Training) -> Work:
        """Describe the steps of an optimizer from the received part `w`."""
        self._less = None
        start = self._parts.join(w, self._start)
        if not self._first:
            return self._oracle.optimizer_steps(start, drawn, training)
        return self._alternate(start, drawn, training)

    @property
    def _start(self) -> Array:
        return cast("Array", self._memory.own)

    def _alternate(self, start: Array, drawn: Minibatches, training: Training) -> Work:
        """Describe steps on the own part, and then on the sent part (FedRep).

        Each step is charged as a whole gradient.
        """
        if not self._drawn:
            drawn = [*(None,) * self._first, *drawn]
        eta = training.rates[0]
        first_steps = training._replace(
            rates=(eta,) * self._first, pull=None, state=None, kept=False
        )
        work = self._oracle.optimizer_steps(start, drawn, training)
        pair = (
            first_steps._replace(moved=self._ranges(kept=True)),
            training._replace(moved=self._ranges(kept=False)),
        )
        return work._replace(kernel=kernels.alternating_steps, arguments=(start, drawn, *pair))

    def _ranges(self, *, kept: bool) -> Ranges:
        parts = self._parts
        return tuple(
            (part.start, part.stop) for part in parts.parts if (part.name in parts.names) is kept
        )

    def take(self, result: Array) -> Array:
        """Store the client's own part of the result of steps; return the sent part.

        Args:
            result: the model, shape (d,), followed by an optimizer's state if that is kept.
        """
        d = self._parts.dimension
        ends = result[self._parts.shared]
        self._memory.own = result[self._parts.local]
        if self._less is not None:
            ends = ends - self._less
        return ends if len(result) == d else np.concatenate([ends, result[d:]])
