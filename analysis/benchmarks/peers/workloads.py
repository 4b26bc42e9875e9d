"""The data of the workloads: drawn once, from a fixed seed, and written where it is asked for.

python analysis/benchmarks/peers/workloads.py FOLDER
"""

import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
HERE = Path(__file__).resolve().parent
ROWS, CLASSES = 100, 10
SPARSE_ROWS, SPARSE_COLUMNS, STORED, SPARSE_CLIENTS = 20_242, 47_236, 74, 200


class Dense(NamedTuple):
    """A workload on dense rows.

    Attributes:
        clients: how many there are.
        features: of a row.
        classes: of the labels; 0 for any number.
    """

    clients: int
    features: int
    classes: int


WORKLOADS = {
    "w1": Dense(500, 784, CLASSES),
    "w2": Dense(1000, 1000, 0),
    "w3": Dense(1000, 784, CLASSES),
    "w5": Dense(100, 784, CLASSES),
}


def drawn(name: str) -> tuple[Array, Array]:
    """Return the features, (clients, rows, features), and the labels, (clients, rows)."""
    clients, features, classes = WORKLOADS[name]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((clients, ROWS, features))
    truth = rng.standard_normal((features, max(classes, 1))) * (rng.random((features, 1)) < 0.02)
    scores = X @ truth
    y = scores.argmax(axis=2).astype(float) if classes else scores[:, :, 0]
    return X, y


def write_dense(name: str, folder: Path) -> None:
    """Write a workload as arrays, with the number of each row's client."""
    X, y = drawn(name)
    clients, rows, features = X.shape
    numbers = np.repeat(np.arange(clients), rows)
    np.savez(folder / f"{name}.npz", X=X.reshape(-1, features), y=y.ravel(), client=numbers)


def write_sparse(folder: Path) -> None:
    """Write the workload of sparse rows as LIBSVM text."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(SPARSE_COLUMNS)
    lines = []
    for _ in range(SPARSE_ROWS):
        places = np.sort(rng.choice(SPARSE_COLUMNS, STORED, replace=False))
        values = rng.random(STORED) / 5
        label = 1 if truth[places] @ values > 0 else -1
        pairs = " ".join(f"{k + 1}:{v:.5f}" for k, v in zip(places, values, strict=True))
        lines.append(f"{label:+d} {pairs}")
    (folder / "w4.svm").write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(name: str, folder: Path) -> tuple[Any, Any]:
    """Return the features and the labels of each client of a workload that is there."""
    if name == "w4":
        from sklearn.datasets import load_svmlight_file  # not all have it

        X, y = load_svmlight_file(str(folder / "w4.svm"), n_features=SPARSE_COLUMNS)
        ends = [len(y) * i // SPARSE_CLIENTS for i in range(SPARSE_CLIENTS + 1)]
        cuts = list(pairwise(ends))
        return [X[a:b] for a, b in cuts], [y[a:b] for a, b in cuts]
    with np.load(folder / f"{name}.npz") as archive:
        X, y = archive["X"], archive["y"]
    labels = y.reshape(-1, ROWS)
    return X.reshape(-1, ROWS, X.shape[1]), labels.astype(int) if name != "w2" else labels


def prepare(name: str, folder: Path) -> Path:
    """Return a workload's scenario in a folder, and beside it the data, drawn if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    if name == "w4" and not (folder / "w4.svm").exists():
        write_sparse(folder)
    elif name != "w4" and not (folder / f"{name}.npz").exists():
        write_dense(name, folder)
    return Path(shutil.copy(HERE / f"{name}.yaml", folder))


if __name__ == "__main__":
    for workload in (*WORKLOADS, "w4"):
        print(prepare(workload, Path(sys.argv[1])))
