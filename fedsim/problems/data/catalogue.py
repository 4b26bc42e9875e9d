"""Well-known data sets: addresses, contents and checksums, and the block that reads a copy."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.downloads import obtain
from fedsim.core.errors import DataError
from fedsim.core.files import arrays, decompress, read_bytes
from fedsim.problems.data import files, libsvm
from fedsim.problems.data.base import Source
from fedsim.problems.partition import cache_folder
from fedsim.problems.samples import Samples

Format = Literal["libsvm", "idx", "npz"]
Part = Literal["train", "test"]

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A public file.

    Attributes:
        name: the name of the file.
        address: its public address; empty if the user has to create the file.
        size: its length in bytes; 0 if unknown.
        known: its published checksum, "sha256:..." or "md5:..."; empty if none is certain.
        content: the SHA-256 of its decompressed content, in hexadecimal, if copies with different
            compression are known; otherwise empty.
    """

    name: str
    address: str = ""
    size: int = 0
    known: str = ""
    content: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSpecification:
    """The training or the test part of a data set.

    Attributes:
        files: the files of the part.
        shape: rows and features; 0 for a number that is not fixed.
        labels: the number of rows with each label, if that identifies the set.
    """

    files: tuple[File, ...]
    shape: tuple[int, int]
    labels: Mapping[float, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A data set of the catalogue.

    A file without a checksum is recognised by its shape and its labels.

    Attributes:
        format: the format of its files.
        parts: its training part, and its test part if it has one.
        origin: the set's authors, and the licence of the copy if it is stated.
        made: how a user creates the file if it cannot be downloaded.
    """

    format: Format
    parts: Mapping[Part, PartSpecification]
    origin: str
    made: str = ""

    @property
    def files(self) -> tuple[File, ...]:
        """The files of all parts."""
        return tuple(file for rows in self.parts.values() for file in rows.files)

    @property
    def download(self) -> str:
        """A summary of the download: "1.4 MB from https://..."; empty if there is none."""
        files = [file for file in self.files if file.address]
        if not files:
            return ""
        size = sum(file.size for file in files) * 1e-6
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        known = f"{size:.1f} MB " if all(file.size for file in files) else ""
        return f"{known}from {files[0].address}{more}"


def _idx(name: str, size: int, md5: str, content: str) -> File:
    return File(
        name=f"{name}.gz",
        address=f"{_MNIST}/{name}.gz",
        size=size,
        known=f"md5:{md5}",
        content=content,
    )


_MNIST_TRAIN = (
    _idx(
        "train-images-idx3-ubyte",
        9912422,
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    _idx(
        "train-labels-idx1-ubyte",
        28881,
        "d53e105ee54ea40749a09fcbcd1e9432",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
)
_MNIST_TEST = (
    _idx(
        "t10k-images-idx3-ubyte",
        1648877,
        "9fb629c4189551a2d022fa330f9573f3",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    _idx(
        "t10k-labels-idx1-ubyte",
        4542,
        "ec29112dd5afa0611ce80d1b7f02629c",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
_DIGITS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
_TEST_DIGITS = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)

ENTRIES: dict[str, Entry] = {
    "ijcnn1": Entry(
        format="libsvm",
        parts={
            "train": PartSpecification(
                files=(
                    File(
                        name="ijcnn1.trn.bz2",
                        address=(
                            "https://raw.githubusercontent.com/X-DataInitiative/tick-datasets/"
                            "82c320e4fa41d4ea53f2028ae165eebd64aa3b89/binary/ijcnn1/ijcnn1.trn.bz2"
                        ),
                        size=1395175,
                        known="sha256:"
                        "b38a4198ce142d43e96fb86d17b87211feec1f909ac344fa057455c69de29de3",
                    ),
                ),
                shape=(49990, 22),
                labels={-1.0: 45137, 1.0: 4853},
            )
        },
        origin="Prokhorov, IJCNN 2001 challenge, by way of LIBSVM; copy of tick-datasets, BSD-3",
    ),
    "a1a": Entry(
        format="libsvm",
        parts={
            "train": PartSpecification(
                files=(File(name="a1a", address=f"{_LIBSVM}/binary/a1a"),),
                shape=(1605, 123),
                labels={-1.0: 1210, 1.0: 395},
            ),
            "test": PartSpecification(
                files=(File(name="a1a.t", address=f"{_LIBSVM}/binary/a1a.t"),), shape=(30956, 123)
            ),
        },
        origin="Platt 1998, from UCI Adult, by way of LIBSVM; recognised by its shape and labels",
    ),
    "rcv1": Entry(
        format="libsvm",
        parts={
            "train": PartSpecification(
                files=(
                    File(
                        name="rcv1_train.binary.bz2",
                        address=f"{_LIBSVM}/binary/rcv1_train.binary.bz2",
                        size=13730096,
                    ),
                ),
                shape=(20242, 47236),
                labels={-1.0: 9751, 1.0: 10491},
            ),
        },
        origin="Lewis et al., JMLR 2004, by way of LIBSVM; recognised by its shape and labels",
    ),
    "e2006-tfidf": Entry(
        format="libsvm",
        parts={
            "train": PartSpecification(
                files=(
                    File(name="E2006.train.bz2", address=f"{_LIBSVM}/regression/E2006.train.bz2"),
                ),
                shape=(16087, 150360),
            ),
            "test": PartSpecification(
                files=(
                    File(name="E2006.test.bz2", address=f"{_LIBSVM}/regression/E2006.test.bz2"),
                ),
                shape=(3308, 150360),
            ),
        },
        origin="Kogan et al., NAACL 2009, by way of LIBSVM; recognised by its shape",
    ),
    "mnist": Entry(
        format="idx",
        parts={
            "train": PartSpecification(
                files=_MNIST_TRAIN, shape=(60000, 784), labels=dict(enumerate(_DIGITS))
            ),
            "test": PartSpecification(
                files=_MNIST_TEST, shape=(10000, 784), labels=dict(enumerate(_TEST_DIGITS))
            ),
        },
        origin="LeCun, Cortes, Burges, from NIST; CC BY-SA 3.0",
    ),
    "femnist": Entry(
        format="npz",
        parts={"train": PartSpecification(files=(File(name="femnist.npz"),), shape=(0, 784))},
        origin="Caldas et al., LEAF, 2018: one writer per client; from a file of the user's own",
        made="LEAF (https://github.com/TalwalkarLab/leaf, data/femnist) makes it; save its images "
        "as X (n, 784), their classes as y (n,) and the numbers of their writers as client (n,) "
        "with numpy.savez",
    ),
}
"""The catalogue's entries, by name."""


FOLDER_VARIABLE = "FEDSIM_DATA"
"""The environment variable with the folder of a user's own copies."""


class Catalogue(Source):
    """A well-known data set: a user's own copy, or one downloaded by `fedsim fetch`.

    It is searched for in the folder that FEDSIM_DATA names, in its subfolder with the set's name,
    and then among the downloads. It is recognised by the checksums of its files; if the catalogue
    has none, by its shape and its label counts.
    """

    source: ClassVar[str] = "; ".join(f"{name}: {entry.origin}" for name, entry in ENTRIES.items())
    numbers_clients: ClassVar[bool | str] = "with name: femnist"

    kind: Literal["catalogue"] = "catalogue"
    name: Literal["ijcnn1", "a1a", "rcv1", "e2006-tfidf", "mnist", "femnist"] = Field(
        description="ijcnn1: 49990 x 22, labels -1 (45137 rows) and +1 (4853 rows); a1a: 1605 x "
        "123, labels -1 and +1; rcv1: 20242 x 47236, sparse, labels -1 and +1; e2006-tfidf: "
        "16087 x 150360, sparse, for regression; mnist: 60000 x 784, pixels 0..255, labels "
        "0..9; femnist: one writer per client, from a user-supplied file"
    )
    part: Part = Field(
        default="train",
        description="train, or test: a1a 30956 rows, e2006-tfidf 3308, mnist 10000",
    )
    classes: list[float] | None = Field(
        default=None,
        min_length=1,
        description="the labels whose rows are kept; femnist: 0..9 are the digits; all by default",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        parts = ENTRIES[self.name].parts
        if self.part not in parts:
            raise ValueError(f"{self.name} has no part {self.part!r}; it has {', '.join(parts)}")
        return self

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the first copy that is found.

        Raises:
            DataError: there is no copy, or it is not the set that the catalogue describes.
        """
        rows = ENTRIES[self.name].parts[self.part]
        paths = find(self.name, self.part)
        contents = [
            _recognise(read_bytes(path, "data.name"), file, path, self.name)
            for file, path in zip(rows.files, paths, strict=True)
        ]
        samples = _parse(self.name, rows, contents, paths)
        _check(samples, rows, paths[0], self.name)
        return samples if self.classes is None else self._select_classes(samples, self.classes)

    def _select_classes(self, samples: Samples, classes: Sequence[float]) -> Samples:
        """Return the rows of some classes.

        Raises:
            DataError: a class has no rows.
        """
        for label in classes:
            if not (samples.y == label).any():
                seen = f"they are from {samples.y.min():g} to {samples.y.max():g}"
                text = f"no row of {self.name} has the label {label:g}; {seen}"
                raise DataError("data.classes", text)
        return samples.take(np.flatnonzero(np.isin(samples.y, classes)))

    @property
    def fetchable(self) -> bool:
        """Whether a download would provide files that are missing on this machine."""
        if not ENTRIES[self.name].download:
            return False
        return any(_find(self.name, file) is None for file in self._files)

    @property
    def _files(self) -> tuple[File, ...]:
        return ENTRIES[self.name].parts[self.part].files


def find(name: str, part: Part = "train") -> tuple[Path, ...]:
    """Return the paths of a data set's files on this machine.

    Raises:
        DataError: a file is missing; the message lists the searched places.
    """
    entry = ENTRIES[name]
    paths = []
    for file in entry.parts[part].files:
        path = _find(name, file)
        if path is None:
            places = ", ".join(map(str, _places(name, file)))
            unset = "" if os.environ.get(FOLDER_VARIABLE) else f" ({FOLDER_VARIABLE} is not set)"
            remedy = entry.made or f"`fedsim fetch {name}` downloads it ({entry.download})"
            raise DataError(
                "data.name", f"{name} is not on this machine: looked for {places}{unset}; {remedy}"
            )
        paths.append(path)
    return tuple(paths)


def fetch(name: str) -> Path:
    """Download a data set into the user's cache, check it, and return its folder or file.

    Args:
        name: the name in the catalogue, as `fedsim fetch` lists it.

    Raises:
        DataError: there is no such set, the download fails, or its content is not as expected.

    Example:
        Not run by the tests, since it downloads:

        >>> fetch("fashion-mnist")  # doctest: +SKIP
        PosixPath('/home/me/.cache/fedsim/data')
    """
    if name not in ENTRIES:
        raise DataError("data.name", f"no {name!r} in the catalogue; it has {', '.join(ENTRIES)}")
    entry, folder = ENTRIES[name], cache_folder() / "data"
    if not entry.download:
        raise DataError("data.name", f"{name} cannot be downloaded: {entry.made}")
    for file in entry.files:
        path, known = folder / file.name, file.known
        try:
            obtain(file.address, path, size=file.size, known=known, key="data.name")
        except (OSError, ValueError) as error:
            raise DataError("data.name", _unreachable(name, file, error)) from error
    return path if len(entry.files) == 1 else folder


def _unreachable(name: str, file: File, error: Exception) -> str:
    """Return the reason why a download failed, and where to put the file by hand."""
    reason = " ".join(str(error).split())
    places = " or ".join(str(place) for place in _places(name, file))
    named = f", or into a folder that {FOLDER_VARIABLE} names"
    unset = "" if os.environ.get(FOLDER_VARIABLE) else named
    helps = f"get {file.name} from there by other means, and put it at {places}{unset}"
    return f"cannot fetch {name} from {file.address}: {reason}. Without a network: {helps}"


def _find(name: str, file: File) -> Path | None:
    return next((place for place in _places(name, file) if place.is_file()), None)


def _places(name: str, file: File) -> Iterator[Path]:
    # A user's own copy takes precedence over a download.
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        yield Path(folder) / file.name
        yield Path(folder) / name / file.name
    yield cache_folder() / "data" / file.name


def _recognise(content: bytes, file: File, path: Path, name: str) -> bytes:
    """Return the decompressed content of a file.

    Raises:
        DataError: its checksum is not that of the catalogue.
    """
    plain = decompress(content, path, "data.name")
    # A checksum of the content accepts a copy in another compression, or in none.
    if file.content:
        kind, expected, seen = "sha256", file.content, hashlib.sha256(plain).hexdigest()
    elif file.known:
        kind, _, expected = file.known.partition(":")
        seen = hashlib.new(kind, content).hexdigest()
    else:
        return plain
    if seen != expected:
        raise DataError(
            "data.name",
            f"{path} is not the {name} of the catalogue: its {kind} is {seen}, that of the "
            f"catalogue {expected}; or name another file by its format, such as kind: libsvm",
        )
    return plain


def _parse(
    name: str, rows: PartSpecification, contents: list[bytes], paths: tuple[Path, ...]
) -> Samples:
    match ENTRIES[name].format:
        case "libsvm":
            return libsvm.parse(contents[0], paths[0], rows.shape[1])
        case "idx":
            return files.pair(contents[0], contents[1], (paths[0], paths[1]))
        case "npz":
            found = arrays(BytesIO(contents[0]), paths[0], "data.path")
            return files.samples_of(found, paths[0])


def _check(samples: Samples, rows: PartSpecification, path: Path, name: str) -> None:
    """Check that the samples match the catalogue's entry.

    Raises:
        DataError: their shape or their labels differ.
    """
    seen = (samples.rows, samples.features)
    if any(wanted and wanted != is_ for wanted, is_ in zip(rows.shape, seen, strict=True)):
        wanted = " x ".join(str(size or "any") for size in rows.shape)
        raise DataError(
            "data.name",
            f"{path} is not the {name} of the catalogue: it is {seen[0]} x {seen[1]}, that of "
            f"the catalogue {wanted}",
        )
    labels, counts = np.unique(samples.y, return_counts=True)
    found = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    if rows.labels and found != rows.labels:
        raise DataError(
            "data.name",
            f"{path} is not the {name} of the catalogue: so many rows have the labels "
            f"{dict(list(found.items())[:12])}, in the catalogue {dict(rows.labels)}",
        )
