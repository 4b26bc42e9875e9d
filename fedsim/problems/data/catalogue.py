"""The catalogue of well-known data sets: where each is found, and that it is the right one."""

# ruff: noqa: ARG002 - nothing is drawn

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pooch
from pydantic import Field

from fedsim.errors import DataError
from fedsim.problems.cache import cache_folder
from fedsim.problems.data.base import Source, read_bytes
from fedsim.problems.data.libsvm import parse
from fedsim.problems.samples import Samples

FOLDER_VARIABLE = "FEDSIM_DATA"
"""The environment variable that names the folder of a user's own copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A data set of the catalogue, as one file in LIBSVM text.

    Attributes:
        file: the name of the file.
        address: where it is public.
        size: its length in bytes.
        sha256: its checksum, in hexadecimal.
        shape: rows and features.
        origin: who made the set, and under which licence this copy is.
    """

    file: str
    address: str
    size: int
    sha256: str
    shape: tuple[int, int]
    origin: str


ENTRIES: dict[str, Entry] = {
    "ijcnn1": Entry(
        file="ijcnn1.trn.bz2",
        address=(
            "https://raw.githubusercontent.com/X-DataInitiative/tick-datasets/"
            "82c320e4fa41d4ea53f2028ae165eebd64aa3b89/binary/ijcnn1/ijcnn1.trn.bz2"
        ),
        size=1395175,
        sha256="b38a4198ce142d43e96fb86d17b87211feec1f909ac344fa057455c69de29de3",
        shape=(49990, 22),
        origin="Prokhorov, IJCNN 2001 challenge, by way of LIBSVM; copy of tick-datasets, BSD-3",
    ),
}
"""What the catalogue knows, by name."""


class Catalogue(Source):
    """A well-known data set: a copy of the user's own, or one that `fedsim fetch` has got.

    It is looked for in the folder that FEDSIM_DATA names, there in a folder of the set's
    own name, and then among what was fetched.
    """

    source: ClassVar[str] = "; ".join(f"{name}: {entry.origin}" for name, entry in ENTRIES.items())

    kind: Literal["catalogue"] = "catalogue"
    name: Literal["ijcnn1"] = Field(
        description="ijcnn1: 49990 x 22, labels -1 (45137 rows) and +1 (4853 rows)"
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the first copy that is found.

        Raises:
            DataError: there is none, or it is not the file that the catalogue means.
        """
        entry = ENTRIES[self.name]
        path = find(self.name)
        content = read_bytes(path)
        seen = hashlib.sha256(content).hexdigest()
        if seen != entry.sha256:
            raise DataError(
                "data.name",
                f"{path} is not the {self.name} of the catalogue: its SHA-256 is {seen}, that "
                f"of the catalogue {entry.sha256}; name a file of your own by kind: libsvm",
            )
        return parse(content, path, entry.shape[1])


def find(name: str) -> Path:
    """Return where the data set is on this machine.

    Raises:
        DataError: it is nowhere; the text says where it was looked for.
    """
    entry = ENTRIES[name]
    places = list(_places(name, entry))
    for place in places:
        if place.is_file():
            return place
    unset = "" if os.environ.get(FOLDER_VARIABLE) else f" ({FOLDER_VARIABLE} is not set)"
    raise DataError(
        "data.name",
        f"{name} is not on this machine: looked for {', '.join(map(str, places))}{unset}; "
        f"`fedsim fetch {name}` downloads it ({entry.size * 1e-6:.1f} MB from {entry.address})",
    )


def fetch(name: str) -> Path:
    """Download a data set into the user's cache, check it, and return where it is.

    Raises:
        DataError: the catalogue has no such set, it cannot be had, or it is not what the
            catalogue expects.
    """
    if name not in ENTRIES:
        raise DataError("data.name", f"no {name!r} in the catalogue; it has {', '.join(ENTRIES)}")
    entry = ENTRIES[name]
    try:
        path = pooch.retrieve(
            entry.address, f"sha256:{entry.sha256}", fname=entry.file, path=cache_folder() / "data"
        )
    except (OSError, ValueError) as error:
        raise DataError(
            "data.name", f"cannot fetch {name} from {entry.address}: {error}"
        ) from error
    return Path(path)


def _places(name: str, entry: Entry) -> Iterator[Path]:
    own = os.environ.get(FOLDER_VARIABLE)
    if own:
        yield Path(own) / entry.file
        yield Path(own) / name / entry.file
    yield cache_folder() / "data" / entry.file
