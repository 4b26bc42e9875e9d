"""Choices of how a scenario is computed that follow from the scenario alone.

They depend on the amount of computing: the work of a client, the number of clients per round, the
number of rounds, and the kind of loss. They never depend on installed packages, on the machine or
on measured times, so that a scenario has the same log everywhere.
"""

from math import ceil
from typing import NamedTuple

import numpy as np

from fedsim.algorithms import Algorithm
from fedsim.algorithms.local_training import LocalUpdates
from fedsim.core.columns import sizes_and_counts
from fedsim.problems import Logistic, Problem, ProgramProblem, Squared, TraceRegression
from fedsim.problems.evaluators.supported import has_kernels
from fedsim.scenario import Scenario
from fedsim.scenario.building.evaluation import EvaluatorKind

LONG = 4e9
"""Operations of a run, some seconds of NumPy, from which loading kernels pays."""

CACHED = 2**17
"""Numbers in a client's rows, a megabyte, that stay in the cache between two passes. NumPy takes
two passes for a gradient, kernels take one."""

LARGE = 1e5
"""Operations of a client's work, tens of microseconds, from which a kernel is worth a call."""

FEW = 16
"""Clients per round from which rounds run in arrays: see `fedsim.sim.arrays`."""

TRAFFIC = 8.0
"""Operations that take as long as the passes of a step over one value of model and gradient."""

CALLS = 2e4
"""Operations that take as long as NumPy's calls for a minibatch step, some microseconds."""

TOGETHER = 4
"""Clients per round from which one batched operation is faster than one per client."""

SMALL_STEP = 4e7
"""Operations of a step of a network, a millisecond, up to which calls dominate its time."""

STEPS = 2000
"""Steps of a run, one or two seconds of such calls, from which batching pays."""

BRIEF = 2e7
"""Operations of an evaluation, some ten milliseconds, up to which every round is evaluated."""

SHARE = 0.05
"""Largest cost of evaluations, as a share of the clients' computing."""

LOOKS = 10
"""Minimum number of evaluations of a long run, and evaluation interval of a short one."""


_VECTORS = Squared, TraceRegression, Logistic
"""Losses that multiply the model as a vector."""


class ComputingLoad(NamedTuple):
    """The amount of computing, in floating-point operations.

    Attributes:
        asked: the mean number of clients that work in a round.
        update: the operations of a client's work in a round.
        traffic: the same, plus memory traffic and calls, expressed as operations.
        look: the operations of the objective at one model, on all rows of all clients.
        rounds: the largest number of rounds.
        compiled: whether compiled kernels exist for the method's work.
        steps: the steps of a client in a round if they use minibatches, otherwise 0.
    """

    asked: float
    update: float
    traffic: float
    look: float
    rounds: float
    compiled: bool = True
    steps: float = 0.0


def load_of(problem: Problem, algorithm: Algorithm, scenario: Scenario) -> ComputingLoad | None:
    """Return the computing load of a run; None if clients have their own programs.

    A value costs half a gradient. The operations per row are those of the first client.

    Args:
        problem: the clients' losses.
        algorithm: the method, configured for the problem.
        scenario: the scenario, with the clients per round and the number of rounds.
    """
    if isinstance(problem, ProgramProblem):
        return None
    first = problem.losses[0]
    # Per row, so that the sizes of clients enter only once.
    row = first.gradient_operations / max(first.rows, 1)
    sizes, counts = sizes_and_counts(problem.rows)
    drawn = [algorithm.samples_per_round(int(size)) for size in sizes]
    clients = int(counts.sum())
    wanted = scenario.participation.among(clients).wanted
    update = row * float(np.dot(counts, drawn)) / clients
    steps_by_size = [_steps_of(algorithm, int(size)) for size in sizes]
    steps = float(np.dot(counts, steps_by_size)) / clients
    on_minibatches = isinstance(algorithm, LocalUpdates) and algorithm.batch is not None
    return ComputingLoad(
        asked=clients if wanted is None else min(wanted, clients),
        update=update,
        traffic=update + steps * (TRAFFIC * problem.dimension + CALLS * on_minibatches),
        look=row * float(np.dot(counts, sizes)) / 2,
        rounds=scenario.stop.rounds,
        compiled=not algorithm.uncompiled,
        steps=steps_by_size[-1] if on_minibatches else 0.0,
    )


def _steps_of(algorithm: Algorithm, rows: int) -> float:
    """Return the steps of a round for a client with this many rows."""
    if isinstance(algorithm, LocalUpdates):
        return float(algorithm.plan(rows, 1).steps)
    return float(getattr(algorithm, "local_steps", 1))


def evaluator_for(problem: Problem, load: ComputingLoad | None) -> EvaluatorKind:
    """Return the evaluator of a scenario that does not name one.

    Compiled kernels are chosen if they exist for the loss and the clients' steps, if several
    clients work at once, if the work of each is worth a call, and if the run is long enough to load
    them. `vmap`, which computes the steps of several clients as one, is chosen if a small network
    of dense layers takes many steps, or if a GPU computes. Otherwise NumPy or PyTorch computes one
    piece of work after another.
    """
    if load is None:
        return "one-by-one"
    pays = (
        load.asked > 1
        and load.traffic >= LARGE
        and load.traffic * load.asked * load.rounds >= LONG
        and has_kernels(problem.losses[0])
        and load.compiled
        and not _as_fast(problem, load)
    )
    if pays:
        return "compiled"
    return "vmap" if why_apart(problem, load) == "" else "one-by-one"


def _as_fast(problem: Problem, load: ComputingLoad) -> bool:
    """Return whether NumPy computes the clients' work about as fast as kernels on one thread.

    It does so if its time is spent in products of dense rows with a vector and in `exp`: full
    gradients of these losses, on rows that fit into the cache. NumPy also reuses intermediate
    results for the objective at the same model, which kernels compute again. For all other work
    kernels take at most half of NumPy's time. `analysis/benchmarks/evaluators.py` measures both.
    With many clients, kernels also let one handler run for all of them.
    """
    first = problem.losses[0]
    return (
        type(first.loss) in _VECTORS
        and isinstance(first.arranged.X, np.ndarray)
        and first.arranged.X.size <= CACHED
        and load.asked < FEW
        and not load.steps
        # A gradient costs two evaluations of the objective: nearly all rows, not a minibatch.
        and load.update * len(problem.losses) >= 1.9 * load.look
    )


def why_apart(problem: Problem, load: ComputingLoad) -> str | None:
    """Return why the steps of several clients are not computed as one; empty if they are.

    Returns None if the loss is not a PyTorch network, or if there are no minibatch steps.
    """
    first = problem.losses[0]
    if not load.steps or not first.loss.converts:
        return None
    if load.asked < TOGETHER:
        return f"fewer than {TOGETHER} clients are asked at once"
    if not first.loss.on_gpu:
        if load.update > load.steps * SMALL_STEP:
            return f"a step takes more than {SMALL_STEP / 1e6:g} million operations"
        if load.steps * load.asked * load.rounds < STEPS:
            return f"the run has fewer than {STEPS} steps"
    return first.loss.why_apart(first.features, first.outputs)


def every_for(scenario: Scenario, load: ComputingLoad | None) -> int:
    """Return the number of rounds between two evaluations by the observer.

    The scenario may state it. It is 1 if a stop rule reads the objective or a measure, if the best
    model is kept, or if an evaluation is brief. Otherwise it is the least number for which
    evaluations cost at most a twentieth of the clients' computing. It is bounded so that a run of a
    hundred rounds or more has at least ten evaluations, and a shorter run has one in every ten
    rounds.
    """
    if scenario.observe.every is not None:
        return scenario.observe.every
    reads = (
        scenario.stop.own
        or scenario.models.best is not None
        or any(rule.columns for rule in scenario.stop.rules)
    )
    if load is None or reads or load.look <= BRIEF:
        return 1
    # 1e-9 absorbs rounding, so that an exact ratio is not rounded up.
    wanted = ceil(load.look / (SHARE * max(load.asked * load.update, 1.0)) - 1e-9)
    return int(min(max(wanted, 1), max(load.rounds // LOOKS, LOOKS)))
