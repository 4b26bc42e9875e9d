"""A network with one hidden layer of sigmoid units: a non-convex loss."""

from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedsim.core.ports import Array
from fedsim.problems.losses.base import SCALE, Loss, Rows, State, half_square
from fedsim.problems.losses.linear import distinct_pair, two_labels, whole_labels
from fedsim.problems.losses.softmax import cross_entropy, indicators
from fedsim.problems.samples import Features, product, transposed_product


class Layers(NamedTuple):
    """The parameters of the network, as views of the flat model, in this order.

    Attributes:
        hidden: weights of the hidden units, shape (d, h).
        hidden_bias: biases of the hidden units, shape (h,).
        output: weights of the outputs, shape (h, c).
        output_bias: biases of the outputs, shape (c,).
    """

    hidden: Array
    hidden_bias: Array
    output: Array
    output_bias: Array


class MultilayerPerceptron(Loss):
    """One hidden layer of sigmoid units with squared, sigmoid or softmax output; non-convex.

    A gradient on m rows of d features with h units and c outputs costs 4 m d h + 6 m h c
    floating-point operations. The forward pass costs 2 m d h + 2 m h c. The backward pass costs 2 m
    h c for the output weights, 2 m h c for the hidden units, and 2 m d h for their weights.
    Sigmoids, biases and the loss itself are not counted. The l2 term includes every parameter.
    """

    source: ClassVar[str] = "Rumelhart, Hinton, Williams, Nature 1986"
    classifies: ClassVar[bool | str] = "with sigmoid or softmax output"

    kind: Literal["mlp"] = "mlp"
    hidden: int = Field(default=30, ge=1, description="number of hidden sigmoid units")
    output: Literal["squared", "sigmoid", "softmax"] = Field(
        default="softmax",
        description="squared: one linear unit, (o - y)^2/2 a row; sigmoid: one sigmoid unit, "
        "(o - y)^2/2 a row with y = 0 and 1 for the smaller and the larger of two labels; "
        "softmax: one unit for each distinct label, cross entropy",
    )
    scale: Literal["sum", "mean", "share"] = SCALE
    spread: float = Field(
        default=1.0,
        gt=0,
        description="weights start normal with standard deviation spread/sqrt(fan-in) "
        "(fan-in: d for the hidden layer, the hidden units for the output); biases start at 0",
    )

    def encode(self, labels: Array) -> Array:
        """Return the labels; as 0 and 1 (sigmoid); or as one column per distinct label (softmax).

        Raises:
            DataError: the output is a sigmoid and there are not two distinct labels, or it is
                softmax and a label is no whole number.
        """
        if self.output == "squared":
            return labels
        if self.output == "sigmoid":
            return two_labels(labels, 0.0, 1.0, "loss.output")
        return indicators(whole_labels(labels, "loss.output"))

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return the rows, and the targets as a table (n, c)."""
        return super().arrange(X, t.reshape(len(t), -1), total)

    def dimension(self, features: int, outputs: int) -> int:
        """Return (d + 1) h + (h + 1) c."""
        return (features + 1) * self.hidden + (self.hidden + 1) * outputs

    def layer_shapes(self, features: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the hidden layer, its biases, the output layer and its biases."""
        return (features, self.hidden), (self.hidden,), (self.hidden, outputs), (outputs,)

    def part_names(self, features: int, outputs: int) -> tuple[str, ...]:
        """Return the names of these parts."""
        return "hidden.weight", "hidden.bias", "output.weight", "output.bias"

    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Draw normal weights with standard deviation spread/sqrt(fan-in); biases are zero."""
        h = self.hidden
        hidden = rng.standard_normal(features * h) * (self.spread / np.sqrt(features))
        output = rng.standard_normal(h * outputs) * (self.spread / np.sqrt(h))
        return np.concatenate([hidden, np.zeros(h), output, np.zeros(outputs)])

    def operations(self, rows: int, features: float, outputs: int) -> float:
        """Return 4 m d h + 6 m h c."""
        return float(rows) * self.hidden * (4 * features + 6 * outputs)

    def layers(self, w: Array, features: int, outputs: int) -> Layers:
        """Return the parameters in the flat model `w`, as views."""
        h = self.hidden
        # Slices, since np.split would take a third of the time of a step of few rows.
        biases, output = features * h, (features + 1) * h
        output_biases = output + h * outputs
        return Layers(
            w[:biases].reshape(features, h),
            w[biases:output],
            w[output:output_biases].reshape(h, outputs),
            w[output_biases:],
        )

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute the hidden units (n, h), the loss's slopes (n, c), and the row losses (n,)."""
        units, outputs = self._outputs(rows.X, w, rows.t.shape[1])
        slopes, losses = _OUTPUTS[self.output](outputs, rows.t)
        return units, slopes, losses

    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w)."""
        return rows.factor * float(state[2].sum()) + self.l2 * half_square(w)

    def row_losses(self, rows: Rows, w: Array, state: State) -> Array:
        """Return the loss of each row."""
        return state[2]

    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return the gradient of f at `w` by back-propagation, flat like `w`."""
        units, slopes, _ = state
        backward = slopes @ self.layers(w, rows.X.shape[1], rows.t.shape[1]).output.T
        # The derivative of a sigmoid unit u is u (1 - u).
        backward *= units
        backward *= 1.0 - units
        parts = (
            transposed_product(rows.X, backward),
            backward.sum(axis=0),
            units.T @ slopes,
            slopes.sum(axis=0),
        )
        gradient: Array = np.concatenate([part.ravel() for part in parts])
        gradient *= rows.factor
        gradient += self.l2 * w
        return gradient

    def classes(self, labels: Array) -> Array:
        """Return the distinct labels, ascending.

        Raises:
            DataError: the output is squared, or a sigmoid and there are not two labels.
        """
        if self.output == "squared":
            return super().classes(labels)
        return (
            distinct_pair(labels, "loss.output") if self.output == "sigmoid" else np.unique(labels)
        )

    def scores(self, X: Features, w: Array, classes: Array) -> Array:
        """Return the outputs before softmax, shape (n, C), or before the sigmoid, shape (n,).

        Raises:
            DataError: the output is squared.
        """
        if self.output == "squared":
            return super().scores(X, w, classes)
        if self.output == "sigmoid":
            return self._outputs(X, w, 1)[1][:, 0]
        return self._outputs(X, w, len(classes))[1]

    def regress(self, X: Features, w: Array) -> Array:
        """Return the output, shape (n,).

        Raises:
            DataError: the output is that of a classifier.
        """
        if self.output != "squared":
            return super().regress(X, w)
        return self._outputs(X, w, 1)[1][:, 0]

    def _outputs(self, X: Features, w: Array, outputs: int) -> tuple[Array, Array]:
        """Return the hidden units (n, h), and the outputs (n, c) before the output function."""
        layers = self.layers(w, X.shape[1], outputs)
        units = _sigmoid(product(X, layers.hidden) + layers.hidden_bias)
        return units, units @ layers.output + layers.output_bias


def _sigmoid(a: Array) -> Array:
    """Return 1/(1 + exp(-a)), overwriting `a`; computed by tanh, which cannot overflow."""
    a *= 0.5
    np.tanh(a, out=a)
    a += 1.0
    a *= 0.5
    return a


def _squared_output(outputs: Array, t: Array) -> tuple[Array, Array]:
    """Return the residuals, and half their squares row by row."""
    residuals = outputs - t
    return residuals, 0.5 * np.square(residuals).sum(axis=1)


def _sigmoid_output(outputs: Array, t: Array) -> tuple[Array, Array]:
    """Return the slopes in the sigmoid's input, and half the squared errors per row."""
    units = _sigmoid(outputs)
    residuals, losses = _squared_output(units, t)
    return residuals * units * (1.0 - units), losses


_OUTPUTS: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "squared": _squared_output,
    "sigmoid": _sigmoid_output,
    "softmax": cross_entropy,
}
