"""A module trained by optimizers in fedsim is the module of a plain loop of PyTorch."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import lr_scheduler as plans
from torch.utils.data import TensorDataset

import fedsim
import fedsim.torch
from fedsim.core.errors import DataError, ScenarioError
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.problems.modules.schedules import STRIDE, SchedulePlaces, take_steps
from tests.algorithms.harness import trajectory
from tests.tiers import every, some

SIZES, FEATURES, CLASSES = (7, 12, 5), 6, 3
ROUNDS, EPOCHS, BATCH, ETA = 4, 2, 4, 0.05

Make = Callable[[Any], Any]


class MuonAndAdamW:
    """PyTorch's Muon for the matrices among some parameters, and its AdamW for the others."""

    def __init__(self, parameters: Any) -> None:
        every = list(parameters)
        matrices = [each for each in every if each.ndim == 2]
        others = [each for each in every if each.ndim < 2]
        rule: dict[str, Any] = {"lr": ETA, "weight_decay": 0.1}
        self._both: tuple[Any, Any] = (
            torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **rule),
            torch.optim.AdamW(others, **rule),
        )

    def zero_grad(self) -> None:
        for each in self._both:
            each.zero_grad()

    def step(self) -> None:
        for each in self._both:
            each.step()


RULES: dict[str, tuple[dict[str, Any], Make]] = {
    "nesterov": (
        {"kind": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        lambda p: torch.optim.SGD(p, ETA, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    "adam": ({"kind": "adam", "beta2": 0.95}, lambda p: torch.optim.Adam(p, ETA, (0.9, 0.95))),
    "adamw": (
        {"kind": "adamw", "weight_decay": 0.1},
        lambda p: torch.optim.AdamW(p, ETA, weight_decay=0.1),
    ),
    "adagrad": ({"kind": "adagrad"}, lambda p: torch.optim.Adagrad(p, ETA)),
    "muon": ({"kind": "muon"}, MuonAndAdamW),
}


def network() -> nn.Module:
    torch.manual_seed(3)
    hidden = nn.Linear(FEATURES, 5), nn.LayerNorm(5), nn.Tanh()
    return nn.Sequential(*hidden, nn.Linear(5, CLASSES)).double()


def rows() -> list[tuple[Tensor, Tensor]]:
    rng = np.random.default_rng(5)
    return [
        (
            torch.tensor(rng.standard_normal((n, FEATURES)) + m),
            torch.tensor(rng.integers(0, CLASSES, n)),
        )
        for m, n in enumerate(SIZES)
    ]


def flat(module: nn.Module) -> Array:
    return np.asarray(nn.utils.parameters_to_vector(module.parameters()).detach().numpy().copy())


def average(shared: nn.Module, own: list[nn.Module]) -> None:
    """Set a module to the mean of others, weighted by their rows."""
    with torch.no_grad():
        for whole, *each in zip(
            shared.parameters(), *(module.parameters() for module in own), strict=True
        ):
            whole.copy_(sum(n / sum(SIZES) * p for n, p in zip(SIZES, each, strict=True)))


def plain_loop(make: Make, kept: bool, clip: float | None, mu: float) -> list[Array]:
    """FedAvg with reshuffled passes, as one writes it in PyTorch."""
    shared, parts, models = network(), rows(), []
    own = [deepcopy(shared) for _ in SIZES]
    optimizers = [make(each.parameters()) for each in own]
    draws = [stream(1, "client", m) for m in range(len(SIZES))]
    for _ in range(ROUNDS):
        start = [each.detach().clone() for each in shared.parameters()]
        for m, module in enumerate(own):
            module.load_state_dict(shared.state_dict())
            optimizer = optimizers[m] if kept else make(module.parameters())
            X, y = parts[m]
            for _ in range(EPOCHS):
                order = torch.as_tensor(draws[m].permutation(len(y)))
                for some_rows in torch.split(order, BATCH):
                    optimizer.zero_grad()
                    loss = functional.cross_entropy(module(X[some_rows]), y[some_rows])
                    apart = zip(module.parameters(), start, strict=True)
                    loss = loss + mu / 2 * sum((p - q).square().sum() for p, q in apart)
                    torch.autograd.backward(loss)
                    if clip is not None:
                        nn.utils.clip_grad_norm_(module.parameters(), clip)
                    optimizer.step()
        average(shared, own)
        models.append(flat(shared))
    return models


@pytest.fixture
def as_precise(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's Muon goes on in the numbers that it is given, not in bfloat16."""
    monkeypatch.setattr(Tensor, "bfloat16", Tensor.clone)


@pytest.mark.usefixtures("as_precise")
@pytest.mark.parametrize("rule", some(RULES, "nesterov", "adam", "muon"))
@pytest.mark.parametrize("state", ["reset", "kept"])
@pytest.mark.parametrize("more", some(["plain", "clipped and pulled"], "clipped and pulled"))
def test_a_module_is_that_of_the_plain_loop(
    rule: str, state: str, more: str, tmp_path: Path
) -> None:
    block, make = RULES[rule]
    clip, mu = (None, 0.0) if more == "plain" else (0.5, 0.3)
    data = [TensorDataset(*part) for part in rows()]
    problem = fedsim.torch.problem(network(), data=data, numbers="float64")
    scenario = {
        "problem": problem,
        "algorithm": {
            "kind": "fedprox" if mu else "fedavg",
            "step_size": ETA,
            "local_epochs": EPOCHS,
            "batch": BATCH,
            "optimizer": block,
            "optimizer_state": state,
            "clip_norm": clip,
            **({"mu": mu} if mu else {}),
        },
        "wire": {"values": "float64"},
        "stop": {"rounds": ROUNDS},
    }
    seen = trajectory(scenario, tmp_path / "run").models
    expected = np.array(plain_loop(make, state == "kept", clip, mu))
    assert np.abs(seen - expected).max() <= 1e-10 * np.abs(expected).max()


# -- optimizers and schedules of PyTorch that are passed in -------------------------------


def halving(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)


def two_groups(parameters: Any, lr: float) -> torch.optim.Optimizer:
    """One layer learns more slowly than the others."""
    first, *others = parameters
    groups = [{"params": [first], "lr": lr / 4}, {"params": others}]
    return torch.optim.RMSprop(groups, lr=lr, momentum=0.5)


class Trainee:
    """A client of the plain loop with its module, optimizer and schedule."""

    def __init__(self, m: int, make: Make, kept: bool, by: str) -> None:
        self.module, self.part, self.make, self.kept, self.by = network(), rows()[m], make, kept, by
        self.optimizer = make(self.module.parameters())
        self.schedule: Any = halving(self.optimizer) if by else None

    def train(self, shared: nn.Module, factor: float) -> None:
        """Take three steps; without a schedule of its own all step sizes have a factor."""
        self.module.load_state_dict(shared.state_dict())
        if not self.kept:
            lr = self.optimizer.param_groups[0]["lr"]
            self.optimizer = self.make(self.module.parameters())
            if self.schedule is not None:
                self.optimizer.param_groups[0]["lr"] = lr
                self.schedule.optimizer = self.optimizer
        X, y = self.part
        for group in self.optimizer.param_groups:
            group["lr"] *= factor
        for _ in range(3):
            self.optimizer.zero_grad()
            torch.autograd.backward(functional.cross_entropy(self.module(X), y))
            self.optimizer.step()
            if self.by == "step":
                self.schedule.step()
        for group in self.optimizer.param_groups:
            group["lr"] /= factor
        if self.by == "round":
            self.schedule.step()


def scheduled_loop(make: Make, kept: bool, by: str) -> list[Array]:
    """FedAvg of three steps with all rows, and schedules as they are used."""
    shared, models = network(), []
    own = [Trainee(m, make, kept, by) for m in range(len(SIZES))]
    for number in range(ROUNDS):
        for each in own:
            each.train(shared, 1.0 if by else 0.3 ** (number // 2))
        average(shared, [each.module for each in own])
        models.append(flat(shared))
    return models


def trained(tmp_path: Path, **algorithm: Any) -> Array:
    data = [TensorDataset(*part) for part in rows()]
    scenario = {
        "problem": fedsim.torch.problem(network(), data=data, numbers="float64"),
        "algorithm": {"kind": "fedavg", "step_size": ETA, "local_steps": 3, **algorithm},
        "wire": {"values": "float64"},
        "stop": {"rounds": ROUNDS},
    }
    return trajectory(scenario, tmp_path / "run").models


@pytest.mark.parametrize("state", ["reset", "kept"])
@pytest.mark.parametrize("by", ["step", "round", ""])
@pytest.mark.filterwarnings("ignore:Seems like")  # a schedule whose optimizer is another
def test_an_optimizer_that_is_passed_in_is_that_of_the_plain_loop(
    state: str, by: Any, tmp_path: Path
) -> None:
    """With a schedule of PyTorch, or with one of the method, which scales all groups."""
    more: dict[str, Any] = {"optimizer_state": state}
    if by:
        passed = fedsim.torch.optimizer(
            torch.optim.RMSprop,
            schedule=halving,
            by=by,
            momentum=0.5,
        )
        make: Make = lambda p: torch.optim.RMSprop(p, ETA, momentum=0.5)  # noqa: E731
    else:
        passed = fedsim.torch.optimizer(two_groups)
        make = lambda p: two_groups(p, ETA)  # noqa: E731
        more |= {"schedule": {"kind": "step", "every": 2, "to": 0.3}}
    seen = trained(tmp_path, optimizer=passed, **more)
    loop = np.array(scheduled_loop(make, state == "kept", by))
    assert np.abs(seen - loop).max() <= 1e-10 * np.abs(loop).max()


class Inverse(plans.LRScheduler):
    """A schedule with a class of its own."""

    def get_lr(self) -> list[Any]:
        return [base / (1 + 0.1 * self.last_epoch) for base in self.base_lrs]


SCHEDULES: dict[str, Make] = {
    "step": lambda o: plans.StepLR(o, 30, 0.5),
    "lambda": lambda o: plans.LambdaLR(o, lambda t: 0.99**t),
    "cosine": lambda o: plans.CosineAnnealingLR(o, 70),
    "restarts": lambda o: plans.CosineAnnealingWarmRestarts(o, 40, 2),
    "one cycle": lambda o: plans.OneCycleLR(o, 0.3, total_steps=1000),
    "cyclic": lambda o: plans.CyclicLR(o, 0.01, 0.1, step_size_up=30),
    "in turns": lambda o: plans.SequentialLR(
        o, [plans.LinearLR(o, 0.1, total_iters=90), plans.ExponentialLR(o, 0.99)], [90]
    ),
    "together": lambda o: plans.ChainedScheduler(
        [plans.ConstantLR(o, 0.5, 100), plans.MultiplicativeLR(o, lambda t: 0.999)]
    ),
    "a user's": Inverse,
}


@every("name", SCHEDULES)
def test_a_schedule_that_is_made_anew_in_each_round_goes_on_as_one_that_never_was(
    name: str,
) -> None:
    """Two clients that take different numbers of steps in a round, as in passes of their rows."""

    def made() -> tuple[Any, Any]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], 0.1, momentum=0.9)
        return optimizer, SCHEDULES[name](optimizer)

    def settings(optimizer: Any) -> list[Any]:
        return [optimizer.param_groups[0][key] for key in ("lr", "momentum")]

    places = SchedulePlaces()
    whole = {each: made() for each in (3, 50)}
    for number in range(12):
        for each, (optimizer, schedule) in whole.items():
            other, again = made()
            places.advance(("digest", 0.1, each), again, number * each)
            assert settings(other) == settings(optimizer)
            take_steps(again, 2)
            take_steps(schedule, each)
    anew, one = made()
    places.advance(("digest", 0.1, 50), one, 50)  # a run that begins again
    assert settings(anew) != settings(whole[50][0])
    other, again = made()
    take_steps(again, 50)
    assert settings(anew) == settings(other)


def test_a_long_schedule_takes_few_steps_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, places, most = [0], SchedulePlaces(), 0

    def step(self: Any) -> None:
        taken[0] += 1
        plans.LRScheduler.step(self)

    monkeypatch.setattr(plans.ExponentialLR, "step", step, raising=False)
    for number in range(300):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], 0.1)
        schedule, taken[0] = plans.ExponentialLR(optimizer, 0.9), 0
        places.advance("one", schedule, 10 * number)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.9 ** (10 * number))
        most = max(most, taken[0])
    assert most < STRIDE + 10


@every(
    ("make", "options", "operations", "moments"),
    [
        (torch.optim.SGD, {}, 0, 0),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, 6, 1),
        (torch.optim.Adam, {}, 11, 2),
        (torch.optim.Adam, {"fused": True, "operations": 11}, 11, 2),
    ],
)
def test_a_trial_counts_what_the_formulas_say(
    make: Any, options: dict[str, Any], operations: float, moments: int
) -> None:
    passed = fedsim.torch.optimizer(make, **options)
    assert (passed.operations, passed.moments) == (operations, moments)


@every(
    ("make", "options", "said"),
    [
        (torch.optim.LBFGS, {}, "steps without arguments; it fails in a trial: TypeError"),
        (nn.Linear, {}, "Linear is called with parameters, lr and options"),
        (lambda parameters, lr: None, {}, "it makes NoneType, no torch.optim.Optimizer"),
        (3, {}, "a function of parameters and lr; got an object of the class int"),
        (torch.optim.Adam([torch.zeros(1)]), {}, "got an object of the class Adam"),
        (torch.optim.Adam, {"fused": True}, "give its operations per value and step"),
        (torch.optim.Adam, {"by": "epoch"}, "by: got 'epoch'; a schedule is by round or by step"),
        (torch.optim.Adam, {"schedule": 1}, "got an object of the class int"),
        (torch.optim.Adam, {"schedule": lambda _: 1}, "its schedule makes int, no torch.optim"),
        (
            torch.optim.Adam,
            {"schedule": torch.optim.lr_scheduler.ReduceLROnPlateau},
            "ReduceLROnPlateau follows a measure, which a client does not have",
        ),
    ],
)
def test_what_is_no_optimizer_is_refused(make: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        fedsim.torch.optimizer(make, **options)


def test_what_does_not_fit_is_refused_before_anything_runs(tmp_path: Path) -> None:
    rms = fedsim.torch.optimizer(torch.optim.RMSprop)
    planned = fedsim.torch.optimizer(torch.optim.RMSprop, schedule=halving)
    muon = fedsim.torch.optimizer(torch.optim.Muon)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"optimizer": muon}, "the optimizer Muon cannot be made for the module: ValueError"),
        (
            {"optimizer": planned, "schedule": {"kind": "cosine", "over": 3}},
            "the optimizer RMSprop brings its own",
        ),
        (
            {"kind": "fedopt", "server_optimizer": rms},
            "got RMSprop, but the server moves vectors, not a module",
        ),
    ]
    for block, said in wrong:
        with pytest.raises(ScenarioError, match=said):
            trained(tmp_path, **block)
    squares = {
        "problem": {
            "loss": {"kind": "squared", "scale": "mean"},
            "data": {"kind": "sklearn", "name": "diabetes"},
        },
        "algorithm": {"kind": "fedavg", "step_size": 0.1, "optimizer": rms},
        "fleet": [{"count": 2}],
    }
    with pytest.raises(ScenarioError, match="the loss squared is not computed by it"):
        fedsim.run(squares, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
