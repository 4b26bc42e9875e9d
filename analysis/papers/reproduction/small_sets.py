"""The small data sets of LAG's and CHB's papers, from a user's files: three workers a set.

FEDSIM_DATA names the folder that LAG-code/ is in, a copy of github.com/chentianyi1991/LAG-code or
files of that form: data2, data9, data11, data28, data29 and data30, each with data.txt (a row a
line, numbers between blanks) and y.txt. Where there is no LAG-code/, the sets are read from their
original files in that folder, and made into what LAG's files are:

    housing.data, abalone.data, ionosphere.data, dermatology.data   of the UCI repository
    bodyfat                                                         of StatLib, 15 numbers a row
    a1a                                                             of LIBSVM: Platt's rows of Adult

LAG's Abalone has 417 of the 4,177 rows, and does not say which; of the original it is every tenth.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fedsim
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import Catalogue
from reproduction.model import SCENARIOS

EACH = 3
"""The workers that share a data set."""

LAG = "LAG-code"

Table = tuple[Array, Array]
"""Features (n, d) and labels (n,)."""


class SmallSet(NamedTuple):
    """A data set.

    Attributes:
        name: what errors call it.
        folder: of LAG-code/.
        file: its original.
        made: makes of the original's fields, a list a line, what LAG's files are.
        fields: how many fields a line of the original has; other lines of StatLib's are text.
    """

    name: str
    folder: str
    file: str
    made: Callable[[list[list[str]]], Table]
    fields: int


# -- what LAG's files are, of the originals ----------------------------------------------


def scaled(X: Array) -> Array:
    """Return columns that go from -1 to 1, as LIBSVM scales them."""
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    result: Array = 2 * (X - low) / np.where(span > 0, span, 1) - 1
    return result


def standardised(X: Array) -> Array:
    """Return columns of mean 0 and variance 1, without those that are constant."""
    X = X[:, np.ptp(X, axis=0) > 0]
    result: Array = (X - X.mean(axis=0)) / X.std(axis=0)
    return result


def housing(rows: list[list[str]]) -> Table:
    """Return 13 scaled features, and the median value."""
    table = np.array(rows, dtype=float)
    return scaled(table[:, :-1]), table[:, -1]


def body_fat(rows: list[list[str]]) -> Table:
    """Return 14 scaled features, and the density, which stands first."""
    table = np.array(rows, dtype=float)
    return scaled(table[:, 1:]), table[:, 0]


def abalone(rows: list[list[str]]) -> Table:
    """Return eight features, scaled over all rows, and the rings, of every tenth row."""
    sex = {"M": "1", "F": "2", "I": "3"}
    table = np.array([[sex[first], *rest] for first, *rest in rows], dtype=float)
    return scaled(table[:, :-1])[9::10], table[9::10, -1]


def ionosphere(rows: list[list[str]]) -> Table:
    """Return 34 features as they are, and 1 for "b", 0 for "g"."""
    labels = {"g": 0.0, "b": 1.0}
    return np.array([row[:-1] for row in rows], float), np.array([labels[row[-1]] for row in rows])


def dermatology(rows: list[list[str]]) -> Table:
    """Return 34 standardised features of the rows without "?", and -1 for class 1, else 1."""
    table = np.array([row for row in rows if "?" not in row], dtype=float)
    return standardised(table[:, :-1]), np.where(table[:, -1] == 1, -1.0, 1.0)


def adult(_: list[list[str]]) -> Table:
    """Return the standardised columns of a1a that are not constant, and labels 0 and 1."""
    samples = Catalogue(kind="catalogue", name="a1a").load(Path(), np.random.default_rng(0))
    X = samples.X if isinstance(samples.X, np.ndarray) else samples.X.toarray()
    return standardised(np.asarray(X, dtype=float)), np.where(samples.y > 0, 1.0, 0.0)


REGRESSION = (
    SmallSet("Housing", "data28", "housing.data", housing, 14),
    SmallSet("Body fat", "data29", "bodyfat", body_fat, 15),
    SmallSet("Abalone", "data30", "abalone.data", abalone, 9),
)
ADULT = SmallSet("Adult", "data9", "a1a", adult, 0)
CLASSIFICATION = (
    SmallSet("Ionosphere", "data2", "ionosphere.data", ionosphere, 35),
    ADULT,
    SmallSet("Derm", "data11", "dermatology.data", dermatology, 35),
)
"""The data sets in the workers' order."""


# -- reading ----------------------------------------------------------------------------


def folder_of_data(what: str = f"{LAG}/") -> Path:
    """Return the folder of the user's files, of which one is needed.

    Raises:
        DataError: FEDSIM_DATA is not set.
    """
    folder = os.environ.get("FEDSIM_DATA")
    if not folder:
        raise DataError("data.path", f"FEDSIM_DATA is not set; it names the folder of {what}")
    return Path(folder)


def _missing(each: SmallSet, path: Path, error: Exception) -> DataError:
    text = f"{each.name} is not on this machine: looked for {path}"
    remedy = f"{LAG}/ is a copy of github.com/chentianyi1991/LAG-code, or files of that form"
    original = f"in its place {each.file} is read, where there is no {LAG}/"
    failure = DataError("data.path", f"{text}; {remedy}; {original}")
    failure.__cause__ = error
    return failure


def numbers(each: SmallSet, name: str) -> Array:
    """Return what is in a file of LAG-code/.

    Raises:
        DataError: there is none, or it is not a table of numbers.
    """
    path = folder_of_data() / LAG / each.folder / name
    try:
        return np.loadtxt(path)
    except OSError as error:
        raise _missing(each, path, error) from error
    except ValueError as error:
        text = f"{path} is not a table of numbers, one row per line: {error}"
        raise DataError("data.path", text) from error


def original(each: SmallSet) -> Table:
    """Return what LAG's files are, of the original file.

    Raises:
        DataError: there is no such file, or it is not of the form.
    """
    if not each.fields:
        return each.made([])
    path = folder_of_data() / each.file
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise _missing(each, path, error) from error
    rows = [line.replace(",", " ").split() for line in lines]
    rows = [row for row in rows if len(row) == each.fields]
    try:
        return each.made(rows)
    except (ValueError, KeyError, IndexError) as error:
        text = f"{path} is not a table of {each.fields} fields a line: {error}"
        raise DataError("data.path", text) from error


def read(each: SmallSet) -> Table:
    """Return the features (n, d) and the labels (n,) of a data set.

    Raises:
        DataError: a file is missing or wrong, or the two have not as many rows.
    """
    if not (folder_of_data() / LAG).is_dir() and (folder_of_data() / each.file).exists():
        return original(each)
    X, y = numbers(each, "data.txt"), numbers(each, "y.txt")
    if X.ndim != 2 or y.shape != X.shape[:1] or len(y) < EACH:
        seen = f"data.txt has the shape {X.shape}, y.txt {y.shape}"
        text = f"{seen}; (n, d) and (n,) are needed, with n of at least {EACH}"
        raise DataError("data.path", f"{each.name}: {text}")
    return X, y


# -- archives ---------------------------------------------------------------------------


def join(sets: Sequence[SmallSet], folder: Path) -> list[str]:
    """Write one archive of some sets, with the worker of each row, and return what names it.

    A set's rows go to its workers in blocks of floor(n/3), the rest is left out; all sets keep as
    many features as the smallest has, the first ones.

    Args:
        sets: in the workers' order.
        folder: where the archive goes.

    Raises:
        DataError: see `read`.
    """
    found = [read(each) for each in sets]
    features = min(X.shape[1] for X, _ in found)
    rows = [len(y) // EACH for _, y in found]
    labels = [y[: EACH * n] for (_, y), n in zip(found, rows, strict=True)]
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / f"{'-'.join(each.folder for each in sets)}.npz").resolve()
    np.savez(
        file,
        X=np.vstack([X[: EACH * n, :features] for (X, _), n in zip(found, rows, strict=True)]),
        y=np.concatenate(labels),
        client=np.repeat(np.arange(EACH * len(found)), np.repeat(rows, EACH)),
    )
    return [f"problem.data.path={file}"]


LOGISTIC = "chb-small-logistic"
"""The scenario whose step sizes are set."""


def logistic(folder: Path) -> list[str]:
    """Write the classification sets, and return what names them and the step of LAG's code.

    It is 1/(lambda_max(X^T X)/4 + lambda) with the rows of all workers, as if all labels were -1
    and 1, and one worker's penalty. With labels 0 and 1 the smoothness constant is smaller: rows
    that are labelled 0 have no curvature.

    Raises:
        DataError: see `read`.
    """
    (own,) = join(CLASSIFICATION, folder)
    X = np.load(own.partition("=")[2])["X"]
    plan = fedsim.load(SCENARIOS / f"{LOGISTIC}.yaml", overrides=[own])
    l2 = float(plan.variants[0].scenario.problem.loss.model_dump()["l2"])
    step = 1 / (float(np.linalg.eigvalsh(X.T @ X)[-1]) / 4 + l2)
    keys = ["algorithm", *(f"variants.{name}.algorithm" for name in ("hb", "lag", "gd"))]
    return [own, *(f"{key}.step_size={step!r}" for key in keys)]


def signs(folder: Path) -> list[str]:
    """Write the classification sets with all labels -1 and 1, and return what names them.

    Raises:
        DataError: see `read`.
    """
    (own,) = join(CLASSIFICATION, folder)
    found = dict(np.load(own.partition("=")[2]))
    file = (folder / "small-signs.npz").resolve()
    np.savez(file, **(found | {"y": np.where(found["y"] > 0, 1.0, -1.0)}))
    return [f"problem.data.path={file}"]


def whole_adult(folder: Path) -> list[str]:
    """Write all rows and features of Adult, which has no workers yet, and return what names it.

    Raises:
        DataError: see `read`.
    """
    X, y = read(ADULT)
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "adult.npz").resolve()
    np.savez(file, X=X, y=y)
    return [f"problem.data={{kind: npz, path: {file}}}"]


PREPARED: dict[str, Callable[[Path], list[str]]] = {
    "small-regression": partial(join, REGRESSION),
    "small-classification": partial(join, CLASSIFICATION),
    "small-logistic": logistic,
    "small-signs": signs,
    "adult": whole_adult,
}
"""The archives that scenarios need, by name."""
