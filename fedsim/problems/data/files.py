"""NumPy archives, with arrays `X`, `y` and optionally `client`; idx files; rows from Python."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from hashlib import sha256
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Literal, ParamSpec

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from fedsim.core.blocks.in_memory import Holding
from fedsim.core.blocks.spec import AnyPath
from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_arrays, read_bytes
from fedsim.core.memory import check_budget
from fedsim.problems.data.base import Source
from fedsim.problems.description import Description
from fedsim.problems.samples import Samples, as_read, check

P = ParamSpec("P")


class NpzArchive(Source):
    """A NumPy archive with arrays X (n, d), y (n,) and, optionally, client (n,)."""

    source: ClassVar[str] = "NumPy's .npz format"
    numbers_clients: ClassVar[bool | str] = "with an array client"

    kind: Literal["npz"] = "npz"
    path: AnyPath = Field(description="the file, relative to the scenario file's folder")

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the file."""
        path = folder / self.path
        return samples_of(read_arrays(path, "data.path"), path)


def samples_of(found: dict[str, NDArray[np.generic]], path: Path) -> Samples:
    """Return the samples in an archive.

    Args:
        found: its arrays, by name.
        path: the path of the archive, for errors.

    Raises:
        DataError: an array is missing, or one does not consist of numbers.
    """
    missing = [name for name in ("X", "y") if name not in found]
    if missing:
        raise DataError(
            "data.path",
            f"{path} has no array {' and no array '.join(missing)}; it has "
            f"{', '.join(found) or 'none'}; X (n, d) and y (n,) are needed",
        )
    client = found.get("client")
    return Samples(
        as_read(_numbers(found, "X", path)),
        np.ascontiguousarray(_numbers(found, "y", path), dtype=np.float64),
        None if client is None else _whole(client, path),
    )


def _numbers(found: dict[str, NDArray[np.generic]], name: str, path: Path) -> NDArray[np.generic]:
    array = found[name]
    if array.dtype.kind not in "biuf":
        raise DataError(
            "data.path", f"{path}: array {name} is of type {array.dtype}; numbers are needed"
        )
    return array


def _whole(array: NDArray[np.generic], path: Path) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu":
        raise DataError(
            "data.path",
            f"{path}: array client is of type {array.dtype}; whole numbers are needed",
        )
    return array.astype(np.int64)


# The idx format of MNIST: a header of sizes, then the numbers of one array, big-endian.


_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""The number type, by the third byte of the file."""


class Idx(Source):
    """Images and labels in two files of the idx format, plain or compressed.

    An image is flattened row by row. Its pixels are as in the file: in MNIST whole numbers from 0
    to 255, which `preprocess: [{divide: 255}]` maps to [0, 1].
    """

    source: ClassVar[str] = "LeCun, Cortes, Burges: the MNIST database"

    kind: Literal["idx"] = "idx"
    images: AnyPath = Field(description="the file of images, relative to the scenario's folder")
    labels: AnyPath = Field(description="the file of labels, relative to the scenario's folder")

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read both files."""
        images, labels = folder / self.images, folder / self.labels
        return pair(
            decompress(read_bytes(images, "data.images"), images, "data.images"),
            decompress(read_bytes(labels, "data.labels"), labels, "data.labels"),
            (images, labels),
        )


def pair(images: bytes, labels: bytes, paths: tuple[Path, Path]) -> Samples:
    """Return the samples of a file of images and a file of labels.

    Args:
        images: the content of the file of images, not compressed.
        labels: the content of the file of labels, not compressed.
        paths: the names of both files, for errors.

    Raises:
        DataError: a file is not in the idx format, or the numbers of labels and images differ.
    """
    X = _array(images, paths[0], "data.images", "two or more, the first of them the samples")
    y = _array(labels, paths[1], "data.labels", "one")
    if len(X) != len(y):
        raise DataError(
            "data.labels", f"{paths[1]} has {len(y)} labels, but {paths[0]} {len(X)} images"
        )
    rows = as_read(X.reshape(len(X), -1)) if X.size else np.empty((0, 0))
    return Samples(rows, np.ascontiguousarray(y, dtype=np.float64))


def _array(content: bytes, path: Path, key: str, dimensions: str) -> NDArray[np.generic]:
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise DataError(
            key,
            f"{path} is not in the idx format: it begins with {content[:4]!r}; accepted are two "
            "bytes 0, one for the type of the numbers (8 for bytes), and one for the dimensions",
        )
    count = content[3]
    start = 4 + 4 * count
    sizes = tuple(np.frombuffer(content[4:start], ">u4").tolist()) if len(content) >= start else ()
    if (count == 1) != (dimensions == "one") or count == 0:
        raise DataError(key, f"{path} is an array of {count} dimensions; needed are {dimensions}")
    kind = np.dtype(_TYPES[content[2]])
    wanted = start + prod(sizes) * kind.itemsize
    if not sizes or len(content) != wanted:
        raise DataError(
            key,
            f"{path} has {len(content)} bytes, but its header of sizes {sizes or '(cut off)'} "
            f"means {wanted}",
        )
    check_budget(key, f"{path}: an array of sizes {sizes}", (kind.itemsize + 4) * prod(sizes))
    if not prod(sizes):  # if one size is 0, the others may be too large for any array
        return np.empty((sizes[0], *[0] * (count - 1)), kind)
    return np.frombuffer(content, kind, offset=start).reshape(sizes)


# The data sets that come with scikit-learn, which need neither a file nor a network.


class Bundled(Source):
    """A small data set bundled with scikit-learn, with its labels."""

    source: ClassVar[str] = "scikit-learn's toy data sets; from the UCI repository, diabetes LARS"

    kind: Literal["sklearn"] = "sklearn"
    name: Literal["breast-cancer", "digits", "diabetes", "wine", "iris"] = Field(
        description="breast-cancer 569 x 30 with labels 0 and 1, digits 1797 x 64 with 0..9, "
        "diabetes 442 x 10 for regression, wine 178 x 13 with 0..2, iris 150 x 4 with 0..2"
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Load the set; directly from scikit-learn's file if that gives the same rows."""
        path = _folder() / _FILES.get(self.name, "")
        if path.is_file():
            rows = np.loadtxt(path, delimiter=",", skiprows=int(path.suffix == ".csv"))
            return Samples(np.ascontiguousarray(rows[:, :-1]), rows[:, -1].copy())
        # Importing scikit-learn takes most of a second, and few commands need it.
        from sklearn import datasets

        load = getattr(datasets, f"load_{self.name.replace('-', '_')}")
        X, y = load(return_X_y=True)
        return Samples(np.ascontiguousarray(X, dtype=np.float64), y.astype(np.float64))


_FILES = {
    "breast-cancer": "breast_cancer.csv",
    "digits": "digits.csv.gz",
    "iris": "iris.csv",
    "wine": "wine_data.csv",
}
"""The sets that scikit-learn ships as CSV files, with a header unless compressed."""


def _folder() -> Path:
    """Return the folder of scikit-learn's data files."""
    spec = find_spec("sklearn")  # finding a spec does not import the package
    places = spec.submodule_search_locations if spec else None
    return Path(places[0] if places else "", "datasets", "data")


# Rows passed in from Python, as arrays.


class GivenRows(Holding, Source):
    """Rows passed in from Python; see `fedsim.arrays` and `fedsim.torch.dataset`."""

    source: ClassVar[str] = "the user's own"
    numbers_clients: ClassVar[bool | str] = "where they were handed over with them"

    kind: Literal["given"] = "given"
    rows: int = Field(ge=1, description="number of samples")
    row: tuple[int, ...] = Field(description="shape of one sample's features")
    numbered: bool = Field(
        default=False, description="whether each sample has the number of its client"
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Return the rows; see `Source.read`."""
        samples: Samples = self.value("data")
        return samples

    @property
    def texts(self) -> tuple[str, ...]:
        """The labels in ascending order, if they are texts; otherwise empty."""
        described = self.read(Path(), np.random.default_rng(0)).described
        return () if described is None else tuple(described.labels.values())

    def plain_like(self, folder: Path, rng: np.random.Generator, training: Samples) -> Samples:
        """Return test rows, with texts of labels numbered as in the training rows.

        Raises:
            DataError: a text occurs among the test rows only.
        """
        samples = super().plain_like(folder, rng, training)
        own = samples.described.labels if samples.described else {}
        known = training.described.labels if training.described else {}
        # The same texts already have the same numbers.
        if own in ({}, known):
            return samples
        numbers = {text: number for number, text in known.items()}
        unseen = [text for text in own.values() if text not in numbers]
        if unseen:
            text = f"the label {unseen[0]!r:.60} is among the test rows only"
            labels = f"those of the clients are {'texts' if known else 'numbers'}"
            raise DataError("data", f"{text}; {labels}, and every class needs a training row")
        y = np.array([numbers[own[number]] for number in samples.y.tolist()])
        return replace(samples, y=y, described=training.described)


def _reject_clients(function: Callable[P, GivenRows]) -> Callable[P, GivenRows]:
    """Wrap `arrays` so that a former argument raises an error with its current name."""

    @wraps(function)
    def checked(*arguments: P.args, **options: P.kwargs) -> GivenRows:
        if "clients" in options:
            text = "got clients=..., which is called as in files now: write client=..."
            raise DataError("data", text)
        return function(*arguments, **options)

    return checked


@_reject_clients
def arrays(X: ArrayLike, y: ArrayLike, client: ArrayLike | None = None) -> GivenRows:
    """Return arrays as a block, for `problem.data` or `problem.test` of a scenario.

    C-contiguous arrays of float64 or float32 are not copied: do not modify them afterwards. A
    scenario file only contains their digest, so such a scenario has to be run from Python. For a
    data frame with columns of several kinds use `fedsim.table`.

    Args:
        X: features, shape (n, ...), as an array or a data frame of numbers. Each row is flattened;
            networks get it in its shape.
        y: labels, shape (n,): numbers or texts. Two texts become -1 and +1, more become 0, 1, ...,
            in ascending order.
        client: the client of each row, shape (n,), for the split `groups`: a number from 0, or a
            name.

    Raises:
        DataError: shapes disagree, an array is empty, or a number is not finite; or indices of
            pandas differ, since rows are paired by position.

    Example:
        >>> X, y = [[0.5, 1.0], [2.0, 0.1], [0.3, 0.4]], ["well", "ill", "well"]
        >>> data = arrays(X, y, client=["north", "south", "north"])
        >>> data.kind
        'given'
    """
    return number_rows(X, y, client)


def number_rows(
    X: ArrayLike, y: ArrayLike, client: ArrayLike | None = None, *, signs: bool = True
) -> GivenRows:
    """Return arrays as a block; see `arrays`.

    With `signs`, two texts become -1 and +1, as binary losses need them; otherwise 0 and 1.
    """
    check_indices(X, y, client)
    features = _as_matrix(X)
    labels, texts = _labels_of(y, signs=signs)
    if features.ndim < 2 or labels.ndim != 1:
        text = "X takes the shape (rows, features, ...) and y (rows,)"
        given = f"{text}; got {features.shape} and {labels.shape}"
        raise DataError("data", given + _flattening(labels))
    if not features.size:
        text = "at least one row and one feature are needed"
        raise DataError("data", f"{text}; got features of the shape {features.shape}")
    numbers, names = (None, ()) if client is None else _client_numbers(client)
    flat = features.reshape(len(features), -1)
    described = Description(clients=names, labels=texts) if names or texts else None
    samples = Samples(flat, labels.astype(np.float64, copy=False), numbers, described=described)
    check(samples)
    return GivenRows.of_values(
        samples,
        partial(_digest, samples),
        rows=samples.rows,
        row=features.shape[1:],
        numbered=numbers is not None,
    )


def check_indices(X: object, y: object, client: object = None) -> None:
    """Check that objects of pandas have the same index, since rows are paired by position.

    Raises:
        DataError: two indices differ.
    """
    if "pandas" not in sys.modules:
        return  # no argument can be an object of pandas
    import pandas as pd  # it is imported already

    objects = {"X": X, "y": y, "client": client}
    known = {
        name: value.index
        for name, value in objects.items()
        if isinstance(value, pd.DataFrame | pd.Series)
    }
    first = next(iter(known), "")
    for name, index in known.items():
        if not index.equals(known[first]):
            one, other = (", ".join(map(str, place[:3])) for place in (known[first], index))
            text = f"{first} has the index {one}, ... and {name} {other}, ..., but rows are paired"
            remedy = f"give {name}.loc[{first}.index], or {name}.to_numpy() if the order is right"
            raise DataError("data", f"{text} by their place; {remedy}")


def _flattening(labels: NDArray[Any]) -> str:
    """Return a hint how labels of shape (n, ...) become one per row; empty if unclear."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        return "; give y[:, 0]"
    if labels.ndim == 2 and labels.dtype.kind in "fiub" and (labels.sum(axis=1) == 1).all():
        return "; give y.argmax(axis=1), the class of each row"
    return ""


def _labels_of(y: ArrayLike, *, signs: bool) -> tuple[NDArray[Any], dict[float, str]]:
    """Return labels as numbers, and the text of each number if labels are texts.

    Raises:
        DataError: they are neither numbers nor texts.
    """
    labels = _labels_as_read(y, "labels")
    if labels.dtype.kind in "fiub":
        return labels, {}
    numbers, names = _number(labels, "labels are numbers, such as those of classes 0, 1, ..., or")
    if len(names) == 2 and signs:
        return 2.0 * numbers - 1, {-1.0: names[0], 1.0: names[1]}
    return numbers.astype(np.float64), {float(place): name for place, name in enumerate(names)}


def _number(texts: NDArray[Any], what: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the number of each text in ascending order, and the texts with normalised blanks.

    Raises:
        DataError: some values are no texts, or empty.
    """
    flat = texts.reshape(-1).tolist()
    if (
        texts.ndim != 1
        or texts.dtype.kind not in "OU"
        or not all(isinstance(label, str) and label.strip() for label in flat)
    ):
        wrong = next(
            (label for label in flat if not (isinstance(label, str) and label.strip())), flat
        )
        raise DataError("data", f"{what} texts, one a row; got {wrong!r:.60}")
    names, numbers = np.unique([" ".join(label.split()) for label in flat], return_inverse=True)
    return numbers.astype(np.int64), tuple(map(str, names))


def _as_matrix(X: ArrayLike) -> NDArray[Any]:
    """Return features as real numbers of 64 or 32 bits.

    Raises:
        DataError: they are not numbers.
    """
    found = _labels_as_read(X, "features")
    if found.dtype.kind not in "fiub":
        text = f"features are numbers; got an array of {found.dtype}"
        columns = _columns_of_texts(X)
        if columns:
            text = f"features are numbers; got texts in the columns {', '.join(columns[:8])}"
        raise DataError("data", f"{text}; fedsim.table takes a data frame as it is")
    if found.dtype in (np.float64, np.float32):
        return np.ascontiguousarray(found)
    narrow = found.dtype.itemsize <= 2  # float32 has every number of two bytes
    return np.ascontiguousarray(found, dtype=np.float32 if narrow else np.float64)


def _is_gapped(values: object) -> bool:
    """Return whether a series or a data frame only has numbers, some of pandas' nullable types."""
    kinds: Any = getattr(values, "dtypes", None)
    each: list[Any] = kinds.tolist() if hasattr(kinds, "tolist") else [kinds]
    nullable = [hasattr(kind, "na_value") for kind in each]
    return any(nullable) and all(getattr(kind, "kind", "O") in "fiub" for kind in each)


def _columns_of_texts(X: object) -> list[str]:
    """Return the names of a data frame's columns that do not contain numbers."""
    types = getattr(X, "dtypes", None)
    if types is None or not hasattr(types, "items"):
        return []
    return [str(name) for name, kind in types.items() if kind.kind not in "fiub"]


def _labels_as_read(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return values as an array.

    Raises:
        DataError: rows differ in length.
    """
    try:
        if _is_gapped(values):  # pandas' nullable types, in which cells may be missing
            values = values.to_numpy(np.float64, na_value=np.nan)  # type: ignore[union-attr]
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise DataError("data", f"{name} are an array of numbers; got others: {error}") from None


def _client_numbers(clients: ArrayLike) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the number of each row's client, and the names of clients if they have any.

    Raises:
        DataError: clients are neither whole numbers from 0 nor names.
    """
    found = _labels_as_read(clients, "clients")
    if found.dtype.kind in "OU":
        return _number(found, "clients are whole numbers, or")
    if found.dtype.kind not in "iu":
        text = f"clients are whole numbers, or names; got an array of {found.dtype}"
        raise DataError("data", text)
    if found.size and found.min() < 0:
        text = "clients are numbers from 0, one a row"
        raise DataError(
            "data", f"{text}; got {found.min()}, which is often a mark of a missing one"
        )
    return found.astype(np.int64), ()


def _digest(samples: Samples) -> str:
    digest = sha256()
    for block in samples.blocks():
        digest.update(block)
    if samples.described is not None:
        named = samples.described
        digest.update(f" names {named.clients!r} {sorted(named.labels.items())!r} ".encode())
    if samples.client is not None:
        digest.update(f" clients {samples.client.dtype.str} ".encode())
        digest.update(np.ascontiguousarray(samples.client).data)
    return digest.hexdigest()
