"""The small data sets of LAG's and CHB's papers, from a user's files: three workers a set.

FEDSIM_DATA names the folder that LAG-code/ is in, a copy of github.com/chentianyi1991/LAG-code or
files of that form: data2, data9, data11, data28, data29 and data30, each with data.txt (a row a
line, numbers between blanks) and y.txt.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from fedsim.errors import DataError
from fedsim.ports import Array

REGRESSION = {"Housing": "data28", "Body fat": "data29", "Abalone": "data30"}
CLASSIFICATION = {"Ionosphere": "data2", "Adult": "data9", "Derm": "data11"}
"""The folders of the data sets, in the workers' order."""

EACH = 3
"""The workers that share a data set."""


def numbers(name: str, file: str) -> Array:
    """Return what is in a user's file of the data set `name`.

    Raises:
        DataError: there is none, or it is not a table of numbers.
    """
    folder = os.environ.get("FEDSIM_DATA")
    if not folder:
        raise DataError("data.path", "FEDSIM_DATA is not set; it names the folder of LAG-code/")
    path = Path(folder, "LAG-code", file)
    try:
        return np.loadtxt(path)
    except OSError as error:
        text = f"{name} is not on this machine: looked for {path}"
        remedy = "LAG-code/ is a copy of github.com/chentianyi1991/LAG-code, or files of that form"
        raise DataError("data.path", f"{text}; {remedy}") from error
    except ValueError as error:
        text = f"{path} is not a table of numbers, a row a line: {error}"
        raise DataError("data.path", text) from error


def read(name: str, folder: str) -> tuple[Array, Array]:
    """Return the features (n, d) and the labels (n,) of a data set.

    Raises:
        DataError: a file is missing or wrong, or the two have not as many rows.
    """
    X, y = numbers(name, f"{folder}/data.txt"), numbers(name, f"{folder}/y.txt")
    if X.ndim != 2 or y.shape != X.shape[:1] or len(y) < EACH:
        seen = f"data.txt has the shape {X.shape}, y.txt {y.shape}"
        text = f"{seen}; (n, d) and (n,) are needed, with n of at least {EACH}"
        raise DataError("data.path", f"{name}: {text}")
    return X, y


def join(sets: Mapping[str, str], folder: Path) -> list[str]:
    """Write one archive of some sets, with the worker of each row, and return what names it.

    A set's rows go to its workers in blocks of floor(n/3), the rest is left out; all sets keep as
    many features as the smallest has, the first ones.

    Args:
        sets: name of a set -> its folder.
        folder: where the archive goes.

    Raises:
        DataError: see `read`.
    """
    found = [read(*each) for each in sets.items()]
    features = min(X.shape[1] for X, _ in found)
    rows = [len(y) // EACH for _, y in found]
    labels = [y[: EACH * n] for (_, y), n in zip(found, rows, strict=True)]
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / f"{'-'.join(sets.values())}.npz").resolve()
    np.savez(
        file,
        X=np.vstack([X[: EACH * n, :features] for (X, _), n in zip(found, rows, strict=True)]),
        y=np.concatenate(labels),
        client=np.repeat(np.arange(EACH * len(found)), np.repeat(rows, EACH)),
    )
    return [f"problem.data.path={file}"]


PREPARED: dict[str, Callable[[Path], list[str]]] = {
    "small-regression": partial(join, REGRESSION),
    "small-classification": partial(join, CLASSIFICATION),
}
"""The archives that scenarios need, by name."""
