"""Are a loss, its gradient and its smoothness constant those of one function?

from fedsim.conformance import check_loss
print(check_loss(Huber(width=2.0)))
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from fedsim.conformance.findings import Promises, table
from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems import LocalLoss, Loss

ROWS, FEATURES, MODELS = 6, 4, 5

_LABELS = (
    np.array([-1.0, 1.0, -1.0, 1.0, 1.0, -1.0]),
    np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0]),
    np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0]),
    np.array([0.3, -1.2, 0.7, 2.4, -0.6, 1.1]),
)


def check_loss(loss: Loss, seed: int = 0) -> pd.DataFrame:
    """Check a loss on a few random rows, at a few random models.

    Args:
        loss: of any kind, with its parameters.
        seed: of what is drawn here.

    Returns:
        A row a check: check, outcome (kept or broken), and the reason.

    Raises:
        DataError: the loss takes none of the labels that there are here.
    """
    return table(type(loss), _promises(loss, seed))


def _promises(loss: Loss, seed: int) -> Promises:
    rng = np.random.default_rng(seed)
    X, targets = rng.standard_normal((ROWS, FEATURES)), _targets(loss)
    f = LocalLoss(loss, X, targets)
    models = list(rng.standard_normal((MODELS, f.dimension)))
    yield "the model to start from has the dimension", _start(f, rng)
    yield "the gradient is that of differences of the value", _gradient(f, models)
    yield "the smoothness constant bounds how fast the gradient changes", _smooth(f, models)
    yield "the mean over all minibatches is the whole", _batches(f, models)
    yield "sparse features are read as dense ones", _sparse(loss, X, targets, models)


def _targets(loss: Loss) -> Array:
    """Return the targets of the first labels that the loss takes."""
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
        wanted = np.array([(f.value(w + e) - f.value(w - e)) / 2e-6 for e in steps])
        seen = f.gradient(w)
        if seen.shape != w.shape:
            yield f"its shape is {seen.shape}, and the model's {w.shape}"
        elif not np.allclose(seen, wanted, rtol=1e-4, atol=1e-5):
            worst = int(np.argmax(np.abs(seen - wanted)))
            yield f"entry {worst} is {seen[worst]:.6g}, and by differences {wanted[worst]:.6g}"


def _smooth(f: LocalLoss, models: list[Array]) -> Iterator[str]:
    """A loss without a constant promises nothing here; an l1 term is no part of what is smooth."""
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
                for chosen in combinations(range(ROWS), size)
            ]
            if not np.allclose(np.mean(parts, axis=0), f.gradient(w), rtol=1e-9, atol=1e-9):
                yield f"gradients of {size} of {ROWS} rows have another mean than that of all"


def _sparse(loss: Loss, X: Array, targets: Array, models: list[Array]) -> Iterator[str]:
    """A loss that refuses sparse features promises nothing of them."""
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
            yield "the gradient is another one"
