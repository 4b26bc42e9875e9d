"""Stored: prices of runs, kept so that a study that was interrupted goes on where it was.

A file has the SHA-256 of its name and content in front. The name follows from all that the prices
follow from, so that a file that is read as something else than what was written, or under another
name, is found: it is priced again, as if it were not there.
"""

import hashlib
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np

from fedsim.record.folder import SCENARIO
from fedsim.record.manifest import read_manifest
from fedsim.record.writing import check_links, write_whole
from fedsim.robustness.design import Worlds
from fedsim.robustness.pricing import Costs, Run
from fedsim.running.provenance import sources

FOLDER = "prices"
ENDING = ".prices"
_OLD = ".npy"  # of versions that had no seal
_SEAL = hashlib.sha256().digest_size


class Store:
    """Where prices are kept: a file a run or world, named by all that they follow from.

    Args:
        out: the folder of the study's robustness; nowhere if None.

    Attributes:
        damaged: the names of the files that were there and could not be used.

    Raises:
        OutputError: a symbolic link stands in its place.
    """

    def __init__(self, out: Path | None) -> None:
        self._folder = None if out is None else out / FOLDER
        if out is not None:
            check_links(out, out / FOLDER)
        self._seen = set[str]()
        self.damaged = set[str]()

    @property
    def remarks(self) -> list[str]:
        """What a reader has to know of what was kept."""
        if not self.damaged:
            return []
        count = len(self.damaged)
        files = "1 file was" if count == 1 else f"{count} files were"
        return [f"{files} damaged in {self._folder}: what they held was priced again"]

    def _path(self, run: Run, worlds: Worlds) -> Path | None:
        if self._folder is None:
            return None
        made = read_manifest(run.folder)
        asked = f"{run.look} {run.target} {run.world} {Costs._fields}"
        whole = hashlib.sha256(worlds.digest.encode())
        whole.update(f"{made['events']} {made['code']} {_pricing_code()} {asked}".encode())
        whole.update((run.folder / SCENARIO).read_bytes())
        name = f"{whole.hexdigest()[:32]}{ENDING}"
        self._seen.add(name)
        return self._folder / name

    def read(self, run: Run, worlds: Worlds) -> Costs | None:
        """Return what a run takes in every world, if it is known for certain."""
        path = self._path(run, worlds)
        if path is None:
            return None
        try:
            written = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:  # a folder, a file that may not be read
            written = b""
        content = written[_SEAL:]
        if written[:_SEAL] != _seal(path.name, content):
            self.damaged.add(path.name)
            return None
        return Costs(*np.load(BytesIO(content), allow_pickle=False))

    def kept(self, run: Run, worlds: Worlds, costs: Costs) -> Costs:
        """Keep what a run takes, and return it.

        Raises:
            OutputError: it cannot be written.
        """
        path = self._path(run, worlds)
        if path is not None:
            file = BytesIO()
            np.save(file, np.array(costs), allow_pickle=False)
            content = file.getvalue()
            write_whole(path, _seal(path.name, content) + content)
        return costs

    def tidy(self) -> None:
        """Drop prices of other worlds and other logs."""
        for path in [] if self._folder is None else sorted(self._folder.glob("*")):
            if path.suffix in {ENDING, _OLD} and path.name not in self._seen and path.is_file():
                path.unlink(missing_ok=True)


@cache
def _pricing_code() -> str:
    """Return a hash of what prices runs and all that it imports: other laws have other prices."""
    place = Path(__file__).with_name("places.py")
    return sources({"fedsim.robustness.places": place.read_bytes()}).hash()


def _seal(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + content).digest()
