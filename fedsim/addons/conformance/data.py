"""Checks of a source of data: reproducible and valid samples.

from fedsim.addons.conformance import check_source
print(check_source(Rings(rows=100)))
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from fedsim.addons.conformance.findings import Promises, table
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import LocalLoss, Loss, Samples, Source, Split
from fedsim.problems.samples import check


def check_source(source: Source, folder: Path = Path(), seed: int = 0) -> pd.DataFrame:
    """Check a source of data.

    Args:
        source: the source, with its parameters.
        folder: the folder for its relative paths.
        seed: the seed of its random stream.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Raises:
        DataError: the data cannot be read.

    Example:
        >>> from fedsim.problems import Bundled
        >>> check_source(Bundled(name="diabetes"))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(source), _source_promises(source, folder, seed))


def _source_promises(source: Source, folder: Path, seed: int) -> Promises:
    one, other = (source.read(folder, np.random.default_rng(seed)) for _ in range(2))
    yield "its samples are valid numbers", _sound(one)
    yield "equal random streams give equal samples", _source_repeats(one, other)


def _sound(samples: Samples) -> Iterator[str]:
    try:
        check(samples)
    except DataError as error:
        yield str(error)


def _source_repeats(one: Samples, other: Samples) -> Iterator[str]:
    if list(map(bytes, one.blocks())) != list(map(bytes, other.blocks())):
        yield "two draws from streams of one seed differ; draw from rng alone"


# Checks of a split: every client has rows, and no row is assigned twice.
#
# from fedsim.addons.conformance import check_split
# print(check_split(RoundRobin()))

ROWS, FEATURES, CLIENTS, LABELS = 120, 3, 5, 12

Dealt = Sequence[Any]
"""The rows of each client, as returned by a block; arrays if the block is correct."""


def check_split(split: Split, seed: int = 0) -> pd.DataFrame:
    """Check a split on random samples of 12 labels, whose rows belong to 5 clients.

    Args:
        split: the split, with its parameters.
        seed: the seed of its random stream and of the samples.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Raises:
        DataError: the split does not take such samples.

    Example:
        >>> from fedsim.problems import Dirichlet
        >>> check_split(Dirichlet(alpha=0.5, clients=5))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(split), _split_promises(split, seed))


def samples(seed: int) -> Samples:
    """Return samples to assign to clients."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, FEATURES))
    y = rng.permutation(np.arange(ROWS) % LABELS).astype(np.float64)
    return Samples(X, y, rng.permutation(np.arange(ROWS) % CLIENTS))


def _split_promises(split: Split, seed: int) -> Promises:
    rows = _deal(split, seed)
    yield "the number of clients is the one asked for", _counts(split, rows)
    yield "every client has at least one row, and rows are numbers", _numbers(rows)
    yield "no row is given to two clients, or twice", _once(rows)
    yield "equal random streams give equal splits", _split_repeats(split, rows, seed)
    yield "the samples are not modified", _check_unchanged(split, seed)
    yield "more clients than rows are rejected", _refuses(split, seed)


def _deal(split: Split, seed: int) -> Dealt:
    return split.assign(samples(seed), _client_count(split), np.random.default_rng(seed + 1))


def _client_count(split: Split) -> int:
    """Return the number of clients for a split: its field, if it has one."""
    return int(getattr(split, "clients", None) or CLIENTS)


def _counts(split: Split, rows: Dealt) -> Iterator[str]:
    if len(rows) != _client_count(split):
        yield f"expected rows for {_client_count(split)} clients, got {len(rows)}"


def _numbers(rows: Dealt) -> Iterator[str]:
    for client, numbers in enumerate(rows):
        if not (
            isinstance(numbers, np.ndarray) and numbers.ndim == 1 and numbers.dtype.kind in "iu"
        ):
            yield f"client {client} has {numbers!r}; give an array of the numbers of its rows"
        elif not len(numbers):
            yield f"client {client} has none"
        elif numbers.min() < 0 or numbers.max() >= ROWS:
            yield f"client {client} has rows {numbers.min()} to {numbers.max()}, of 0 to {ROWS - 1}"


def _once(rows: Dealt) -> Iterator[str]:
    numbers, times = np.unique(np.concatenate(rows), return_counts=True)
    for number in numbers[times > 1]:
        owners = [
            client
            for client, rows_of_client in enumerate(rows)
            for _ in range((rows_of_client == number).sum())
        ]
        yield f"row {number} is given to clients {', '.join(map(str, owners))}"


def _split_repeats(split: Split, rows: Dealt, seed: int) -> Iterator[str]:
    again = _deal(split, seed)
    if not all(np.array_equal(*pair) for pair in zip(rows, again, strict=True)):
        yield "two draws from streams of one seed differ; draw from rng alone"


def _check_unchanged(split: Split, seed: int) -> Iterator[str]:
    passed, untouched = samples(seed), samples(seed)
    split.assign(passed, _client_count(split), np.random.default_rng(seed + 1))
    if list(map(bytes, passed.blocks())) != list(map(bytes, untouched.blocks())):
        yield "assign modified its input samples"


def _refuses(split: Split, seed: int) -> Iterator[str]:
    few = samples(seed).take(np.arange(_client_count(split) - 1))
    try:
        dealt = split.assign(few, _client_count(split), np.random.default_rng(seed))
    except DataError:
        return
    if any(len(rows) == 0 for rows in dealt):
        yield f"got {few.rows} rows for {len(dealt)} clients; raise a DataError"


# Checks of a loss: consistency of value, gradient and smoothness constant.
#
# from fedsim.addons.conformance import check_loss
# print(check_loss(Huber(width=2.0)))

LOSS_ROWS, LOSS_FEATURES, LOSS_MODELS = 6, 4, 5

_LABELS = (
    np.array([-1.0, 1.0, -1.0, 1.0, 1.0, -1.0]),
    np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0]),
    np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0]),
    np.array([0.3, -1.2, 0.7, 2.4, -0.6, 1.1]),
)


def check_loss(loss: Loss, seed: int = 0) -> pd.DataFrame:
    """Check a loss on a few random rows, at a few random models.

    Args:
        loss: the loss, with its parameters.
        seed: the seed of the check's random numbers.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Raises:
        DataError: the loss accepts none of the labels of the check.

    Example:
        >>> from fedsim.problems import Squared
        >>> check_loss(Squared(scale="sum"))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(loss), _loss_promises(loss, seed))


def _loss_promises(loss: Loss, seed: int) -> Promises:
    rng = np.random.default_rng(seed)
    X, targets = rng.standard_normal((LOSS_ROWS, LOSS_FEATURES)), _targets(loss)
    f = LocalLoss(loss, X, targets)
    models = list(rng.standard_normal((LOSS_MODELS, f.dimension)))
    yield "the initial model has the dimension", _start(f, rng)
    yield "the gradient agrees with finite differences of the value", _gradient(f, models)
    yield "the smoothness constant bounds how fast the gradient changes", _smooth(f, models)
    yield "the mean over all minibatches is the full gradient", _batches(f, models)
    yield "sparse and dense features give the same", _sparse(loss, X, targets, models)


def _targets(loss: Loss) -> Array:
    """Return the first labels that the loss accepts."""
    refusals: list[str] = []
    for labels in _LABELS:
        try:
            return loss.encode(labels)
        except DataError as error:
            refusals.append(str(error))
    raise DataError("loss", f"{loss.kind} takes none of the labels tried: {refusals[-1]}")


def _start(f: LocalLoss, rng: np.random.Generator) -> Iterator[str]:
    start = f.loss.initial(f.features, f.outputs, rng)
    if start.shape != (f.dimension,):
        yield f"it has the shape {start.shape}, and the dimension is {f.dimension}"


def _gradient(f: LocalLoss, models: list[Array]) -> Iterator[str]:
    for w in models:
        steps = 1e-6 * np.eye(len(w))
        differences = np.array([(f.value(w + e) - f.value(w - e)) / 2e-6 for e in steps])
        gradient = f.gradient(w)
        if gradient.shape != w.shape:
            yield f"its shape is {gradient.shape}, and the model's {w.shape}"
        elif not np.allclose(gradient, differences, rtol=1e-4, atol=1e-5):
            worst = int(np.argmax(np.abs(gradient - differences)))
            by_differences = f"by differences {differences[worst]:.6g}"
            yield f"entry {worst} is {gradient[worst]:.6g}, and {by_differences}"


def _smooth(f: LocalLoss, models: list[Array]) -> Iterator[str]:
    """Yield violations of the smoothness constant, without l1 terms; none if the loss has none."""
    try:
        constant = f.smoothness
    except DataError:
        return
    for one, other in combinations(models, 2):
        change = np.linalg.norm(_smooth_part(f, one) - _smooth_part(f, other))
        bound = constant * np.linalg.norm(one - other)
        if change > bound * (1 + 1e-9):
            yield f"it is {constant:.6g}, and the gradient changes {change / bound:.4g} times that"


def _smooth_part(f: LocalLoss, w: Array) -> Array:
    return f.gradient(w) - getattr(f.loss, "l1", 0.0) * np.sign(w)


def _batches(f: LocalLoss, models: list[Array]) -> Iterator[str]:
    for size in (1, 2, 5):
        for w in models:
            parts = [
                f.minibatch_gradient(w, np.array(chosen, dtype=np.intp))
                for chosen in combinations(range(LOSS_ROWS), size)
            ]
            if not np.allclose(np.mean(parts, axis=0), f.gradient(w), rtol=1e-9, atol=1e-9):
                yield f"gradients of {size} of {LOSS_ROWS} rows have another mean than that of all"


def _sparse(loss: Loss, X: Array, targets: Array, models: list[Array]) -> Iterator[str]:
    """Yield differences between sparse and dense features; none if the loss refuses sparse ones."""
    holes = np.where(np.arange(X.size).reshape(X.shape) % 3 == 0, 0.0, X)
    dense = LocalLoss(loss, holes, targets)
    try:
        sparse = LocalLoss(loss, csr_array(holes), targets)
    except DataError:
        return
    for w in models:
        if not np.isclose(dense.value(w), sparse.value(w), rtol=1e-9):
            yield f"the value is {sparse.value(w):.9g}, and {dense.value(w):.9g} of dense ones"
        if not np.allclose(dense.gradient(w), sparse.gradient(w), rtol=1e-9, atol=1e-12):
            yield "the gradients differ"
