"""The well-known data sets: addresses, contents and checksums."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Format = Literal["libsvm", "idx", "npz"]
Part = Literal["train", "test"]

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A public file.

    Attributes:
        name: the name of the file.
        address: its public address; empty where the user has to create the file.
        size: its length in bytes, where known; 0 where not.
        known: its published checksum, "sha256:..." or "md5:..."; empty where none is known for
            certain.
        content: the SHA-256 of its decompressed content, in hexadecimal, where differently
            compressed copies are known; empty where not.
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
        files: the files it is read from.
        shape: rows and features; 0 where they are not fixed.
        labels: the number of rows with each label, where that identifies the set.
    """

    files: tuple[File, ...]
    shape: tuple[int, int]
    labels: Mapping[float, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A data set of the catalogue.

    A file without a checksum is recognised by its shape and its labels.

    Attributes:
        format: of its files.
        parts: its training part, and its test part where it has one.
        origin: the set's authors, and the licence of a copy, where it is stated.
        made: how a user creates the file where it cannot be downloaded.
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
        """Human-readable summary of a download: "1.4 MB from https://..."; empty if nothing."""
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
        origin="Caldas et al., LEAF, 2018: a writer a client; from a file of the user's own",
        made="LEAF (https://github.com/TalwalkarLab/leaf, data/femnist) makes it; save its images "
        "as X (n, 784), their classes as y (n,) and the numbers of their writers as client (n,) "
        "with numpy.savez",
    ),
}
"""The catalogue's entries, by name."""
