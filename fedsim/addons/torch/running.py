"""Training of a PyTorch module in one call, and modules with the model of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from fedsim.addons.torch.metrics import Metric, metric
from fedsim.addons.torch.optimizers import optimizer
from fedsim.addons.torch.problems import Criterion, Module, RowLoss, Rows, problem
from fedsim.addons.torch.steps import BatchLoss, Collate
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import describe_passed
from fedsim.core.errors import DataError
from fedsim.problems import GivenMeasure
from fedsim.problems.architectures import PassedModule
from fedsim.problems.modules import layers_of
from fedsim.problems.modules.module import numbers_of
from fedsim.problems.modules.seeding import own_streams
from fedsim.results.best import best_round
from fedsim.results.result import Result
from fedsim.running import api
from fedsim.scenario import ProblemSpec

Best = Literal["best"]

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, repr=False)
class TorchResult(Result):
    """The result of `run`: a `Result` that also returns trained modules.

    Attributes:
        network: the module that was passed to `run`.
    """

    network: Module = nn.Identity  # a default, as fields of `Result` have defaults

    def module(
        self,
        variant: str | None = None,
        round: int | Best | None = None,  # noqa: A002 - as the column is called
        *,
        seed: int | None = None,
        client: int | None = None,
        measure: str | None = None,
    ) -> Any:
        """Return the module with the parameters of a model; see `load_module`.

        Example:
            >>> method = {"kind": "gd", "step_size": 0.1}
            >>> keys = {"rounds": 3, "fleet": [{"count": 2}], "models": {"best": "objective"}}
            >>> rows = np.eye(4), [0, 1, 0, 1]
            >>> result = run(nn.Linear(4, 2), rows, algorithm=method, **keys)
            >>> result.module("base", "best").training
            False
        """
        which = (variant, seed, round)
        return load_module(self.network, self, *which, client=client, measure=measure)


def run(
    module: Module,
    data: Rows,
    loss: Criterion | RowLoss = "cross-entropy",
    *,
    algorithm: str | Mapping[str, Any],
    test: Rows | None = None,
    split: Mapping[str, Any] | str | None = None,
    step: BatchLoss | None = None,
    collate: Collate | None = None,
    metrics: Mapping[str, Metric] = MappingProxyType({}),
    rounds: int | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    version: str | None = None,
    **scenario: Any,
) -> TorchResult:
    """Train a module at the clients; the result has its cost in bits, seconds and joules.

    It is `fedsim.run` of a scenario whose problem is `fedsim.torch.problem(module, loss, ...)`.

    Args:
        module: a module with the initial parameters; or a class or function that creates one.
        data: the clients' rows: one dataset of PyTorch per client, or one for all; (X, y) or
            (X, y, clients); or a source as in a scenario. With a step: items of any form.
        loss: "cross-entropy", "squared", or a function or module of outputs and targets.
        algorithm: such as `{"kind": "fedavg", "step_size": 0.1, "optimizer": torch.optim.Adam}`.
        test: test rows in the same forms, or {"fraction": 0.2}; with cross-entropy or a custom loss
            of classes, `measures` is `["test_accuracy"]` then, unless given.
        split: the assignment of rows to clients; see `fedsim.torch.problem`.
        step: of items of any form, see `fedsim.torch.problem`; `measures` is `["test_loss"]` then.
        collate: makes a batch of a list of items.
        metrics: more measures: {"own": function, "f1": "MulticlassF1Score"}; see `metric`.
        rounds: after which the run ends; short for `stop={"rounds": rounds}`.
        out: the folder of the run folders; if None, a temporary one until this session ends.
        jobs: the number of runs at a time.
        version: a text that stands for module, loss, step and metrics: complete runs in `out` are
            kept as long as it is the same; see `fedsim.run`.
        scenario: other keys of a scenario, and of the loss `torch`, such as l2, numbers, device.

    Raises:
        DataError, ScenarioError: an argument or the scenario is invalid; nothing has run.

    Example:
        >>> rows, method = (np.eye(4), [0, 1, 0, 1]), {"kind": "gd", "step_size": 0.1}
        >>> run(nn.Linear(4, 2), rows, algorithm=method, rounds=3, fleet=[{"count": 2}]).module()
        Linear(in_features=4, out_features=2, bias=True)
    """
    if rounds is not None:
        scenario["stop"] = _stop_after(rounds, scenario.get("stop", {}))
    loss_keys = {key: scenario.pop(key) for key in _OF_THE_LOSS if key in scenario}
    rows: dict[str, Any] = {"data": data, "test": test, "split": split}
    block = problem(module, loss, step=step, collate=collate, **rows, **loss_keys)
    _measure_tests(scenario, block, test, steps=step is not None)
    if named := _by_name(metrics):
        scenario["measures"] = [*scenario.get("measures", ()), *named]
    scenario |= {"problem": block, "algorithm": _with_optimizer(algorithm)}
    return _as_torch(api.run(scenario, out=out, jobs=jobs, version=version), module)


_OF_THE_LOSS = ("shape", "l2", "scale", "numbers", "device", "statistics", "augment", "outputs")
"""Arguments that `run` passes to the loss."""

_BLOCKS = {
    "schedule": "a block, such as {kind: cosine, over: 100}, or one of PyTorch's as"
    " fedsim.torch.optimizer(torch.optim.SGD, schedule=function of the optimizer)",
    "server_optimizer": "a block, such as {kind: adam}",
    "server_schedule": "a block, such as {kind: cosine, over: 100}",
}
"""Keys of methods that take blocks, not functions, classes or objects of PyTorch; with a remedy."""


def _measure_tests(
    scenario: dict[str, Any], made: ProblemSpec, test: object, *, steps: bool
) -> None:
    """Set the default measure of a scenario with test rows: of classes, or of items."""
    if test is None:
        return
    if getattr(made.loss, "criterion", "") == "cross-entropy":
        scenario.setdefault("measures", ["test_accuracy"])
    elif steps:
        scenario.setdefault("measures", ["test_loss"])


def _as_torch(result: Result, module: Module) -> TorchResult:
    values = {entry.name: getattr(result, entry.name) for entry in fields(result)}
    return TorchResult(**values, network=module)


def _with_optimizer(algorithm: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Return a method with a block as its optimizer, in place of a class of PyTorch.

    Raises:
        DataError: it is an optimizer object with its own parameters, or cannot be used.
    """
    if isinstance(algorithm, Mapping):
        for key, remedy in _BLOCKS.items():
            value = algorithm.get(key)
            passed = isinstance(value, torch.optim.Optimizer | LRScheduler) or callable(value)
            if passed and not isinstance(value, Spec):
                raise DataError(
                    f"algorithm.{key}", f"{key}: got {describe_passed(value)}; give {remedy}"
                )
    given = algorithm.get("optimizer") if isinstance(algorithm, Mapping) else None
    if isinstance(given, torch.optim.Optimizer):
        name = type(given).__name__
        text = f"got an {name} of parameters of its own, and each client trains its own: give the"
        raise DataError("algorithm.optimizer", f"{text} class, torch.optim.{name}")
    if isinstance(algorithm, str) or isinstance(given, str | Mapping | Spec) or not callable(given):
        return algorithm
    return {**algorithm, "optimizer": optimizer(given)}


def _by_name(metrics: object) -> list[GivenMeasure]:
    """Return metrics as measures.

    Raises:
        DataError: they have no names, or one of them cannot be used.
    """
    if not isinstance(metrics, Mapping):
        text = 'metrics are given by their names, such as {"f1": function}'
        raise DataError("metrics", f"{text}; got {type(metrics).__name__}")
    return [metric(function, name) for name, function in metrics.items()]


def _stop_after(rounds: int, stop: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return stop rules with a limit of rounds.

    Raises:
        DataError: the rules have another limit.
    """
    if "rounds" in stop:
        text = f"got {stop['rounds']!r}, and {rounds!r} as the argument; give one of them"
        raise DataError("stop.rounds", text)
    return {**stop, "rounds": rounds}


def load_module(
    module: M | Callable[[], M],
    result: Result,
    variant: str | None = None,
    seed: int | None = None,
    round: int | Best | None = None,  # noqa: A002 - as the column is called
    *,
    client: int | None = None,
    measure: str | None = None,
) -> M:
    """Return a module with the parameters of a run's model, in `eval()` mode.

    Args:
        module: as it was passed to the run. A module object is copied, not changed.
        result: of the run.
        variant: of the run; the first one of the scenario if None.
        seed: of the run; may be left out where the variant has one only.
        round: the round; the last one if None; "best" for the best value of `measure` among rounds
            with a stored model: all with `models={"every": 1}`, the best and the last with
            `models={"best": "test_accuracy"}`.
        client: the number of a client, for its own model (needs `models={"clients": True}` and a
            method with personal models); None for the server's.
        measure: a column of `result.rounds`, for "best"; by default that of `models.best`, or
            test_accuracy.

    Raises:
        DataError: the model does not fit this module, or there is no such column.
        ValueError: there is no such run, or the model was not stored.

    Example:
        >>> from torch import nn
        >>> method, rows = {"kind": "gd", "step_size": 0.1}, (np.eye(4), [0, 1, 0, 1])
        >>> result = run(nn.Linear(4, 2), rows, algorithm=method, rounds=1, fleet=[{"count": 2}])
        >>> load_module(nn.Linear(4, 2), result).training
        False
    """
    number = best_round(result, variant, seed, measure) if round == "best" else round
    model = torch.from_numpy(result.model(variant, seed, number, client=client).ravel())
    # Created as in the run: tensors that are not trained depend on the seed.
    with own_streams(0), torch.no_grad():
        loaded = cast("M", PassedModule(module).module())
        layers = layers_of(loaded)
        length = layers[-1].stop if layers else 0
        both = layers_of(loaded, statistics=True)
        if layers and both[-1].stop == len(model):
            layers, length = both, both[-1].stop
        if length != len(model):
            text = f"got a module of {length} trained numbers, and a model of {len(model)}"
            raise DataError("module", f"{text}; expected the module that the run had")
        for layer, tensor in zip(
            layers, numbers_of(loaded, statistics=layers is both), strict=True
        ):
            tensor.copy_(model[layer.start : layer.stop].view(layer.shape))
    return loaded.eval()
