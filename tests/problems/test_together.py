"""Many clients' networks computed as one: what a loop over them computes, to rounding."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import fedsim.torch
from fedsim.core.errors import DataError
from fedsim.core.ports import Work
from fedsim.problems import Architecture, LocalLoss, Problem, Squared, TorchLoss, kernels
from fedsim.problems.architectures import DenseLayers, Transformer
from fedsim.problems.evaluators.serial import SerialEvaluator
from fedsim.problems.evaluators.vmap import GROUP, MOST, VmapEvaluator
from fedsim.problems.modules import LossTerms
from fedsim.problems.modules.recorded import recordable
from fedsim.problems.modules.vmap import Together
from fedsim.problems.optimizers import SGD, Adagrad, AdamW, Optimizer, Training, Yogi
from fedsim.problems.samples import Samples
from fedsim.scenario.building.load import ComputingLoad, evaluator_for, why_apart
from tests.problems.examples import samples
from tests.problems.test_modules import Own, Tied
from tests.problems.test_numbers import CLASSES, NETWORKS, networks
from tests.tiers import every

CLIENTS = 5


def clients(
    rng: np.random.Generator, model: Architecture, features: int, **keys: Any
) -> list[LocalLoss]:
    """Return losses of clients who have each another number of rows."""
    loss = TorchLoss(model=model, **{"outputs": CLASSES, "l2": 0.01} | keys)
    made = []
    for client in range(CLIENTS):
        n = 6 + client
        X = rng.standard_normal((n, features))
        if model.tokens:
            X = rng.integers(0, CLASSES, (n, features)).astype(float)
        labels = rng.integers(0, loss.outputs or 1, n).astype(float)
        made.append(LocalLoss(loss, X, loss.encode(labels)))
    return made


def work(
    losses: list[LocalLoss], rng: np.random.Generator, pull: float | None = None, steps: int = 3
) -> list[Work]:
    """Return steps of all clients from models of their own, and a stochastic gradient of each."""
    w = losses[0].initial(rng)
    made = []
    for client, loss in enumerate(losses):
        own = w + 0.01 * rng.standard_normal(len(w))
        drawn = rng.integers(0, loss.rows, (steps, 4))
        made.append(Work(kernels.sgd_steps, client, (own, 0.1, drawn, pull), 1.0))
        made.append(Work(kernels.minibatch_gradient, client, (own, drawn[0]), 1.0))
    return made


def evaluated(evaluator: Any, works: list[Work]) -> list[Any]:
    tickets = [evaluator.submit(each) for each in works]
    return [evaluator.result(each) for each in tickets]


@pytest.mark.slow
@networks
@pytest.mark.parametrize("pull", [None, 0.5])
def test_it_is_what_a_loop_computes_to_rounding(
    model: Architecture, features: int, pull: float | None, rng: np.random.Generator
) -> None:
    losses = clients(rng, model, features, numbers="float64")
    works = work(losses, rng, pull)
    expected = evaluated(SerialEvaluator(losses), works)
    found = evaluated(VmapEvaluator(losses[0].loss, SerialEvaluator(losses)), works)  # type: ignore[arg-type]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@networks
def test_in_float32_it_errs_no_more_than_the_loop(
    model: Architecture, features: int, rng: np.random.Generator
) -> None:
    """Both are off what float64 gives by rounding alone."""
    seed = int(rng.integers(1000))
    wide, narrow = (
        clients(np.random.default_rng(seed), model, features, numbers=numbers)
        for numbers in ("float64", "float32")
    )
    works = work(wide, rng)
    exact = evaluated(SerialEvaluator(wide), works)
    loop = evaluated(SerialEvaluator(narrow), works)
    found = evaluated(VmapEvaluator(narrow[0].loss, SerialEvaluator(narrow)), works)  # type: ignore[arg-type]
    size = max(np.abs(each).max() for each in exact)
    for each in (loop, found):
        off = max(np.abs(a - b).max() for a, b in zip(each, exact, strict=True))
        assert 0 < off < 2e-5 * size


def test_what_is_evaluated_together_is_of_one_shape(rng: np.random.Generator) -> None:
    """Other minibatches, steps or lengths of steps are by themselves; nobody is forgotten."""
    losses = clients(rng, DenseLayers(hidden=(3,)), 5, numbers="float64")
    works = [*work(losses, rng), *work(losses, rng, pull=1.0), *work(losses, rng, steps=2)]
    w, _, drawn, _ = works[0].arguments
    works += [
        Work(kernels.sgd_steps, 0, (w, 0.2, drawn, None), 1.0),
        Work(kernels.sgd_steps, 1, (w, 0.1, (None, None), None), 1.0),
        Work(kernels.gradient, 2, (w,), 1.0),
        Work(kernels.value, 3, (w,), 1.0),
    ]
    expected = evaluated(SerialEvaluator(losses), works)
    vmapped = VmapEvaluator(losses[0].loss, SerialEvaluator(losses))  # type: ignore[arg-type]
    tickets = [vmapped.submit(each) for each in works]
    for place in reversed(range(len(works))):
        np.testing.assert_allclose(
            vmapped.result(tickets[place]), expected[place], rtol=1e-9, atol=1e-12
        )


class Counting:
    """A loss that takes note of how many clients it computes for at once."""

    def __init__(self, loss: Any) -> None:
        self._loss = loss
        self.seen: list[int] = []

    def check_together(self, features: int, outputs: int) -> None:
        """It can."""

    def divides_together(self, features: int, outputs: int) -> bool:
        """It can."""
        return True

    def steps_together(self, rows: Any, *rest: Any) -> Any:
        """Compute."""
        self.seen.append(len(rows))
        return self._loss.steps_together(rows, *rest)

    def trained_together(self, rows: Any, *rest: Any) -> Any:
        """Compute."""
        self.seen.append(len(rows))
        return self._loss.trained_together(rows, *rest)

    def gradients_together(self, rows: Any, *rest: Any) -> Any:
        """Compute."""
        self.seen.append(len(rows))
        return self._loss.gradients_together(rows, *rest)


@every("rule", [SGD(momentum=0.9, nesterov=True), AdamW(), Adagrad(), Yogi()])
def test_optimizers_of_many_are_those_of_each(rule: Optimizer, rng: np.random.Generator) -> None:
    """From a new state, and from kept ones, which differ; some are one step ahead of others."""
    losses = clients(rng, DenseLayers(hidden=(3,)), 5, numbers="float64")
    w, works = losses[0].initial(rng), []
    for client, loss in enumerate(losses):
        drawn = rng.integers(0, loss.rows, (3, 4))
        own = w + 0.01 * rng.standard_normal(len(w))
        training = Training(rule, (0.1, 0.05, 0.02), clip=0.5, pull=0.3)
        moments = 1e-3 * rng.random(rule.moments * len(w))
        state = np.concatenate([[5.0 + client % 2], moments])
        both = training, training._replace(state=state, kept=True)
        works += [Work(kernels.optimizer_steps, client, (own, drawn, each), 1.0) for each in both]
    ragged = [np.arange(4), np.arange(4), np.arange(2)]
    works.append(Work(kernels.optimizer_steps, 0, (w, ragged, training), 1.0))
    counting = Counting(losses[0].loss)
    expected = evaluated(SerialEvaluator(losses), works)
    found = evaluated(VmapEvaluator(counting, SerialEvaluator(losses)), works)
    assert sorted(counting.seen) == [2, 3, 5]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_who_waits_is_evaluated_at_once_and_who_has_gone_is_not(rng: np.random.Generator) -> None:
    losses = clients(rng, DenseLayers(hidden=(3,)), 5)
    counting = Counting(losses[0].loss)
    vmapped = VmapEvaluator(counting, SerialEvaluator(losses))
    steps = [each for each in work(losses, rng) if each.kernel is kernels.sgd_steps]
    tickets = [vmapped.submit(each) for each in steps]
    vmapped.withdraw(tickets[3])
    for place in (1, 0, 2, 4):
        vmapped.result(tickets[place])
    assert counting.seen == [4]
    many = [vmapped.submit(steps[0]) for _ in range(MOST + 2)]
    vmapped.result(many[-1])
    assert counting.seen == [4, MOST]
    vmapped.result(many[-2])
    assert counting.seen == [4, MOST, 2]


def branching(rows: Tensor) -> Tensor:
    return rows if rows.sum() > 0 else -rows


class Fixed(nn.Module):
    """A dense layer behind a function."""

    def __init__(self, before: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self._before = before

    def forward(self, rows: Tensor) -> Tensor:
        """Return outputs."""
        outputs: Tensor = self.layer(self._before(rows))
        return outputs


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Fixed(branching), "got vmap, but Fixed cannot be vmapped: .*take one-by-one"),
        (lambda: Fixed(nn.Dropout(0.5)), "Fixed draws random numbers while it is trained, as"),
    ],
)
def test_a_module_that_cannot_be_vmapped_is_refused(make: Any, text: str) -> None:
    name = f"refused {text}"
    Own.made[name] = make
    loss = TorchLoss(model=Own(name=name), outputs=3)
    with pytest.raises(DataError, match=text) as caught:
        loss.check_together(6, 3)
    assert caught.value.key == "evaluator"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make", [Tied, lambda: parametrizations.weight_norm(nn.Linear(6, 3))], ids=["tied", "norm"]
)
def test_modules_of_users_are_computed_together(make: Any, rng: np.random.Generator) -> None:
    name = f"together {make}"
    Own.made[name] = make
    losses = clients(rng, Own(name=name), 6, outputs=3, numbers="float64")
    works = work(losses, rng)
    expected = evaluated(SerialEvaluator(losses), works)
    found = evaluated(VmapEvaluator(losses[0].loss, SerialEvaluator(losses)), works)  # type: ignore[arg-type]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_regression_and_bfloat16(rng: np.random.Generator) -> None:
    loss = TorchLoss(model=DenseLayers(hidden=(8,)), criterion="squared", numbers="bfloat16")
    X = rng.standard_normal((20, 4))
    y = X @ np.array([1.0, -1.0, 2.0, 0.5])
    losses = [LocalLoss(loss, X, y), LocalLoss(loss, X[:10], y[:10])]
    works = work(losses, rng)
    expected = evaluated(SerialEvaluator(losses), works)
    found = evaluated(VmapEvaluator(loss, SerialEvaluator(losses)), works)
    for one, other in zip(found, expected, strict=True):
        size = np.abs(other).max()
        np.testing.assert_allclose(one, other, atol=0.02 * size)
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16


@pytest.mark.parametrize(("model", "features"), [NETWORKS[0], NETWORKS[-1]])
def test_recorded_operations_give_the_same_bits(
    model: Architecture, features: int, rng: np.random.Generator
) -> None:
    """The first call of a shape takes them one by one, and all later ones repeat them."""
    losses = clients(rng, model, features)
    works = [each for each in work(losses, rng, 0.3) if each.kernel is kernels.sgd_steps]
    recipe = losses[0].loss.recipe(features, CLASSES)  # type: ignore[attr-defined]
    found = []
    assert recipe.recordable
    assert recipe.dense
    for records in (False, True):
        made = Together(recipe, "float32", "cpu")
        made._records = records
        rows = [losses[each.client or 0].arranged for each in works]
        models = [each.arguments[0] for each in works]
        drawn = np.stack([each.arguments[2] for each in works])
        terms = LossTerms(0.01, "cross-entropy")
        found.append(made.steps(rows, models, 0.1, drawn, 0.3, terms))
        assert len(made._recorded) == records
    np.testing.assert_array_equal(found[0], found[1])


def divided(counting: Any, losses: list[LocalLoss], threads: int) -> VmapEvaluator:
    return VmapEvaluator(counting, SerialEvaluator(losses), divided=True, threads=threads)


@pytest.mark.parametrize("optimizer", [False, True])
def test_groups_and_their_bits_do_not_depend_on_threads(
    optimizer: bool, rng: np.random.Generator
) -> None:
    """Two groups of a batch of five, again and again: one by one, and on other threads."""
    losses = clients(rng, DenseLayers(hidden=(7, 6)), 9)
    training = Training(AdamW(), (0.1, 0.05, 0.02))
    works = []
    for each in work(losses, rng):
        if each.kernel is kernels.sgd_steps:
            w, _, drawn, _ = each.arguments
            one = each._replace(operations=GROUP / 2)
            if optimizer:
                arguments = w, drawn, training
                one = one._replace(kernel=kernels.optimizer_steps, arguments=arguments)
            works.append(one)
    found = []
    for threads in (1, 2, 3):
        counting = Counting(losses[0].loss)
        evaluator = divided(counting, losses, threads)
        found.append([evaluated(evaluator, works) for _ in range(8)])
        assert sorted(counting.seen) == [2] * 8 + [3] * 8
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@every(
    ("operations", "sizes"),
    [(GROUP, [1, 1, 1, 2]), (GROUP / 2, [2, 3]), (GROUP / 3, [5]), (0.0, [5])],
)
def test_a_group_has_so_many_operations(
    operations: float, sizes: list[int], rng: np.random.Generator
) -> None:
    losses = clients(rng, DenseLayers(hidden=(3,)), 5)
    works = [
        each._replace(operations=operations)
        for each in work(losses, rng)
        if each.kernel is kernels.sgd_steps
    ]
    counting = Counting(losses[0].loss)
    evaluated(divided(counting, losses, 1), works)
    assert sorted(counting.seen) == sizes


@networks
def test_only_dense_layers_are_divided(model: Architecture, features: int) -> None:
    """Their recorded operations have the same bits, so it is the same which thread is the first."""
    loss = TorchLoss(model=model, outputs=CLASSES)
    dense = isinstance(model, DenseLayers | Transformer)
    assert loss.divides_together(features, CLASSES) == dense


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failure_in_a_group_is_raised_where_its_results_are_requested(
    threads: int, rng: np.random.Generator
) -> None:
    losses = clients(rng, DenseLayers(hidden=(3,)), 5)
    works = [
        each._replace(operations=GROUP / 2)
        for each in work(losses, rng)
        if each.kernel is kernels.sgd_steps
    ]
    w, *rest = works[-1].arguments
    works[-1] = works[-1]._replace(arguments=(w[:-1], *rest))
    evaluator = divided(losses[0].loss, losses, threads)
    tickets = [evaluator.submit(each) for each in works]
    assert np.isfinite(evaluator.result(tickets[0])).all()
    with pytest.raises(ValueError, match="shape"):
        evaluator.result(tickets[-1])
    assert np.isfinite(evaluator.result(tickets[1])).all()


class Counted(nn.Module):
    """A layer that does something else in each call."""

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows."""
        return rows


def hooked() -> nn.Module:
    layer = nn.Linear(3, 2)
    layer.register_forward_hook(lambda *_: None)
    return layer


@every(
    ("module", "known"),
    [
        (nn.Sequential(nn.Linear(3, 2), nn.ReLU()), True),
        (nn.Sequential(nn.Linear(3, 2), Counted()), False),
        (nn.Sequential(nn.Linear(3, 2), nn.ReLU(inplace=True)), False),
        (hooked(), False),
    ],
)
def test_only_layers_whose_code_is_known_are_recorded(module: nn.Module, known: bool) -> None:
    assert recordable(module) == known


SMALL_STEPS = ComputingLoad(asked=4.0, update=1e7, traffic=1e7, look=1e9, rounds=100, steps=5.0)


def network(*layers: nn.Module) -> Problem:
    made = fedsim.torch.problem(
        nn.Sequential(nn.Linear(3, 2), *layers), data=(np.eye(3), [0, 1, 1])
    )
    return Problem.of(made.loss, [Samples(np.eye(3), np.array([0.0, 1.0, 1.0]))])


def test_many_steps_of_small_networks_are_computed_together() -> None:
    assert evaluator_for(network(nn.ReLU()), SMALL_STEPS) == "vmap"


@pytest.mark.parametrize(
    ("less", "why"),
    [
        ({"asked": 3.0}, "fewer than 4 clients are asked at once"),
        ({"update": 3e8}, "a step takes more than 40 million operations"),
        ({"rounds": 99.0}, "the run has fewer than 2000 steps"),
    ],
)
def test_fewer_clients_or_steps_or_long_ones_are_not(less: dict[str, Any], why: str) -> None:
    made, few = network(), SMALL_STEPS._replace(**less)
    assert (evaluator_for(made, few), why_apart(made, few)) == ("one-by-one", why)


def test_what_cannot_be_computed_together_is_said() -> None:
    made = network(nn.Dropout(0.5))
    assert evaluator_for(made, SMALL_STEPS) == "one-by-one"
    assert "draws random numbers" in (why_apart(made, SMALL_STEPS) or "")
    other = network(nn.Unflatten(1, (1, 2)), nn.Conv1d(1, 1, 1), nn.Flatten())
    assert "other layers" in (why_apart(other, SMALL_STEPS) or "")
    squared = Problem.of(Squared(), [samples(rows=6, features=3)])
    assert why_apart(squared, SMALL_STEPS) is None


def test_on_a_gpu_few_steps_of_any_network_are_computed_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = network(nn.Unflatten(1, (1, 2)), nn.Conv1d(1, 1, 1), nn.Flatten())
    few = SMALL_STEPS._replace(update=3e8, rounds=3.0)
    monkeypatch.setattr(type(other.loss), "on_gpu", True)
    assert evaluator_for(other, few) == "vmap"
    assert evaluator_for(network(nn.Dropout(0.5)), few) == "one-by-one"
    assert why_apart(other, few._replace(asked=3.0)) == "fewer than 4 clients are asked at once"
