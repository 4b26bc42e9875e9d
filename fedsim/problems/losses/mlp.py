"""A network with one hidden layer of sigmoid units: the non-convex loss."""

from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedsim.ports import Array
from fedsim.problems.losses.base import Loss, Rows, State, two_labels


class Layers(NamedTuple):
    """The parameters of the network, as views of the flat model in this order.

    Attributes:
        hidden: weights into the hidden units, shape (d, h).
        hidden_bias: shape (h,).
        output: weights into the outputs, shape (h, c).
        output_bias: shape (c,).
    """

    hidden: Array
    hidden_bias: Array
    output: Array
    output_bias: Array


class MultilayerPerceptron(Loss):
    """One hidden layer of sigmoid units with squared, sigmoid or softmax output; non-convex.

    A gradient on m rows of d features with h units and c outputs costs 4 m d h + 6 m h c
    floating-point operations: 2 m d h + 2 m h c forwards, and backwards 2 m h c for the
    output weights, 2 m h c for the hidden units, 2 m d h for their weights. Sigmoids,
    biases and the loss itself are not counted. The l2 term is on every parameter.
    """

    source: ClassVar[str] = "Rumelhart, Hinton, Williams, Nature 1986"

    kind: Literal["mlp"] = "mlp"
    hidden: int = Field(default=30, ge=1, description="number of hidden sigmoid units")
    output: Literal["squared", "sigmoid", "softmax"] = Field(
        default="softmax",
        description="squared: one linear unit, (o - y)^2/2 a row; sigmoid: one sigmoid unit, "
        "(o - y)^2/2 a row with y = 0 and 1 for the smaller and the larger of two labels; "
        "softmax: one unit for each distinct label, cross entropy",
    )
    scale: Literal["sum", "mean", "share"] = Field(
        default="mean",
        description="the sum over the client's rows, their mean, or (share) their sum over the "
        "number of rows of all clients",
    )
    spread: float = Field(
        default=1.0,
        gt=0,
        description="weights start normal with standard deviation spread/sqrt(fan-in) "
        "(fan-in: d for the hidden layer, the hidden units for the output); biases start at 0",
    )

    def encode(self, labels: Array) -> Array:
        """Return the labels, as 0 and 1 (sigmoid), or one column a distinct label (softmax).

        Raises:
            DataError: the output is a sigmoid and there are not two distinct labels.
        """
        if self.output == "squared":
            return labels
        if self.output == "sigmoid":
            return two_labels(labels, 0.0, 1.0, "loss.output")
        return np.asarray(labels[:, None] == np.unique(labels), dtype=np.float64)

    def arrange(self, X: Array, t: Array, total: int) -> Rows:
        """Return the rows, and the targets as a table (n, c)."""
        return super().arrange(X, t.reshape(len(X), -1), total)

    def dimension(self, features: int, outputs: int) -> int:
        """Return (d + 1) h + (h + 1) c."""
        return (features + 1) * self.hidden + (self.hidden + 1) * outputs

    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Draw normal weights of standard deviation spread/sqrt(fan-in), with zero biases."""
        h = self.hidden
        hidden = rng.standard_normal(features * h) * (self.spread / np.sqrt(features))
        output = rng.standard_normal(h * outputs) * (self.spread / np.sqrt(h))
        return np.concatenate([hidden, np.zeros(h), output, np.zeros(outputs)])

    def operations(self, rows: int, features: int, outputs: int) -> float:
        """Return 4 m d h + 6 m h c."""
        return float(rows) * self.hidden * (4 * features + 6 * outputs)

    def layers(self, w: Array, features: int, outputs: int) -> Layers:
        """Return the parameters that the flat model `w` holds, without copying."""
        h = self.hidden
        ends = np.cumsum([features * h, h, h * outputs])
        hidden, hidden_bias, output, output_bias = np.split(w, ends)
        return Layers(
            hidden.reshape(features, h), hidden_bias, output.reshape(h, outputs), output_bias
        )

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute the hidden units (n, h), the slopes of the loss (n, c), its rows (n,)."""
        layers = self.layers(w, rows.X.shape[1], rows.t.shape[1])
        units = _sigmoid(rows.X @ layers.hidden + layers.hidden_bias)
        outputs = units @ layers.output + layers.output_bias
        slopes, losses = _OUTPUTS[self.output](outputs, rows.t)
        return units, slopes, losses

    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w)."""
        return rows.factor * float(state[2].sum()) + 0.5 * self.l2 * float(w.dot(w))

    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return the gradient of f at `w` by back-propagation, flat like `w`."""
        units, slopes, _ = state
        backward = slopes @ self.layers(w, rows.X.shape[1], rows.t.shape[1]).output.T
        backward *= units
        backward *= 1.0 - units
        parts = (rows.X.T @ backward, backward.sum(axis=0), units.T @ slopes, slopes.sum(axis=0))
        gradient: Array = np.concatenate([part.ravel() for part in parts])
        gradient *= rows.factor
        gradient += self.l2 * w
        return gradient


def _sigmoid(a: Array) -> Array:
    """Return 1/(1 + exp(-a)), overwriting `a`; the form by tanh cannot overflow."""
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
    """Return the slopes before the sigmoid, and half the squared errors row by row."""
    units = _sigmoid(outputs)
    residuals, losses = _squared_output(units, t)
    return residuals * units * (1.0 - units), losses


def _softmax_output(outputs: Array, t: Array) -> tuple[Array, Array]:
    """Return the probabilities less the targets, and the cross entropy row by row."""
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    likelihoods = np.exp(shifted)
    total = likelihoods.sum(axis=1, keepdims=True)
    losses = np.log(total[:, 0]) - (shifted * t).sum(axis=1)
    return likelihoods / total - t, losses


_OUTPUTS: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "squared": _squared_output,
    "sigmoid": _sigmoid_output,
    "softmax": _softmax_output,
}
