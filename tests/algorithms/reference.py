"""The censored methods once more, as plain NumPy loops written from the papers' boxes."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from fedsim.core.ports import Array

Gradients = list[Callable[[Array], Array]]
Path = tuple[Array, Array]
"""Models theta^1 .. theta^K, and the transmissions made through each iteration."""


def logistic_gradient(X: Array, y: Array, l2: float) -> Callable[[Array], Array]:
    """Return the gradient of l2/2 |w|^2 + sum log(1 + exp(-y X w)); labels are -1 and 1."""

    def gradient(w: Array) -> Array:
        wrong: Array = expit(-y * (X @ w))
        return l2 * w - X.T @ (y * wrong)

    return gradient


def censored(
    gradients: Gradients, start: Array, *, alpha: float, beta: float, eps1: float, rounds: int
) -> Path:
    """Chen, Blum, Sadler: theta^{k+1} = theta^k - alpha sum_m held_m + beta (last step)."""
    theta, before = start.copy(), start.copy()
    held = np.zeros((len(gradients), start.size))
    sent, models, counts = 0, [], []
    for _ in range(rounds):
        moved = np.sum((theta - before) ** 2)
        for m, gradient in enumerate(gradients):
            fresh = gradient(theta)
            if np.sum((fresh - held[m]) ** 2) > eps1 * moved:
                held[m] = fresh
                sent += 1
        models.append(theta)
        counts.append(sent)
        theta, before = theta - alpha * held.sum(axis=0) + beta * (theta - before), theta
    return np.array(models), np.array(counts)


def lag_worker(gradients: Gradients, start: Array, *, alpha: float, xi: float, rounds: int) -> Path:
    """Chen et al. 2018, LAG-WK with D = 10."""
    workers, history = len(gradients), [start.copy()]
    held = np.zeros((workers, start.size))
    sent, counts = 0, []
    for k in range(1, rounds + 1):
        theta = history[-1]
        steps = [history[-j] - history[-j - 1] for j in range(1, 11) if j < len(history)]
        bound = xi / (alpha**2 * workers**2) * sum(float(step @ step) for step in steps)
        for m, gradient in enumerate(gradients):
            fresh = gradient(theta)
            if k <= 10 or np.sum((fresh - held[m]) ** 2) > bound:
                held[m] = fresh
                sent += 1
        counts.append(sent)
        history.append(theta - alpha * held.sum(axis=0))
    return np.array(history[:-1]), np.array(counts)


def lag_server(
    gradients: Gradients,
    start: Array,
    *,
    alpha: float,
    xi: float,
    smoothness: Array,
    rounds: int,
) -> Path:
    """Chen et al. 2018, LAG-PS with D = 10: the server decides from models alone."""
    workers, history = len(gradients), [start.copy()]
    held, asked_at = np.zeros((workers, start.size)), [start.copy()] * workers
    sent, counts = 0, []
    for k in range(1, rounds + 1):
        theta = history[-1]
        steps = [history[-j] - history[-j - 1] for j in range(1, 11) if j < len(history)]
        bound = xi / (alpha**2 * workers**2) * sum(float(step @ step) for step in steps)
        for m, gradient in enumerate(gradients):
            away = asked_at[m] - theta
            if k <= 10 or smoothness[m] ** 2 * float(away @ away) > bound:
                held[m], asked_at[m] = gradient(theta), theta
                sent += 1
        counts.append(sent)
        history.append(theta - alpha * held.sum(axis=0))
    return np.array(history[:-1]), np.array(counts)
