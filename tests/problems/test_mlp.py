"""The network: against finite differences, and scikit-learn's networks as an oracle."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPRegressor

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import MultilayerPerceptron, Problem, Samples
from tests.tiers import every

from .examples import NETWORKS, differences, local, samples

DATA = samples(rows=25, features=4)
THREE = Samples(DATA.X, np.arange(25.0) % 3)
each_network = every("loss", NETWORKS)


@each_network
def test_the_gradient_is_that_of_finite_differences(
    loss: MultilayerPerceptron, rng: np.random.Generator
) -> None:
    f = local(loss, THREE if loss.output == "softmax" else DATA)
    w = rng.standard_normal(f.dimension)
    assert f.gradient(w) == pytest.approx(differences(f.value, w), rel=1e-5, abs=1e-6)


def sklearn_network(layers: tuple[Array, Array, Array, Array]) -> MLPRegressor:
    """A fitted-looking network with these parameters and linear outputs."""
    hidden, hidden_bias, output, output_bias = layers
    network = MLPRegressor(hidden_layer_sizes=(hidden.shape[1],), activation="logistic")
    network.coefs_, network.intercepts_ = [hidden, output], [hidden_bias, output_bias]
    network.n_layers_, network.out_activation_ = 3, "identity"
    network.n_features_in_, network.n_outputs_ = len(hidden), output.shape[1]
    return network


def test_squared_output_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    loss = MultilayerPerceptron(hidden=7, output="squared", scale="mean", l2=0.2)
    f = local(loss, DATA)
    w = rng.standard_normal(f.dimension)
    predicted = sklearn_network(loss.layers(w, 4, 1)).predict(DATA.X)
    expected = 0.5 * np.mean((predicted - DATA.y) ** 2) + 0.1 * w @ w
    assert f.value(w) == pytest.approx(expected, rel=1e-12)


def test_sigmoid_output_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    loss = MultilayerPerceptron(hidden=7, output="sigmoid", scale="sum")
    f = local(loss, DATA)
    w = rng.standard_normal(f.dimension)
    predicted = expit(sklearn_network(loss.layers(w, 4, 1)).predict(DATA.X))
    expected = 0.5 * np.sum((predicted - (DATA.y > 0)) ** 2)
    assert f.value(w) == pytest.approx(expected, rel=1e-12)


def test_sigmoid_output_takes_two_labels() -> None:
    loss = MultilayerPerceptron(output="sigmoid")
    assert loss.encode(np.array([3.0, 7.0, 3.0])).tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="two distinct labels are needed; the data has 3") as caught:
        Problem.of(loss, [THREE])
    assert caught.value.key == "loss.output"


def test_softmax_output_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    loss = MultilayerPerceptron(hidden=7, output="softmax", scale="mean")
    f = local(loss, THREE)
    w = rng.standard_normal(f.dimension)
    outputs = np.exp(sklearn_network(loss.layers(w, 4, 3)).predict(THREE.X))
    expected = log_loss(THREE.y, outputs / outputs.sum(axis=1, keepdims=True))
    assert f.value(w) == pytest.approx(expected, rel=1e-12)


@each_network
def test_hidden_units_are_interchangeable(
    loss: MultilayerPerceptron, rng: np.random.Generator
) -> None:
    f = local(loss, DATA)
    w = rng.standard_normal(f.dimension)
    hidden, hidden_bias, output, output_bias = loss.layers(w, 4, f.outputs)
    order = rng.permutation(loss.hidden)
    swapped = (hidden[:, order], hidden_bias[order], output[order], output_bias)
    other = np.concatenate([part.ravel() for part in swapped])
    assert f.value(other) == pytest.approx(f.value(w), rel=1e-12)


def test_softmax_slopes_sum_to_zero_over_the_classes(rng: np.random.Generator) -> None:
    f = local(MultilayerPerceptron(hidden=3, output="softmax"), THREE)
    gradient = f.gradient(rng.standard_normal(f.dimension))
    assert gradient[-3:].sum() == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("output", ["squared", "sigmoid", "softmax"])
def test_huge_weights_neither_overflow_nor_warn(output: str, rng: np.random.Generator) -> None:
    f = local(MultilayerPerceptron.model_validate({"output": output}), DATA)
    w = 1e4 * rng.standard_normal(f.dimension)
    assert np.isfinite(f.value(w))
    assert np.isfinite(f.gradient(w)).all()


def test_layers_are_views_of_the_model() -> None:
    loss = MultilayerPerceptron(hidden=3)
    w = np.zeros(loss.dimension(4, 2))
    layers = loss.layers(w, 4, 2)
    assert [part.shape for part in layers] == [(4, 3), (3,), (3, 2), (2,)]
    for number, part in enumerate(layers, 1):
        part[...] = number
    assert np.bincount(w.astype(int)).tolist() == [0, 12, 3, 6, 2]


def test_the_start_is_normal_and_scaled_by_fan_in(rng: np.random.Generator) -> None:
    loss = MultilayerPerceptron(hidden=200, output="squared", spread=2.0)
    w = loss.initial(100, 1, rng)
    hidden, hidden_bias, output, output_bias = loss.layers(w, 100, 1)
    assert hidden.std() == pytest.approx(2 / np.sqrt(100), rel=0.03)
    assert output.std() == pytest.approx(2 / np.sqrt(200), rel=0.2)
    assert not hidden_bias.any()
    assert not output_bias.any()


def test_the_start_is_a_function_of_the_stream() -> None:
    problem = Problem.of(MultilayerPerceptron(), [DATA, THREE])
    starts = [problem.initial(np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert starts[0].shape == (problem.dimension,)
    assert np.array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])


def test_operations_are_those_of_the_matrix_products() -> None:
    m, d, h, c = 25, 4, 5, 3
    products = [(m, d, h), (m, h, c), (h, m, c), (m, c, h), (d, m, h)]
    f = local(MultilayerPerceptron(hidden=h, output="softmax"), THREE)
    assert f.gradient_operations == sum(2 * a * b * c for a, b, c in products)


def test_classes_are_those_of_all_clients() -> None:
    # A client that has seen one label only still has an output for each.
    parts = [THREE.take(np.flatnonzero(THREE.y == label)) for label in range(3)]
    problem = Problem.of(MultilayerPerceptron(hidden=2, output="softmax"), parts)
    assert [loss.outputs for loss in problem.losses] == [3, 3, 3]
    whole = local(problem.loss, THREE)
    w = np.linspace(-1, 1, problem.dimension)
    assert problem.value(w) == pytest.approx(whole.value(w))


@each_network
def test_there_is_no_smoothness_constant(loss: MultilayerPerceptron) -> None:
    problem = Problem.of(loss, [DATA])
    for asked in (
        problem.smoothness,
        lambda: problem.client_smoothness,
        lambda: problem.losses[0].smoothness,
        lambda: problem.losses[0].hessian(np.zeros(problem.dimension)),
    ):
        with pytest.raises(DataError) as caught:
            asked()
        assert caught.value.key == "loss"
        assert "mlp" in str(caught.value)
