"""The evaluator of a run's work, and the problem for observers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from fedsim.core.errors import DataError
from fedsim.core.ports import Array, ClientId, Oracle
from fedsim.core.progress import activity
from fedsim.core.streams import stream
from fedsim.core.threads import usable_threads
from fedsim.problems import (
    HeldOutClients,
    Problem,
    ProgramLoss,
    ProgramProblem,
    load_both,
)
from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.data.base import Source
from fedsim.problems.description import Description, Naming, names_of_clients
from fedsim.problems.evaluators import Evaluator, SerialEvaluator
from fedsim.problems.evaluators.supported import compilable
from fedsim.problems.evaluators.threaded import ThreadedEvaluator
from fedsim.problems.evaluators.vmap import SimultaneousLoss, VmapEvaluator
from fedsim.problems.losses import Loss
from fedsim.problems.partition import Transform, partition, preprocess_samples, row_count
from fedsim.problems.samples import Precision, Samples
from fedsim.problems.splits.base import Indices
from fedsim.scenario import ProblemSpec

EvaluatorKind = Literal["one-by-one", "compiled", "vmap"]


class Evaluation(NamedTuple):
    """A problem with its evaluator.

    Attributes:
        evaluator: evaluates the clients' work.
        problem: the problem for observers. Its losses are the evaluator's, so that values that
            observers and clients need at one model are computed once.
        precision: the precision of the samples.
        observing: the evaluator of the true losses, if some clients train on false labels;
            otherwise the same as `evaluator`.
    """

    evaluator: Evaluator
    problem: Problem
    precision: Precision
    observing: Evaluator

    @property
    def choice(self) -> Mapping[str, Any]:
        """The choices of how numbers are computed, for the manifest."""
        chosen = {**self.evaluator.choice, **self.problem.loss.computed_with}
        fitted = {"preprocessing": self.problem.naming.fitted} if self.problem.naming.fitted else {}
        return {**chosen, **fitted, "precision": self.precision}

    def oracles(self, *, among_peers: bool = False) -> Sequence[Oracle]:
        """Return the clients' losses as priced work; the evaluator draws their minibatches.

        Args:
            among_peers: whether their weights are those of peers.
        """
        trained = self.problem
        if self.observing is not self.evaluator:
            trained = trained.with_losses(self.evaluator.losses)
        return trained.fresh_oracles(self.evaluator.draw, among_peers=among_peers)

    def value(self, w: Array) -> float:
        """Return the objective at `w`, shape (d,), penalty included; NaN if it is unknown."""
        return self.problem.looked_at(w, self.observing.values)


def evaluation(
    problem: Problem,
    evaluator: EvaluatorKind = "one-by-one",
    precision: Precision = "float64",
    mislabelled: Sequence[ClientId] = (),
) -> Evaluation:
    """Return a problem with the evaluator of a run.

    Args:
        problem: the problem.
        evaluator: the kind of evaluator.
        precision: the precision of the samples and of computations with them.
        mislabelled: the clients that train on flipped labels.

    Raises:
        DataError: the evaluator is not available, or not for this loss.
    """
    if isinstance(problem, ProgramProblem):
        if evaluator != "one-by-one":
            text = "clients that train with their own programs do so one-by-one"
            raise DataError("evaluator", f"got {evaluator}, but {text}")
        serial = SerialEvaluator()
        return Evaluation(serial, problem, precision, serial)
    losses = ClientLosses.of(problem.losses).with_precision(precision)
    chosen = _choose(evaluator, problem.loss, losses)
    true = problem.with_losses(chosen.losses)
    if not mislabelled:
        return Evaluation(chosen, true, precision, chosen)
    # Two evaluators of one kind: one for clients, and one for observers, who know the true labels.
    false = problem.flipped_losses(np.array(mislabelled)).with_precision(precision)
    return Evaluation(_choose(evaluator, problem.loss, false), true, precision, chosen)


def _choose(evaluator: EvaluatorKind, loss: Loss, losses: ClientLosses) -> Evaluator:
    if evaluator == "compiled":
        return _compile(losses)
    reference = _reference(loss, losses)
    return _vmap(loss, reference) if evaluator == "vmap" else reference


def _vmap(loss: Loss, reference: Evaluator) -> Evaluator:
    if not isinstance(loss, SimultaneousLoss):
        text = f"the loss {loss.kind} is not computed by PyTorch; take one-by-one or compiled"
        raise DataError("evaluator", f"got vmap, but {text}")
    one = reference.losses[0]
    loss.check_together(one.features, one.outputs)
    divided = loss.divides_together(one.features, one.outputs)
    return VmapEvaluator(loss, reference, divided=divided, threads=usable_threads())


def _reference(loss: Loss, losses: ClientLosses) -> Evaluator:
    """Return the evaluator of single pieces of work, with threads if they help."""
    threads = usable_threads()
    return (
        ThreadedEvaluator(losses, threads)
        if loss.threads and threads > 1
        else SerialEvaluator(losses)
    )


def _compile(client_losses: ClientLosses) -> Evaluator:
    losses = list(client_losses)
    if not compilable(losses):
        text = (
            f"got compiled, but there are no kernels for the loss {losses[0].loss.kind} on these"
            " rows: there are for squared, trace-regression, logistic and softmax, and on dense"
            " rows for mlp; take one-by-one"
        )
        raise DataError("evaluator", text)
    from fedsim.problems.evaluators.compiled.evaluator import CompiledEvaluator

    return CompiledEvaluator(losses, usable_threads())


# The problem of a scenario: partitioned data, or clients with their own programs.

_DOUBLE = np.dtype(np.float64)


def problem_of(
    spec: ProblemSpec,
    clients: int | None,
    seed: int,
    folder: Path,
    precision: Precision,
    method: object = None,
) -> Problem:
    """Return the problem of the clients.

    Args:
        spec: the problem of the scenario.
        clients: the size of the fleet; None if it is not stated.
        seed: the seed of random numbers.
        folder: the folder of relative paths.
        precision: the precision of the samples.
        method: the method, not configured yet; only clients' programs may depend on it.

    Raises:
        DataError: the data cannot be read, split or preprocessed.
    """
    if isinstance(spec.loss, ProgramLoss):
        with activity("loading the clients' program and its model"):
            return spec.loss.problem_for(method, clients, seed, folder)
    streams = stream(seed, "data"), stream(seed, "test")
    if spec.data is None:  # the scenario requires data for all other losses
        raise DataError("data", "missing")
    with activity("reading data"):
        samples, test = load_both(spec.data, spec.test, folder, *streams)
    with activity("splitting samples over clients"):
        return _deal(spec, spec.data, samples, test, clients, (seed, streams[1]), precision)


def _deal(
    spec: ProblemSpec,
    data: Source,
    samples: Samples,
    test: Samples | None,
    clients: int | None,
    drawn_from: tuple[int, np.random.Generator],
    precision: Precision,
) -> Problem:
    """Return the problem of samples that are split over clients, and then preprocessed.

    Preprocessing is fitted once: on all training rows if the split needs the features after it,
    otherwise once the training rows are known.
    """
    # `treat` is the preprocessing that is still to be applied to the parts of clients.
    raw, treat = samples, None
    if spec.split.sees_features:
        if data.fits_clients or data.exchanges_fit:
            seen = "clients" if data.fits_clients else "exchange"
            text = f"the split {spec.split.kind} needs the features before clients have rows"
            raise DataError("data.fit", f"got {seen}, but {text}; take fit: all")
        if (early := data.transform_for(samples)) is not None:
            samples = preprocess_samples(samples, early)
            test = test and preprocess_samples(test, early)
    held = spec.test if isinstance(spec.test, HeldOutClients) else None
    wanted = clients + held.clients if held and clients is not None else clients
    rows = spec.split.assign(samples, wanted, stream(drawn_from[0], "split"))
    unassigned = samples.rows - row_count(rows)
    if held:
        rows, tested = held.divide(rows, drawn_from[1])
        test = samples.take(tested)
    if data.fits_clients:
        samples, test = data.transform_clients(samples, rows, test)
    elif data.transforms and not spec.split.sees_features:
        treat = data.transform_for(_fitted_on(samples, rows, data, held=held is not None))
    kind = spec.loss.storage_type(_kind(samples, treat), precision)
    dealt = partition(samples, rows, treat, kind)
    if test is not None:
        test = preprocess_samples(test, treat, kind if spec.loss.converts else _DOUBLE)
    problem = Problem.of(spec.loss, dealt, spec.penalty, test, spec.weighting)
    problem = replace(problem, unassigned=unassigned)
    if data.exchanges_fit:
        problem = replace(problem, fit_exchange=data.fit_exchange(raw, rows))
    if raw.described is None:
        return problem
    return replace(problem, naming=_naming(raw, rows, data.explain_fit(raw)))


def _fitted_on(samples: Samples, rows: Sequence[Indices], data: Source, *, held: bool) -> Samples:
    """Return the rows that preprocessing is fitted on: those of clients that train."""
    kept = np.concatenate(rows)
    if data.exchanges_fit:  # in the order of the data, as sums depend on it
        return samples.take(np.sort(kept))
    return samples.take(kept) if held else samples


def _naming(samples: Samples, rows: Sequence[Indices], fitted: str) -> Naming:
    """Return the names of the clients and labels of a split, and each client's missing cells."""
    described = samples.described or Description()
    missing = np.array([np.isnan(samples.X[indices]).mean() for indices in rows])
    names = names_of_clients(samples.client, described.clients, rows)
    return Naming(names, described.labels, missing, described.notes, fitted)


def _kind(samples: Samples, treat: Transform | None) -> np.dtype[Any]:
    """Return the number type of features to be split: float64 for preprocessed ones."""
    return samples.X.dtype if treat is None else _DOUBLE
