"""Functions of JAX as a problem: runs are plain loops of JAX, and what cannot be used is named."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedsim
import fedsim.jax
from fedsim.core.errors import DataError, ScenarioError
from fedsim.problems.parts import parts_of
from tests.tiers import every, some

X = np.random.default_rng(5).normal(size=(60, 4))
Y = (X @ np.array([1.0, -2.0, 0.5, 0.0]) > 0).astype(np.int64)
PARTS = [slice(0, 13), slice(13, 26), slice(26, 39)]
"""The rows of three clients of equal weight."""

CLIENTS = np.repeat([0, 1, 2], 13)


def init(key: Any) -> Any:
    one, other = jax.random.split(key)
    hidden = {"w": jax.random.normal(one, (4, 6)), "b": jnp.zeros(6)}
    return {"hidden": hidden, "last": jax.random.normal(other, (6, 2))}


def apply(parameters: Any, rows: Any) -> Any:
    hidden = parameters["hidden"]
    return jnp.tanh(rows @ hidden["w"] + hidden["b"]) @ parameters["last"]


def mean_loss(parameters: Any, rows: Any, labels: Any) -> Any:
    found = optax.losses.softmax_cross_entropy_with_integer_labels(apply(parameters, rows), labels)
    return found.mean()


def ran(folder: Path, method: dict[str, Any], numbers: str, **more: Any) -> fedsim.Result:
    problem = fedsim.jax.problem(
        init, apply, data=(X[:39], Y[:39], CLIENTS), test=(X[39:], Y[39:]), numbers=numbers
    )
    scenario: dict[str, Any] = {"problem": problem, "algorithm": method, "stop": {"rounds": 3}}
    scenario |= {"measures": ["test_accuracy", "test_loss"], "fleet": [{"count": 3}]}
    scenario["wire"] = {"values": "float64"}
    return fedsim.run({**scenario, "models": {"every": 1}, **more}, out=folder)


def averaged(start: Any, optimizer: optax.GradientTransformation) -> Any:
    """Return the mean of the parameters that three clients reach in two full steps."""
    reached = []
    for part in PARTS:
        parameters, state = start, optimizer.init(start)
        for _ in range(2):
            slope = jax.grad(mean_loss)(parameters, X[part], Y[part])
            change, state = optimizer.update(slope, state, parameters)
            parameters = optax.apply_updates(parameters, change)
        reached.append(parameters)
    return jax.tree.map(lambda *each: sum(each) / 3, *reached)


@pytest.mark.slow
@pytest.mark.parametrize(("numbers", "close"), [("float64", 1e-12), ("float32", 1e-6)])
def test_a_run_is_a_plain_loop_of_optax(tmp_path: Path, numbers: str, close: float) -> None:
    method = {"kind": "fedavg", "step_size": 0.5, "local_steps": 2}
    result = ran(tmp_path, method, numbers)
    with jax.enable_x64(numbers == "float64"):
        for number in (2, 3):
            before = fedsim.jax.parameters(init, result, round=number - 1)
            found = fedsim.jax.parameters(init, result, round=number)
            wanted = averaged(before, optax.sgd(0.5))
            for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                assert np.asarray(one) == pytest.approx(np.asarray(other), rel=close, abs=close)
        row = result.rounds.iloc[-1]
        right = apply(found, X[39:]).argmax(axis=1) == Y[39:]
        assert row["test_accuracy"] == np.mean(np.asarray(right))
        assert row["test_loss"] == pytest.approx(float(mean_loss(found, X[39:], Y[39:])), rel=close)


@pytest.mark.slow
def test_fedsims_adam_at_the_clients_is_that_of_optax(tmp_path: Path) -> None:
    method = {"kind": "fedavg", "step_size": 0.05, "local_steps": 2, "optimizer": "adam"}
    result = ran(tmp_path, method, "float64")
    with jax.enable_x64(True):
        before, found = (fedsim.jax.parameters(init, result, round=each) for each in (1, 2))
        wanted = averaged(before, optax.adam(0.05))
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert np.asarray(one) == pytest.approx(np.asarray(other), rel=1e-10, abs=1e-12)


def clipped(rate: Any, b1: float = 0.9, eps: float = 1e-8) -> Any:
    return optax.chain(optax.clip_by_global_norm(0.05), optax.adamw(rate, b1, eps=eps))


OPTAX: dict[str, tuple[Any, dict[str, Any]]] = {
    "adam": (optax.adam, {}),
    "clipped": (clipped, {"b1": 0.7, "eps": 1e-4}),
    "by part": (optax.lamb, {"weight_decay": 0.1}),
    "factored": (optax.adafactor, {"min_dim_size_to_factor": 2}),
}
"""With a gradient of 4e-6 times the clipped norm, which is among these, a step of Adam under the
usual epsilon of 1e-8 multiplies the rounding of that gradient: a plain loop in float32 is then 1e-5
from itself in float64."""


def fixed(key: Any) -> Any:
    return init(jax.random.key(3))


def optax_loop(optimizer: Any, *, kept: bool) -> list[Any]:
    """Return the parameters of rounds of two full steps at each of three clients."""
    shared, models = fixed(None), []
    states = [optimizer.init(shared) for _ in PARTS]
    for _ in range(3):
        reached = []
        for m, part in enumerate(PARTS):
            parameters, state = shared, states[m] if kept else optimizer.init(shared)
            for _ in range(2):
                slope = jax.grad(mean_loss)(parameters, X[part], Y[part])
                change, state = optimizer.update(slope, state, parameters)
                parameters = optax.apply_updates(parameters, change)
            reached.append(parameters)
            states[m] = state
        shared = jax.tree.map(lambda *each: sum(each) / 3, *reached)
        models.append(shared)
    return models


@pytest.mark.slow
@pytest.mark.parametrize("rule", some(OPTAX, "clipped"))
@pytest.mark.parametrize("state", ["reset", "kept"])
@pytest.mark.parametrize(("numbers", "close"), [("float64", 1e-12), ("float32", 1e-6)])
def test_an_optimizer_of_optax_at_the_clients_is_the_plain_loop(
    rule: str, state: str, numbers: Any, close: float
) -> None:
    make, options = OPTAX[rule]
    method = {"kind": "fedavg", "step_size": 0.05, "local_steps": 2, "optimizer_state": state}
    method["optimizer"] = fedsim.jax.optimizer(make, **options)  # its numbers are the problem's
    data = X[:39], Y[:39], CLIENTS
    result = fedsim.run(
        {
            "problem": fedsim.jax.problem(fixed, apply, data=data, numbers=numbers),
            "algorithm": method,
            "wire": {"values": "float64"},
            "fleet": [{"count": 3}],
            "models": {"every": 1},
            "stop": {"rounds": 3},
        }
    )
    with jax.enable_x64(numbers == "float64"):
        expected = optax_loop(make(0.05, **options), kept=state == "kept")
        for number, wanted in enumerate(expected, 1):
            found = fedsim.jax.parameters(fixed, result, round=number)
            for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                assert np.asarray(one) == pytest.approx(np.asarray(other), rel=close, abs=close)


@pytest.mark.parametrize("rule", some(OPTAX | {"steep": (clipped, {})}, "clipped"))
@pytest.mark.parametrize(("numbers", "close"), [("float64", 1e-14), ("float32", 1e-6)])
def test_a_step_is_that_of_optax_on_the_same_gradient(
    rule: str, numbers: Any, close: float
) -> None:
    """Also where gradients are of very different sizes, which a run cannot resolve in float32."""
    make, options = (OPTAX | {"steep": (clipped, {})})[rule]
    shapes = {"b": (6,), "w": (4, 6), "z": (6, 2)}
    parts = parts_of(list(shapes), list(shapes.values()))
    rng = np.random.default_rng(3)
    w = rng.normal(size=42).astype(numbers).astype(np.float64)
    passed = fedsim.jax.optimizer(make, numbers=numbers, **options).fit(parts)
    with jax.enable_x64(numbers == "float64"):
        tree = cut(w, numbers, shapes)
        optimizer = make(0.05, **options)
        state, held = optimizer.init(tree), passed.begin(w)
        for _ in range(5):
            g = rng.normal(size=42) * 10.0 ** rng.uniform(-8, 0, 42)
            change, state = optimizer.update(cut(g, numbers, shapes), state, tree)
            tree = optax.apply_updates(tree, change)
            passed.step(w, g, 0.05, held)
            found = jax.tree.leaves(cut(w, numbers, shapes))
            for one, other in zip(found, jax.tree.leaves(tree), strict=True):
                assert np.asarray(one) == pytest.approx(np.asarray(other), rel=close, abs=close)


def cut(flat: Any, numbers: Any, shapes: dict[str, tuple[int, ...]]) -> list[Any]:
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
    pieces = zip(np.split(flat.astype(numbers), ends), shapes.values(), strict=True)
    return [jnp.asarray(piece.reshape(shape)) for piece, shape in pieces]


def test_a_server_and_losses_of_numpy_take_optimizers_of_optax() -> None:
    """Those of fedsim give the same models, at both ends, and cost as much."""
    counted = fedsim.jax.optimizer(optax.adam)
    assert (counted.moments, counted.operations) == (2, 11)
    passed = fedsim.jax.optimizer(optax.adam, operations=11)
    problem = {
        "loss": {"kind": "logistic", "l2": 0.1},
        "data": fedsim.arrays(X[:39], 2.0 * Y[:39] - 1, CLIENTS),
        "split": "groups",
    }

    def found(rule: Any) -> fedsim.Result:
        method = {"kind": "fedopt", "step_size": 0.1, "local_steps": 3, "server_rate": 0.1}
        method |= {"optimizer": rule, "server_optimizer": rule, "optimizer_state": "kept"}
        fleet = [{"count": 3, "device": "pi-4"}]
        rest = {"stop": {"rounds": 4}, "fleet": fleet, "wire": {"values": "float64"}}
        return fedsim.run({"problem": problem, "algorithm": method, **rest})

    one, other = found(passed), found("adam")
    assert one.model() == pytest.approx(other.model(), rel=1e-10, abs=1e-12)
    assert one.rounds["joules"].iloc[-1] == pytest.approx(other.rounds["joules"].iloc[-1])


@every(
    ("make", "options", "said"),
    [
        (3, {}, "a function of a step size, such as optax.adam; got an object of the class int"),
        (optax.adam(0.1), {}, "got an object of the class GradientTransformation"),
        (lambda rate: 3, {}, "fails in a trial: AttributeError"),
        (optax.sgd, {"numbers": "int8"}, "numbers: got 'int8'; expected 'float32' or 'float64'"),
        (optax.sgd, {"beta": 1}, "sgd fails in a trial: TypeError.*unexpected keyword"),
        (optax.lbfgs, {}, "lbfgs fails in a trial: TypeError.*'value'"),
        (partial(optax.noisy_sgd, key=1), {}, "has other numbers than real ones and counts"),
    ],
)
def test_what_is_no_optimizer_of_optax_is_refused(make: Any, options: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        fedsim.jax.optimizer(make, **options)


LABELS = 2.0 * Y[:39] - 1
BY_NUMPY = {
    "loss": {"kind": "logistic", "l2": 0.1},
    "data": fedsim.arrays(X[:39], LABELS, CLIENTS),
    "split": "groups",
}
BY_JAX = fedsim.jax.problem(
    lambda key: jnp.zeros(4),
    lambda w, rows: rows @ w,
    lambda outputs, targets: jax.nn.softplus(-outputs * targets),
    data=(X[:39], LABELS, CLIENTS),
    numbers="float64",
    l2=0.1,
)


@pytest.mark.parametrize("keys", [{"local_steps": 3, "batch": 4}, {"local_epochs": 2, "batch": 5}])
def test_minibatches_are_those_of_another_loss_with_the_same_model(keys: dict[str, int]) -> None:
    """Logistic regression by NumPy and by JAX; minibatches of 5 of 13 rows end with one of 3."""
    method = {"kind": "fedprox", "step_size": 0.3, "mu": 0.1, **keys}
    one, other = (
        fedsim.run(
            {"problem": each, "algorithm": method, "stop": {"rounds": 3}, "fleet": [{"count": 3}]}
        )
        for each in (BY_NUMPY, BY_JAX)
    )
    found = one.rounds["objective"].to_numpy()
    assert found == pytest.approx(other.rounds["objective"].to_numpy(), rel=1e-10)


@pytest.mark.slow
def test_types_of_jax_are_as_they_were(tmp_path: Path) -> None:
    ran(tmp_path, {"kind": "fedavg", "step_size": 0.5, "local_steps": 1}, "float64")
    assert jnp.ones(2).dtype == np.float32


def test_a_gradient_costs_what_is_counted_of_it() -> None:
    """Matrix products dominate here: 6 operations a weight and row, forwards and backwards."""
    width = 400
    problem = fedsim.jax.problem(
        lambda key: jnp.zeros((width, 10)),
        lambda w, rows: rows @ w,
        data=(np.ones((8, width)), Y[:8]),
    )
    counted = problem.loss.operations(1, width, 10)
    assert counted == pytest.approx(4 * width * 10, rel=0.1)  # no gradient of the inputs


def refused(text: str, **more: Any) -> None:
    given: dict[str, Any] = {"init": init, "apply": apply, "data": (X[:39], Y[:39])}
    scenario = {"algorithm": {"kind": "gd", "step_size": 0.1}, "fleet": [{"count": 3}]}
    with pytest.raises((DataError, ScenarioError), match=text):
        fedsim.run({"problem": fedsim.jax.problem(**(given | more)), **scenario})


def test_what_cannot_be_used_is_named() -> None:
    refused("init is a function of JAX's arrays; got int", init=3)
    refused("init.key. fails: KeyError", init=lambda key: dict[str, Any]()["none"])
    refused(r"apply.parameters, inputs. fails on inputs of shape .2, 4.", apply=lambda p, x: x @ p)
    refused(r"shape .2, C. or .2,.; got .2, 3, 1.", apply=lambda p, x: jnp.ones((2, 3, 1)))
    refused("needs an output for each class", apply=lambda p, x: x[:, 0])
    refused(r"return each row's loss.*got \(\)", loss=lambda outputs, targets: outputs.mean())
    refused("depend on the rows beside it", apply=lambda p, x: apply(p, x - x.mean(0)))
    refused("labels are 0 to 1; the data has 5", data=(X[:39], np.full(39, 5)))
    refused("it returns no parameters", init=lambda key: {}, apply=lambda p, x: x[:, :2])
